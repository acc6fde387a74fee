// Why: each frame that a client sends costs the server something, and a client that sends on and on would get more of it than
// all others. Two token buckets, of frames and of bytes, with only their levels kept for each connection: when they were filled is
// when the peer was last heard.

/// What the peer of a WebSocket may send: so much at once, and so much a second in the long run.
public struct InboundRate: Sendable, Equatable {
  /// Frames a second.
  public var framesPerSecond = 5_000.0
  /// Frames at once.
  public var frameBurst = 20_000.0
  /// Bytes a second, frames' heads included.
  public var bytesPerSecond = 8_388_608.0
  /// Bytes at once.
  public var byteBurst = 33_554_432.0

  /// A rate with the defaults stated at each property.
  public init() {}
}

/// What is left of it for one connection.
struct InboundAllowance {
  var frames: Float
  var bytes: Float

  init(_ rate: InboundRate) {
    frames = Float(rate.frameBurst)
    bytes = Float(rate.byteBurst)
  }

  var isExceeded: Bool { frames < 0 || bytes < 0 }

  mutating func refill(after seconds: Double, _ rate: InboundRate) {
    let seconds = max(0, seconds)
    frames = min(Float(rate.frameBurst), frames + Float(seconds * rate.framesPerSecond))
    bytes = min(Float(rate.byteBurst), bytes + Float(seconds * rate.bytesPerSecond))
  }
}
