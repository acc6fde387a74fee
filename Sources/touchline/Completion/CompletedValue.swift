/// What an option's value is completed with, from what the help calls it: `FILE`, `DIR`, or words such as `plain|json`.
struct CompletedValue {
  var words: [String] = []
  var isFile = false
  var isFolder = false

  var isAnything: Bool { !words.isEmpty || isFile || isFolder }

  init(_ placeholder: String) {
    for part in placeholder.split(separator: "|") {
      if part.hasSuffix("FILE") || part == "PATH" {
        isFile = true
      } else if part == "DIR" {
        isFolder = true
      } else if part.allSatisfy({ $0.isLowercase || $0.isNumber || $0 == "-" }), part != "-" {
        words.append(String(part))
      }
    }
  }
}

extension CommandUsage {
  /// A shell's words that print the server's channels by their aliases, or ids; nothing when there is no server. bash expands
  /// what it completes with, so that nothing else of what a server says gets through.
  static let channelAliases =
    "touchline channel list 2>/dev/null"
    + " | awk '{ n = $2 == \"-\" ? $1 : $2 } n ~ \"^[A-Za-z0-9._+/=-]+$\" { print n }'"
}

extension String {
  /// The text between single quotes of a shell. In fish a backslash counts there too.
  func singleQuoted(inFish isFish: Bool = false) -> String {
    isFish
      ? "'\(replacing("\\", with: "\\\\").replacing("'", with: "\\'"))'"
      : "'\(replacing("'", with: "'\\''"))'"
  }
}
