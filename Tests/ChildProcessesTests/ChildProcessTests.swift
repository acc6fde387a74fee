import Foundation
import Testing

@testable import ChildProcesses

@Suite("Child processes") struct ChildProcessTests {
  /// Runs a shell's script, and gives how it ended and what it wrote on standard output.
  private func shell(
    _ script: String, environment: [String: String] = ["PATH": "/usr/bin:/bin"]
  ) throws -> (ending: ChildProcess.Ending, output: String) {
    let (read, written) = try ChildProcess.pipe()
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    let child = try ChildProcess(
      "/bin/sh", ["-c", script], environment: environment, input: nothing, output: written, errors: nothing)
    close(written)
    close(nothing)
    let output = try FileHandle(fileDescriptor: read, closeOnDealloc: true).readToEnd() ?? Data()
    return (child.waitForEnd(), String(decoding: output, as: UTF8.self))
  }

  @Test("the code that it exits with, or the signal that ends it, is told")
  func endings() throws {
    #expect(try shell("exit 0").ending == .exited(0))
    #expect(try shell("exit 7").ending == .exited(7))
    #expect(try shell("kill -TERM $$").ending == .signalled(SIGTERM))
  }

  @Test("a signal that this process ignores ends it all the same")
  func ignoredSignals() throws {
    signal(SIGPIPE, SIG_IGN)
    #expect(try shell("kill -PIPE $$").ending == .signalled(SIGPIPE))
  }

  @Test("it has the arguments, the environment and a process group of its own, and blocks no signal")
  func surroundings() throws {
    // With the shell's own means: while it starts a program it may have signals blocked itself.
    let look = #"while read -r name mask; do [ "$name" != SigBlk: ] || echo "$mask"; done </proc/$$/status"#
    let script = #"echo "$A|$HOME|$(cut -d ' ' -f 5 /proc/$$/stat)|$$"; "# + look
    var mask = sigset_t()
    sigemptyset(&mask)
    sigaddset(&mask, SIGUSR1)
    var before = sigset_t()
    pthread_sigmask(SIG_BLOCK, &mask, &before)
    defer { pthread_sigmask(SIG_SETMASK, &before, nil) }
    let lines = try shell(script, environment: ["PATH": "/usr/bin:/bin", "A": "ü b"]).output.split(
      separator: "\n")
    let parts = lines[0].split(separator: "|", omittingEmptySubsequences: false)
    #expect(parts[0] == "ü b" && parts[1] == "" && parts[2] == parts[3])
    #expect(lines[1] == "0000000000000000")
  }

  @Test("it inherits no descriptor but its three")
  func descriptors() throws {
    let open = Glibc.open("/dev/null", O_RDONLY)
    defer { close(open) }
    // ls has one of its own, for the folder that it lists.
    #expect(try shell("ls /proc/self/fd").output == "0\n1\n2\n3\n")
  }

  @Test("a program that isn't there is an error that says so")
  func missing() {
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    let failure = #expect(throws: ChildProcess.SpawnFailure.self) {
      try ChildProcess(
        "/nowhere/program", [], environment: [:], input: nothing, output: nothing, errors: nothing)
    }
    #expect(failure?.description == "No such file or directory")
  }

  @Test("one that has ended is not sent a signal, and its end can be asked for again")
  func over() throws {
    let nothing = open("/dev/null", O_RDWR | O_CLOEXEC)
    defer { close(nothing) }
    let child = try ChildProcess(
      "/bin/sleep", ["1000"], environment: [:], input: nothing, output: nothing, errors: nothing)
    #expect(child.isRunning && child.ending == nil)
    child.signal(SIGKILL)
    #expect(child.waitForEnd() == .signalled(SIGKILL))
    child.signal(SIGKILL)
    #expect(!child.isRunning && child.waitForEnd() == .signalled(SIGKILL))
  }
}
