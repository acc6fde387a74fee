/// Every bound of the system in one place, each with its reason and its source.
///
/// "Apple" marks a documented rule of the broadcast-channel API or of ActivityKit. "Touchline" marks a bound that
/// Apple keeps secret or doesn't have, chosen here so that no client can make another one pay.
public enum Limits {
  // MARK: Payloads

  /// Bytes of a broadcast's body. Apple: 5 KB for broadcasts; one byte more is `PayloadTooLarge`.
  public static let broadcastPayloadBytes = 5_120
  /// Bytes of a push to one device. Apple: 4 KB for Live Activities; one byte more is `PayloadTooLarge`.
  public static let devicePayloadBytes = 4_096
  /// Bytes of attributes and content state together. Apple (ActivityKit): 4 KB, encoded.
  public static let activityStateBytes = 4_096
  /// Nested arrays and objects in any JSON that is read. Touchline: a content state is a few levels deep, and the
  /// reader recurses, so the depth bounds its stack.
  public static let jsonDepth = 64

  // MARK: Channels

  /// Channels of one app. Apple: 10,000 an app and environment; one more is `CannotCreateChannelConfig`.
  public static let channelsPerApp = 10_000
  /// Random bytes in a channel id. Touchline: 128 bits, so an id can't be guessed and never comes back.
  public static let channelIDBytes = 16
  /// Decoded bytes that an id sent by a client may have. Clients must not assume a length; this bounds the look-up.
  public static let channelIDMaxBytes = 64
  /// Characters of a local alias. Touchline: a file name in `Channels/` without its ending.
  public static let aliasCharacters = 64
  /// Characters of a bundle id. Apple: 155.
  public static let bundleIDCharacters = 155

  /// Words among which a near one is looked for when a name or key is unknown, and characters of that name. Touchline:
  /// comparing costs the product of both and holds up every connection, and anybody may send an unknown name.
  public static let suggestedWords = 256
  /// Characters of an unknown name or key for which a near one is looked for.
  public static let suggestedCharacters = 64
  /// Kinds of trouble with a channel's payloads that are logged, each once. Touchline: a publisher that makes up a new
  /// key for each message fills neither the log nor the memory.
  public static let notesPerChannel = 64

  /// Seconds of fan-out in one turn of the loop. Touchline: a publisher waits for no more than a few of them, whatever the
  /// number of a channel's subscribers.
  public static let fanOutSliceSeconds: Double = 0.001
  /// Bytes of a channel's messages that wait while older ones go out to its subscribers. Touchline: beyond that a publisher
  /// outruns its own channel, all of whose subscribers are behind, and a new message takes the place of the plain update
  /// that waits last.
  public static let fanOutQueueBytes = 1_048_576
  /// Bytes that wait at most, when they are alerts and ends, which nothing replaces. Beyond that the fan-out is finished
  /// before the next message is taken, and every connection waits for it.
  public static let fanOutQueueMostBytes = 4 * fanOutQueueBytes
  /// Bytes that go out to a subscriber in one write. Touchline: what a socket's buffer takes at once.
  public static let fanOutBytes = 65_536

  /// Loops of a server. Touchline: far above the processors of any machine that a rehearsal needs.
  public static let loops = 64
  /// What the main loop orders of another one before it waits until that one has taken it. Touchline: a publisher that outruns a
  /// loop's fan-out is held up, as on one loop, and the orders don't fill the memory.
  public static let ordersPerLoop = 4_096
  /// Frames of one client that wait for the main loop before its loop reads no more of them.
  public static let forwardedFrames = 64
  /// Deleted channels whose last deliveries are still counted, for the request log.
  public static let closedLedgers = 64

  // MARK: Time

  /// Seconds for which a stored message waits at most. Apple: 8 hours.
  public static let storedMessageSeconds: Double = 8 * 3_600
  /// Seconds for which an activity is live at most. Apple: 8 hours, then the system ends it.
  public static let activityLifetimeSeconds: Double = 8 * 3_600
  /// Seconds for which an ended card stays on the Lock Screen at most. Apple: 4 hours.
  public static let endedCardSeconds: Double = 4 * 3_600
  /// Seconds for which a repeated request id is answered as the first time. Touchline: longer than a publisher's
  /// retries with back-off go on.
  public static let requestIDSeconds: Double = 600
  /// Request ids remembered a channel. Touchline: the default publish rate (20 a second) for `requestIDSeconds`,
  /// and a burst.
  public static let requestIDsPerChannel = 12_288
  /// Unix seconds that a date in a payload or header may name: up to the end of the year 9999. Anything later is
  /// milliseconds by mistake.
  public static let latestUnixSeconds: Int64 = 253_402_300_799

  /// Messages a channel whose fate a publisher can ask for. Touchline: the budget of some hours.
  public static let messageRecordsPerChannel = 1_024
  /// Pressed buttons that wait for a channel's publisher. Touchline: the newest ones; older ones were answered or given
  /// up.
  public static let intentsPerChannel = 256
  /// Sequence numbers in one acknowledgement's list of displayed messages.
  public static let displayedPerAcknowledgement = 256

