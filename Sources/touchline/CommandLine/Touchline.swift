import BroadcastChannels
import BroadcastServer
import Foundation

/// The program: finds the command and turns its errors into exit codes.
enum Touchline {
  /// The commands, in the order of the help.
  private static var commands: [any Command.Type] {
    [
      ServeCommand.self, ChannelCommand.self, PublishCommand.self, PlayCommand.self, WatchCommand.self,
      IntentsCommand.self, RequestsCommand.self, RehearseCommand.self, CheckCommand.self, RenderCommand.self,
      SoakCommand.self, TokenCommand.self, TrustCommand.self, HealthCommand.self, CompletionCommand.self,
      ManCommand.self,
    ]
  }

  /// What each command is, in the order of the help.
  static var usages: [CommandUsage] { commands.map { $0.usage } }

  private static var overview: String {
    """
    Touchline \(TouchlineVersion.current): a broadcast-channel server for live events, and its tools.

    Usage: touchline COMMAND [OPTIONS]

    Commands:
    \(commands.map { "  \($0.usage.name.padded(to: 12))\($0.usage.summary)" }.joined(separator: "\n"))

    'touchline COMMAND --help' tells more of a command, with examples.

    """
  }

  /// Runs what the process was started with.
  static func run(_ arguments: [String]) -> Int32 {
    // Swift repairs what is not UTF-8 with U+FFFD; publishing that would change what somebody typed.
    holdStandardDescriptors()
    let isRepaired = zip(arguments, CommandLine.unsafeArgv.bytes).contains { !$0.utf8.elementsEqual($1) }
    guard !isRepaired else {
      Console.note(
        "touchline: an argument is not valid UTF-8; give it as a file (@FILE) or on standard input")
      return 2
    }
    return carryOut(Array(arguments.dropFirst()))
  }

  private static func carryOut(_ words: [String]) -> Int32 {
    guard let name = words.first else {
      Console.note(overview)
      return 2
    }
    if ["--help", "-h", "help"].contains(name) {
      guard words.count > 1, name == "help" else {
        Console.printText(overview)
        return 0
      }
      return carryOut([words[1], "--help"])
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
        "touchline \(error.command): \(error.message)\nTry: touchline \(error.command) --help")
      return 2
    } catch let error as CommandFailure {
      Console.note("touchline \(command.usage.name): \(error.message)")
      return 1
    } catch {
      Console.note("touchline \(command.usage.name): \(error)")
      return 1
    }
  }

  /// Takes the place of standard descriptors that are closed, with something that fails as they do. Otherwise the next file that is
  /// opened, such as the store's, would get the number, and what is printed would go there.
  private static func holdStandardDescriptors() {
    for (descriptor, way) in [(STDIN_FILENO, O_WRONLY), (STDOUT_FILENO, O_RDONLY), (STDERR_FILENO, O_WRONLY)]
    where fcntl(descriptor, F_GETFD) < 0 {
      _ = open("/dev/null", way)
    }
  }
}

extension UnsafeMutablePointer<UnsafeMutablePointer<CChar>?> {
  /// The bytes of each argument, as the kernel gave them.
  fileprivate var bytes: [[UInt8]] {
    (0..<Int(CommandLine.argc)).map { index in
      self[index].map {
        Array(UnsafeBufferPointer(start: $0, count: strlen($0))).map(UInt8.init(bitPattern:))
      } ?? []
    }
  }
}
