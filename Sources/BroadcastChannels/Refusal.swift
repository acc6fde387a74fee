/// Why a request is refused: the API's own codes and their statuses.
///
/// Source: Apple, "Handling error responses from APNs" and "Sending channel management requests to APNs".
public enum RefusalReason: String, Sendable, CaseIterable {
  case featureNotEnabled = "FeatureNotEnabled"
  case missingChannelID = "MissingChannelId"
  case badChannelID = "BadChannelId"
  case channelNotRegistered = "ChannelNotRegistered"
  case badRequestParams = "BadRequestParams"
  case badRequestPayload = "BadRequestPayload"
  case payloadEmpty = "PayloadEmpty"
  case badMessageID = "BadMessageId"
  case missingPushType = "MissingPushType"
  case invalidPushType = "InvalidPushType"
  case cannotCreateChannelConfig = "CannotCreateChannelConfig"
  case badExpirationDate = "BadExpirationDate"
  case topicDisallowed = "TopicDisallowed"
  case badPriority = "BadPriority"
  case badDeviceToken = "BadDeviceToken"
  case deviceTokenNotForTopic = "DeviceTokenNotForTopic"
  case missingTopic = "MissingTopic"
  case badTopic = "BadTopic"
  case badCollapseID = "BadCollapseId"
  case badCertificate = "BadCertificate"
  case badCertificateEnvironment = "BadCertificateEnvironment"
  case topicMismatch = "TopicMismatch"
  case missingProviderToken = "MissingProviderToken"
  case expiredProviderToken = "ExpiredProviderToken"
  case invalidProviderToken = "InvalidProviderToken"
  case badPath = "BadPath"
  case methodNotAllowed = "MethodNotAllowed"
  case payloadTooLarge = "PayloadTooLarge"
  case unregistered = "Unregistered"
  case expiredToken = "ExpiredToken"
  case tooManyRequests = "TooManyRequests"
  case tooManyProviderTokenUpdates = "TooManyProviderTokenUpdates"
  case internalServerError = "InternalServerError"
  case serviceUnavailable = "ServiceUnavailable"
  case shutdown = "Shutdown"

  /// The HTTP status that goes with the reason.
  public var status: Int {
    switch self {
    case .badCertificate, .badCertificateEnvironment, .topicMismatch, .missingProviderToken,
      .expiredProviderToken, .invalidProviderToken:
      403
    case .badPath: 404
    case .methodNotAllowed: 405
    case .payloadTooLarge: 413
    case .unregistered, .expiredToken: 410
    case .tooManyRequests, .tooManyProviderTokenUpdates: 429
    case .internalServerError: 500
    case .serviceUnavailable, .shutdown: 503
    default: 400
    }
  }
}

/// A refused request: the API's code, and for a person what was wrong and what to do.
public struct Refusal: Error, Sendable, Hashable {
  /// The code.
  public let reason: RefusalReason
  /// What was wrong and what to do next.
  public let detail: String
  /// Seconds after which trying again can succeed, with ``RefusalReason/tooManyRequests``.
  public let retryAfter: Double?

  /// Makes a refusal.
  public init(_ reason: RefusalReason, _ detail: String, retryAfter: Double? = nil) {
    self.reason = reason
    self.detail = detail
    self.retryAfter = retryAfter
  }
}

extension Refusal: CustomStringConvertible {
  /// Code and explanation.
  public var description: String { "\(reason.rawValue): \(detail)" }
}