  /// Actions of one activity. Touchline: the digits that press them.
  public static let actionsPerActivity = 9

  /// Nested types in a declared property, such as `[[Int]?]`, and nested conditions in a template. Touchline: both are
  /// read by recursion, so the depth bounds its stack; one of three levels is rare.
  public static let nestedTypes = 16

  /// Findings that are collected of one definition. Touchline: nobody mends more in one go, and a request's body of
  /// unknown keys would hold up every connection while each one's place is counted.
  public static let findingsPerDefinition = 100

  // MARK: Push tokens

  /// Random bytes in a push token, and in the secret that goes with it. Touchline: it can't be guessed. Apple's have
  /// another length, which may change: 64 digits are what most senders' own checks let pass.
  public static let pushTokenBytes = 32
  /// Bytes that a token sent by a client may have: this bounds the look-up.
  public static let pushTokenMaxBytes = 256
  /// Bytes of an `apns-collapse-id`. Apple: 64; one more is `BadCollapseId`.
  public static let collapseIDBytes = 64
  /// Characters of an activity's or an attributes type's name in a frame. Touchline: names, not texts.
  public static let activityNameCharacters = 128
  /// Tokens that one session registers. Touchline: a phone has a handful; a simulation may have hundreds.
  public static let pushTokensPerSession = 256
  /// Tokens that a server holds. Touchline: some hundred bytes each, so a limit far above any simulation.
  public static let pushTokens = 65_536
  /// Tokens of the past that are still answered with 410, the newest ones. Touchline: a sender hears of it within days
  /// of sending; an older one is answered as unknown.
  public static let pastPushTokens = 16_384
  /// Seconds for which a token waits for its device to come back. An activity lives for 8 hours and its card for 4 more;
  /// whoever is away for longer gets new tokens.
  public static let awayPushTokenSeconds: Double = 12 * 3_600
  /// Pushes whose fate a sender can ask for, over all tokens.
  public static let pushRecords = 4_096

  // MARK: Windows

  /// Alerts and ends that wait in one delivery window. Touchline: they are never replaced, so a full window
  /// delivers early instead of growing.
  public static let windowKeeps = 16
  /// Longest delivery window in seconds. Touchline: beyond a minute a score is history.
  public static let windowSeconds: Double = 60

  // MARK: Connections

  /// Descriptors that connections leave to the store, the listeners, the log, and files that are read again.
  public static let reservedDescriptors = 64
  /// Connections beyond all others for addresses without limits. Touchline: probes and scrapes from this machine get through when
  /// clients have taken every connection.
  public static let reservedConnections = 8
  /// Connections from one address by default. Touchline: the subscribers of an office or a carrier share one; loopback,
  /// where rehearsals and proxies come from, is free of it.
  public static let connectionsPerAddress = 1_024
  /// Requests a second from one address by default, and five times as many at once. Touchline: a provider that pushes to
  /// each device by itself sends some thousand a second; each costs the server some 50 µs.
  public static let requestsPerAddress: Double = 2_000
  /// Bad credentials at once from one address. Touchline: a signature check costs 50 µs, a good sender has one bad token.
  public static let badCredentialsPerAddress = 100
  /// Bad credentials a second from one address, after that.
  public static let badCredentialsRefill: Double = 5
  /// Addresses whose requests are counted: some hundred bytes each.
  public static let visitors = 16_384
  /// Frames a second of one session by default, and four times as many at once. Touchline: one costs the server 5 to 20 µs;
  /// the fastest publisher that waits for its answers sends less.
  public static let framesPerSession: Double = 5_000
  /// Bytes a second of one session, and four times as many at once: the frames above at the size of a broadcast don't come
  /// every second.
  public static let inboundBytesPerSession: Double = 8_388_608
  /// Pressed buttons a second that one session passes on. Touchline: a person presses one, and everybody who listens hears it.
  public static let intentsPerSecond: Double = 10
  /// Pressed buttons at once.
  public static let intentBurst: Double = 50

  /// Bytes of one frame that a client sends: a broadcast's body, its envelope, and room for white space.
  public static let inboundFrameBytes = 16_384
  /// Bytes of a request body that are kept: enough to tell 5,121 bytes from 5,120 and to answer politely.
  public static let requestBodyBytes = 65_536
  /// Bytes of a request's header block.
  public static let requestHeaderBytes = 8_192
  /// Channels that one session subscribes to. Touchline: a phone follows a handful; a dashboard hundreds.
  public static let subscriptionsPerSession = 1_024
  /// Bytes that wait for one slow connection. Conflation keeps it far below; beyond it, close code 1013.
  public static let pendingBytesPerConnection = 262_144
  /// Alerts, ends and answers that wait for one slow connection: they are never conflated, so this is their hard bound.
  public static let pendingKeepsPerConnection = 256
  /// Seconds from accepting a connection to a whole request or handshake.
  public static let handshakeSeconds: Double = 10
  /// Seconds of silence after which a peer is dropped by default: with the sweep's interval of a quarter of the ping's,
  /// it is gone within a minute.
  public static let silenceSeconds: Double = 50
  /// Seconds between keep-alive pings by default: two may be lost before the silence counts.
  public static let pingSeconds: Double = 20
  /// Seconds given to connections to take their close frame at shutdown.
  public static let shutdownSeconds: Double = 3
  /// Sessions that are parted with together at shutdown: some milliseconds of the loop.
  public static let sessionsPerWave = 250
  /// Waves in which they are parted with at most; beyond that the waves are larger.
  public static let shutdownWaves = 40
  /// Seconds that all the waves take: less than `shutdownSeconds`, so that the last one can answer its close frame.
  public static let shutdownWaveSeconds: Double = 2
  /// Seconds before which no session is asked to come back: a server that is started again needs some tenths.
  public static let soonestReturnSeconds: Double = 0.5
  /// Sessions a second that are asked to come back. Touchline: TLS handshakes and resumed subscriptions of as many take a
  /// server less than its time.
  public static let returnsPerSecond: Double = 1_000
  /// Seconds over which sessions are asked to come back at most, whatever their number.
  public static let returnSeconds: Double = 30
  /// Seconds that a client waits at most because a server asked it to.
  public static let longestRetryInSeconds: Double = 60

