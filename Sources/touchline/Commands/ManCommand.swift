import BroadcastChannels
import Foundation

/// `touchline man`: the manual, from what `--help` prints.
enum ManCommand: Command {
  static let usage = CommandUsage(
    name: "man", synopsis: "[COMMAND] [--dir DIR]",
    summary: "Print a manual page, or write all of them into a folder.",
    options: [
      Option("--dir", "DIR", "write touchline.1 and a page for each command there, and print their paths")
    ],
    operands: .commands,
    notes: """
      Without COMMAND it is the page of the program itself. A page is roff for man(7): 'man -l FILE' shows it, and a folder
      man1 of the MANPATH takes it.
      """,
    examples: [
      "touchline man serve >serve.1 && man -l serve.1",
      "touchline man --dir ~/.local/share/man/man1",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let names = try arguments.positional(0...1, "one command")
    guard let folder = arguments["--dir"] else {
      Console.printText(
        try names.first.map { try page(of: $0, arguments) } ?? ManualPage.overview(Touchline.usages))
      return 0
    }
    guard names.isEmpty else { throw arguments.error("--dir writes all pages; leave out \"\(names[0])\"") }
    guard !folder.isEmpty else { throw arguments.error("--dir is empty; a folder was expected") }
    let pages =
      [("touchline.1", ManualPage.overview(Touchline.usages))]
      + Touchline.usages.map { ("touchline-\($0.name).1", ManualPage.command($0)) }
    let url = URL(fileURLWithPath: folder)
    do {
      try FileManager.default.createDirectory(at: url, withIntermediateDirectories: true)
      for (name, text) in pages {
        let file = url.appendingPathComponent(name)
        try Data(text.utf8).write(to: file)
        Console.print(file.path)
      }
    } catch {
      throw CommandFailure("\(folder) can't be written: \(error.localizedDescription)")
    }
    return 0
  }

  private static func page(of name: String, _ arguments: Arguments) throws(UsageError) -> String {
    guard let usage = Touchline.usages.first(where: { $0.name == name }) else {
      let hint = Suggestion.phrase(for: name, among: Touchline.usages.map(\.name))
      throw arguments.error("there is no command \"\(name)\"\(hint)")
    }
    return ManualPage.command(usage)
  }
}
