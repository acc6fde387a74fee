import BroadcastChannels

/// Whether the server should get work, for `GET /readyz`. A server that is starting listens nowhere, so that nobody needs to
/// be told.
struct Readiness {
  /// Why it should not.
  struct Obstacle {
    /// A short fixed name.
    let reason: String
    /// What is the matter.
    let message: String
  }

  /// Looks whether something is in the way; each is asked with every request.
  private var checks: [() -> Obstacle?] = []

  mutating func add(_ check: @escaping () -> Obstacle?) { checks.append(check) }

  /// Everything that is in the way.
  var obstacles: [Obstacle] { checks.compactMap { $0() } }

  /// The status and the body of an answer.
  var answer: (status: Int, body: String) {
    let obstacles = obstacles
    guard !obstacles.isEmpty else { return (200, "{\"status\":\"ready\"}") }
    let reasons = obstacles.map {
      JSONWriter.object(["reason": JSONWriter.quoted($0.reason), "message": JSONWriter.quoted($0.message)])
    }
    return (503, "{\"status\":\"not-ready\",\"reasons\":[\(reasons.joined(separator: ","))]}")
  }
}
