import BroadcastChannels

extension OpenFootballMatch {
  /// The channel that a match is played into: its attributes, its content state and what each place shows.
  var channel: ChannelDefinition? {
    // nil is for the compiler only: the id is spelt right.
    guard let app = BundleID("com.example.scores") else { return nil }
    return ChannelDefinition(
      alias: alias, settings: ChannelSettings(app: app), attributesType: "MatchAttributes",
      attributes: attributes,
      contentState: Self.contentState, presentations: presentations, accessibility: Self.accessibility)
  }

  /// A name for the match's channel, such as `argentina-france`.
  private var alias: ChannelAlias? {
    let names = "\(team1.name) \(team2.name)".folding(options: .diacriticInsensitive, locale: nil)
      .lowercased()
    let words = names.split { !($0.isASCII && ($0.isLetter || $0.isNumber)) }
    return ChannelAlias(String(words.joined(separator: "-").prefix(Limits.aliasCharacters)))
  }

  /// What never changes during the match. What the file doesn't say is left out.
  var attributes: JSONText {
    let text = JSONWriter.object([
      "competition": JSONWriter.quoted(competition),
      "home": JSONWriter.quoted(team1.name),
      "away": JSONWriter.quoted(team2.name),
      "round": stage.map(JSONWriter.quoted),
      "ground": ground.map(JSONWriter.quoted),
    ])
    return JSONText(compacting: text.utf8)
  }

  private static let contentState = ContentStateSchema(properties: [
    ContentStateSchema.Property(name: "home", type: .int),
    ContentStateSchema.Property(name: "away", type: .int),
    ContentStateSchema.Property(name: "clock", type: .string),
    ContentStateSchema.Property(name: "period", type: .string),
    ContentStateSchema.Property(name: "scorers", type: .array(.string)),
    ContentStateSchema.Property(name: "shootout", type: .optional(.string)),
  ])

  private var presentations: [Presentation: String] {
    // A place without attribute shows no gap: the template names only what this match has.
    let heading =
      ["{attributes.competition}"]
      + (stage == nil ? [] : ["{attributes.round}"]) + (ground == nil ? [] : ["{attributes.ground}"])
    let home = label(.team1) ?? "{attributes.home}"
    let away = label(.team2) ?? "{attributes.away}"
    return [
      .lockScreen: heading.joined(separator: " · ")
        + "\n{attributes.home} {home}–{away} {attributes.away}\n{period} · {clock}\n{scorers}\n{shootout}",
      .banner: "{attributes.home} {home}–{away} {attributes.away} · {clock}{?shootout} · {shootout}{/}",
      .expandedLeading: "\(home) {home}",
      .expandedTrailing: "{away} \(away)",
      .expandedCenter: "{period} {clock}",
      .expandedBottom: "{scorers}\n{shootout}",
      // Whole names have no room in the compact island; its sides tell the teams apart then.
      .compactLeading: "\(label(.team1) ?? "⚽") {home|number:2}",
      .compactTrailing: "{away|number:2}\(label(.team2).map { " \($0)" } ?? "")",
      .minimal: "{home}–{away}",
      .small: "\(home) {home}–{away} \(away)",
      .standby: "\(home) {home}–{away} \(away)\n{clock}",
    ]
  }

  private static let accessibility: [Presentation: String] = [
    .compactLeading: "{attributes.home}: {home}",
    .compactTrailing: "{attributes.away}: {away}",
    .minimal: "{attributes.home} {home}, {attributes.away} {away}",
    .small: "{attributes.home} {home}, {attributes.away} {away}. {period}, {clock}",
  ]

  /// A team in the room of a few letters: the file's code, or the first three letters of the name.
  ///
  /// - Returns: nil when that is no name or the same for both teams ("MAN"); the whole name is shown then.
  func label(_ side: Side) -> String? {
    func short(_ team: Team) -> String? {
      let letters = (team.code ?? team.name).filter { $0.isLetter || $0.isNumber }.prefix(3)
      return letters.isEmpty ? nil : letters.uppercased()
    }
    return short(team1) == short(team2) ? nil : short(self[side])
  }
}
