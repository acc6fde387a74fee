import BroadcastChannels
import Testing

@testable import BroadcastServer

/// What a hub answers whose store takes no time.
extension Hub {
  func created(_ definition: ChannelDefinition) throws -> ChannelRoom {
    var created: Result<ChannelRoom, AnswerError>?
    create(definition) { created = $0 }
    return try #require(created).get()
  }

  @discardableResult
  func published(
    _ payload: Result<Payload, Refusal>, requestID: RequestID? = nil, priority: Priority = .immediate,
    expiration: Expiration = .once, into room: ChannelRoom
  ) throws -> Publication {
    var published: Result<Publication, AnswerError>?
    publish(payload, requestID: requestID, priority: priority, expiration: expiration, into: room) {
      published = $0
    }
    return try #require(published).get()
  }
}
