/// Reads a channel definition and collects everything that is wrong with it.
struct DefinitionReader {
  let document: JSONDocument
  private(set) var findings: [Finding] = []

  init(document: JSONDocument) { self.document = document }

  mutating func definition(_ value: JSONValue, alias: ChannelAlias?) -> ChannelDefinition? {
    guard members(of: value, key: "the definition", allowed: Self.keys) != nil else { return nil }
    let app = app(value)
    let policy = storagePolicy(value["message-storage-policy"])
    let frequent = bool(value["frequent-updates"], key: "frequent-updates") ?? false
    let budget = budget(
      value["budget"], standard: .standard(storagePolicy: policy, frequentUpdates: frequent))
    let windows = windows(value["windows"])
    let publishRate = publishRate(value["publish-rate"])
    let subscribe = subscribe(value["subscribe"])
    let attributesType = string(value["attributes-type"], key: "attributes-type")
    let attributes = attributes(value["attributes"])
    let contentState = value["content-state"].map {
      ContentStateSchema(properties: properties($0, key: "content-state"))
    }
    let presentations = presentations(value["presentations"], key: "presentations")
    let accessibility = self.presentations(value["accessibility"], key: "accessibility")
    let actions = actions(value["actions"], contentState)
    let sensitive = sensitive(value["sensitive"], contentState)
    let strings = strings(value["strings"])
    // Only now: whoever forgot the app is told what else is wrong, too.
    guard let app else { return nil }
    return ChannelDefinition(
      alias: alias,
      settings: ChannelSettings(
        app: app, storagePolicy: policy, frequentUpdates: frequent, budget: budget, windows: windows,
        publishRate: publishRate),
      subscribe: subscribe, attributesType: attributesType, attributes: attributes,
      contentState: contentState,
      presentations: presentations, accessibility: accessibility, actions: actions, sensitive: sensitive,
      strings: strings)
  }

  private static let keys = [
    "app", "message-storage-policy", "frequent-updates", "budget", "windows", "publish-rate",
    "subscribe", "attributes-type",
    "attributes", "content-state", "presentations", "accessibility", "actions", "sensitive", "strings",
  ]

  // MARK: Rules of the channel

  private mutating func app(_ value: JSONValue) -> BundleID? {
    guard let app = value["app"] else {
      error(
        "missing-key", key: "app", "is missing; the bundle id of the app, such as \"com.example.scores\"",
        at: value)
      return nil
    }
    guard let text = app.string, let id = BundleID(text) else {
      error(
        "bad-value", key: "app",
        "is \(app.described); a bundle id such as \"com.example.scores\" was expected", at: app)
      return nil
    }
    guard !id.hasPushTypeSuffix else {
      error("bad-value", key: "app", "has a push-type suffix; the bundle id alone was expected", at: app)
      return nil
    }
    return id
  }

  private mutating func storagePolicy(_ value: JSONValue?) -> StoragePolicy {
    guard let value else { return .none }
    if let number = value.number?.int, let policy = StoragePolicy(rawValue: Int(clamping: number)) {
      return policy
    }
    error(
      "bad-value", key: "message-storage-policy",
      "is \(value.described); 0 (nothing stored) or 1 (most recent message stored) was expected", at: value)
    return .none
  }

  private mutating func subscribe(_ value: JSONValue?) -> SubscribeRule? {
    guard let value else { return nil }
    if let access = value.string.flatMap({ SubscribeRule(rawValue: $0) }) { return access }
    error(
      "bad-value", key: "subscribe", "is \(value.described); \"open\" or \"token\" was expected", at: value)
    return nil
  }

  private mutating func budget(_ value: JSONValue?, standard: FrequencyBudget) -> FrequencyBudget {
    guard let value,
      members(of: value, key: "budget", allowed: ["capacity", "refill-per-hour", "over-budget"]) != nil
    else { return standard }
    var budget = standard
    if let capacity = value["capacity"] {
      if capacity.isNull {
        budget.capacity = nil
      } else if let number = whole(capacity, key: "budget.capacity", in: 0...1_000_000) {
        budget.capacity = number
      }
    }
    if let refill = value["refill-per-hour"],
      let number = number(refill, key: "budget.refill-per-hour", in: 0...3_600_000)
    {
      budget.refillPerHour = number
    }
    if let policy = value["over-budget"] {
      if let text = policy.string, let overBudget = FrequencyBudget.OverBudget(rawValue: text) {
        budget.overBudget = overBudget
      } else {
        error(
          "bad-value", key: "budget.over-budget",
          "is \(policy.described); \"demote\", \"drop\" or \"reject\" was expected", at: policy)
      }
    }
    return budget
  }

