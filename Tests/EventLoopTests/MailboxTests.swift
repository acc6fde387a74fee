import Foundation
import TestSupport
import Testing

@testable import EventLoop

@Suite struct MailboxTests {
  @Test("what each sender posts is read in its order, and what lay there before it was opened first")
  func order() throws {
    let loop = TestLoop()
    defer { loop.stop() }
    let mailbox = Mailbox<[Int]>()
    let read = Box<[[Int]]>([])
    mailbox.post([[0, 0], [0, 1]])
    try loop.on { $0.open(mailbox) { letters in read.change { $0 += letters } } }
    let senders = (1...3).map { sender in
      Thread {
        for number in stride(from: 0, to: 1_000, by: 2) {
          mailbox.post([[sender, number], [sender, number + 1]])
        }
      }
    }
    for sender in senders { sender.start() }
    let all = try read.wait("the letters") { $0.count == 3_002 }
    #expect(Array(all.prefix(2)) == [[0, 0], [0, 1]])
    for sender in 1...3 { #expect(all.filter { $0[0] == sender }.map { $0[1] } == Array(0..<1_000)) }
  }

  @Test("who fills a mailbox waits until it is read, or nobody reads it any more", arguments: [true, false])
  func limit(_ isRead: Bool) throws {
    let loop = TestLoop()
    let mailbox = Mailbox<Int>(limit: 4)
    let read = Box<[Int]>([])
    let gate = DispatchSemaphore(value: 0)
    let hasBegun = Box(false)
    try loop.on { $0.open(mailbox) { letters in read.change { $0 += letters } } }
    // The loop doesn't turn meanwhile.
    try #require(loop.loop).remote.post {
      hasBegun.value = true
      gate.wait()
    }
    try hasBegun.wait("the loop") { $0 }
    mailbox.post([1, 2, 3, 4])
    let isPosted = Box(false)
    Thread {
      mailbox.post([5])
      isPosted.value = true
    }.start()
    #expect(!isPosted.value)
    if !isRead { mailbox.close() }
    gate.signal()
    try isPosted.wait("the sender") { $0 }
    if isRead { try read.wait("the letters") { $0 == [1, 2, 3, 4, 5] } }
    loop.stop()
    // Nobody is waited for any more.
    mailbox.post(Array(6...100))
    #expect(read.value.allSatisfy { $0 <= 5 })
  }
}
