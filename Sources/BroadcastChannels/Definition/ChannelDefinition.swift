/// Who may subscribe to a channel.
public enum SubscribeRule: String, Sendable, Hashable, CaseIterable {
  /// Whoever can reach the server.
  case open
  /// Who has a subscriber token that names the channel.
  case token
}

/// A channel as a file in `Channels/` describes it: the rules it runs by, and what its app shows.
public struct ChannelDefinition: Sendable, Hashable {
  /// The local name: the file's name without its ending, or what a script or request says.
  public var alias: ChannelAlias?
  /// The rules.
  public var settings: ChannelSettings
  /// Who may subscribe; nil leaves it to the server's setting for the app.
  public var subscribe: SubscribeRule?
  /// The app's `ActivityAttributes` type.
  public var attributesType: String?
  /// The attributes, which never change after the start.
  public var attributes: JSONText?
  /// The declared properties of the content state; nil when the file doesn't declare them.
  public var contentState: ContentStateSchema?
  /// The template of each presentation.
  public var presentations: [Presentation: String]
  /// The sentence that VoiceOver speaks for a presentation, as a template.
  public var accessibility: [Presentation: String]
  /// What a person can do on the card.
  public var actions: [ActivityAction]
  /// Properties that are hidden while the device is locked.
  public var sensitive: Set<String>
  /// The app's strings by language and key, for `loc-key` alerts.
  public var strings: [String: [String: String]]

  /// Makes a definition.
  public init(
    alias: ChannelAlias? = nil, settings: ChannelSettings, subscribe: SubscribeRule? = nil,
    attributesType: String? = nil, attributes: JSONText? = nil,
    contentState: ContentStateSchema? = nil, presentations: [Presentation: String] = [:],
    accessibility: [Presentation: String] = [:], actions: [ActivityAction] = [], sensitive: Set<String> = [],
    strings: [String: [String: String]] = [:]
  ) {
    self.alias = alias
    self.settings = settings
    self.subscribe = subscribe
    self.attributesType = attributesType
    self.attributes = attributes
    self.contentState = contentState
    self.presentations = presentations
    self.accessibility = accessibility
    self.actions = actions
    self.sensitive = sensitive
    self.strings = strings
  }
}

extension ChannelDefinition {
  /// Reads a definition file; `//` and `/* */` comments are allowed.
  ///
  /// - Throws: everything that is wrong with it, each with its line and key and what was expected.
  public init(file bytes: [UInt8], alias: ChannelAlias?) throws(Findings) {
    let document: JSONDocument
    do throws(JSONSyntaxError) {
      document = try JSONDocument(bytes, comments: true)
    } catch {
      throw Findings([Finding(error)])
    }
    try self.init(document.root, alias: alias, in: document)
  }

  /// Reads a definition inside a larger document, such as a match script or a request.
  public init(_ value: JSONValue, alias: ChannelAlias?, in document: JSONDocument) throws(Findings) {
    var reader = DefinitionReader(document: document)
    let definition = reader.definition(value, alias: alias)
    guard let definition, reader.findings.isEmpty else { throw Findings(reader.findings) }
    self = definition
  }

  /// The definition as JSON, as `GET /v1/channels/<id>` answers it. It reads back as the same definition, but for its alias.
  public var json: String {
    let budget = settings.budget
    let rate = settings.publishRate
    return JSONWriter.object([
      "app": JSONWriter.quoted(settings.app.identifier),
      "message-storage-policy": String(settings.storagePolicy.rawValue),
      "frequent-updates": String(settings.frequentUpdates),
      "budget": JSONWriter.object([
        "capacity": budget.capacity.map { String($0) } ?? "null",
        "refill-per-hour": JSONWriter.number(budget.refillPerHour),
        "over-budget": JSONWriter.quoted(budget.overBudget.rawValue),
      ]),
      "windows": JSONWriter.object([
        "5": JSONWriter.number(settings.windows.considerate),
        "1": JSONWriter.number(settings.windows.passive),
      ]),
      "publish-rate": JSONWriter.object([
        "per-second": rate.perSecond.map { JSONWriter.number($0) } ?? "null",
        "burst": rate.burst.map { String($0) } ?? "null",
      ]),
      "subscribe": subscribe.map { JSONWriter.quoted($0.rawValue) },
      "attributes-type": attributesType.map(JSONWriter.quoted),
      "attributes": attributes?.string,
      "content-state": contentState.map { Self.json($0.properties) },
      "presentations": Self.json(presentations.map { ($0.rawValue, JSONWriter.quoted($1)) }),
      "accessibility": Self.json(accessibility.map { ($0.rawValue, JSONWriter.quoted($1)) }),
      // In their order, by which digits press them.
      "actions": actions.isEmpty ? nil : "{\(actions.map(Self.json).joined(separator: ","))}",
      "sensitive": sensitive.isEmpty
        ? nil : "[\(sensitive.sorted().map(JSONWriter.quoted).joined(separator: ","))]",
      "strings": Self.json(
        strings.map { language, table in
          (language, Self.json(table.map { ($0, JSONWriter.quoted($1)) }) ?? "{}")
        }),
    ])
  }

  /// An object with its members in the order of their names; nil when there are none.
  private static func json(_ members: [(name: String, value: String)]) -> String? {
    guard !members.isEmpty else { return nil }
    let sorted = members.sorted { $0.name < $1.name }
    return "{\(sorted.map { "\(JSONWriter.quoted($0.name)):\($0.value)" }.joined(separator: ","))}"
  }

  private static func json(_ action: ActivityAction) -> String {
    let sets = "{\(JSONWriter.quoted(action.property)):\(action.value.string)}"
    let object = JSONWriter.object(["title": JSONWriter.quoted(action.title), "sets": sets])
    return "\(JSONWriter.quoted(action.name)):\(object)"
  }

  private static func json(_ properties: [ContentStateSchema.Property]) -> String {
    let members = properties.map { property in
      let type: String =
        switch property.type {
        case .structure(let nested): json(nested)
        default: JSONWriter.quoted(property.type.swift)
        }
      return "\(JSONWriter.quoted(property.name)):\(type)"
    }
    return "{" + members.joined(separator: ",") + "}"
  }
}
