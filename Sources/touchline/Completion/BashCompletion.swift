/// Completion for bash, without the package bash-completion.
enum BashCompletion {
  static func script(_ commands: [CommandUsage]) -> String {
    let names = commands.map(\.name).joined(separator: " ")
    return """
      # Completion of touchline for bash: source <(touchline completion bash)
      _touchline_reply() { mapfile -t COMPREPLY < <(compgen "$@"); }
      _touchline() {
        local current=${COMP_WORDS[COMP_CWORD]} previous=${COMP_WORDS[COMP_CWORD-1]} equals=
        COMPREPLY=()
        # An equals sign is a word by itself.
        if [[ $current == = ]]; then
          equals== current=
        elif [[ $previous == = ]]; then
          equals== previous=${COMP_WORDS[COMP_CWORD-2]}
        fi
        if (( COMP_CWORD == 1 )); then
          _touchline_reply -W "\(names) help --help --version" -- "$current"
          return
        fi
        case "${COMP_WORDS[1]} $previous$equals" in
      \(commands.flatMap(values).joined(separator: "\n"))
          "help "*) _touchline_reply -W "\(names)" -- "$current"; return ;;
        esac
        case "${COMP_WORDS[1]}" in
      \(commands.map { command($0, names) }.joined(separator: "\n"))
        esac
      }
      complete -F _touchline touchline

      """
  }

  /// What completes the values of a command's options.
  private static func values(_ usage: CommandUsage) -> [String] {
    var lines: [String] = []
    var others: [String] = []
    for option in usage.options {
      guard let value = option.value else { continue }
      let keys =
        (option.isValueOptional ? [] : ["\"\(usage.name) \(option.name)\""])
        + ["\"\(usage.name) \(option.name)=\""]
      let completed = CompletedValue(value)
      guard completed.isAnything else {
        others += keys
        continue
      }
      var actions: [String] = []
      if completed.isFile || completed.isFolder { actions.append("compopt -o filenames") }
      let words = completed.words.isEmpty ? "" : " -W \"\(completed.words.joined(separator: " "))\""
      let paths = completed.isFile ? " -f" : completed.isFolder ? " -d" : ""
      actions.append("_touchline_reply\(paths)\(words) -- \"$current\"")
      lines.append("    \(keys.joined(separator: "|"))) \(actions.joined(separator: "; ")); return ;;")
    }
    // A value that can't be guessed is no option either.
    if !others.isEmpty { lines.append("    \(others.joined(separator: "|"))) return ;;") }
    return lines
  }

  private static func command(_ usage: CommandUsage, _ names: String) -> String {
    let options = usage.allOptions.map(\.name).joined(separator: " ")
    let operands: String
    switch usage.operands {
    case .none: operands = ""
    case .files: operands = "compopt -o filenames; _touchline_reply -f -- \"$current\""
    case .channels: operands = "_touchline_reply -W \"$(\(CommandUsage.channelAliases))\" -- \"$current\""
    case .commands: operands = first(names)
    case .words(let words): operands = first(words.joined(separator: " "))
    }
    return """
          \(usage.name))
            if [[ $current == -* ]]; then
              _touchline_reply -W "\(options)" -- "$current"
            \(operands.isEmpty ? "fi" : "else\n        \(operands)\n      fi") ;;
      """
  }

  private static func first(_ words: String) -> String {
    "(( COMP_CWORD == 2 )) && _touchline_reply -W \"\(words)\" -- \"$current\""
  }
}