  private mutating func windows(_ value: JSONValue?) -> DeliveryWindows {
    var windows = DeliveryWindows()
    guard let value, members(of: value, key: "windows", allowed: ["5", "1"]) != nil else { return windows }
    let range = 0...Limits.windowSeconds
    if let five = value["5"], let seconds = number(five, key: "windows.5", in: range) {
      windows.considerate = seconds
    }
    if let one = value["1"], let seconds = number(one, key: "windows.1", in: range) {
      windows.passive = seconds
    }
    return windows
  }

  private mutating func publishRate(_ value: JSONValue?) -> PublishRate {
    var rate = PublishRate()
    guard let value, members(of: value, key: "publish-rate", allowed: ["per-second", "burst"]) != nil else {
      return rate
    }
    if let perSecond = value["per-second"] {
      if perSecond.isNull {
        rate.perSecond = nil
      } else if let number = number(perSecond, key: "publish-rate.per-second", in: 0.001...1_000_000) {
        rate.perSecond = number
      }
    }
    if let burst = value["burst"] {
      if burst.isNull {
        rate.burst = nil
      } else if let number = whole(burst, key: "publish-rate.burst", in: 1...1_000_000) {
        rate.burst = number
      }
    }
    return rate
  }

  // MARK: What the app shows

  private mutating func attributes(_ value: JSONValue?) -> JSONText? {
    guard let value else { return nil }
    guard value.members != nil else {
      error("bad-value", key: "attributes", "is \(value.described); an object was expected", at: value)
      return nil
    }
    return JSONText(compacting: document.bytes[value.range])
  }

  private mutating func properties(_ value: JSONValue, key: String) -> [ContentStateSchema.Property] {
    guard let members = value.members else {
      error(
        "bad-value", key: key,
        "is \(value.described); an object of property names and Swift types was expected", at: value)
      return []
    }
    return members.compactMap { member in
      let path = "\(key).\(member.name)"
      if member.value.members != nil {
        return ContentStateSchema.Property(
          name: member.name, type: .structure(properties(member.value, key: path)))
      }
      guard let text = member.value.string, let type = ContentStateSchema.PropertyType(swift: text) else {
        error(
          "bad-type", key: path,
          "is \(member.value.described); a Swift type was expected: \(ContentStateSchema.PropertyType.names), or an object for a nested struct",
          at: member.value)
        return nil
      }
      return ContentStateSchema.Property(name: member.name, type: type)
    }
  }

  private mutating func presentations(_ value: JSONValue?, key: String) -> [Presentation: String] {
    guard let value,
      let members = members(of: value, key: key, allowed: Presentation.allCases.map(\.rawValue))
    else { return [:] }
    var templates: [Presentation: String] = [:]
    for member in members {
      guard let presentation = Presentation(rawValue: member.name) else { continue }
      templates[presentation] = string(member.value, key: "\(key).\(member.name)")
    }
    return templates
  }

  private mutating func actions(_ value: JSONValue?, _ schema: ContentStateSchema?) -> [ActivityAction] {
    guard let value else { return [] }
    guard let actions = value.members else {
      error(
        "bad-value", key: "actions", "is \(value.described); an object of actions was expected", at: value)
      return []
    }
    if actions.count > Limits.actionsPerActivity {
      error(
        "too-many", key: "actions", "are \(actions.count); a card has room for \(Limits.actionsPerActivity)",
        at: value)
    }
    return actions.compactMap { action($0, schema) }
  }

  private mutating func action(_ member: JSONMember, _ schema: ContentStateSchema?) -> ActivityAction? {
    let key = "actions.\(member.name)"
    guard members(of: member.value, key: key, allowed: ["title", "sets"]) != nil else { return nil }
    guard let sets = member.value["sets"], let values = sets.members, values.count == 1 else {
      error(
        "bad-value", key: "\(key).sets",
        "sets one property of the content state, such as {\"followed\": true}",
        at: member.value)
      return nil
    }
    if let schema, !schema.properties.contains(where: { $0.name == values[0].name }) {
      error(
        "unknown-property", key: "\(key).sets.\(values[0].name)",
        "is no property of the content state"
          + Suggestion.phrase(for: values[0].name, among: schema.properties.map(\.name)),
        at: sets)
      return nil
    }
    let property = schema?.properties.filter { $0.name == values[0].name } ?? []
    let wrong = ContentStateSchema(properties: property).findings(for: sets, key: "\(key).sets", in: document)
    guard property.isEmpty || wrong.isEmpty else {
      findings += wrong
      return nil
    }
    return ActivityAction(
      name: member.name, title: string(member.value["title"], key: "\(key).title") ?? member.name,
      property: values[0].name, value: JSONText(compacting: document.bytes[values[0].value.range]))
  }

