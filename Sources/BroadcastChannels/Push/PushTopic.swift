/// What `apns-topic` names on a push to one device: the app, with the suffix of Live Activities.
///
/// Channel and broadcast paths have the bare bundle id and refuse the suffix; here it is required (Apple).
public struct PushTopic: Sendable, Hashable {
  /// What follows the bundle id.
  public static let suffix = ".push-type.liveactivity"

  /// The app.
  public let app: BundleID

  /// Reads the header's value.
  ///
  /// - Throws: ``RefusalReason/badTopic``.
  public init(_ text: String) throws(Refusal) {
    guard text.hasSuffix(Self.suffix), let app = BundleID(String(text.dropLast(Self.suffix.count))),
      !app.hasPushTypeSuffix
    else {
      let hint =
        BundleID(text).map { $0.hasPushTypeSuffix ? "" : "; the suffix is missing" } ?? ""
      throw Refusal(
        .badTopic,
        "apns-topic is \"\(text.prefix(60))\"; <bundle-id>\(Self.suffix) was expected\(hint)")
    }
    self.app = app
  }
}
