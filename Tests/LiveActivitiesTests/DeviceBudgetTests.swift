import BroadcastChannels
import Foundation
import Testing

@testable import LiveActivities

/// Source: facts/live-activity.md, "Frequency on the device". The numbers are settings; here 2 an hour, or 4 with
/// frequent updates, so that a token comes back every 1,800 s or every 900 s.
@Suite struct DeviceBudgetTests {
  static func phone(frequent: Bool = false, grouping: Double = 0, hourly: Int = 2) throws -> Phone {
    let phone = Phone {
      $0.hourlyBudget = hourly
      $0.frequentHourlyBudget = 4
      $0.groupingSeconds = grouping
    }
    try phone.start("final", frequent: frequent, at: 0)
    return phone
  }

  static func receive(_ count: Int, _ phone: Phone, from first: Double = 0, priority: Priority = .immediate)
    throws
  {
    for number in 0..<count {
      try phone.receive(number + 1, at: first + Double(number), priority: priority)
    }
  }

  @Test(arguments: [(false, 2), (true, 4)])
  func `priority 10 counts against the hourly budget`(frequent: Bool, budget: Int) throws {
    let phone = try Self.phone(frequent: frequent)
    try Self.receive(budget + 1, phone)
    let updates = (0..<budget).map { "\($0) final update active" }
    // A token is on its way since the first was taken at 0.
    let due = frequent ? 900 : 1_800
    #expect(phone.log == updates + ["\(budget) final over budget until \(due)"])
    #expect(phone.shown() == budget && phone.device["final"]?.isOverBudget == true)
    phone.run(to: Double(due))
    #expect(phone.log.last == "\(due) final update active")
    #expect(phone.shown() == budget + 1 && phone.device["final"]?.isOverBudget == false)
  }

  @Test(arguments: [Priority.considerate, .passive])
  func `priorities 5 and 1 cost no budget`(priority: Priority) throws {
    let phone = try Self.phone()
    try Self.receive(10, phone, priority: priority)
    #expect(phone.log.count == 10 && phone.shown() == 10)
    try phone.receive(11, at: 20)
    #expect(phone.log.last == "20 final update active")
  }

  @Test func `an alert that was merged lights the screen with the update that is shown`() throws {
    let phone = try Self.phone()
    try Self.receive(2, phone)
    try phone.receive(3, at: 2, alert: "Goal")
    try phone.receive(4, at: 3)
    #expect(phone.device["final"]?.alert == nil && phone.shown() == 2)
    phone.run(to: 1_800)
    #expect(phone.shown() == 4 && phone.device["final"]?.alert?.alert.title == .literal("Goal"))
  }

  @Test func `over budget the updates merge to the newest, and the card says so`() throws {
    let phone = try Self.phone()
    try Self.receive(5, phone)
    #expect(phone.shown() == 2 && phone.device["final"]?.mergedCount == 2)
    #expect(phone.log.suffix(3) == (2...4).map { "\($0) final over budget until 1800" })
    try phone.receive(9, at: 10, timestamp: 3)
    #expect(phone.device["final"]?.mergedCount == 3)
    phone.run(to: 1_800)
    #expect(phone.log.last == "1800 final update active" && phone.shown() == 5)
    // That took the token which came back; the next one is due at 3,600.
    try phone.receive(6, at: 1_801)
    #expect(phone.log.last == "1801 final over budget until 3600")
  }

  @Test func `an end is never held back and takes what waits with it`() throws {
    let phone = try Self.phone()
    try Self.receive(3, phone)
    try phone.receive(4, at: 10, event: .end, dismissal: 50)
    phone.run(to: 2_000)
    #expect(phone.log.suffix(2) == ["10 final end ended", "50 final dismissal dismissed"])
    #expect(phone.shown() == 4 && phone.device["final"]?.mergedCount == 1)
    #expect(phone.device["final"]?.isOverBudget == false)
  }

