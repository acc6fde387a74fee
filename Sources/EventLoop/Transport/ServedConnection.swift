// Why: a socket changes its form while it lives (arrived, HTTP/1.1 or HTTP/2, saying goodbye); the server's list and its
// sweep only need these three things of whatever it is now.

protocol ServedConnection: AnyObject {
  /// Called by the server's sweep, some times a second: deadlines that have passed take effect.
  func check(_ now: Double)
  /// The server accepts no more: whoever rests leaves, whoever is served may finish.
  func drain()
  /// Closes now, whatever is pending.
  func abort()
}
