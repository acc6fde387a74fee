import Testing

@testable import BroadcastChannels

/// The documented numbers and codes. Source: facts/broadcast-api.md and facts/live-activity.md.
@Suite struct LimitsTests {
  @Test func `Apple's documented limits are kept`() {
    #expect(Limits.broadcastPayloadBytes == 5_120 && Limits.activityStateBytes == 4_096)
    #expect(Limits.channelsPerApp == 10_000)
    // 8 hours are 28,800 s, 4 hours 14,400 s.
    #expect(Limits.storedMessageSeconds == 28_800 && Limits.activityLifetimeSeconds == 28_800)
    #expect(Limits.endedCardSeconds == 14_400)
  }

  @Test func `the latest date is the last second of the year 9999`() {
    // 9999-12-31 23:59:59 UTC: `date -u -d @253402300799`.
    #expect(Limits.latestUnixSeconds == 253_402_300_799)
  }

  @Test(
    arguments: [
      "FeatureNotEnabled", "MissingChannelId", "BadChannelId", "ChannelNotRegistered", "BadRequestParams",
      "BadRequestPayload", "PayloadEmpty", "BadMessageId", "MissingPushType", "InvalidPushType",
      "CannotCreateChannelConfig", "BadExpirationDate", "TopicDisallowed", "BadPriority",
    ])
  func `every documented 400 of the channel API has its code`(code: String) {
    #expect(RefusalReason(rawValue: code)?.status == 400)
  }
}
