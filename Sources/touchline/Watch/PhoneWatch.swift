import EventLoop
import Foundation
import LiveActivities
import PhoneScreen
import Terminal

/// The device as a phone on the screen, and what a person does with it.
final class PhoneWatch: WatchDisplay {
  /// Who does what the keys ask for. Set before ``start()``.
  weak var controller: WatchController?

  private let loop: EventLoop
  private let terminal: Terminal
  private let quit: () -> Void
  private var view = PhoneView()
  private var toastUntil = Date.distantPast
  private var keyboard: DescriptorWatch?
  private var tick: LoopTimer?
  private var frame: LoopTimer?
  private var isClosed = false

  /// Seconds for which something stays told.
  private static let toastSeconds = 6.0
  /// Seconds in which several changes become one picture.
  private static let frameSeconds = 0.02

  init(loop: EventLoop, terminal: Terminal, quit: @escaping () -> Void) {
    self.loop = loop
    self.terminal = terminal
    self.quit = quit
    view.timeZone = .current
  }

  var outlivesActivities: Bool { true }

  /// Shows the phone and listens to the keyboard.
  func start() throws(CommandFailure) {
    do {
      keyboard = try loop.watchReadable(terminal.input) { [weak self] in self?.readKeys() }
    } catch {
      throw CommandFailure("the keyboard can't be read: \(error)")
    }
    loop.onSignal(SIGWINCH) { [weak self] in
      self?.terminal.resize()
      self?.draw()
    }
    loop.onSignal(SIGCONT) { [weak self] in
      self?.terminal.redraw()
      self?.draw()
    }
    draw()
    scheduleTick()
  }

  func close() {
    guard !isClosed else { return }
    isClosed = true
    keyboard?.cancel()
    tick?.cancel()
    frame?.cancel()
    terminal.close()
  }

  // MARK: What is told

  /// The cards show the changes themselves; what a card can't show is told.
  func show(_ line: WatchLine) {
    switch line.change.kind {
    case .activity(let data):
      switch data.cause {
      case .ignoredOlder: tell("\(line.change.name): an older message was ignored")
      case .ignoredAfterEnd: tell("\(line.change.name): a message after the end was ignored")
      case .orphan: tell("\(line.change.name): its channel is gone, the event is over")
      case .dismissal: tell("\(line.change.name): the card has left the Lock Screen")
      default: break
      }
    case .confirmed(let action): tell("\(line.change.name): \(action.title) is confirmed")
    case .deferred, .alert: break
    }
  }

  func show(_ notice: WatchNotice) {
    switch notice {
    case .subscribed, .resumed, .countsAnew, .kept: if view.connection != .off { view.connection = .online }
    case .lost(let problem, _): view.connection = .lost(problem)
    case .networkOff: view.connection = .off
    case .networkOn: view.connection = .connecting
    case .notStarted(let name, let error, _): view.refusals[name] = error.description
    case .finished(let name, let why): view.refusals[name] = why
    case .waiting, .tokensBack: if view.connection != .off { view.connection = .online }
    case .missedBefore, .fileFailed, .tokenLost, .startRefused: break
    }
    switch notice {
    case .subscribed, .networkOn, .notStarted, .finished: break
    case .kept: view.connection = .connecting
    default: tell("\(notice)")
    }
  }

  func show(_ token: TokenNotice) {
    if view.connection != .off { view.connection = .online }
    if token.frame.activity == nil {
      view.startTokens[token.name] = token.frame.kept.token.hex
    } else {
      view.pushTokens[token.name] = token.frame.kept.token.hex
    }
    if token.frame.replaces != nil { tell("\(token.name): another push token") } else { settle() }
  }

  private func tell(_ text: String) {
    view.toast = text
    toastUntil = Date().addingTimeInterval(Self.toastSeconds)
    settle()
  }

  // MARK: Drawing

  func settle() {
    guard !isClosed, frame == nil else { return }
    frame = loop.schedule(after: Self.frameSeconds) { [weak self] in
      self?.frame = nil
      self?.draw()
    }
  }

  private func draw() {
    guard !isClosed, let controller else { return }
    let now = Date()
    if toastUntil <= now { view.toast = nil }
    view.missed = controller.missed
    let size = terminal.size
    let lines = PhoneScene.render(
      device: controller.device, view: view, columns: size.columns, rows: size.rows, now: now)
    terminal.draw(
      lines.map { line in line.spans.map { Terminal.Run($0.text, PhoneTheme.appearance($0.style)) } })
  }

  /// Clocks and ages turn with the second.
  private func scheduleTick() {
    let now = Date().timeIntervalSince1970
    tick = loop.schedule(after: now.rounded(.down) + 1 - now) { [weak self] in
      self?.draw()
      self?.scheduleTick()
    }
  }

  // MARK: Keys

  private func readKeys() {
    for key in terminal.keys() where !isClosed { press(key) }
    draw()
  }

  private func press(_ key: Key) {
    guard let controller else { return }
    if view.isHelpShown, key != .character("q"), key != .hangUp {
      view.isHelpShown = false
      return
    }
    switch key {
    case .up, .left: choose(-1)
    case .down, .right: choose(1)
    case .enter: view.isExpanded.toggle()
    case .hangUp: quit()
    case .character(let character): press(character, controller)
    case .unknown: break
    }
  }

  private func press(_ character: Character, _ controller: WatchController) {
    let name = PhoneScene.selected(controller.device, view)
    switch character {
    case "q": quit()
    case "?": view.isHelpShown = true
    case "e": view.isExpanded.toggle()
    case "a": view.isAlwaysOn.toggle()
    case "l": view.isLocked.toggle()
    case "s": (view.isStandBy, view.isSmall) = (!view.isStandBy, false)
    case "w": (view.isSmall, view.isStandBy) = (!view.isSmall, false)
    case "n": controller.setNetwork(!controller.isNetworkOn)
    case "d": if let name { dismiss(name, controller) }
    case "t": if let name { rotateToken(name, controller) }
    case "f": if let name { switchFrequentUpdates(name, controller) }
    case "1"..."9": if let name, let number = character.wholeNumberValue { act(number, name, controller) }
    default: break
    }
  }

  private func choose(_ step: Int) {
    guard let controller else { return }
    let names = controller.device.lockScreen.map(\.name)
    guard let chosen = PhoneScene.selected(controller.device, view), let index = names.firstIndex(of: chosen)
    else { return }
    view.selected = names[min(max(index + step, 0), names.count - 1)]
  }

  private func dismiss(_ name: String, _ controller: WatchController) {
    controller.dismiss(name)
    view.isExpanded = false
    tell("\(name) is dismissed; it does not come back, the event goes on")
  }

  private func rotateToken(_ name: String, _ controller: WatchController) {
    guard view.pushTokens[name] != nil else {
      return tell("\(name) has no push token (--push-token gets one)")
    }
    controller.rotateToken(name)
  }

  private func switchFrequentUpdates(_ name: String, _ controller: WatchController) {
    guard let activity = controller.device[name], let isOn = controller.toggleFrequentUpdates(name) else {
      return
    }
    let app = activity.definition.settings.app.identifier
    let asks = activity.definition.settings.frequentUpdates ? "" : "; this channel does not ask for them"
    tell("frequent updates of \(app) are \(isOn ? "on" : "off")\(asks)")
  }

  private func act(_ number: Int, _ name: String, _ controller: WatchController) {
    guard !view.isSmall else { return tell("the watch and the car have no buttons") }
    guard controller.press(number, of: name) != nil else { return tell("\(name) has no action \(number)") }
  }
}
