import Testing

@testable import MatchScripts

/// Source: design.md: "a number of seconds, or "90s", "2m", "4h"", "mm:ss", "h:mm:ss".
@Suite struct DurationTextTests {
  @Test(
    arguments: [
      ("90", 90), ("90s", 90), ("2m", 120), ("4h", 14_400), ("1d", 86_400), ("250ms", 0.25), ("1.5m", 90),
      ("-10s", -10), ("-2m", -120), ("0", 0), (".5s", 0.5),
    ])
  func `a duration is a number with a unit`(text: String, seconds: Double) {
    #expect(DurationText.seconds(text) == seconds)
  }

  @Test(
    arguments: [
      "", "s", "m", "-", "-s", "soon", "90 s", " 90s", "90x", "4 hours", "1h30m", "nan", "inf", "-inf",
      "infs",
      "--1s", "1e999", "0x10", "0x1p4s", "٣s", "+5s", "1:30",
      // Found by fuzzing: beyond what a whole number of seconds can be.
      "36526d", "99999999999999999999", "-99999999999999999999h",
    ])
  func `anything else is no duration`(text: String) {
    #expect(DurationText.seconds(text) == nil)
  }

  @Test(
    arguments: [
      ("00:00", 0), ("07:05", 425), ("90:00", 5_400), ("1:00:00", 3_600), ("2:03:04", 7_384), ("0:01.5", 1.5),
    ])
  func `a moment is mm:ss or h:mm:ss`(text: String, seconds: Double) {
    #expect(DurationText.clock(text) == seconds)
  }

  @Test(arguments: [
    "", "90", ":", "1:", ":1", "1:60", "1:60:00", "1:00:60", "1:2:3:4", "-1:00", "1:-1", "a:b", "1: 2",
    "1e1:00", "99999999999999999999:00",
  ])
  func `anything else is no moment`(text: String) {
    #expect(DurationText.clock(text) == nil)
  }

  @Test(
    arguments: [
      (0, "0s"), (42, "42s"), (59.6, "1m00s"), (200, "3m20s"), (3_599, "59m59s"), (3_600, "1h00m"),
      (7_500, "2h05m"), (43_200, "12h00m"), (1e300, "876600h00m"),
    ])
  func `a span is written for people`(seconds: Double, text: String) {
    #expect(DurationText.described(seconds) == text)
  }
}