  @Test func `an end that is ignored as older leaves what waits`() throws {
    let phone = try Self.phone()
    try Self.receive(3, phone)
    try phone.receive(9, at: 10, timestamp: 0, event: .end)
    #expect(phone.log.last == "10 final ignored-older active")
    phone.run(to: 1_800)
    #expect(phone.shown() == 3)
  }

  @Test func `a newer update at priority 5 overtakes what waits`() throws {
    let phone = try Self.phone()
    try Self.receive(3, phone)
    try phone.receive(4, at: 10, priority: .considerate)
    #expect(phone.log.last == "10 final update active" && phone.device["final"]?.mergedCount == 1)
    phone.run(to: 4_000)
    #expect(phone.shown() == 4 && phone.log.count == 4)
  }

  @Test func `an older update at priority 5 doesn't`() throws {
    let phone = try Self.phone()
    try Self.receive(3, phone)
    try phone.receive(9, at: 10, timestamp: 1, priority: .considerate)
    #expect(phone.device["final"]?.isOverBudget == true)
    phone.run(to: 1_800)
    #expect(phone.shown() == 3)
  }

  @Test func `a budget of none holds updates until the end`() throws {
    let phone = try Self.phone(hourly: 0)
    try phone.receive(1, at: 0)
    #expect(phone.log == ["0 final over budget until ever"])
    #expect(phone.device.nextDeadline == moment(28_800))
    try phone.receive(2, at: 10, event: .end)
    #expect(phone.shown() == 2)
  }

  @Test func `the budgets of activities are their own`() throws {
    let phone = try Self.phone()
    try phone.start("other", at: 0)
    try Self.receive(3, phone)
    try phone.receive(1, for: "other", at: 5)
    #expect(phone.log.last == "5 other update active")
  }

  @Test func `what waits is gone with the card`() throws {
    let phone = try Self.phone()
    try Self.receive(3, phone)
    phone.dismiss("final", at: 10)
    #expect(phone.device["final"]?.isOverBudget == false && phone.device.nextDeadline == nil)
    phone.run(to: 4_000)
    #expect(phone.log.last == "10 final person dismissed" && phone.shown() == 2)
  }

  // MARK: Frequent updates

  @Test func `switched off, the budget falls to the normal one at once`() throws {
    let phone = try Self.phone(frequent: true)
    try Self.receive(1, phone)
    phone.setFrequentUpdates(false, at: 10)
    try phone.receive(2, at: 20)
    try phone.receive(3, at: 30)
    // 1 of 2 used at 0, full again but for what came back meanwhile; the second token is the last.
    #expect(phone.log.suffix(2).first == "20 final update active")
    #expect(phone.log.last?.contains("over budget") == true)
  }

  @Test func `off and on again gives back nothing that was used`() throws {
    let phone = try Self.phone(frequent: true)
    try Self.receive(4, phone)
    for second in 10..<20 { phone.setFrequentUpdates(second.isMultiple(of: 2) == false, at: Double(second)) }
    try phone.receive(5, at: 20)
    #expect(phone.log.count == 5 && phone.log.last?.contains("over budget") == true && phone.shown() == 4)
  }

  @Test func `what waits goes when the larger budget has room`() throws {
    let phone = try Self.phone(frequent: true)
    phone.setFrequentUpdates(false, at: 0)
    try Self.receive(3, phone)
    #expect(phone.log.last == "2 final over budget until 1800")
    phone.setFrequentUpdates(true, at: 10)
    #expect(phone.log.last == "10 final update active" && phone.shown() == 3)
  }

  @Test func `what waits goes on waiting when the budget shrinks`() throws {
    let phone = try Self.phone(frequent: true)
    try Self.receive(5, phone)
    #expect(phone.log.last == "4 final over budget until 900")
    phone.setFrequentUpdates(false, at: 10)
    // 4 used, of which 10/900 came back; 2 an hour bring 2 + 1 tokens less 10/900 in 5,380 s.
    phone.run(to: 5_389)
    #expect(phone.shown() == 4)
    phone.run(to: 5_391)
    #expect(phone.shown() == 5)
  }

