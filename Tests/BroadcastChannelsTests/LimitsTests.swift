import Testing

@testable import BroadcastChannels
