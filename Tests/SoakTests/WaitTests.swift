import BroadcastChannels
import Soak
import Testing

@Suite("When a soak's devices are looked after, and when they come back")
struct WaitTests {
  /// A device whose messages come at random times. Most move its deadline back by 60 s, one in five brings it to one second
  /// from then; between stale dates its deadline is the end of its life, hours away.
  private struct Device {
    var staleAt: Double?
    let endsAt: Double
    var deadline: Double { staleAt ?? endsAt }
  }

  @Test(
    "over eight hours, with deadlines that move at each message, the agenda has no more entries than after an hour"
  )
  func agenda() {
    let devices = 20
    var random = SeededGenerator(seed: 7)
    // The run is longer than the devices' lives, so that even their ends are within it.
    var wakes = WakeTimes(devices: devices, until: 40_000)
    var agenda = Agenda<Int>()
    var all = (0..<devices).map { Device(endsAt: 28_800 + Double($0)) }
    var (most, flips) = ([0, 0], 0)
    func look(_ device: Int, _ now: Double) {
      guard all[device].deadline > now else { return }
      if let due = wakes.plan(device, for: all[device].deadline, at: now) { agenda.add(device, at: due) }
    }
    for half in 0..<57_600 {
      let now = Double(half) * 0.5
      while let (at, device) = agenda.next(by: now) {
        guard wakes.take(device, at: at) else { continue }
        if let due = all[device].staleAt, due <= at {
          #expect(at - due < 1e-9, "a stale date at \(due) was met at \(at)")
          all[device].staleAt = nil
          flips += 1
        }
        look(device, at)
      }
      for device in 0..<devices where random.chance(2) {
        all[device].staleAt = now + (random.chance(20) ? 1 : 60)
        look(device, now)
      }
      most[half < 7_200 ? 0 : 1] = max(most[half < 7_200 ? 0 : 1], agenda.count)
    }
    // 23,040 messages: a fifth are short ones, of the others a tenth is followed by silence for a minute.
    #expect(flips > 5_000)
    // An entry that counts, and a few that are passed over within a minute, for each.
    #expect(most[0] < devices * 8 && most[1] <= most[0] + devices, "\(most)")
  }

  @Test("of a device's entries the earliest counts; a later one is passed over when its time comes")
  func earliest() {
    var wakes = WakeTimes(devices: 2, until: 1_000)
    let added = [wakes.plan(0, for: 50, at: 0), wakes.plan(0, for: 55, at: 1), wakes.plan(0, for: 20, at: 2)]
    #expect(added == [50, nil, 20])
    let first = wakes.take(0, at: 20)
    // The next deadline is later than what is still on the agenda for 50: that one isn't its own any more.
    let next = wakes.plan(0, for: 58, at: 20)
    #expect(first && next == 58)
    let taken = [wakes.take(0, at: 50), wakes.take(0, at: 58), wakes.take(0, at: 58), wakes.take(1, at: 58)]
    #expect(taken == [false, true, false, false])
  }

  @Test("a deadline that has passed is met at once, one that is far away in steps, one after the run never")
  func far() {
    var wakes = WakeTimes(devices: 3, until: 1_000)
    let added = [
      wakes.plan(0, for: 5, at: 10), wakes.plan(1, for: 900, at: 10), wakes.plan(2, for: 1_000, at: 990),
    ]
    #expect(added == [10, 70, nil])
  }

  @Test("who was asked to stay away for a while does, and comes back within a quarter of a second after it")
  func asked() {
    var random = SeededGenerator(seed: 7)
    for seconds in [0, 0.5, 12.25, 60] {
      for _ in 0..<100 {
        var wait = ReturnWait(longest: 2)
        wait.isAsked(seconds)
        let next = wait.next(using: &random)
        #expect(next >= seconds && next < seconds + 0.25)
        // What was asked counts once: after that it is 0.1 to 0.2 s.
        let after = wait.next(using: &random)
        #expect(after >= 0.1 && after < 0.2)
      }
    }
  }

  @Test("nobody stays away for longer than a minute, whatever was asked")
  func bounds() {
    var random = SeededGenerator(seed: 7)
    var wait = ReturnWait(longest: 2)
    wait.isAsked(86_400)
    // 2 s of waves, half a second, and 30 s over which everybody comes back.
    #expect(wait.isAskedTooMuch && ReturnWait.mostAsked == 32.5)
    let next = wait.next(using: &random)
    #expect(next >= 60 && next < 60.25)
    #expect(!wait.isAskedTooMuch)
    wait.isAsked(32.5)
    #expect(!wait.isAskedTooMuch)
  }

  @Test(
    "without being asked, the wait doubles with each failure up to its bound, and begins anew after a success"
  )
  func failures() {
    var random = SeededGenerator(seed: 7)
    var wait = ReturnWait(longest: 2)
    for most in [0.2, 0.4, 0.8, 1.6, 2, 2, 2] {
      let next = wait.next(using: &random)
      #expect(next >= most / 2 && next < most)
    }
    wait.succeeded()
    let first = wait.next(using: &random)
    #expect(first < 0.2)
    // Who connects by itself, before the time that it was asked to wait, has nothing to wait for any more.
    wait.isAsked(30)
    wait.connects()
    let second = wait.next(using: &random)
    #expect(second < 0.4)
  }
}
