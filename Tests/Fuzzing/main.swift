// Why: one program for all parsers, because each would link the same modules. deploy/fuzz builds and runs it.

import CFuzzer
import Foundation

/// Writes to standard error and ends the program.
func stop(_ message: String) -> Never {
  FileHandle.standardError.write(Data("\(message)\n".utf8))
  exit(2)
}

let usage = """
  Usage: Fuzzing --list | --seeds TARGET FOLDER REPOSITORY | TARGET [OPTIONS OF LIBFUZZER] [CORPUS]
  """

switch CommandLine.arguments.dropFirst().first {
case "--list": for target in FuzzTarget.all { print(target.name) }
case "--seeds":
  guard CommandLine.arguments.count == 5, let target = FuzzTarget.named(CommandLine.arguments[2]) else {
    stop(usage)
  }
  do {
    try Seeds(repository: CommandLine.arguments[4]).write(target, to: CommandLine.arguments[3])
  } catch {
    stop("the seeds of \(target.name) can't be written: \(error)")
  }
case let name?:
  guard let target = FuzzTarget.named(name) else { stop(usage) }
  FuzzTarget.running = target
  // libFuzzer gets the command line without the target's name.
  var count = CommandLine.argc - 1
  var words = Optional(CommandLine.unsafeArgv + 1)
  words?[0] = CommandLine.unsafeArgv[0]
  let code = LLVMFuzzerRunDriver(&count, &words) { bytes, size in
    FuzzTarget.running?.check(Array(UnsafeBufferPointer(start: bytes, count: size)))
    return 0
  }
  exit(code)
case nil: stop(usage)
}
