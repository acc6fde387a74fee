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
      if case .channel(_, .publish(let publish)) = frame.subject,
        case .success(let payload) = publish.payload
      {
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
    switch frame.subject {
    case .channel(let channel, let request): written(request, channel, frame.requestID)
    case .device(let request): written(request, frame.requestID)
    }
  }

  private static func written(
    _ request: ClientFrame.Request, _ channel: String, _ id: RequestID?
  ) -> [UInt8]? {
    switch request {
    case .subscribe(let since): return ClientFrame.subscribe(channel, since: since)
    case .unsubscribe: return ClientFrame.unsubscribe(channel)
    case .acknowledge(let sequence, let displayed, let stale):
      return ClientFrame.acknowledge(channel, sequence: sequence, displayed: displayed, stale: stale)
    case .intent(let action):
      return ClientFrame.intent(channel, action: action, intentID: id?.text ?? "")
    case .listen: return ClientFrame.listen(channel)
    case .publish(let publish):
      guard let id, case .success(let payload) = publish.payload else { return nil }
      return ClientFrame.publish(
        channel, aps: payload.aps, priority: publish.priority, expiration: seconds(publish.expiration),
        requestID: id)
    }
  }

  private static func written(_ request: DeviceRequest, _ id: RequestID?) -> [UInt8]? {
    switch request {
    case .register(let registration): id.map { ClientFrame.register(registration, requestID: $0) }
    case .rotate(let token): id.map { ClientFrame.rotate(token, requestID: $0) }
    case .unregister(let token, let reason): ClientFrame.unregister(token, reason: reason)
    case .acknowledge(let token, let uniqueID, let isDisplayed):
      ClientFrame.acknowledge(token, uniqueID: uniqueID, isDisplayed: isDisplayed)
    }
  }

  private static func seconds(_ expiration: Expiration) -> Int64 {
    switch expiration {
    case .once: 0
    case .at(let seconds): seconds
    }
  }

  private static func isSame(_ a: ClientFrame, _ b: ClientFrame) -> Bool {
    switch (a.subject, b.subject) {
    case (.channel(let channel, let one), .channel(let same, let other)):
      channel.utf8.elementsEqual(same.utf8) && isSame(one, other)
    case (.device(let one), .device(let other)): isSame(one, other)
    default: false
    }
  }

  private static func isSame(_ a: ClientFrame.Request, _ b: ClientFrame.Request) -> Bool {
    switch (a, b) {
    case (.subscribe(let a), .subscribe(let b)): return a == b
    case (.unsubscribe, .unsubscribe), (.listen, .listen): return true
    case (.acknowledge(let one), .acknowledge(let other)): return one == other
    case (.intent(let one), .intent(let other)): return one == other
    case (.publish(let one), .publish(let other)):
      guard case .success(let first) = one.payload, case .success(let second) = other.payload else {
        return false
      }
      return one.priority == other.priority && one.expiration == other.expiration && first.aps == second.aps
    default: return false
    }
  }

  private static func isSame(_ a: DeviceRequest, _ b: DeviceRequest) -> Bool {
    switch (a, b) {
    case (.register(let a), .register(let b)): a == b
    case (.rotate(let a), .rotate(let b)): a == b
    case (.unregister(let a, let why), .unregister(let b, let because)): a == b && why == because
    case (.acknowledge(let a, let id, let shown), .acknowledge(let b, let same, let again)):
      a == b && id == same && shown == again
    default: false
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
