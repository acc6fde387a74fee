import BroadcastChannels

/// What a configuration file says: one JSON object, `//` comments allowed, with the keys of ``Setting/all``.
struct ConfigurationFile {
  /// The values, each with the line that it stands on.
  private(set) var values: [(setting: Setting, value: JSONValue, position: SourcePosition)] = []
  /// What is wrong with it, each with its line and key and what was expected.
  private(set) var findings: [Finding] = []

  init(_ bytes: [UInt8]) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes, comments: true)
    } catch {
      findings = [Finding(error)]
      return
    }
    guard let members = document.root.members else {
      findings = [
        Finding(
          .error, "bad-value", key: "", "is \(document.root.described); an object was expected", at: 0,
          in: document)
      ]
      return
    }
    let known = Setting.all.map(\.key)
    for member in members {
      if let setting = Setting.all.first(where: { $0.key == member.name }) {
        let start = member.value.range.lowerBound
        values.append((setting, member.value, document.position(of: start)))
      } else {
        let near = Suggestion.phrase(for: member.name, among: known)
        findings.append(
          Finding(
            .error, "unknown-key", key: member.name, "is no key of a configuration\(near)", at: member.offset,
            in: document))
      }
    }
  }

  /// Takes all of it over; what is wrong joins the findings and leaves its setting as it was.
  ///
  /// - Parameter took: told of each setting whose value counts, with the value and its place.
  mutating func apply(
    to configuration: inout ServerConfiguration, _ took: (Setting, SettingValue, SourcePosition) -> Void
  ) {
    for (setting, value, position) in values {
      let given = SettingValue.json(value)
      if let expected = setting.take(&configuration, given) {
        findings.append(
          Finding(
            .error, "bad-value", key: setting.key, "is \(given.described); \(expected)", position: position))
      } else {
        took(setting, given, position)
      }
    }
    findings = Findings(findings).all
  }
}

extension ServerConfiguration {
  /// Takes over what a configuration file says.
  ///
  /// - Throws: everything that is wrong with it, each with its line and key and what was expected. What is right was taken
  ///   over all the same.
  public mutating func read(file bytes: [UInt8]) throws(Findings) {
    var file = ConfigurationFile(bytes)
    file.apply(to: &self) { _, _, _ in }
    guard file.findings.isEmpty else { throw Findings(file.findings) }
  }
}
