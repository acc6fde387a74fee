import BroadcastChannels

extension Alert.Text {
  /// The text in a language: a literal as it is, a `loc-key` from the app's strings, with its arguments in place.
  ///
  /// - Parameters:
  ///   - locale: such as `es` or `es-MX`: the exact table first, then the language's, then English, then any.
  ///   - strings: the definition's tables.
  public func localized(_ locale: String, strings: [String: [String: String]]) -> String {
    guard case .localized(let key, let arguments) = self else { return plain }
    let language = locale.split { $0 == "-" || $0 == "_" }.first.map(String.init) ?? locale
    let candidates = [locale, language, "en"] + strings.keys.sorted()
    guard let format = candidates.lazy.compactMap({ strings[$0]?[key] }).first else { return plain }
    return Self.fill(format, arguments)
  }

  /// Puts arguments in the places of `%@` (in order) and `%1$@` (by number); `%%` is a percent sign.
  private static func fill(_ format: String, _ arguments: [String]) -> String {
    var text = ""
    var next = 0
    var rest = format[...]
    while let percent = rest.firstIndex(of: "%") {
      text += rest[..<percent]
      rest = rest[rest.index(after: percent)...]
      if rest.first == "%" {
        text += "%"
        rest = rest.dropFirst()
      } else if rest.first == "@" {
        text += next < arguments.count ? arguments[next] : ""
        next += 1
        rest = rest.dropFirst()
      } else if let dollar = rest.firstIndex(of: "$"), let number = Int(rest[..<dollar]),
        rest[dollar...].hasPrefix("$@")
      {
        text += arguments.indices.contains(number - 1) ? arguments[number - 1] : ""
        rest = rest[dollar...].dropFirst(2)
      } else {
        text += "%"
      }
    }
    return text + rest
  }
}
