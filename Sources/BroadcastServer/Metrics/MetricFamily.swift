/// One family of time series, described once: `# HELP` and `# TYPE` come from here, and the documentation is held to it.
///
/// Names and units as Prometheus' "Metric and label naming" has them: base units, `_total` for what only grows.
struct MetricFamily {
  enum Kind: String {
    case counter, gauge, histogram
  }

  let name: String
  let kind: Kind
  let help: String
  /// The names of its labels.
  let labels: [String]

  init(_ name: String, _ kind: Kind, _ help: String, labels: [String] = []) {
    self.name = name
    self.kind = kind
    self.help = help
    self.labels = labels
  }

  // MARK: Connections and channels

  static let build = MetricFamily("touchline_build_info", .gauge, "1, with the version.", labels: ["version"])
  static let connections = MetricFamily(
    "touchline_connections", .gauge, "Open connections, by what they speak and the port they came to.",
    labels: ["port", "kind"])
  static let accepted = MetricFamily(
    "touchline_connections_accepted_total", .counter, "Connections that were accepted.", labels: ["port"])
  static let sessions = MetricFamily(
    "touchline_sessions", .gauge, "Open sessions: WebSockets, event streams, and streams of the request log.")
  static let closings = MetricFamily(
    "touchline_sessions_closed_total", .counter,
    "Sessions that ended, by their close code; none without one.",
    labels: ["code"])
  static let subscriptions = MetricFamily(
    "touchline_subscriptions", .gauge, "Subscriptions of all sessions to all channels.")
  static let channels = MetricFamily(
    "touchline_channels", .gauge, "Channels, by message storage policy (0 nothing, 1 the newest message).",
    labels: ["storage_policy"])

  // MARK: Requests

  static let refusedClients = MetricFamily(
    "touchline_clients_refused_total", .counter,
    "Clients that were turned away by a limit: descriptors, connections, or what their address has: connections, requests, bad credentials.",
    labels: ["reason"])
  static let answers = MetricFamily(
    "touchline_provider_answers_total", .counter, "Answers to providers: HTTP requests and publish frames.",
    labels: ["status"])
  static let answering = MetricFamily(
    "touchline_provider_answer_duration_seconds", .histogram,
    "From a provider's whole request to its answer.")
  static let publishes = MetricFamily(
    "touchline_publishes_total", .counter, "Accepted broadcasts, by what was done with each.",
    labels: ["outcome"])
  static let refusedPublishes = MetricFamily(
    "touchline_publishes_refused_total", .counter, "Refused broadcasts, by reason.", labels: ["reason"])
  static let pushes = MetricFamily(
    "touchline_device_pushes_total", .counter, "Accepted pushes to one device, by what was done with each.",
    labels: ["outcome"])
  static let refusedPushes = MetricFamily(
    "touchline_device_pushes_refused_total", .counter, "Refused pushes to one device, by reason.",
    labels: ["reason"])

  // MARK: Budgets and windows

  static let budgetLeft = MetricFamily(
    "touchline_channel_budget_remaining", .gauge,
    "Messages at priority 10 that a channel's budget allows now; the first 100 channels with a limit.",
    labels: ["channel", "alias"])
  static let budgetLimit = MetricFamily(
    "touchline_channel_budget_limit", .gauge, "Messages in such a channel's full budget.",
    labels: ["channel", "alias"])
  static let limited = MetricFamily(
    "touchline_channels_budget_limited", .gauge, "Channels with a budget for priority 10.")
  static let exhausted = MetricFamily(
    "touchline_channels_budget_exhausted", .gauge, "Channels whose budget for priority 10 is spent now.")
  static let windowWaits = MetricFamily(
    "touchline_window_wait_seconds", .histogram, "How long messages waited in a delivery window.")

  // MARK: Deliveries

  static let fanOutSeconds = MetricFamily(
    "touchline_fanout_duration_seconds", .histogram,
    "From a message's first subscriber to its last; messages that go out together count once.")
  static let fanOutSizes = MetricFamily(
    "touchline_fanout_subscribers", .histogram, "Subscribers when messages went out together.")
  static let deliveries = MetricFamily(
    "touchline_deliveries_total", .counter, "Messages that sockets took, one a subscriber and message.")
  static let deliveredBytes = MetricFamily(
    "touchline_delivered_bytes_total", .counter,
    "Bytes of these messages, without what WebSocket, HTTP and TLS add.")
  static let conflations = MetricFamily(
    "touchline_conflations_total", .counter,
    "Messages that a newer one replaced before a slow subscriber could take them.")
  static let acknowledgements = MetricFamily(
    "touchline_acknowledgements_total", .counter, "Messages that subscribers said that they received.")
  static let displays = MetricFamily(
    "touchline_displays_total", .counter, "Messages that devices said that they displayed.")
  static let stale = MetricFamily(
    "touchline_stale_total", .counter,
    "Displayed messages that became stale on a device before a newer one came, as devices report.")

  // MARK: The server itself

  static let storeCommits = MetricFamily(
    "touchline_store_commit_duration_seconds", .histogram,
    "How long the store's transactions took, by whether something in them was promised, so that it was synced.",
    labels: ["synced"])
  static let storeFailures = MetricFamily(
    "touchline_store_failures_total", .counter, "How often the store could not do what it was asked for.")
  static let storeWaiting = MetricFamily(
    "touchline_store_waiting_seconds", .gauge,
    "How long the store's transaction under way has waited for the disk; 0 when there is none.")
  static let loopLag = MetricFamily(
    "touchline_loop_lag_seconds", .histogram,
    "By how much a timer of the loop came late; looked at every 250 ms.")
  static let logLines = MetricFamily(
    "touchline_log_lines_total", .counter, "Lines of the log.", labels: ["level"])
  static let lostLogLines = MetricFamily(
    "touchline_log_lines_lost_total", .counter,
    "Lines of the log that were lost: whoever reads it is too slow, or it can't be written.")
  static let uptime = MetricFamily("touchline_uptime_seconds", .gauge, "Seconds since the server started.")
  static let ready = MetricFamily("touchline_ready", .gauge, "1 when GET /readyz answers 200, otherwise 0.")

  // MARK: The process, under the names that every Prometheus client has

  static let cpu = MetricFamily(
    "process_cpu_seconds_total", .counter, "CPU time of the process, user and system, in seconds.")
  static let resident = MetricFamily(
    "process_resident_memory_bytes", .gauge, "Memory of the process that is in RAM.")
  static let virtual = MetricFamily(
    "process_virtual_memory_bytes", .gauge, "Address space of the process.")
  static let openFiles = MetricFamily("process_open_fds", .gauge, "Open file descriptors.")
  static let mostFiles = MetricFamily("process_max_fds", .gauge, "File descriptors that may be open.")
  static let startTime = MetricFamily(
    "process_start_time_seconds", .gauge, "When the process started, in Unix seconds.")

  /// All of them, in the order of the answer.
  static let all = [
    build, ready, uptime, connections, accepted, sessions, closings, subscriptions, channels, refusedClients,
    answers,
    answering,
    publishes, refusedPublishes, pushes, refusedPushes, budgetLeft, budgetLimit, limited, exhausted,
    windowWaits,
    fanOutSeconds, fanOutSizes, deliveries, deliveredBytes, conflations, acknowledgements, displays, stale,
    storeCommits,
    storeFailures, storeWaiting, loopLag, logLines, lostLogLines, cpu, resident, virtual, openFiles,
    mostFiles, startTime,
  ]
}
