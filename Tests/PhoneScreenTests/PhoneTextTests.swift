import LiveActivities
import Testing

@testable import PhoneScreen

@Suite struct PhoneTextTests {
  @Test func `lines break at blanks, and long words anywhere`() {
    #expect(PhoneText.wrapped("one two three", 8) == ["one two", "three"])
    #expect(PhoneText.wrapped("abcdefghij", 4) == ["abcd", "efgh", "ij"])
    #expect(PhoneText.wrapped("日本代表", 5) == ["日本", "代表"])
  }

  @Test func `more lines than fit end in an ellipsis`() {
    #expect(PhoneText.wrapped("one two three four", 7, limit: 2) == ["one two", "three …"])
  }

  @Test func `control characters and direction overrides do not reach the screen`() {
    #expect(PhoneText.clean("a\u{1B}[31mb\u{202E}c\u{2066}d\te") == "a [31mbcd e")
  }

  /// UAX 9: a first strong isolate (U+2068) and its pop (U+2069) keep the rest of the line where it is.
  @Test func `right-to-left parts are isolated, what is around them is not`() {
    #expect(PhoneText.isolated("80' · مصر العربية · 2") == "80' · \u{2068}مصر العربية\u{2069} · 2")
    #expect(PhoneText.isolated("Messi 23'") == "Messi 23'")
  }

  @Test func `a cut isolate is closed`() {
    let line = StyledLine("\u{2068}مصر العربية\u{2069}").exactly(5)
    #expect(line.width == 5 && line.text.hasSuffix("\u{2069}"))
  }

  /// Columns by wcwidth: marks 0, East Asian wide 2; emoji sequences 2.
  @Test(arguments: [
    ("🇦🇷", 2), ("日", 2), ("u\u{308}", 1), ("👩‍👩‍👧", 2), ("👍🏽", 2), ("❤️", 2), ("한", 2),
    ("\u{1112}\u{1161}\u{11AB}", 2), ("é", 1),
    ("\u{2068}", 0), ("हि", 2),
  ])
  func `characters have their columns`(text: String, columns: Int) {
    #expect(DisplayWidth.of(text) == columns)
  }
}
