import Testing

@testable import LiveActivities

/// Sources: Unicode's EastAsianWidth.txt (W and F are 2 columns) and emoji-data.txt (Emoji_Presentation is 2).
@Suite struct DisplayWidthTests {
  @Test(arguments: [
    ("", 0), ("a", 1), ("3–2", 3), ("Di María", 8), ("Pogačar", 7), ("●○·", 3),
    // Combining marks: e and U+0301, z and two marks.
    ("e\u{301}", 1), ("z\u{301}\u{323}", 1),
    // Flags, lone and in a row; a flag of tags (England).
    ("🇦🇷", 2), ("🇦🇷🇫🇷", 4), ("🏴\u{E0067}\u{E0062}\u{E0065}\u{E006E}\u{E0067}\u{E007F}", 2),
    // Emoji: plain, with skin tone, joined (family, woman runner), keycap.
    ("⚽", 2), ("👍🏽", 2), ("👨‍👩‍👧‍👦", 2), ("🏃‍♀️", 2), ("1️⃣", 2), ("🔔 x", 4),
    // Variation selector 16 asks for emoji; without it the character is text.
    ("❤", 1), ("❤\u{FE0F}", 2), ("⏱", 1), ("⏱\u{FE0F}", 2), ("☔", 2),
    // East Asian: kanji, kana, hangul (composed and in jamo), full-width latin, half-width kana, brackets.
    ("日本", 4), ("アルゼンチン", 12), ("한국", 4), ("\u{1112}\u{1161}\u{11AB}", 2), ("Ａ", 2), ("ｱ", 1), ("〈〉", 4),
    ("\u{2329}", 2), ("𠮷", 2),
    // Arabic with vowel marks, Hebrew with points, right-to-left marks, Thai.
    ("الأرجنتين", 9), ("مُحَمَّد", 4), ("\u{200F}שָׁלוֹם\u{200F}", 4), ("ไทย", 3),
    // Invisible ones.
    ("\u{200B}", 0), ("\u{200D}", 0), ("\u{202A}a\u{202C}", 1), ("a\u{7}b", 2),
    // The spaces that numbers are written with: a figure space and a narrow one.
    ("\u{2007}3", 2), ("1\u{202F}234", 5),
  ])
  func `a text takes these columns`(text: String, columns: Int) {
    #expect(DisplayWidth.of(text) == columns)
  }

  @Test(arguments: [
    ("Argentina", 9, "Argentina"), ("Argentina", 8, "Argenti…"), ("Argentina", 1, "…"), ("Argentina", 0, ""),
    ("Argentina", -1, ""), ("", 0, ""), ("🇦🇷🇫🇷", 4, "🇦🇷🇫🇷"), ("🇦🇷🇫🇷", 3, "🇦🇷…"), ("🇦🇷🇫🇷", 2, "…"),
    ("日本代表", 6, "日本…"), ("日本代表", 5, "日本…"), ("e\u{301}e\u{301}e\u{301}", 2, "e\u{301}…"),
    ("👨‍👩‍👧‍👦 family", 4, "👨‍👩‍👧‍👦 …"),
  ])
  func `what doesn't fit is cut between characters`(text: String, columns: Int, cut: String) {
    #expect(DisplayWidth.fitted(text, to: columns) == cut)
  }

  @Test(arguments: [
    ("3", 3, "3  "), ("Argentina", 4, "Arg…"), ("🇦🇷", 3, "🇦🇷 "), ("日本代表", 6, "日本… "), ("", 2, "  "),
    ("م", 2, "م "),
  ])
  func `a text is cut or padded to exactly its columns`(text: String, columns: Int, padded: String) {
    #expect(DisplayWidth.exactly(text, columns) == padded)
    #expect(DisplayWidth.of(DisplayWidth.exactly(text, columns)) == columns)
  }
}
