import LiveActivities
import Soak
import Testing

@Suite("A line of the soak's live screen")
struct LiveRowTests {
  private func cut(_ row: LiveRow, _ columns: Int) -> String {
    let cut = row.cut(
      to: columns, width: { DisplayWidth.of($0) }, fitted: { DisplayWidth.fitted($0, to: $1) })
    return cut.name + cut.value + cut.more
  }

  @Test(
    "where there is room, the value begins in column 16 and what there is besides in column 36, on a narrow one in column 31"
  )
  func wide() {
    #expect(
      cut(LiveRow("latency", "p50 1.2 ms", "p99 3.4 ms"), 80)
        == "  latency      p50 1.2 ms          p99 3.4 ms")
  }

  @Test("what is too long is cut at one column before the last, with an ellipsis")
  func cut() {
    // 50 columns: 49 are used, 15 of them in front, 15 for the value, 19 for the rest.
    let row = LiveRow("published", "2.0/s", "1.0/s in windows · 0.0/s refused or dropped")
    #expect(cut(row, 50) == "  published    2.0/s          1.0/s in windows ·…")
    #expect(DisplayWidth.of(cut(row, 50)) == 49)
  }

  @Test("a long value takes the room of what there is besides, of which less than four columns are left out")
  func longValue() {
    // 49 - 15 = 34 columns: the value and a blank take 31 of them, and 3 are too few.
    let value = String(repeating: "v", count: 30)
    #expect(cut(LiveRow("violations", value, "rest"), 50) == "  violations   " + value)
    // 30 of them, and 4 are enough.
    #expect(cut(LiveRow("violations", String(value.dropLast()), "rest of it"), 50).hasSuffix("v res…"))
    let long = cut(LiveRow("violations", String(repeating: "v", count: 200), "rest"), 80)
    #expect(long == "  violations   " + String(repeating: "v", count: 63) + "…" && long.count == 79)
  }

  @Test("columns are counted, not characters: a wide character takes two, a mark none")
  func width() {
    // Ten columns for five wide characters, then ten blanks up to 20.
    #expect(cut(LiveRow("violations", "日本日本日", "x"), 80) == "  violations   日本日本日          x")
    // 34 columns hold 16 wide characters and the ellipsis; a seventeenth would need two where one is left.
    let wide = cut(LiveRow("violations", String(repeating: "日", count: 40)), 50)
    #expect(wide == "  violations   " + String(repeating: "日", count: 16) + "…")
    #expect(DisplayWidth.of(wide) == 48)
    #expect(cut(LiveRow("server", "Zu\u{308}rich", "x"), 80) == "  server       Zu\u{308}rich              x")
  }

  @Test("no width is exceeded, not even a foolish one", arguments: 0..<130)
  func every(_ columns: Int) {
    for row in [
      LiveRow("connections", "4\u{202F}987 of 5\u{202F}000", "158\u{202F}864 so far, 12 failed"),
      LiveRow("a", "", "b"),
      LiveRow("violations", "17, the last: 日本: channel 3", ""), LiveRow("budget left", "7 %", "█████░░░░░"),
    ] { #expect(DisplayWidth.of(cut(row, columns)) <= max(0, columns - 1)) }
  }

  @Test("a bar gets the columns that are left")
  func room() {
    #expect(LiveRow.roomForMore(80) == 44 && LiveRow.roomForMore(50) == 19 && LiveRow.roomForMore(20) == 0)
  }
}
