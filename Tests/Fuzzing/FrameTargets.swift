import BroadcastChannels
import Foundation
import SubscriberProtocol

/// The frames of `touchline.v1`, as the server and as its clients read them.
enum FrameTargets {
  static let all = [
    FuzzTarget(name: "client-frame", check: clientFrame),
    FuzzTarget(name: "server-frame", check: serverFrame),
  ]

  // MARK: What a client says

  private static func clientFrame(_ bytes: [UInt8]) {
    do throws(FrameError) {
      let frame = try ClientFrame(bytes)
      guard let text = written(frame) else { return }
      guard let again = try? ClientFrame(text) else {
        return require(false, "written again, it isn't read: \(String(decoding: text, as: UTF8.self))")
      }
      require(isSame(frame, again), "written again, it says something else")
      if case .publish(let publish) = frame.request, case .success(let payload) = publish.payload {
        require(bytes.firstRange(of: payload.aps) != nil, "the aps bytes are not the publisher's")
      }
    } catch {
      guard case .refused(let frame, _) = error else { return }
      require(!frame.reason.isEmpty && !frame.message.isEmpty, "refused without a reason")
      requireReadable(.error(frame))
    }
  }

  /// The frame as a client of ours writes it; nil for one that none of ours would send.
  private static func written(_ frame: ClientFrame) -> [UInt8]? {
    switch frame.request {
    case .subscribe(let since): return ClientFrame.subscribe(frame.channel, since: since)
    case .unsubscribe: return ClientFrame.unsubscribe(frame.channel)
    case .acknowledge(let sequence, let displayed):
      return ClientFrame.acknowledge(frame.channel, sequence: sequence, displayed: displayed)
    case .intent(let action):
      return ClientFrame.intent(frame.channel, action: action, intentID: frame.requestID?.text ?? "")
    case .listen: return ClientFrame.listen(frame.channel)
    case .publish(let publish):
      guard let id = frame.requestID, case .success(let payload) = publish.payload else { return nil }
      return ClientFrame.publish(
        frame.channel, aps: payload.aps, priority: publish.priority, expiration: seconds(publish.expiration),
        requestID: id)
    }
  }

  private static func seconds(_ expiration: Expiration) -> Int64 {
    switch expiration {
    case .once: 0
    case .at(let seconds): seconds
    }
  }

  private static func isSame(_ a: ClientFrame, _ b: ClientFrame) -> Bool {
    guard a.channel.utf8.elementsEqual(b.channel.utf8) else { return false }
    switch (a.request, b.request) {
    case (.subscribe(let a), .subscribe(let b)): return a == b
    case (.unsubscribe, .unsubscribe), (.listen, .listen): return true
    case (.acknowledge(let a, let shown), .acknowledge(let b, let again)): return a == b && shown == again
    case (.intent(let one), .intent(let other)): return one == other && a.requestID == b.requestID
    case (.publish(let one), .publish(let other)):
      guard case .success(let first) = one.payload, case .success(let second) = other.payload else {
        return false
      }
      return a.requestID == b.requestID && one.priority == other.priority
        && one.expiration == other.expiration && first.aps == second.aps
    default: return false
    }
  }

  // MARK: What the server says

  private static func serverFrame(_ bytes: [UInt8]) {
    guard let frame = try? ServerFrame.read(bytes) else { return }
    requireReadable(frame)
    if case .message(let message) = frame {
      require(bytes.firstRange(of: message.payload.aps) != nil, "the aps bytes are not the publisher's")
    }
  }

  /// What is written is read, and written the same again.
  private static func requireReadable(_ frame: ServerFrame) {
    let text = frame.text
    do throws(FrameError) {
      guard let again = try ServerFrame.read(text) else { return require(false, "its type isn't known") }
      require(again.text == text, "written again, it says something else")
    } catch {
      require(false, "written, it isn't read: \(error) \(String(decoding: text, as: UTF8.self))")
    }
  }
}
