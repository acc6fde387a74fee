/// `touchline completion`: what a shell needs to complete this program's words.
enum CompletionCommand: Command {
  static let usage = CommandUsage(
    name: "completion", synopsis: "bash|zsh|fish",
    summary: "Print a shell's completion script.",
    operands: .words(["bash", "zsh", "fish"]),
    notes: """
      Completes commands, options, their values, files, and the aliases of the channels of the server that TOUCHLINE_SERVER
      names (or the one on this machine).
      """,
    examples: [
      "source <(touchline completion bash)",
      "touchline completion zsh >~/.zfunc/_touchline",
      "touchline completion fish >~/.config/fish/completions/touchline.fish",
    ])

  static func run(_ arguments: Arguments) throws -> Int32 {
    let shell = try arguments.positional(1...1, "a shell, bash, zsh or fish,")[0]
    let script: ([CommandUsage]) -> String
    switch shell {
    case "bash": script = BashCompletion.script
    case "zsh": script = ZshCompletion.script
    case "fish": script = FishCompletion.script
    default: throw arguments.error("there is no completion for \"\(shell)\"; bash, zsh or fish was expected")
    }
    Console.printText(script(Touchline.usages))
    return 0
  }
}