  @Test func `only apps that declare frequent updates have them, and only theirs are switched`() throws {
    let phone = try Self.phone()
    phone.setFrequentUpdates(true, at: 0)
    try phone.start("other", app: "com.example.tennis", frequent: true, at: 0)
    phone.setFrequentUpdates(false, at: 0)
    for number in 1...4 { try phone.receive(number, for: "other", at: Double(number)) }
    #expect(phone.shown("other") == 4)
    try Self.receive(3, phone, from: 10)
    #expect(phone.shown() == 2)
  }

  @Test func `switched off before the start, an activity starts with the normal budget`() throws {
    let phone = Phone {
      $0.hourlyBudget = 2
      $0.infrequentApps = ["com.example.scores"]
    }
    try phone.start("final", frequent: true, at: 0)
    try Self.receive(3, phone)
    #expect(phone.shown() == 2)
  }

  // MARK: Grouping

  @Test(arguments: [Priority.considerate, .passive])
  func `5 and 1 are grouped, and the newest is shown`(priority: Priority) throws {
    let phone = try Self.phone(grouping: 30)
    try Self.receive(3, phone, priority: priority)
    // The first opens the group at 0; later ones don't put off its end.
    #expect(phone.log == (0...2).map { "\($0) final grouped until 30" })
    #expect(phone.shown() == nil && phone.device["final"]?.isOverBudget == false)
    phone.run(to: 30)
    #expect(phone.log.last == "30 final update active" && phone.shown() == 3)
    #expect(phone.device["final"]?.mergedCount == 2)
  }

  @Test func `priority 10 is not grouped and takes the older of the group along`() throws {
    let phone = try Self.phone(grouping: 30)
    try phone.receive(1, at: 0, priority: .considerate)
    try phone.receive(2, at: 10)
    #expect(phone.log.last == "10 final update active" && phone.shown() == 2)
    phone.run(to: 60)
    #expect(phone.log.count == 2)
  }

  // MARK: Alerts

  @Test func `an alert lights the screen for some seconds`() throws {
    let phone = Phone { $0.alertSeconds = 5 }
    try phone.start("final", at: 0)
    try phone.receive(1, at: 10, alert: "Goal")
    #expect(phone.log == ["10 final update active", "10 final alert Goal"])
    #expect(phone.device["final"]?.alert?.until == moment(15) && phone.device.nextDeadline == moment(15))
    phone.run(to: 14.999)
    #expect(phone.device["final"]?.alert != nil)
    phone.run(to: 15)
    #expect(phone.device["final"]?.alert == nil && phone.log.count == 2)
  }

  @Test func `a second alert takes the place of the first`() throws {
    let phone = try Self.phone()
    try phone.receive(1, at: 10, alert: "Goal")
    try phone.receive(2, at: 12, alert: "Goal again")
    #expect(phone.device["final"]?.alert?.until == moment(17))
  }

  @Test func `an end may light the screen, unless the card is gone with it`() throws {
    let phone = try Self.phone()
    try phone.receive(1, at: 10, event: .end, alert: "Full time")
    #expect(phone.log == ["10 final end ended", "10 final alert Full time"])
    let other = try Self.phone()
    try other.receive(1, at: 10, event: .end, dismissal: 0, alert: "Full time")
    #expect(other.log == ["10 final end ended", "10 final dismissal dismissed"])
  }

  @Test(arguments: [true, false])
  func `a card that is gone lights nothing`(byPerson: Bool) throws {
    let phone = try Self.phone()
    try phone.receive(1, at: 10, event: .end, dismissal: 12, alert: "Full time")
    if byPerson { phone.dismiss("final", at: 12) } else { phone.run(to: 12) }
    #expect(phone.device["final"]?.alert == nil && phone.device.nextDeadline == nil)
  }
}
