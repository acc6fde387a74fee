/// Completion for fish.
enum FishCompletion {
  static func script(_ commands: [CommandUsage]) -> String {
    var lines = [
      "# Completion of touchline for fish: touchline completion fish >~/.config/fish/completions/touchline.fish",
      "complete -c touchline -f",
    ]
    for usage in commands {
      lines.append(
        "complete -c touchline -n __fish_use_subcommand -a \(usage.name) -d \(usage.summary.singleQuoted(inFish: true))"
      )
    }
    for usage in commands {
      let head = "complete -c touchline -n '__fish_seen_subcommand_from \(usage.name)'"
      lines += usage.allOptions.map { "\(head) \(option($0))" }
      switch usage.operands {
      case .none: break
      case .files: lines.append("\(head) -F")
      case .channels:
        lines.append("\(head) -a \("(\(CommandUsage.channelAliases))".singleQuoted(inFish: true))")
      case .commands: lines.append("\(head) -a '\(commands.map(\.name).joined(separator: " "))'")
      case .words(let words): lines.append("\(head) -a '\(words.joined(separator: " "))'")
      }
    }
    return lines.joined(separator: "\n") + "\n"
  }

  private static func option(_ option: Option) -> String {
    let name = "-l \(option.name.dropFirst(2))"
    let help = "-d \(option.help.singleQuoted(inFish: true))"
    guard let value = option.value, !option.isValueOptional else { return "\(name) \(help)" }
    let completed = CompletedValue(value)
    if completed.isFile { return "\(name) -r -F \(help)" }
    if completed.isFolder { return "\(name) -x -a '(__fish_complete_directories)' \(help)" }
    let words = completed.words.isEmpty ? "" : " -a '\(completed.words.joined(separator: " "))'"
    return "\(name) -x\(words) \(help)"
  }
}
