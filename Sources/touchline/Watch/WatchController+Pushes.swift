import BroadcastChannels
import BroadcastClient
import Foundation
import LiveActivities
import SubscriberProtocol

/// The half of a watch that pushes to this device make: tokens told and rotated, and activities that a push starts.
extension WatchController {
  func handle(_ event: PushEvent) {
    guard !isOver else { return }
    switch event {
    case .registered(let frame, _):
      if isLost { display.show(.tokensBack) }
      isLost = false
      guard let registration = tokens?.registration(of: frame.kept.token),
        told.updateValue(frame.kept.token, forKey: registration.name) != frame.kept.token
      else { break }
      display.show(TokenNotice(frame: frame, registration: registration, at: Date()))
    case .push(let frame):
      guard let registration = tokens?.registration(of: frame.token) else { break }
      let arrival = Arrival(frame, at: Date())
      if let name = registration.activity {
        deliver(arrival, to: name)
      } else if let start = frame.payload.start {
        begin(start, by: arrival, registration)
      }
    case .refused(let registration, let failure):
      display.show(.tokenLost(registration.label, failure.description))
    case .taken(let registration):
      display.show(.tokenLost(registration.label, "another device has taken it up"))
    case .disconnected(let problem, let wait):
      if !isLost { display.show(.lost(problem, retryIn: wait)) }
      isLost = true
    case .failed(let failure):
      stop()
      client.fail(failure.description)
    }
    settle()
  }

  /// A push starts an activity, once it is known what its app presents.
  private func begin(_ start: ActivityStart, by arrival: Arrival, _ registration: PushRegistration) {
    if let type = registration.attributesType, type != start.attributesType {
      display.show(.startRefused("it is for \(start.attributesType), and the token for \(type)"))
      return
    }
    guard case .channel(let channel) = start.input else {
      let known = device.activities.last {
        $0.definition.attributesType == start.attributesType && $0.definition.settings.app == registration.app
      }
      let bare = ChannelDefinition(settings: ChannelSettings(app: registration.app))
      begin(newName(start.attributesType), start, by: arrival, known?.definition ?? bare, isOnChannel: false)
      return
    }
    administration.show(channel) { [weak self] result in
      guard let self, !isOver else { return }
      switch result {
      case .success(let found) where found.definition.settings.app == registration.app:
        begin(found.alias ?? found.id, start, by: arrival, found.definition, isOnChannel: true)
      case .success(let found):
        display.show(.startRefused("the channel \(channel) belongs to \(found.definition.settings.app)"))
      case .failure(let failure): display.show(.startRefused(failure.description))
      }
      settle()
    }
  }

  private func begin(
    _ name: String, _ start: ActivityStart, by arrival: Arrival, _ definition: ChannelDefinition,
    isOnChannel: Bool
  ) {
    show(device.advance(to: arrival.at))
    let changes: [Device.Change]
    do throws(StartError) {
      changes = try device.start(
        name, by: arrival.payload, start, definition: definition, isOnChannel: isOnChannel, at: arrival.at)
    } catch {
      display.show(.startRefused(error.description))
      return
    }
    wasStartedByPush = true
    if !names.contains(name) { names.append(name) }
    failures[name] = nil
    unsubscribed.remove(name)
    positions[name] = nil
    show(changes, arrival)
    if start.input == .token || tokens?.plan.updates ?? false, let activity = device[name] {
      tokens?.register(activity)
    }
    if isOnChannel { subscriptions?.add(name) }
  }

  /// A name for an activity that no channel names.
  private func newName(_ type: String) -> String {
    var number = 1
    while device["\(type)-\(number)"] != nil { number += 1 }
    return "\(type)-\(number)"
  }

  /// Asks for another push token in the place of an activity's.
  func rotateToken(_ name: String) { tokens?.rotate(name) }
}
