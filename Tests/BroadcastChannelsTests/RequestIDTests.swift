import Foundation
import Testing

@testable import BroadcastChannels

/// Source: design.md, "a repeated `request-id` is answered as the first time and published once".
@Suite struct RequestIDTests {
  private func id(_ number: Int = 1) throws -> RequestID {
    let digits = String(number, radix: 16)
    let text = "2288cf3f-70d8-46a6-97d7-" + String(repeating: "0", count: 12 - digits.count) + digits
    return try #require(RequestID(text))
  }

  @Test func `a repetition is answered as the first time and published once`() throws {
    let stage = try Stage(settings(capacity: 10, rate: PublishRate(perSecond: 1, burst: 2)))
    let first = try stage.publish("goal", at: 0, request: id())
    #expect(first.outcome == .delivered && !first.isRepetition)
    for _ in 0..<5 {
      let again = try stage.publish("copy", at: 0, request: id())
      #expect(again.uniqueID.text == "goal" && again.outcome == .delivered && again.isRepetition)
      #expect(again.effects.isEmpty)
    }
    #expect(stage.log == ["goal #1 at 0"])
    #expect(stage.channel.counts.accepted == 1 && stage.channel.counts.repeated == 5)
    #expect(stage.channel.budgetReport(at: moment(0)).priority10?.remaining == 9)
    #expect(stage.channel.budgetReport(at: moment(0)).publishRate?.remaining == 1)
  }

  @Test(arguments: [(Priority.considerate, Outcome.windowed), (.immediate, .demoted)])
  func `the first outcome is repeated, also when it has changed since`(priority: Priority, outcome: Outcome)
    throws
  {
    let stage = try Stage(settings(capacity: 0))
    #expect(try stage.publish("a", priority, at: 0, request: id()).outcome == outcome)
    #expect(try stage.publish("b", priority, at: 50, request: id()).outcome == outcome)
    #expect(stage.log == ["a #1 at 1"])
  }

  @Test func `a dropped message is remembered`() throws {
    let stage = try Stage(settings(capacity: 0, over: .drop))
    try stage.publish("a", at: 0, request: id())
    #expect(try stage.publish("b", at: 1, request: id()).isRepetition)
  }

  @Test func `a refused request is not remembered and can succeed later`() throws {
    let stage = try Stage(settings(capacity: 1, perHour: 3_600, over: .reject))
    try stage.publish("a", at: 0)
    #expect(throws: Refusal.self) { try stage.publish("b", at: 0, request: id()) }
    let later = try stage.publish("b", at: 1, request: id())
    #expect(later.outcome == .delivered && !later.isRepetition)
  }

  @Test(arguments: [(599.9, true), (600, false)])
  func `a request id is forgotten after ten minutes`(second: Double, isRepetition: Bool) throws {
    let stage = try Stage(settings())
    try stage.publish("a", at: 0, request: id())
    #expect(try stage.publish("b", at: second, request: id()).isRepetition == isRepetition)
  }

  @Test func `a repetition does not lengthen the memory`() throws {
    let stage = try Stage(settings())
    for (name, second) in [("a", 0.0), ("b", 500), ("c", 700)] {
      try stage.publish(name, at: second, request: id())
    }
    #expect(stage.log == ["a #1 at 0", "c #2 at 700"])
  }

  @Test func `the oldest ids are forgotten beyond the limit`() throws {
    var history = RequestHistory()
    for number in 0..<20_000 {
      history.remember(
        try id(number), UniqueID(text: "\(number)"), .delivered, at: moment(Double(number) / 1_000))
      history.forget(before: moment(Double(number) / 1_000))
    }
    #expect(history.answer(to: try id(19_999))?.uniqueID.text == "19999")
    #expect(history.answer(to: try id(20_000 - Limits.requestIDsPerChannel)) != nil)
    #expect(history.answer(to: try id(20_000 - Limits.requestIDsPerChannel - 1)) == nil)
  }

  @Test(
    arguments: [
      ("2288cf3f-70d8-46a6-97d7-dd5d00867127", true), ("2288CF3F-70D8-46A6-97D7-DD5D00867127", true),
      ("goal-1", false), ("", false), ("2288cf3f70d846a697d7dd5d00867127", false),
      ("{288cf3f-70d8-46a6-97d7-dd5d0086712}", false), ("2288cf3f-70d8-46a6-97d7-dd5d0086712g", false),
      ("2288cf3f070d8046a6097d70dd5d00867127", false), ("2288cf3-f70d8-46a6-97d7-dd5d00867127", false),
      (" 288cf3f-70d8-46a6-97d7-dd5d00867127", false), ("2288cf3f-70d8-46a6-97d7-dd5d008671270", false),
      ("+288cf3f-70d8-46a6-97d7-dd5d00867127", false), ("0x88cf3f-70d8-46a6-97d7-dd5d00867127", false),
    ])
  func `a request id is a UUID in canonical form`(text: String, isID: Bool) {
    #expect((RequestID(text)?.text == text) == isID)
  }

  @Test func `a made request id is lower case and reads back`() {
    var generator = SystemRandomNumberGenerator()
    let made = RequestID.random(using: &generator)
    #expect(made.text == made.text.lowercased() && RequestID(made.text) == made)
  }
}
