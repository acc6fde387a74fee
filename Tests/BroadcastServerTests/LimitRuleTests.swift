// The rules of limits on virtual time, without a server.

import BroadcastChannels
import EventLoop
import Foundation
import Testing

@testable import BroadcastServer

@Suite struct VisitorTests {
  private let start = Date(timeIntervalSince1970: 1_796_043_600)
  private let address = NetworkAddress("192.0.2.7")

  private func visitors(requests: Double = 10, bad: Int = 3) -> Visitors {
    Visitors(
      Visitors.Bounds(requestsPerSecond: requests, badCredentials: bad, unlimited: AddressRange.loopback))
  }

  @Test("five seconds' worth of requests at once, then so many a second; the operator is told once a minute")
  func requests() throws {
    let visitors = visitors()
    for _ in 0..<50 { try visitors.asked(from: address, at: start) }
    #expect(throws: Visitors.Refusal(seconds: 1, isNews: true)) {
      try visitors.asked(from: address, at: start)
    }
    #expect(throws: Visitors.Refusal(seconds: 1, isNews: false)) {
      try visitors.asked(from: address, at: start + 0.05)
    }
    try visitors.asked(from: NetworkAddress("192.0.2.8"), at: start)
    try visitors.asked(from: address, at: start + 0.1)
    for _ in 0..<50 { try visitors.asked(from: address, at: start + 61) }
    #expect(throws: Visitors.Refusal(seconds: 1, isNews: true)) {
      try visitors.asked(from: address, at: start + 61)
    }
  }

  @Test("bad credentials close the door for those that were never checked, and it opens again")
  func badCredentials() throws {
    let visitors = visitors()
    for _ in 0..<3 {
      try visitors.checkCredential(from: address, at: start)
      visitors.failed(from: address, at: start)
    }
    #expect(throws: Visitors.Refusal.self) { try visitors.checkCredential(from: address, at: start) }
    try visitors.asked(from: address, at: start)
    // One comes back in a fifth of a second.
    try visitors.checkCredential(from: address, at: start + 0.2)
  }

  @Test("addresses without limits, and what is no address, are not counted")
  func unlimited() throws {
    let visitors = visitors(requests: 1, bad: 1)
    for _ in 0..<100 {
      for address in [NetworkAddress("127.0.0.1"), NetworkAddress("::1"), nil] {
        try visitors.asked(from: address, at: start)
        visitors.failed(from: address, at: start)
        try visitors.checkCredential(from: address, at: start)
      }
    }
    #expect(visitors.count == 0)
  }

  @Test("addresses are remembered up to a bound, and forgotten when they have everything back")
  func bound() throws {
    let visitors = visitors()
    for number in 0..<(Limits.visitors + 100) {
      let text = "10.\(number >> 16).\(number >> 8 & 255).\(number & 255)"
      try visitors.asked(from: NetworkAddress(text), at: start)
    }
    #expect(visitors.count == Limits.visitors)
    try visitors.asked(from: address, at: start + 10)
    #expect(visitors.count == 1)
  }
}

@Suite struct GoodbyePlanTests {
  @Test(
    "waves are of 250 sessions, or larger when there would be more than 40, within two seconds",
    arguments: [
      (0, 1, 1, 0.0, 0.5), (1, 1, 1, 0, 0.5), (250, 1, 250, 0, 0.5), (251, 2, 126, 0.05, 0.5),
      (5_000, 20, 250, 0.05, 5), (20_000, 40, 500, 0.05, 20), (100_000, 40, 2_500, 0.05, 30),
    ])
  func plan(_ sessions: Int, _ count: Int, _ size: Int, _ interval: Double, _ spread: Double) {
    let plan = Goodbyes(sessions: sessions)
    #expect(plan.count == count && plan.size == size && plan.spread == spread)
    #expect(abs(plan.interval - interval) < 1e-9)
    #expect(Double(plan.count - 1) * plan.interval < Limits.shutdownSeconds)
    #expect(plan.size * plan.count >= sessions)
  }

  @Test("nobody is asked to come back before the last wave has gone")
  func retryIn() {
    let plan = Goodbyes(sessions: 5_000)
    var random = SystemRandomNumberGenerator()
    for wave in 0..<plan.count {
      let left = 0.05 * Double(19 - wave)
      for _ in 0..<50 {
        let seconds = plan.retryIn(wave: wave, using: &random)
        #expect(seconds >= left + 0.5 && seconds <= left + 5.5)
      }
    }
  }
}

@Suite struct ServerLimitTests {
  @Test("descriptors are left for the store, and half of a very low limit")
  func connections() {
    var limits = ServerLimits()
    #expect(limits.connections(openFiles: 20_000) == 19_936)
    #expect(limits.connections(openFiles: 40) == 20)
    limits.connections = 7
    #expect(limits.connections(openFiles: 20_000) == 7)
  }
}

@Suite struct SequenceRunTests {
  @Test("it is what a set of numbers is, whatever is put in and taken out")
  func likeASet() {
    var random = SystemRandomNumberGenerator()
    for _ in 0..<200 {
      var (runs, set) = (SequenceRuns(), Set<Int>())
      for _ in 0..<60 {
        let number = Int.random(in: 0...40, using: &random)
        switch Int.random(in: 0...9, using: &random) {
        case 0:
          runs.remove(through: number)
          set = set.filter { $0 > number }
        case 1:
          let oldest = set.sorted().dropLast(number)
          #expect(runs.removeOldest(keeping: number) == oldest.last)
          set.subtract(oldest)
        default:
          runs.insert(number)
          set.insert(number)
        }
        #expect(runs.count == set.count)
      }
      for number in -1...41 { #expect(runs.contains(number) == set.contains(number)) }
      for low in 0...40 {
        let span = low...Int.random(in: low...41, using: &random)
        #expect(runs.count(in: span) == set.count { span.contains($0) })
      }
    }
  }
}
