import BroadcastServer

/// A manual page in roff, for man(7), from the description that `--help` prints.
struct ManualPage {
  private var lines: [String] = []

  /// Bytes of a line of the source; mandoc(1) asks for no more than 80.
  private static let width = 78

  /// The page of the whole program.
  static func overview(_ commands: [CommandUsage]) -> String {
    var page = ManualPage(name: "touchline", "a broadcast-channel server for live events, and its tools")
    page.heading("SYNOPSIS")
    page.lines.append(".B touchline")
    page.fill("COMMAND [OPTIONS]")
    page.heading("DESCRIPTION")
    page.fill(
      "A local stand-in for Apple's broadcast channels of Live Activities: publishers push a content state into a channel, and every simulated activity that is subscribed shows it."
    )
    page.heading("COMMANDS")
    for usage in commands { page.item("\\fB\(escaped("touchline-\(usage.name)"))\\fR(1)", usage.summary) }
    page.addExitStatus()
    page.heading("ENVIRONMENT")
    for (name, help) in ClientOptions.environmentHelp { page.item("\\fB\(escaped(name))\\fR", help) }
    return page.text
  }

  /// The page of one command.
  static func command(_ usage: CommandUsage) -> String {
    var page = ManualPage(name: "touchline-\(usage.name)", usage.summary)
    page.heading("SYNOPSIS")
    page.lines.append(".B touchline \(escaped(usage.name))")
    page.fill(usage.synopsis)
    if !usage.notes.isEmpty {
      page.heading("DESCRIPTION")
      for (index, paragraph) in usage.notes.split(separator: "\n\n").enumerated() {
        if index > 0 { page.lines.append(".PP") }
        page.paragraph(paragraph)
      }
    }
    page.heading("OPTIONS")
    for option in usage.allOptions { page.item(label(option), option.help) }
    page.addExitStatus()
    if !usage.environment.isEmpty {
      page.heading("ENVIRONMENT")
      for (name, help) in usage.environment { page.item("\\fB\(escaped(name))\\fR", help) }
    }
    if !usage.examples.isEmpty {
      page.heading("EXAMPLES")
      page.lines.append(".nf")
      page.lines += usage.examples.map(example)
      page.lines.append(".fi")
    }
    page.heading("SEE ALSO")
    page.lines.append("\\fBtouchline\\fR(1)")
    return page.text
  }

  private init(name: String, _ summary: String) {
    let first = summary.prefix(1).lowercased() + summary.dropFirst()
    lines = [
      ".TH \(Self.escaped(name.uppercased())) 1 \"\(TouchlineVersion.released)\" \"touchline \(TouchlineVersion.current)\"",
      ".SH NAME",
    ]
    fill("\(name) \u{0} \(first.hasSuffix(".") ? String(first.dropLast()) : first)")
  }

  private var text: String { lines.joined(separator: "\n") + "\n" }

  private mutating func heading(_ title: String) { lines.append(".SH \(title)") }

  private mutating func item(_ label: String, _ text: String) {
    lines += [".TP", label]
    fill(text)
  }

  private mutating func addExitStatus() {
    heading("EXIT STATUS")
    item("0", "It worked.")
    item("1", "It was refused or failed; the reason is on standard error.")
    item("2", "The command line makes no sense.")
  }

  private static func label(_ option: Option) -> String {
    let name = "\\fB\(escaped(option.name))\\fR"
    guard let value = option.value else { return name }
    let shown = "\\fI\(escaped(value))\\fR"
    return option.isValueOptional ? "\(name)[=\(shown)]" : "\(name) \(shown)"
  }

  /// Text whose indented lines stay lines of their own.
  private mutating func paragraph(_ text: Substring) {
    var flowing: [Substring] = []
    for line in text.split(separator: "\n") {
      if line.hasPrefix("  ") {
        if !flowing.isEmpty { fill(flowing.joined(separator: " ")) }
        flowing = []
        lines.append(".br")
        fill(String(line.drop { $0 == " " }))
      } else {
        flowing.append(line)
      }
    }
    if !flowing.isEmpty { fill(flowing.joined(separator: " ")) }
  }

  /// Words in lines of the source. NUL stands for the dash between a page's name and what it is.
  private mutating func fill(_ text: String) {
    var line = ""
    for word in text.split(separator: " ") {
      let escaped = word == "\u{0}" ? "\\-" : Self.escaped(String(word))
      if !line.isEmpty, line.utf8.count + 1 + escaped.utf8.count > Self.width {
        lines.append(Self.unbroken(escapedLine: line))
        line = ""
      }
      line += (line.isEmpty ? "" : " ") + escaped
    }
    if !line.isEmpty { lines.append(Self.unbroken(escapedLine: line)) }
  }

  /// A line that is broken nowhere, though the source may continue on the next.
  private static func example(_ text: String) -> String {
    var pieces: [String] = [""]
    for word in text.split(separator: " ", omittingEmptySubsequences: false) {
      let escaped = escaped(String(word))
      let last = pieces[pieces.count - 1]
      if !last.isEmpty, last.utf8.count + 1 + escaped.utf8.count > width - 2 {
        pieces[pieces.count - 1] += " \\"
        pieces.append(escaped)
      } else {
        pieces[pieces.count - 1] += (last.isEmpty ? "" : " ") + escaped
      }
    }
    return unbroken(escapedLine: pieces.joined(separator: "\n"))
  }

  /// A line that begins with a dot or a quote would be a request.
  private static func unbroken(escapedLine line: String) -> String {
    line.hasPrefix(".") || line.hasPrefix("'") ? "\\&" + line : line
  }

  /// groff_char(7): a backslash begins an escape, a hyphen is no minus sign, and these three become typographic.
  private static func escaped(_ text: String) -> String {
    text.unicodeScalars.reduce(into: "") { line, scalar in
      switch scalar {
      case "\\": line += "\\e"
      case "-": line += "\\-"
      case "'": line += "\\(aq"
      case "`": line += "\\(ga"
      case "~": line += "\\(ti"
      case "^": line += "\\(ha"
      default:
        if scalar.isASCII {
          line.unicodeScalars.append(scalar)
        } else {
          let digits = String(scalar.value, radix: 16, uppercase: true)
          line += "\\[u\(String(repeating: "0", count: max(0, 4 - digits.count)))\(digits)]"
        }
      }
    }
  }
}
