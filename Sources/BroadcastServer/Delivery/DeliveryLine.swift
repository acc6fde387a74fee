import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// How a session reaches its receiver: directly, when both are on the main loop, or by orders to another one.
protocol DeliveryLine: AnyObject {
  /// The client's numeric address.
  var remoteAddress: String { get }
  /// Receives a room's channel from now on.
  func join(_ room: ChannelRoom)
  /// Receives it no longer, see ``Receiver/leave(_:isForgotten:)``.
  func leave(_ room: ChannelRoom, isForgotten: Bool)
  /// Takes what was published in it before now and has not reached it yet.
  func catchUp(_ room: ChannelRoom)
  /// The same for a publisher that hears its own channel, see ``ChannelShard/catchUpPublisher(at:)``.
  func catchUpPublisher(_ room: ChannelRoom)
  /// Takes the stored message that comes with a subscription.
  func deliver(stored broadcast: Broadcast)
  func acknowledge(_ acknowledgement: Acknowledgement, of channel: ChannelID)
  func push(_ push: OutgoingPush)
  func send(_ frame: ServerFrame)
  func close(code: UInt16, reason: String)
  /// Closes once everything that waits was sent.
  func closeWhenSent(code: UInt16, reason: String)
  /// A frame that the receiver passed on was dealt with.
  func handled()
  /// The connection is gone, and its part in these channels with it.
  func ended(_ rooms: [ChannelRoom])
}

extension Receiver: DeliveryLine {
  var remoteAddress: String { connection?.remoteAddress ?? "" }

  func join(_ room: ChannelRoom) { join(room.shard, at: room.seen.position.sequence) }

  func leave(_ room: ChannelRoom, isForgotten: Bool) { leave(room.id, isForgotten: isForgotten) }

  func catchUp(_ room: ChannelRoom) { catchUp(room.id) }

  func catchUpPublisher(_ room: ChannelRoom) { catchUpPublisher(room.id) }

  func handled() {}

  func ended(_ rooms: [ChannelRoom]) {}
}

/// The line to a receiver on another loop.
final class RemoteLine: DeliveryLine {
  let remoteAddress: String
  private let number: Int
  private let loop: Int
  private unowned let loops: DeliveryLoops

  init(_ number: Int, on loop: Int, of loops: DeliveryLoops, remoteAddress: String) {
    self.number = number
    self.loop = loop
    self.loops = loops
    self.remoteAddress = remoteAddress
  }

  private func post(_ order: SessionOrder) { loops.post(.session(number, order), to: loop) }

  func join(_ room: ChannelRoom) {
    room.changeShare(of: loop, by: 1)
    post(.join(room.id, alias: room.shard.alias, sequence: room.seen.position.sequence))
  }

  func leave(_ room: ChannelRoom, isForgotten: Bool) {
    room.changeShare(of: loop, by: -1)
    post(.leave(room.id, isForgotten: isForgotten))
  }

  func catchUp(_ room: ChannelRoom) { post(.catchUp(room.id)) }

  func catchUpPublisher(_ room: ChannelRoom) { post(.catchUpPublisher(room.id)) }

  func deliver(stored broadcast: Broadcast) { post(.stored(broadcast.frame)) }

  func acknowledge(_ acknowledgement: Acknowledgement, of channel: ChannelID) {
    post(.acknowledge(acknowledgement, of: channel))
  }

  func push(_ push: OutgoingPush) { post(.push(push)) }

  func send(_ frame: ServerFrame) { post(.send(OutgoingBytes(webSocketText: frame.text))) }

  func close(code: UInt16, reason: String) { post(.close(code: code, reason: reason)) }

  func closeWhenSent(code: UInt16, reason: String) { post(.closeWhenSent(code: code, reason: reason)) }

  func handled() { post(.handled) }

  func ended(_ rooms: [ChannelRoom]) {
    for room in rooms { room.changeShare(of: loop, by: -1) }
    loops.left(loop)
  }
}
