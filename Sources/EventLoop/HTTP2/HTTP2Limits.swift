// Why: nearly every frame of HTTP/2 is cheap to send and costs the server something: an acknowledgement, a lookup, a stream
// (CVE-2019-9511 to 9518, CVE-2023-44487 "rapid reset", CVE-2024-28182 "CONTINUATION flood"). Honest clients send few of each,
// so each has an allowance; whoever exceeds one is told ENHANCE_YOUR_CALM and loses the connection.

/// So many at once, and so many a second in the long run.
public struct FrameAllowance: Sendable, Equatable {
  /// How many may come at once; at least 1.
  public var burst: Double
  /// How many more each second allows.
  public var perSecond: Double

  /// Makes an allowance.
  public init(burst: Double, perSecond: Double) {
    self.burst = burst
    self.perSecond = perSecond
  }
}

/// The bounds of HTTP/2 connections. Those of requests (`maxHeaderBytes`, `maxBodyBytes`, `handshakeTimeout`, and `idleTimeout` for
/// answers that are not read) are shared with HTTP/1.1.
public struct HTTP2Limits: Sendable, Equatable {
  /// Streams a client may have open (SETTINGS_MAX_CONCURRENT_STREAMS): RFC 9113 section 6.5.2 advises at least 100, and the
  /// senders of pushes use as many as they get.
  public var maxConcurrentStreams: UInt32 = 256
  /// Bytes of bodies that are not complete yet, for all streams of a connection (its flow-control window; at least 65,535).
  /// 200 bodies of 5 KB: enough for every stream to move, little enough that thousands of connections fit in memory.
  public var maxBufferedBodyBytes: Int32 = 1_048_576
  /// Bytes of answers that a connection's client gives no credit for. Beyond them no further request is looked at; the last one
  /// looked at may exceed them. Eight of the longest common answers.
  public var maxWaitingAnswerBytes = 2_097_152
  /// Seconds a connection without streams lasts. Senders keep theirs open between pushes, some with a PING each minute; every
  /// frame begins the time anew.
  public var idleTimeout = 600.0
  /// SETTINGS: one at the start and rarely a second; each must be acknowledged.
  public var settings = FrameAllowance(burst: 20, perSecond: 0.2)
  /// PING: keep-alives come once a minute, bandwidth probes some times a second; each must be acknowledged.
  public var pings = FrameAllowance(burst: 60, perSecond: 5)
  /// RST_STREAM in either direction: a client that cancels everything it had open, and no more than that, again and again.
  public var resets = FrameAllowance(burst: 300, perSecond: 30)
  /// WINDOW_UPDATE, PRIORITY and empty DATA; unknown frames are skipped unseen and cost nothing. Each request, and each DATA frame that the server sends, allows four
  /// more.
  public var idleFrames = FrameAllowance(burst: 1_000, perSecond: 100)
  /// Acknowledgements that may wait to be read by the client.
  public var maxPendingAcknowledgements = 200

  /// Limits with the defaults stated at each property.
  public init() {}
}

/// A bucket of an allowance.
struct FrameBucket {
  private let allowance: FrameAllowance
  private var level: Double
  private var filled: Double

  init(_ allowance: FrameAllowance, now: Double) {
    self.allowance = allowance
    level = allowance.burst
    filled = now
  }

  /// Takes one; `false` when none is left.
  mutating func take(now: Double) -> Bool {
    level = min(allowance.burst, level + max(0, now - filled) * allowance.perSecond)
    filled = now
    guard level >= 1 else { return false }
    level -= 1
    return true
  }

  mutating func add(_ count: Double) { level = min(allowance.burst, level + count) }
}

/// Counts the frames of one connection that do no work.
struct FloodGuard {
  private var settings: FrameBucket
  private var pings: FrameBucket
  private var resets: FrameBucket
  private var idleFrames: FrameBucket

  init(_ limits: HTTP2Limits, now: Double) {
    settings = FrameBucket(limits.settings, now: now)
    pings = FrameBucket(limits.pings, now: now)
    resets = FrameBucket(limits.resets, now: now)
    idleFrames = FrameBucket(limits.idleFrames, now: now)
  }

  /// What a frame is to the guard.
  enum Kind {
    case settings
    case ping
    case reset
    case idle
  }

  /// `false`: it is one too many.
  mutating func allows(_ kind: Kind, now: Double) -> Bool {
    switch kind {
    case .settings: settings.take(now: now)
    case .ping: pings.take(now: now)
    case .reset: resets.take(now: now)
    case .idle: idleFrames.take(now: now)
    }
  }

  /// A request came, or DATA went out: window updates and priorities belong to these.
  mutating func worked() { idleFrames.add(4) }
}
