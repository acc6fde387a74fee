import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// What goes out to the client, now or when the connection has room again.
extension Receiver {
  /// Takes the channel's stored message, which comes with a subscription.
  func deliver(stored broadcast: Broadcast) {
    let sequence = broadcast.frame.position.sequence
    guard change(broadcast.frame.channel, { $0.receipts.sent(stored: sequence) }) != nil else { return }
    deliver(broadcast)
  }

  func deliver(_ broadcast: Broadcast) {
    guard let connection else { return }
    let bytes = connection.kind == .webSocket ? broadcast.frame.bytes : broadcast.event
    enqueue(bytes, broadcast)
  }

  func deliver(_ pass: FanOutPass, from next: Int, taken: Int) {
    guard let connection else { return }
    var broadcasts = pass.broadcasts.dropFirst(next - pass.numbers.lowerBound)
    if taken == 0, broadcasts.count == pass.broadcasts.count, broadcasts.count > 1,
      connection.kind == .webSocket, more?.outbox.isEmpty != false, connection.send(pass.message)
    {
      for broadcast in broadcasts { broadcast.countWritten() }
      return
    }
    // Of what the socket began to take, whole frames are done; the one that was cut is the connection's from now on.
    var taken = taken
    while taken > 0, let broadcast = broadcasts.popFirst() {
      let frame = broadcast.frame.bytes
      if taken < frame.count { connection.finish(frame, from: taken) }
      broadcast.countWritten()
      taken = max(0, taken - frame.count)
    }
    for broadcast in broadcasts { deliver(broadcast) }
  }

  func push(_ push: OutgoingPush) { enqueue(push.frame, push: push) }

  func send(_ frame: ServerFrame) {
    guard let connection else { return }
    switch connection.kind {
    case .webSocket: send(OutgoingBytes(webSocketText: frame.text))
    case .eventStream:
      if case .goodbye(let retryIn) = frame {
        return send(OutgoingBytes(raw: EventStreamText.retry(after: retryIn)))
      }
      let name = if case .subscribed = frame { "subscribed" } else { "unsubscribed" }
      send(OutgoingBytes(raw: EventStreamText.event(name, id: nil, data: frame.text)))
    }
  }

  /// An answer of the session.
  func send(_ bytes: OutgoingBytes) { enqueue(bytes) }

  func enqueue(_ bytes: OutgoingBytes, _ broadcast: Broadcast? = nil, push: OutgoingPush? = nil) {
    guard let connection, connection.isOpen else { return }
    if more?.outbox.isEmpty != false, connection.send(bytes) {
      broadcast?.countWritten()
      if let push { owner?.pushed(push.uniqueID, .written) }
      return
    }
    let more = makeMore()
    more.stalledSince = more.stalledSince ?? sweep.now
    let waiting = Waiting(bytes: bytes, broadcast: broadcast, push: push)
    let added = more.outbox.append(
      waiting, size: bytes.count, channel: broadcast?.frame.channel ?? push?.inbox,
      isIrreplaceable: broadcast?.frame.isIrreplaceable ?? push?.isIrreplaceable ?? true)
    if let replaced = added.replaced?.push { owner?.pushed(replaced.uniqueID, .superseded) }
    if let replaced = added.replaced?.broadcast {
      _ = change(replaced.frame.channel) { $0.receipts.conflated(replaced.frame.position.sequence) }
      replaced.ledger.conflated(1)
    }
    guard added.fits else {
      connection.close(code: 1013, reason: CloseCode.tooSlow)
      return
    }
  }

  func keepAlive() {
    guard let connection, connection.isOpen else { return }
    switch connection.kind {
    case .webSocket: connection.ping()
    case .eventStream:
      if more?.outbox.isEmpty != false { enqueue(OutgoingBytes(raw: EventStreamText.keepAlive)) }
    }
  }
}
