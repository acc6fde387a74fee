import BroadcastChannels

/// What all sessions of a server share.
final class SessionServices {
  let hub: Hub
  let pushes: PushRegistry
  let registry: SessionRegistry
  /// Of the main loop.
  let sweep: KeepAliveSweep
  let access: AccessControl
  let requests: RequestLog

  init(
    hub: Hub, pushes: PushRegistry, registry: SessionRegistry, sweep: KeepAliveSweep, access: AccessControl,
    requests: RequestLog
  ) {
    self.hub = hub
    self.pushes = pushes
    self.registry = registry
    self.sweep = sweep
    self.access = access
    self.requests = requests
  }

  /// The loops beside the main one, if there are any.
  var loops: DeliveryLoops? { hub.loops }

  /// The main loop's time in seconds.
  var clock: Double { sweep.now }
}
