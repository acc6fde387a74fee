import BroadcastChannels

/// What all sessions of a server share.
final class SessionServices {
  let hub: Hub
  let pushes: PushRegistry
  let registry: SessionRegistry
  let access: AccessControl
  let requests: RequestLog

  init(
    hub: Hub, pushes: PushRegistry, registry: SessionRegistry, access: AccessControl, requests: RequestLog
  ) {
    self.hub = hub
    self.pushes = pushes
    self.registry = registry
    self.access = access
    self.requests = requests
  }
}
