import BroadcastChannels
import EventLoop
import SubscriberProtocol

/// What the main loop tells a delivery loop. Values only; they are carried out in their order.
enum DeliveryOrder: Sendable {
  /// A session's connection belongs to the loop from now on. Sessions are known by number.
  case adopt(Int, DetachedSocket)
  case session(Int, SessionOrder)
  /// A message for all of a channel's subscribers on the loop.
  case broadcast(BroadcastFrame)
  /// A channel is deleted: what waits goes out now.
  case closeChannel(ChannelID)
  /// What waits in all channels goes out now.
  case finishFanOut
  /// The loop tells what it has counted, and answers with the number.
  case report(Int)
  /// Silent peers are found by other times from now on.
  case keepAlive(KeepAlive)
  /// The loop ends, whatever is open.
  case stop
}

/// What a session tells its receiver, see ``DeliveryLine``.
enum SessionOrder: Sendable {
  case join(ChannelID, alias: String?, sequence: Int)
  case leave(ChannelID, isForgotten: Bool)
  case catchUp(ChannelID)
  case catchUpPublisher(ChannelID)
  case stored(BroadcastFrame)
  case acknowledge(Acknowledgement, of: ChannelID)
  case push(OutgoingPush)
  case send(OutgoingBytes)
  case close(code: UInt16, reason: String)
  case closeWhenSent(code: UInt16, reason: String)
  case handled
}

/// What a delivery loop tells the main loop.
enum DeliveryEvent: Sendable {
  /// A client said something that its session must deal with.
  case received(Int, Result<ClientFrame, FrameError>, bytes: Int)
  /// A session's connection is gone.
  case closed(Int, code: UInt16?)
  case pushed(Int, UniqueID, PushFate)
  /// What was counted for a channel since the last time.
  case counted(ChannelID, DeliverySums)
  /// Everything that was counted before ``DeliveryOrder/report(_:)`` has been told.
  case reported(Int)
}
