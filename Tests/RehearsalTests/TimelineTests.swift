import BroadcastChannels
import LiveActivities
import Testing

@testable import Rehearsal

/// Source: design.md, "Budgets and delivery windows" and "Channel definitions and match scripts";
/// facts/live-activity.md, "Life cycle". The activity starts at 0 without content.
@Suite struct TimelineTests {
  static let end = #""event":"end","dismiss-in":-1"#
  static let five = #""priority":5"#
  static let one = #""priority":1"#

  @Test(arguments: life + order + windows + budgets)
  func `a script gives these changes`(timeline: Timeline) throws {
    let rehearsal = try Timeline.rehearse(timeline.steps, channel: timeline.channel)
    #expect(rehearsal.log(of: Timeline.shown) == timeline.changes)
  }

  static let life = [
    Timeline(
      "stale at its date, fresh with the next update",
      [#"0 n=1 "stale-in":30"#, "45 n=2", #"100 n=3 "event":"end","dismiss-in":20"#],
      gives: [
        "0 update active 1", "30 stale-date stale 1", "45 update active 2", "100 end ended 3",
        "120 dismissal dismissed 3",
      ]),
    Timeline(
      "an update moves the stale date on",
      [#"0 n=1 "stale-in":40"#, #"30 n=2 "stale-in":40"#, "200 n=3 \(end)"],
      gives: [
        "0 update active 1", "30 update active 2", "70 stale-date stale 2", "200 end ended 3",
        "200 dismissal dismissed 3",
      ]),
    Timeline(
      "eight hours from the start, not from the first update",
      ["1000 n=1"], gives: ["1000 update active 1", "28800 lifetime ended 1", "43200 dismissal dismissed 1"]),
    Timeline(
      "without a dismissal date four hours",
      ["0 n=1", #"50 n=2 "event":"end""#],
      gives: ["0 update active 1", "50 end ended 2", "14450 dismissal dismissed 2"]),
    Timeline(
      "a dismissal date is capped at four hours",
      ["0 n=1", #"100 n=2 "event":"end","dismiss-in":"10h""#],
      gives: ["0 update active 1", "100 end ended 2", "14500 dismissal dismissed 2"]),
    Timeline(
      "a stale date already past is stale on arrival",
      [#"10 n=1 "stale-in":-5"#, "20 n=2", "30 n=3 \(end)"],
      gives: ["10 update stale 1", "20 update active 2", "30 end ended 3", "30 dismissal dismissed 3"]),
    Timeline(
      "an update at its stale date finds the card stale",
      [#"0 n=1 "stale-in":60"#, "60 n=2", "70 n=3 \(end)"],
      gives: [
        "0 update active 1", "60 stale-date stale 1", "60 update active 2", "70 end ended 3",
        "70 dismissal dismissed 3",
      ]),
    Timeline(
      "an update a hair before its stale date comes in time",
      [#"0 n=1 "stale-in":60"#, "59.9 n=2", "70 n=3 \(end)"],
      gives: ["0 update active 1", "59.900 update active 2", "70 end ended 3", "70 dismissal dismissed 3"]),
    // Dates are whole Unix seconds, rounded up: 0.5 + 10 is 11.
    Timeline(
      "a stale date is never early",
      [#"0.5 n=1 "stale-in":10"#, "20 n=2 \(end)"],
      gives: ["0.500 update active 1", "11 stale-date stale 1", "20 end ended 2", "20 dismissal dismissed 2"]),
    Timeline(
      "an update after the eighth hour comes after the end",
      [#"0 n=1 "stale-in":60"#, "28900 n=2"],
      gives: [
        "0 update active 1", "60 stale-date stale 1", "28800 lifetime ended 1",
        "28900 ignored-after-end ended 1",
        "43200 dismissal dismissed 1",
      ]),
    Timeline(
      "an end without a state keeps the last one", ["0 n=1", "10 - \(end)"],
      gives: ["0 update active 1", "10 end ended 1", "10 dismissal dismissed 1"]),
    Timeline(
      "an end alone", [#"5 - "event":"end","dismiss-in":5"#],
      gives: ["5 end ended nil", "10 dismissal dismissed nil"]),
    Timeline(
      "an ended card does not go stale",
      ["0 n=1", #"10 n=2 "event":"end","stale-in":5,"dismiss-in":60"#],
      gives: ["0 update active 1", "10 end ended 2", "70 dismissal dismissed 2"]),
  ]

  static let order = [
    Timeline(
      "an older timestamp is ignored",
      ["10 n=1", #"15 n=2 "timestamp-shift":-10"#, "30 n=3 \(end)"],
      gives: [
        "10 update active 1", "15 ignored-older active 1", "30 end ended 3", "30 dismissal dismissed 3",
      ]),
    Timeline(
      "the same timestamp is not older",
      ["10 n=1", #"15 n=2 "timestamp-shift":-5"#, "30 n=3 \(end)"],
      gives: ["10 update active 1", "15 update active 2", "30 end ended 3", "30 dismissal dismissed 3"]),
    Timeline(
      "an end with an older timestamp ends nothing",
      ["10 n=1", #"20 n=2 "event":"end","timestamp-shift":-15"#],
      gives: [
        "10 update active 1", "20 ignored-older active 1", "28800 lifetime ended 1",
        "43200 dismissal dismissed 1",
      ]),
    Timeline(
      "a timestamp ahead makes the next ones older",
      [#"0 n=1 "timestamp-shift":100"#, "50 n=2", "100 n=3 \(end)"],
      gives: [
        "0 update active 1", "50 ignored-older active 1", "100 end ended 3", "100 dismissal dismissed 3",
      ]),
    Timeline(
      "after the end nothing changes",
      ["0 n=1", #"10 n=2 "event":"end","dismiss-in":80"#, "30 n=3"],
      gives: [
        "0 update active 1", "10 end ended 2", "30 ignored-after-end ended 2", "90 dismissal dismissed 2",
      ]),
    Timeline(
      "of two ends the first counts",
      ["0 n=1", #"10 n=2 "event":"end","dismiss-in":100"#, #"20 n=3 "event":"end","dismiss-in":1"#],
      gives: [
        "0 update active 1", "10 end ended 2", "20 ignored-after-end ended 2", "110 dismissal dismissed 2",
      ]),
  ]

  static let windows = [
    Timeline(
      "a window delivers the newest of priority 5",
      ["0 n=1 \(five)", "0.4 n=2 \(five)", "0.9 n=3 \(five)", "10 n=4 \(end)"],
      gives: ["1 update active 3", "10 end ended 4", "10 dismissal dismissed 4"]),
    Timeline(
      "priority 1 waits five seconds", ["0 n=1 \(one)", "3 n=2 \(one)", "10 n=3 \(end)"],
      gives: ["5 update active 2", "10 end ended 3", "10 dismissal dismissed 3"]),
    Timeline(
      "a message at 5 brings the end of a window at 1 forward",
      ["0 n=1 \(one)", "2 n=2 \(five)", "10 n=3 \(end)"],
      gives: ["3 update active 2", "10 end ended 3", "10 dismissal dismissed 3"]),
    Timeline(
      "priority 10 supersedes what waits",
      ["0 n=1 \(five)", "0.5 n=2", "10 n=3 \(end)"],
      gives: ["0.500 update active 2", "10 end ended 3", "10 dismissal dismissed 3"]),
    Timeline(
      "an older priority 10 goes before what waits",
      ["10 n=1 \(five)", #"10.5 n=2 "timestamp-shift":-5"#, "20 n=3 \(end)"],
      gives: ["10.500 update active 2", "11 update active 1", "20 end ended 3", "20 dismissal dismissed 3"]),
    Timeline(
      "an alert is never replaced",
      [#"0 n=1 "priority":5,"alert":{"title":"a","body":"b"}"#, "0.5 n=2 \(five)", "10 n=3 \(end)"],
      gives: ["1 update active 1", "1 update active 2", "10 end ended 3", "10 dismissal dismissed 3"]),
    // Sent at 0.2 with 10 s to dismissal, rounded up.
    Timeline(
      "an end in a window is kept, and what follows comes after it",
      ["0 n=1 \(five)", #"0.2 n=2 "priority":5,"event":"end","dismiss-in":10"#, "0.5 n=3 \(five)"],
      gives: ["1 end ended 2", "1 ignored-after-end ended 2", "11 dismissal dismissed 2"]),
    Timeline(
      "a window of no length delivers at once", channel: ["windows": #"{"5":0,"1":0}"#],
      ["0 n=1 \(five)", "0.4 n=2 \(one)", "10 n=3 \(end)"],
      gives: ["0 update active 1", "0.400 update active 2", "10 end ended 3", "10 dismissal dismissed 3"]),
    // 16 alerts may wait; the 17th ends the window early.
    Timeline(
      "a window that is full of alerts ends early",
      (1...17).map {
        "0.\($0 < 10 ? "0" : "")\($0) n=\($0) \"priority\":1,\"alert\":{\"title\":\"a\",\"body\":\"b\"}"
      }
        + ["10 n=18 \(end)"],
      gives: (1...17).map { "0.170 update active \($0)" } + ["10 end ended 18", "10 dismissal dismissed 18"]),
    Timeline(
      "a stored channel shows a connected device the same",
      channel: ["message-storage-policy": "1"],
      [
        #"0 n=1 "expires-in":"1h""#, #"5 n=2 "expires-in":-10"#, "6 n=3",
        #"10 n=4 "event":"end","dismiss-in":-1,"expires-in":"4h""#,
      ],
      gives: [
        "0 update active 1", "5 update active 2", "6 update active 3", "10 end ended 4",
        "10 dismissal dismissed 4",
      ]),
    Timeline(
      "an expiry is left out where nothing is stored", [#"0 n=1 "expires-in":"1h""#, "5 n=2 \(end)"],
      gives: ["0 update active 1", "5 end ended 2", "5 dismissal dismissed 2"]),
  ]

  static func budget(_ policy: String, refill: Int = 0) -> [String: String] {
    ["budget": #"{"capacity":1,"refill-per-hour":\#(refill),"over-budget":"\#(policy)"}"#]
  }

  static let budgets = [
    Timeline(
      "over budget a message is demoted to the window", channel: budget("demote"),
      ["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"],
      gives: ["0 update active 1", "6 update active 2", "61 end ended 3", "61 dismissal dismissed 3"]),
    Timeline(
      "a demoted message is replaced like any other", channel: budget("demote"),
      ["0 n=1", "5 n=2", "5.5 n=3 \(five)", "60 n=4 \(five),\(end)"],
      gives: ["0 update active 1", "6 update active 3", "61 end ended 4", "61 dismissal dismissed 4"]),
    Timeline(
      "over budget a message is dropped", channel: budget("drop"),
      ["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"],
      gives: ["0 update active 1", "61 end ended 3", "61 dismissal dismissed 3"]),
    Timeline(
      "over budget a message is rejected", channel: budget("reject"),
      ["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"],
      gives: ["0 update active 1", "61 end ended 3", "61 dismissal dismissed 3"]),
    // 360 an hour are one every 10 s: at 5 half a token is there, at 10 a whole one.
    Timeline(
      "a token comes back", channel: budget("drop", refill: 360),
      ["0 n=1", "5 n=2", "10 n=3", "60 n=4 \(end)"],
      gives: ["0 update active 1", "10 update active 3", "60 end ended 4", "60 dismissal dismissed 4"]),
    Timeline(
      "an end over budget is dropped as well", channel: budget("drop"), ["0 n=1", "5 n=2 \(end)"],
      gives: ["0 update active 1", "28800 lifetime ended 1", "43200 dismissal dismissed 1"]),
    Timeline(
      "too many requests a second are refused", channel: ["publish-rate": #"{"per-second":1,"burst":1}"#],
      ["0 n=1", "0.5 n=2 \(five)", "1.5 n=3", "10 n=4 \(end)"],
      gives: ["0 update active 1", "1.500 update active 3", "10 end ended 4", "10 dismissal dismissed 4"]),
  ]

  // MARK: The channel's own causes

  /// `second cause line`; the script's first message is line 2.
  @Test(
    arguments: [
      (
        ["0 n=1 \(five)", "0.4 n=2 \(five)", "9 n=3 \(end)"], [:],
        ["0 windowed 2", "0.400 superseded 2", "0.400 windowed 3"]
      ),
      (["0 n=1 \(five)", "0.5 n=2", "9 n=3 \(end)"], [:], ["0 windowed 2", "0.500 superseded 2"]),
      (["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"], budget("demote"), ["5 demoted 3", "60 windowed 4"]),
      (["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"], budget("drop"), ["5 dropped 3", "60 windowed 4"]),
      (["0 n=1", "5 n=2", "60 n=3 \(five),\(end)"], budget("reject"), ["5 rejected 3", "60 windowed 4"]),
      (
        [#"10 n=1 "priority":5"#, #"10.5 n=2 "priority":5,"timestamp-shift":-5"#, "60 n=3 \(end)"], [:],
        ["10 windowed 2", "10.500 superseded 3"]
      ),
    ] as [([String], [String: String], [String])])
  func `what the channel did with a message has its line`(
    steps: [String], channel: [String: String], events: [String]
  ) throws {
    let rehearsal = try Timeline.rehearse(steps, channel: channel)
    let own = rehearsal.events.filter { !Timeline.shown.contains($0.cause) }
      .map { "\(JSONWriter.seconds($0.at)) \($0.cause) \($0.line.map(String.init) ?? "-")" }
    #expect(own.sorted() == events.sorted())
  }

  @Test(arguments: [
    (#"0 n=1 "alert":{"title":5}"#, "aps.alert.title"),
    (#"0 n=1 "alert":{"title":"\#(String(repeating: "x", count: 6_000))"}"#, "PayloadTooLarge"),
  ])
  func `what the API refuses is rejected with its reason`(step: String, reason: String) throws {
    let rehearsal = try Timeline.rehearse([step, "5 n=2 \(Self.end)"])
    let rejected = try #require(rehearsal.events.first)
    #expect(rejected.cause == "rejected" && rejected.line == 2 && rejected.note?.contains(reason) == true)
    #expect(rehearsal.log(of: Timeline.shown) == ["5 end ended 2", "5 dismissal dismissed 2"])
  }

  // MARK: The device

  @Test func `the device's budget defers, merges and lets the end through`() throws {
    let steps = ["0 n=1", "1 n=2", "2 n=3", "3 n=4", "50 n=5 \(Self.end)"]
    let rehearsal = try Timeline.rehearse(steps) { $0.hourlyBudget = 2 }
    let expected = [
      "0 update active 1", "1 update active 2", "2 deferred active 2", "3 deferred active 2",
      "50 end ended 5",
      "50 dismissal dismissed 5",
    ]
    #expect(rehearsal.log(of: Timeline.shown.union(["deferred"])) == expected)
    #expect(rehearsal.events[2].note == "the device's budget is spent; waits until 0:30:00")
  }

  @Test func `what was deferred is shown when a token is back`() throws {
    // 2 an hour: the token taken at 0 is back at 1,800.
    let rehearsal = try Timeline.rehearse(["0 n=1", "1 n=2", "2 n=3", "2000 n=4 \(Self.end)"]) {
      $0.hourlyBudget = 2
    }
    #expect(rehearsal.log(of: ["update"]).last == "1800 update active 3")
  }

  @Test func `an alert lights the screen, but not for a card that isn't presented`() throws {
    let alert = #""alert":{"title":"a","body":"b"}"#
    let steps = ["0 n=1 \"stale-in\":-5,\(alert)", "5 n=2 \(alert)", "9 n=3 \(Self.end)"]
    #expect(try Timeline.rehearse(steps).log(of: ["alert"]) == ["5 alert active 2"])
  }

  @Test func `a device where the app is switched off starts nothing`() {
    #expect(throws: StartError.disabled(app: "com.example.scores")) {
      try Timeline.rehearse(["0 n=1"]) { $0.disabledApps = ["com.example.scores"] }
    }
  }

  @Test func `a moment shows what the card shows then, after what happens then`() throws {
    let steps = [#"0 n=1 "stale-in":30"#, "45 n=2", #"100 n=3 "event":"end","dismiss-in":20"#]
    let looks = [500, 0, 29.9, 30, 45, 100, 119, 120]
    let moments = try Timeline.rehearse(steps, looks: looks).moments
    let shown = moments.map { moment in
      let number = moment.activity.activity.contentState?.string.filter(\.isNumber) ?? "nil"
      return "\(JSONWriter.seconds(moment.at)) \(moment.activity.activity.state.rawValue) \(number)"
    }
    #expect(
      shown == [
        "0 active 1", "29.900 active 1", "30 stale 1", "45 active 2", "100 ended 3", "119 ended 3",
        "120 dismissed 3", "500 dismissed 3",
      ])
  }
}