  // MARK: Request log

  /// Provider requests that are remembered. Touchline: some minutes of a busy feed; at its largest an entry has some 10
  /// KB, usually one.
  public static let requestLogEntries = 1_000
  /// Bytes of each text from a client in an entry: a path, a name, a finding.
  public static let requestLogTextBytes = 400
  /// Findings of one payload's diagnosis in an entry: who mends these sees the others next time.
  public static let requestLogFindings = 8
  /// Bytes after which an answer from the log takes no further entry; who asks goes on from there.
  public static let requestAnswerBytes = 524_288
  /// Seconds for which a stream of the log waits for the devices' acknowledgements of a message, so that its numbers
  /// mean something. Touchline: a device answers in milliseconds, and a person doesn't notice half a second.
  public static let requestSettleSeconds: Double = 0.5

  // MARK: Store

  /// Requests that wait until the disk has what they changed. Touchline: thousands share one sync of some milliseconds; more
  /// means that the disk stands still, and each holds a message in memory.
  public static let waitingForStore = 8_192
  /// Seconds between two tries of a store that has failed, and until a refused publisher should try again.
  public static let storeRetrySeconds: Double = 1
  /// Seconds between two looks for answers to request ids that no longer have to be kept.
  public static let forgetAnswersSeconds: Double = 60

  // MARK: Operating

  /// Seconds that a health check may wait for its answer. Touchline: container engines and probes ask again by then.
  public static let healthCheckSeconds: Double = 60
  /// Kinds of log lines, by event and key, that are held back and counted each by itself. Touchline: more than the causes of
  /// trouble at one time; beyond it an event's lines count together.
  public static let logKinds = 256
  /// Seconds for which lines like one that was written are counted instead.
  public static let logRepetitionSeconds: Double = 60
  /// Bytes of log lines that wait for whoever reads the log; further lines are lost and counted. Touchline: some thousands.
  public static let logBytes = 1_048_576
  /// Channels whose budget `/metrics` tells one by one: the first ones by app and creation. Touchline: each is a time series
  /// for whoever scrapes it; all channels are in the sums.
  public static let metricsChannels = 100
  /// Bytes of the file with the token for `/metrics`, and of the shortest one that counts as a secret.
  public static let metricsTokenBytes = 16...4_096

  // MARK: Files

  /// Bytes of a definition, a payload or a script that a command reads: far above any real one, far below memory.
  public static let fileBytes = 16 * 1_048_576
  /// Bytes of one line on a publisher's standard input.
  public static let feedLineBytes = 1_048_576

  // MARK: Credentials

  /// Bytes of a token. Touchline: a provider token has some 200, a subscriber token that names a hundred channels some
  /// 3,500; longer ones are refused before anything is computed for them.
  public static let tokenBytes = 4_096
  /// Seconds for which a provider token is good. Apple: one hour, then `ExpiredProviderToken`.
  public static let providerTokenSeconds: Double = 3_600
  /// Seconds between two tokens on one connection. Apple: a new one at most every 20 minutes, otherwise
  /// `TooManyProviderTokenUpdates`.
  public static let providerTokenPaceSeconds: Double = 1_200
  /// Seconds that a token's issue may lie ahead. Touchline: clocks that are kept by NTP differ by less than a second;
  /// a virtual machine that has just woken, or a clock that is set by hand, by less than a minute.
  public static let tokenFutureSeconds: Double = 60
  /// Longest life of a subscriber token in seconds. Touchline: 30 days, a competition; there is no list of revoked
  /// tokens, so that a lost one is good until its end.
  public static let subscriberTokenSeconds: Double = 30 * 86_400
  /// Verified tokens that are remembered, and as many refused ones apart from them. Touchline: more than the connections
  /// that publish at once, in some hundred kilobytes; a flood of bad tokens doesn't push out a good one.
  public static let rememberedTokens = 1_024
  /// Bytes of a key file or of `teams.json`. Touchline: a key has 250.
  public static let keyFileBytes = 65_536
}
