import BroadcastChannels
import Foundation
import MatchScripts
import Soak
import Testing

@Suite("The soak's plan")
struct PlanTests {
  private func settings(_ change: (inout SoakSettings) -> Void = { _ in }) -> SoakSettings {
    var settings = SoakSettings()
    settings.seed = 7
    settings.duration = 60
    change(&settings)
    return settings
  }

  private func publications(_ settings: SoakSettings, channel: Int = 0, script: MatchScript? = nil)
    -> [Publication]
  {
    Array(IteratorSequence(PublicationPlan(channel: channel, settings: settings, script: script)))
  }

  private func actions(_ settings: SoakSettings, place: Int) -> [String] {
    IteratorSequence(SubscriberPlan(index: place, settings: settings)).map { "\($0.at) \($0.action)" }
  }

  @Test("a seed is a whole plan: the same one gives the same choices, another one others")
  func seed() {
    let again = publications(settings()).map(\.due)
    #expect(publications(settings()).map(\.due) == again)
    #expect(publications(settings { $0.seed = 8 }).map(\.due) != again)
    #expect(publications(settings(), channel: 1).map(\.due) != again)
    #expect(actions(settings(), place: 50) == actions(settings(), place: 50))
  }

  @Test("messages are due in order, at the rate on average, the end last")
  func rate() throws {
    let all = publications(settings { $0.duration = 1_000 })
    #expect(zip(all, all.dropFirst()).allSatisfy { $0.due <= $1.due })
    #expect(all.map(\.number) == Array(1...all.count))
    #expect(abs(all.count - 2_000) < 60)
    // One that doesn't know of the end follows it.
    let last = all.suffix(2).map { ($0.step.event, $0.due) }
    #expect(last[0] == (.end, 1_000) && last[1] == (.update, 1_001.5))
    #expect(all.dropLast(2).allSatisfy { $0.step.event == .update })
    #expect(publications(settings { $0.faults = false }).last?.step.event == .end)
  }

  @Test("a late feed's timestamps are old, and never those of an alert")
  func late() {
    let all = publications(settings { $0.duration = 1_000 })
    let late = all.filter { $0.step.timestampShift < 0 }
    #expect(late.count > 10 && late.count < all.count / 20)
    #expect(late.allSatisfy { $0.step.alert == nil && $0.step.priority == .immediate })
  }

  @Test("a burst is as many alerts at priority 10 at one moment")
  func burst() {
    let all = publications(
      settings {
        $0.burstEvery = 20
        $0.burstSize = 5
      })
    let burst = all.filter { $0.due == 20 }
    #expect(burst.count == 5)
    #expect(burst.allSatisfy { $0.step.alert != nil && $0.step.priority == .immediate })
  }

  @Test("a message carries its number, and fits a broadcast", arguments: 0..<4)
  func number(_ channel: Int) {
    for publication in publications(settings(), channel: channel) {
      let aps = publication.aps(sentAt: Date(timeIntervalSince1970: 1_796_043_600))
      #expect(Publication.number(in: aps) == publication.number)
      #expect(aps.count + 8 <= Limits.broadcastPayloadBytes)
      #expect((try? Payload(body: Array("{\"aps\":".utf8) + aps + [0x7D])) != nil)
    }
    #expect(Publication.number(in: Array("{\"timestamp\":1}".utf8)) == nil)
  }

  @Test("a script is played at speed, and gets an end if it has none")
  func script() throws {
    let state = JSONText(compacting: "{\"home\":1}".utf8)
    let script = MatchScript(
      target: nil,
      steps: [.init(at: 0, contentState: state, line: 1), .init(at: 600, contentState: state, line: 2)])
    let all = publications(settings { $0.speed = 60 }, script: script)
    #expect(all.map(\.due) == [0, 10, 10])
    #expect(all.last?.step.event == .end)
  }

  @Test("nothing ever happens to a witness but its arrival, at once")
  func witness() {
    let wild = settings {
      $0.churn = 600
      $0.slow = 100
      $0.offline = 100
    }
    for channel in 0..<4 { #expect(actions(wild, place: channel) == ["0.0 arrive"]) }
  }

  @Test(
    "in a run of days no activity gets as old as 8 hours, neither a witness's nor one that nobody replaces")
  func lifetime() {
    let long = settings {
      $0.duration = 20 * 3_600
      $0.churn = 0
      $0.faults = false
    }
    #expect(actions(long, place: 0) == ["0.0 arrive", "21600.0 arrive", "43200.0 arrive", "64800.0 arrive"])
    for place in 4..<50 {
      var arrived = 0.0
      for (at, action) in IteratorSequence(SubscriberPlan(index: place, settings: long)) {
        if action == .arrive { arrived = at }
        #expect(at - arrived < 7 * 3_600)
      }
      #expect(20 * 3_600 + 10 - arrived < 8 * 3_600)
    }
  }

  @Test(
    "actions come in order of time, pairs are closed, and the last seconds are quiet", arguments: [1, 2, 3])
  func actions(_ seed: Int) {
    let wild = settings {
      $0.seed = UInt64(seed)
      $0.churn = 300
      $0.slow = 50
      $0.offline = 50
      $0.duration = 300
    }
    var kinds: Set<String> = []
    for place in 4..<200 {
      var (isAway, isPaused, last) = (true, false, 0.0)
      for (at, action) in IteratorSequence(SubscriberPlan(index: place, settings: wild)) {
        #expect(at >= last && at <= 294)
        last = at
        kinds.insert(String("\(action)".prefix { $0 != "(" }))
        switch action {
        case .arrive: isAway = false
        case .leave: isAway = true
        case .goOffline:
          #expect(!isAway)
          isAway = true
        case .comeBack:
          #expect(isAway)
          isAway = false
        case .stopReading:
          #expect(!isPaused && !isAway)
          isPaused = true
        case .readAgain:
          #expect(isPaused)
          isPaused = false
        case .cut, .jumpClock, .dismiss: #expect(!isAway && !isPaused)
        }
      }
      #expect(!isAway && !isPaused)
    }
    #expect(kinds.count == 9)
  }

  @Test("subscribers arrive evenly over the ramp")
  func ramp() {
    let slow = settings { $0.ramp = 20 }
    let arrivals = (0..<200).compactMap { place -> Double? in
      var plan = SubscriberPlan(index: place, settings: slow)
      return plan.next()?.at
    }
    #expect(abs(arrivals[100] - 10) < 0.01 && abs(arrivals[199] - 19.9) < 0.01)
  }

  @Test("a mix is read as weights", arguments: ["10=6,5=3,1=1", "10=1", "5=2,1=0"])
  func mix(_ text: String) throws {
    let mix = try #require(PriorityMix(text))
    #expect(mix.total > 0)
  }

  @Test("what is no mix is refused", arguments: ["", "10", "10=", "7=1", "10=-1", "10=0,5=0", "10=1,,5=1"])
  func noMix(_ text: String) { #expect(PriorityMix(text) == nil) }

  @Test("every profile can be run", arguments: SoakProfile.allCases)
  func profiles(_ profile: SoakProfile) { #expect(profile.settings.problem == nil) }

  @Test("the agenda hands out what is due, by time and then by order")
  func agenda() {
    var agenda = Agenda<String>()
    for (item, at) in [("c", 3.0), ("a", 1), ("d", 3), ("b", 2), ("e", 9)] { agenda.add(item, at: at) }
    var done: [String] = []
    while let next = agenda.next(by: 3) { done.append(next.item) }
    #expect(done == ["a", "b", "c", "d"])
    #expect(agenda.nextTime == 9 && agenda.count == 1)
  }
}
