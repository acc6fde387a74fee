/// Completion for zsh, by its own `_arguments`.
enum ZshCompletion {
  static func script(_ commands: [CommandUsage]) -> String {
    let names = commands.map(\.name).joined(separator: " ")
    let described = commands.map { "    " + "\($0.name):\($0.summary)".singleQuoted() }
    return """
      #compdef touchline
      # Completion of touchline for zsh: touchline completion zsh >~/.zfunc/_touchline, with ~/.zfunc in fpath
      _touchline_channels() {
        local -a aliases
        aliases=(${(f)"$(\(CommandUsage.channelAliases))"})
        compadd -a aliases
      }
      _touchline() {
        local -a commands
        commands=(
      \(described.joined(separator: "\n"))
        )
        if (( CURRENT == 2 )); then
          _describe command commands
          return
        fi
        shift words
        (( CURRENT-- ))
        case $words[1] in
      \(commands.map { command($0, names) }.joined(separator: "\n"))
          help) (( CURRENT == 2 )) && _describe command commands ;;
        esac
      }
      if [[ $funcstack[1] == _touchline ]]; then
        _touchline "$@"
      else
        compdef _touchline touchline
      fi

      """
  }

  private static func command(_ usage: CommandUsage, _ names: String) -> String {
    var specs = usage.allOptions.map(spec)
    switch usage.operands {
    case .none: break
    case .files: specs.append("'*:file:_files'")
    case .channels: specs.append("'*:channel:_touchline_channels'")
    case .commands: specs.append("'1:command:(\(names))'")
    case .words(let words):
      specs.append("'1:word:(\(words.joined(separator: " ")))'")
      specs.append("'*:channel:_touchline_channels'")
    }
    let lines = specs.map { "\n        \($0)" }.joined(separator: " \\")
    return "    \(usage.name))\n      _arguments \\\(lines) ;;"
  }

  private static func spec(_ option: Option) -> String {
    let help = escaped(option.help)
    guard let value = option.value else { return "\(option.name)[\(help)]".singleQuoted() }
    let completed = CompletedValue(value)
    let action: String
    if completed.isFile {
      action = "_files"
    } else if completed.isFolder {
      action = "_files -/"
    } else {
      action = completed.words.isEmpty ? " " : "(\(completed.words.joined(separator: " ")))"
    }
    let place = option.isValueOptional ? "=-" : "="
    return "\(option.name)\(place)[\(help)]:\(option.isValueOptional ? ":" : "")\(escaped(value)):\(action)"
      .singleQuoted()
  }

  private static func escaped(_ text: String) -> String {
    text.replacing("\\", with: "\\\\").replacing("[", with: "\\[").replacing("]", with: "\\]")
      .replacing(":", with: "\\:")
  }
}