  private mutating func sensitive(_ value: JSONValue?, _ schema: ContentStateSchema?) -> Set<String> {
    guard let value else { return [] }
    guard let elements = value.elements, elements.allSatisfy({ $0.string != nil }) else {
      error(
        "bad-value", key: "sensitive", "is \(value.described); an array of property names was expected",
        at: value)
      return []
    }
    let names = elements.compactMap(\.string)
    for (name, element) in zip(names, elements) {
      guard let schema, !schema.properties.contains(where: { $0.name == name }) else { continue }
      let hint = Suggestion.phrase(for: name, among: schema.properties.map(\.name))
      error(
        "unknown-property", key: "sensitive", "\"\(name)\" is no property of the content state\(hint)",
        at: element)
    }
    return Set(names)
  }

  private mutating func strings(_ value: JSONValue?) -> [String: [String: String]] {
    guard let value else { return [:] }
    guard let languages = value.members else {
      error("bad-value", key: "strings", "is \(value.described); tables by language were expected", at: value)
      return [:]
    }
    var tables: [String: [String: String]] = [:]
    for language in languages {
      guard let entries = language.value.members else {
        error(
          "bad-value", key: "strings.\(language.name)",
          "is \(language.value.described); an object of keys and texts was expected", at: language.value)
        continue
      }
      for entry in entries {
        tables[language.name, default: [:]][entry.name] = string(
          entry.value, key: "strings.\(language.name).\(entry.name)")
      }
    }
    return tables
  }

  // MARK: Values

  private mutating func members(of value: JSONValue, key: String, allowed: [String]) -> [JSONMember]? {
    guard let members = value.members else {
      error("bad-value", key: key, "is \(value.described); an object was expected", at: value)
      return nil
    }
    for member in members where !allowed.contains(member.name) {
      let path = key == "the definition" ? member.name : "\(key).\(member.name)"
      add(
        "unknown-key", key: path,
        "is no key of a channel definition here" + Suggestion.phrase(for: member.name, among: allowed),
        at: member.offset)
    }
    return members
  }

  private mutating func bool(_ value: JSONValue?, key: String) -> Bool? {
    guard let value else { return nil }
    if let bool = value.bool { return bool }
    error("bad-value", key: key, "is \(value.described); true or false was expected", at: value)
    return nil
  }

  private mutating func string(_ value: JSONValue?, key: String) -> String? {
    guard let value else { return nil }
    if let text = value.string { return text }
    error("bad-value", key: key, "is \(value.described); a string was expected", at: value)
    return nil
  }

  private mutating func number(_ value: JSONValue, key: String, in range: ClosedRange<Double>) -> Double? {
    if let number = value.number?.double, range.contains(number) { return number }
    error(
      "bad-value", key: key,
      "is \(value.described); a number from \(JSONWriter.seconds(range.lowerBound)) to \(JSONWriter.seconds(range.upperBound)) was expected",
      at: value)
    return nil
  }

  private mutating func whole(_ value: JSONValue, key: String, in range: ClosedRange<Int>) -> Int? {
    if let number = value.number?.int.flatMap({ Int(exactly: $0) }), range.contains(number) { return number }
    error(
      "bad-value", key: key,
      "is \(value.described); a whole number from \(range.lowerBound) to \(range.upperBound), or null for no limit, was expected",
      at: value)
    return nil
  }

  private mutating func error(
    _ kind: String, key: String, _ message: @autoclosure () -> String, at value: JSONValue
  ) {
    add(kind, key: key, message(), at: value.range.lowerBound)
  }

  /// Adds a finding while there are not too many. What it costs is made only then.
  private mutating func add(
    _ kind: String, key: String, _ message: @autoclosure () -> String, at offset: Int
  ) {
    guard findings.count < Limits.findingsPerDefinition else { return }
    findings.append(Finding(.error, kind, key: key, message(), at: offset, in: document))
  }
}
