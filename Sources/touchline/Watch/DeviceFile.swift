import EventLoop
import Foundation
import LiveActivities

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
  func read() throws(CommandFailure) -> DeviceSnapshot? {
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
      let snapshot = try decoder.decode(DeviceSnapshot.self, from: data)
      written = data
      return snapshot
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
  func save(soon loop: EventLoop, _ device: @escaping () -> Device, failed: @escaping (String) -> Void) {
    guard timer == nil else { return }
    timer = loop.schedule(after: 1) { [self] in
      timer = nil
      do throws(CommandFailure) { try save(device()) } catch { failed(error.message) }
    }
  }

  /// Writes the device, if it differs from what is written.
  func save(_ device: Device) throws(CommandFailure) {
    let encoder = JSONEncoder()
    encoder.outputFormatting = [.prettyPrinted, .sortedKeys, .withoutEscapingSlashes]
    encoder.dateEncodingStrategy = .secondsSince1970
    do {
      let data = try encoder.encode(DeviceSnapshot(device))
      guard data != written else { return }
      try data.write(to: URL(fileURLWithPath: path), options: .atomic)
      written = data
    } catch {
      throw CommandFailure("\(path) can't be written; is its folder there, and may this user write in it?")
    }
  }
}
