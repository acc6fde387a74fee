import BroadcastChannels
import BroadcastServer

/// The program: finds the command and turns its errors into exit codes.
enum Touchline {
  /// The commands, in the order of the help.
  private static var commands: [any Command.Type] {
    [
      ServeCommand.self, ChannelCommand.self, PublishCommand.self, PlayCommand.self, WatchCommand.self,
      IntentsCommand.self, RehearseCommand.self, CheckCommand.self, RenderCommand.self,
    ]
  }

  private static var overview: String {
    """
    Touchline \(TouchlineVersion.current): a broadcast-channel server for live events, and its tools.

    Usage: touchline COMMAND [OPTIONS]

    Commands:
    \(commands.map { "  \($0.usage.name.padded(to: 10))\($0.usage.summary)" }.joined(separator: "\n"))

    'touchline COMMAND --help' tells more of a command, with examples.

    """
  }

  static func run(_ words: [String]) -> Int32 {
    guard let name = words.first else {
      Console.note(overview)
      return 2
    }
    if ["--help", "-h", "help"].contains(name) {
      guard words.count > 1, name == "help" else {
        Console.printText(overview)
        return 0
      }
      return run([words[1], "--help"])
    }
    if name == "--version" || name == "version" {
      Console.print("touchline \(TouchlineVersion.current)")
      return 0
    }
    guard let command = commands.first(where: { $0.usage.name == name }) else {
      let hint = Suggestion.phrase(for: name, among: commands.map { $0.usage.name })
      Console.note("touchline: there is no command \"\(name.printable)\"\(hint)\nTry: touchline --help")
      return 2
    }
    do {
      let arguments = try Arguments(words.dropFirst(), for: command.usage)
      if arguments.wantsHelp {
        Console.printText(command.usage.helpText)
        return 0
      }
      return try command.run(arguments)
    } catch let error as UsageError {
      Console.note(
        "touchline \(error.command): \(error.message.printable)\nTry: touchline \(error.command) --help")
      return 2
    } catch let error as CommandFailure {
      Console.note("touchline \(command.usage.name): \(error.message)")
      return 1
    } catch {
      Console.note("touchline \(command.usage.name): \(error)")
      return 1
    }
  }

}
