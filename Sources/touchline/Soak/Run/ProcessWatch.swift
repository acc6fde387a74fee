import Foundation

/// What a process of this machine uses, from /proc (proc(5)).
struct ProcessWatch {
  /// The process.
  let pid: Int32

  /// Resident memory in bytes; nil when the process is gone.
  var residentBytes: Int? {
    // statm: size resident shared …, in pages.
    let words = Self.read("/proc/\(pid)/statm")?.split(separator: " ")
    return words.flatMap { $0.count > 1 ? Int($0[1]) : nil }.map { $0 * Int(sysconf(Int32(_SC_PAGESIZE))) }
  }

  /// The most resident memory that it ever had, in bytes: what a sample now and then would miss. nil when the process is gone.
  var mostResidentBytes: Int? {
    // status: "VmHWM:", blanks, kilobytes.
    let line = Self.read("/proc/\(pid)/status")?.split(separator: "\n").first { $0.hasPrefix("VmHWM:") }
    let words = line?.split(whereSeparator: \.isWhitespace)
    let peak = words.flatMap { $0.count > 1 ? Int($0[1]) : nil }.map { $0 * 1_024 }
    // The kernel counts a process' pages in batches, and the mark may be a batch behind.
    return residentBytes.map { max($0, peak ?? 0) }
  }

  /// Seconds of CPU that it has used; nil when the process is gone.
  var cpuSeconds: Double? {
    // The second field is the name in parentheses, which may hold anything; utime and stime are the 14th and 15th.
    guard let text = Self.read("/proc/\(pid)/stat"), let end = text.lastIndex(of: ")") else { return nil }
    let words = text[text.index(after: end)...].split(separator: " ")
    guard words.count > 12, let user = Double(words[11]), let system = Double(words[12]) else { return nil }
    return (user + system) / Double(sysconf(Int32(_SC_CLK_TCK)))
  }

  private static func read(_ path: String) -> String? {
    FileManager.default.contents(atPath: path).map { String(decoding: $0, as: UTF8.self) }
  }
}
