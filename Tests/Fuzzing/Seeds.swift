import BroadcastChannels
import Foundation
import SubscriberProtocol

/// What fuzzing begins with: the repository's own channels and scripts, and a text of each kind by hand.
struct Seeds {
  let repository: String

  /// Writes a target's seeds, each into a file of its own.
  func write(_ target: FuzzTarget, to folder: String) throws {
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    for (number, seed) in try seeds(target.name).enumerated() {
      try Data(seed).write(to: URL(fileURLWithPath: "\(folder)/seed-\(number)"))
    }
  }

  private func seeds(_ name: String) throws -> [[UInt8]] {
    if let seeds = CredentialTargets.seeds(name) { return seeds }
    return switch name {
    case "json", "json-comments":
      texts(
        #"{"a": [1, -2.5e+3, "x\u00e9\ud83d\ude00\n", null, true, {}], "b": {"c": 0.1}}"#, "[]", "7", #""""#,
        "// line\n{/* block */}", "[[[[[[]]]]]]")
    case "payload", "device-payload": bodies
    case "client-frame": clientFrames
    case "server-frame": serverFrames
    case "definition": try channels(".json")
    case "template", "type": templates
    case "script": try channels(".jsonl") + texts(#"{"channel":"final"}"# + "\n" + step)
    case "openfootball": [Array(openFootball.utf8)]
    case "configuration":
      texts(
        #"{"listen": "[::1]:0", "store": "memory", "channels": "Channels", // all"# + "\n"
          + #" "ping-seconds": 1.5, "silence-seconds": 60, "log-level": "debug"}"#)
    case "http-head": heads
    case "http2-head":
      texts(
        ":method: POST\n:path: /v1/x?a=1\n:scheme: https\n:authority: h\napns-priority: 10\ncookie: a\ncookie: b"
      )
    case "http-body": [[0, 3], [0, 0], [140, 5]].map { $0 + chunks }
    case "event-stream":
      texts("\u{4}id: e:1\nevent: message\r\ndata: {}\rdata: x\n\n: comment\n\nretry: 1\n\n")
    case "url": texts("http://127.0.0.1:8080/v1/x?y=1#z", "ws://[::1]:9/", "http://h")
    case "durations": texts("90", "1.5m", "250ms", "-4h", "1:02:03.5", "45:00", "1d")
    case "redaction":
      texts(
        "bearer eyJhbGciOiJFUzI1NiIsImtpZCI6IkFCQzEyMzRERUYifQ.eyJpc3MiOiJURUFNMTIzNDU2In0.c2lnbmF0dXJl",
        "/3/device/\(String(repeating: "0123456789abcdef", count: 4))", "2288cf3f-70d8-46a6-97d7-dd5d00867127"
      )
    case "request-query": texts("limit=10&after=e:1&status=4xx,200&channel=final&app=com.example.scores")
    default:
      texts(
        "1ad14sbejh6yc:12", "NM2Pkgbowhu92K7e9R4esQ==", "world-cup-final-2022", "com.example.scores",
        "2288cf3f-70d8-46a6-97d7-dd5d00867127", "http://127.0.0.1:8080", "[::1]:8080", ":0")
    }
  }

  private func texts(_ texts: String...) -> [[UInt8]] { texts.map { Array($0.utf8) } }

  private func channels(_ ending: String) throws -> [[UInt8]] {
    let folder = "\(repository)/Channels"
    return try FileManager.default.contentsOfDirectory(atPath: folder).sorted()
      .filter { $0.hasSuffix(ending) }
      .compactMap { FileManager.default.contents(atPath: "\(folder)/\($0)").map(Array.init) }
      // A longer seed is mutated at places that all mean the same.
      .map { Array($0.prefix(8_192)) }
  }

  // MARK: Payloads and frames

  private let aps =
    #"{"timestamp":1796043600,"event":"update","content-state":{"home":1,"away":0,"clock":"23′","names":["a"],"nested":{}},"stale-date":1796043700,"relevance-score":50.5,"alert":{"title":"Goal","body":{"loc-key":"GOAL","loc-args":["1"]},"sound":"default"}}"#
  private let end = #"{"event":"end","timestamp":1796043600,"dismissal-date":1796044000}"#
  private let id = "2288cf3f-70d8-46a6-97d7-dd5d00867127"

  private let token = String(repeating: "0123456789abcdef", count: 4)
  private let start =
    #"{"timestamp":1796043600,"event":"start","attributes-type":"A","attributes":{"home":"Spain"},"content-state":{"home":0},"alert":{"title":"x","body":"y"},"input-push-channel":"final"}"#

  private var bodies: [[UInt8]] {
    texts(
      "{\"aps\":\(start)}", "{\"aps\":\(aps)}", "{\"aps\": \(end), \"other\": 1}",
      #"{"aps":{"event":"start","attributes-type":"A"}}"#,
      #"{"aps":{"timestamp":1e3,"event":"update","state-date":0,"content-state":{"kickoff":1796043600}}}"#)
  }

  private var clientFrames: [[UInt8]] {
    let position = StreamPosition(epoch: "1ad14sbejh6yc", sequence: 12)
    var frames = [
      ClientFrame.subscribe("final", since: nil), ClientFrame.subscribe("final", since: position),
      ClientFrame.unsubscribe("final"),
      ClientFrame.acknowledge("final", sequence: 3, displayed: [1, 3], stale: 1),
      ClientFrame.intent("final", action: "follow", intentID: id), ClientFrame.listen("final"),
      Array(#"{"type":"publish","channel":"final","priority":5,"expiration":0,"aps":{}}"#.utf8),
    ]
    frames += texts(
      #"{"type":"register","kind":"update","app":"com.example.scores","activity":"a","frequent-updates":true,"token":"\#(token)","secret":"s","request-id":"\#(id)"}"#,
      #"{"type":"rotate","token":"\#(token)","request-id":"\#(id)"}"#,
      #"{"type":"unregister","token":"\#(token)","reason":"ended"}"#,
      #"{"type":"ack-push","token":"\#(token)","unique-id":"\#(id)","displayed":true}"#)
    if let request = RequestID(id) {
      frames.append(
        ClientFrame.publish(
          "final", aps: Array(aps.utf8), priority: .immediate, expiration: 1_796_050_000, requestID: request))
    }
    return frames
  }

  private var serverFrames: [[UInt8]] {
    let channel = "NM2Pkgbowhu92K7e9R4esQ=="
    let position = StreamPosition(epoch: "1ad14sbejh6yc", sequence: 12)
    let frames: [ServerFrame] = [
      .subscribed(
        SubscribedFrame(
          channel: channel, alias: "final", position: position, storagePolicy: .latest, requestID: id)),
      .published(
        PublishedFrame(
          channel: channel, requestID: id, uniqueID: id, outcome: .windowed,
          budget: JSONText(compacting: #"{"priority-10":null}"#.utf8), isRepetition: true)),
      .acknowledged(channel: channel, sequence: 3, requestID: nil),
      .listening(channel: channel, requestID: id),
      .intentAccepted(channel: channel, intentID: id, isRepetition: false),
      .intent(
        IntentFrame(
          channel: channel, action: "follow", property: "followed", value: JSONText(compacting: "true".utf8),
          intentID: id)),
      .error(ErrorFrame(reason: "TooManyRequests", message: "wait", channel: channel, retryAfter: 1.5)),
      .unsubscribed(channel: channel, reason: "deleted", requestID: nil),
    ]
    let message =
      #"{"type":"message","channel":"\#(channel)","epoch":"e","seq":1,"unique-id":"\#(id)","priority":10,"sent":1796043600.5,"aps":\#(aps)}"#
    return frames.map(\.text) + texts(message, #"{"type":"news"}"#)
  }

  // MARK: Files

  private let step =
    #"{"at":"45:00","event":"update","priority":5,"content-state":{"home":1},"stale-in":"2m","dismiss-in":"1h","expires-in":60,"timestamp-shift":-5,"relevance-score":1,"alert":{"title":"x","body":"y"}}"#

  private let openFootball = #"""
    {"name": "World Cup 2022", "matches": [{"round": "Final", "date": "2022-12-18", "team1": "Argentina",
     "team2": {"name": "France", "code": "FRA"}, "score": {"ft": [2, 2], "ht": [2, 0], "et": [3, 3], "p": [4, 2]},
     "goals1": [{"name": "Messi", "minute": 23, "penalty": true}, {"name": "Di María", "minute": "36"},
      {"name": "Messi", "minute": 108}], "goals2": [{"name": "Mbappé", "minute": "80"},
      {"name": "Mbappé", "minute": 81}, {"name": "Mbappé", "minute": 118, "offset": 1, "owngoal": false}],
     "ground": "Lusail"}], "rounds": [{"name": "R", "matches": [{"team1": "A", "team2": "B", "score1": 1, "score2": 0,
     "goals": [{"team": 1, "name": "x", "minute": "45+2"}]}]}]}
    """#

  private var templates: [[UInt8]] {
    texts(
      "{home} – {away}", "{home|number:3} {kickoff|timer} {kickoff|relative}\n{?clock}{clock}{:}none{/}",
      "{attributes.s} {o.p.q|number}{?yes}{?no}a{:}b{/}{/}", "[String: [Int?]]", "Date?")
  }

  // MARK: HTTP

  private var heads: [[UInt8]] {
    texts(
      "POST /4/broadcasts/apps/com.example.scores?a=1&b=%20+c HTTP/1.1\r\nhost: x\r\napns-priority: 10\r\ncontent-length: 5",
      "GET http://h/v1/channels/a%2Fb/events HTTP/1.0\r\nAccept: text/event-stream",
      "PUT * HTTP/1.1\r\nHost: h\r\nTransfer-Encoding: chunked\r\nExpect: 100-continue\r\nConnection: close, upgrade"
    )
  }

  private let chunks = Array("5;x=y\r\nhello\r\nA\r\n0123456789\r\n0\r\ntrailer: t\r\n\r\nnext".utf8)
}
