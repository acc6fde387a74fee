import EventLoop
import Foundation

/// What the system tells of this process, under Linux.
struct ProcessFigures {
  /// User and system time, in seconds.
  let cpuSeconds: Double
  let residentBytes: Int
  let virtualBytes: Int
  let openFiles: Int
  /// Nil without a limit.
  let mostFiles: Int?
  /// In Unix seconds.
  let startTime: Double?

  /// Looks now.
  init() {
    var time = timespec()
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time)
    cpuSeconds = Double(time.tv_sec) + Double(time.tv_nsec) / 1e9
    // Pages, in the order of proc(5): size, resident, …
    let pages = Self.words("/proc/self/statm").compactMap { Int($0) }
    let pageBytes = sysconf(Int32(_SC_PAGESIZE))
    virtualBytes = (pages.first ?? 0) * pageBytes
    residentBytes = (pages.dropFirst().first ?? 0) * pageBytes
    openFiles = EventLoop.openDescriptorCount
    var limit = rlimit()
    let isKnown = getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0
    mostFiles = isKnown ? Int(exactly: limit.rlim_cur) : nil
    startTime = Self.start
  }

  private static let start: Double? = {
    // The name of the program, in parentheses, may have blanks; the start is the 20th word after it.
    guard let name = text("/proc/self/stat").map({ $0.split(separator: ")") })?.last,
      let ticks = name.split(separator: " ").dropFirst(19).first.flatMap({ Double($0) })
    else { return nil }
    // Counted from the boot. /proc/stat tells when that was, but not to a service with ProcSubset=pid.
    var clock = timespec()
    guard clock_gettime(CLOCK_BOOTTIME, &clock) == 0 else { return nil }
    let sinceBoot = Double(clock.tv_sec) + Double(clock.tv_nsec) / 1e9
    return Date().timeIntervalSince1970 - sinceBoot + ticks / Double(sysconf(Int32(_SC_CLK_TCK)))
  }()

  private static func text(_ path: String) -> String? {
    // Files of /proc have no size, so that they can't be read as FileManager.contents(atPath:) does.
    guard let file = FileHandle(forReadingAtPath: path), let data = try? file.readToEnd() else { return nil }
    return String(decoding: data, as: UTF8.self)
  }

  private static func words(_ path: String) -> [Substring] { (text(path) ?? "").split(separator: " ") }
}
