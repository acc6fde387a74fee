import BroadcastChannels
import EventLoop
import Foundation
import LiveActivities
import SubscriberProtocol

/// The state file of a device: read once, written whole and at once (a new file takes the old one's place), at most once a
/// second, and at the end.
final class DeviceFile {
  let path: String
  private var written: Data?
  private var timer: LoopTimer?

  init(path: String) { self.path = path }

  /// What the file holds; nil when there is none yet.
  ///
  /// - Throws: why it can't be read. The file is left as it is.
  func read() throws(CommandFailure) -> (device: DeviceSnapshot, tokens: [PushRegistration])? {
    guard FileManager.default.fileExists(atPath: path) else { return nil }
    let data = Data(try Files.read(path))
    struct Format: Decodable { let format: Int }
    let decoder = JSONDecoder()
    decoder.dateDecodingStrategy = .secondsSince1970
    if let format = try? decoder.decode(Format.self, from: data).format,
      format > DeviceSnapshot.currentFormat
    {
      throw refused(.newerFormat(format))
    }
    do {
      let state = try decoder.decode(State.self, from: data)
      written = data
      return (state.device, (state.pushTokens ?? []).compactMap(\.registration))
    } catch let error as DecodingError {
      throw refused(.broken(Self.text(error)))
    } catch {
      throw refused(.broken("\(error)"))
    }
  }

  /// The failure for a file that doesn't make a device.
  func refused(_ problem: DeviceSnapshot.Problem) -> CommandFailure {
    switch problem {
    case .newerFormat(let format):
      CommandFailure(
        "\(path) has format \(format), which a newer Touchline wrote; this one reads up to "
          + "\(DeviceSnapshot.currentFormat). The file is unchanged; take another --device file, or a newer Touchline"
      )
    case .broken(let what):
      CommandFailure(
        "\(path) is no device's state: \(what). The file is unchanged; mend it, or take another --device file"
      )
    }
  }

  private static func text(_ error: DecodingError) -> String {
    switch error {
    case .keyNotFound(let key, _): "\"\(key.stringValue)\" is missing"
    case .typeMismatch(_, let context), .valueNotFound(_, let context), .dataCorrupted(let context):
      context.codingPath.isEmpty
        ? "it is not JSON"
        : "\(context.codingPath.map(\.stringValue).joined(separator: ".")): \(context.debugDescription)"
    @unknown default: "\(error)"
    }
  }

  /// Writes the device within a second.
  func save(
    soon loop: EventLoop, _ state: @escaping () -> (Device, [PushRegistration])?,
    failed: @escaping (String) -> Void
  ) {
    guard timer == nil else { return }
    timer = loop.schedule(after: 1) { [self] in
      timer = nil
      guard let (device, tokens) = state() else { return }
      do throws(CommandFailure) { try save(device, tokens) } catch { failed(error.message) }
    }
  }

  /// Writes the device, if it differs from what is written.
  func save(_ device: Device, _ tokens: [PushRegistration] = []) throws(CommandFailure) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    encoder.dateEncodingStrategy = .secondsSince1970
    do {
      let state = State(
        device: DeviceSnapshot(device), pushTokens: tokens.isEmpty ? nil : tokens.compactMap(State.Token.init)
      )
      let data = try encoder.encode(state)
      guard data != written else { return }
      try data.write(to: URL(fileURLWithPath: path), options: .atomic)
      if !tokens.isEmpty {
        // Who reads a token's secret can take the token away.
        try FileManager.default.setAttributes([.posixPermissions: 0o600], ofItemAtPath: path)
      }
      written = data
    } catch {
      throw CommandFailure("\(path) can't be written; is its folder there, and may this user write in it?")
    }
  }
}

/// What the file holds: the device's snapshot, and beside its members the push tokens.
private struct State: Codable {
  let device: DeviceSnapshot
  let pushTokens: [Token]?

  /// A token with its secret, by which the device takes it up again.
  struct Token: Codable {
    let kind: PushToken.Kind
    let app: String
    let activity: String?
    let attributesType: String?
    let frequentUpdates: Bool
    let token: String
    let secret: String

    init?(_ registration: PushRegistration) {
      guard let kept = registration.kept else { return nil }
      kind = registration.kind
      app = registration.app.identifier
      activity = registration.activity
      attributesType = registration.attributesType
      frequentUpdates = registration.frequentUpdates
      token = kept.token.hex
      secret = kept.secret
    }

    /// nil for a token that can't be one: the device then asks for a new one.
    var registration: PushRegistration? {
      guard let app = BundleID(app), let token = PushToken(token) else { return nil }
      return PushRegistration(
        kind: kind, app: app, activity: activity, attributesType: attributesType,
        frequentUpdates: frequentUpdates, kept: KeptPushToken(token: token, secret: secret))
    }
  }

  private enum Keys: String, CodingKey { case pushTokens }

  init(device: DeviceSnapshot, pushTokens: [Token]?) {
    self.device = device
    self.pushTokens = pushTokens
  }

  init(from decoder: any Decoder) throws {
    device = try DeviceSnapshot(from: decoder)
    pushTokens = try decoder.container(keyedBy: Keys.self).decodeIfPresent([Token].self, forKey: .pushTokens)
  }

  func encode(to encoder: any Encoder) throws {
    try device.encode(to: encoder)
    var container = encoder.container(keyedBy: Keys.self)
    try container.encodeIfPresent(pushTokens, forKey: .pushTokens)
  }
}
