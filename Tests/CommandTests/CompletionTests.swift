import Foundation
import TestSupport
import Testing

/// Programs that deploy/setup --tests installs.
private enum Tools {
  static func has(_ name: String) -> Bool { FileManager.default.isExecutableFile(atPath: "/usr/bin/\(name)") }

  static func run(_ name: String, _ arguments: [String]) async throws -> Ending {
    let program = try RunningProgram(URL(fileURLWithPath: "/usr/bin/\(name)"), arguments)
    program.closeInput()
    return try await program.ending()
  }
}

@Suite("completion")
struct CompletionTests {
  /// What bash completes at the end of a command line, in a shell of its own that sourced the script.
  private func complete(_ line: String, in folder: Folder, environment: [String: String] = [:]) async throws
    -> [String]
  {
    let program = try #require(Touchline.executable)
    let script = try await Touchline.run(["completion", "bash"])
    try folder.write("touchline.bash", script.output)
    // As bash splits it: an equals sign is a word by itself.
    let driver = #"""
      set -u
      export PATH="$2:$PATH"
      cd "$3"
      source touchline.bash
      read -r -a words <<<"${1//=/ = }"
      [[ $1 == *" " ]] && words+=("")
      COMP_WORDS=("${words[@]}") COMP_CWORD=$((${#words[@]} - 1)) COMP_LINE=$1 COMP_POINT=${#1}
      compopt() { :; }
      _touchline
      printf '%s\n' "${COMPREPLY[@]}"
      """#
    let shell = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/env"),
      ["bash", "-c", driver, "bash", line, program.deletingLastPathComponent().path, folder.url.path],
      environment: environment)
    shell.closeInput()
    let ending = try await shell.ending()
    #expect(ending.code == 0 && ending.errors == "", "\(line): \(ending.errors)")
    return ending.lines.filter { !$0.isEmpty }
  }

  @Test("bash completes commands, options, values, files and folders")
  func bash() async throws {
    try await withFolder(["final.json": "{}"]) { folder in
      try FileManager.default.createDirectory(
        atPath: folder.path("finals"), withIntermediateDirectories: true)
      for (line, expected) in [
        ("touchline se", ["serve"]),
        ("touchline c", ["channel", "check", "completion"]),
        ("touchline serve --log-l", ["--log-level"]),
        ("touchline serve --log-level ", ["debug", "info", "warning", "error"]),
        ("touchline serve --log-level w", ["warning"]),
        ("touchline serve --log-level=w", ["warning"]),
        ("touchline serve --strict=t", ["true"]),
        ("touchline serve --ping-seconds ", []),
        ("touchline serve --channels fin", ["finals"]),
        ("touchline serve --check-config --me", ["--metrics", "--metrics-token"]),
        ("touchline check fin", ["final.json", "finals"]),
        ("touchline channel ", ["create", "list", "show", "delete"]),
        ("touchline token m", ["mint"]),
        ("touchline completion ", ["bash", "zsh", "fish"]),
        ("touchline man tr", ["trust"]),
        ("touchline help tr", ["trust"]),
        ("touchline trust --format ", ["plain", "json"]),
      ] {
        #expect(try await complete(line, in: folder).sorted() == expected.sorted(), "\(line)")
      }
    }
  }

  @Test("bash completes the aliases of a server's channels")
  func aliases() async throws {
    try await withServer { server in
      try await server.succeed("channel", "create", "final")
      try await server.succeed("channel", "create", "semi")
      try await withFolder { folder in
        let names = try await complete(
          "touchline watch ", in: folder, environment: ["TOUCHLINE_SERVER": server.address])
        #expect(names.sorted() == ["final", "semi"])
        let nobody = try await complete(
          "touchline watch ", in: folder, environment: ["TOUCHLINE_SERVER": "http://127.0.0.1:1"])
        #expect(nobody.isEmpty)
      }
    }
  }

  /// bash expands the words that it completes with, and a terminal does what it is told.
  @Test("what a server calls its channels runs nothing and paints nothing")
  func hostileNames() async throws {
    let script = #"""
      import http.server, json
      class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self):
          names = ["$(touch${IFS}pwned)", "`touch${IFS}pwned`", "final", "\x1b[31mred", "a b"]
          body = {"channels": [{"id": "x", "alias": name} for name in names]}
          if self.path != "/v1/channels": body = {"reason": "No", "message": "\x1b[31mred\nline"}
          self.send_response(200 if "channels" in body else 400)
          self.end_headers()
          self.wfile.write(json.dumps(body).encode())
        def log_message(self, *words): pass
      server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
      print(server.server_port, flush=True)
      server.serve_forever()
      """#
    let hostile = try RunningProgram(URL(fileURLWithPath: "/usr/bin/python3"), ["-c", script])
    let environment = ["TOUCHLINE_SERVER": "http://127.0.0.1:\(try await hostile.lines(1)[0])"]
    try await withFolder { folder in
      let names = try await complete("touchline watch ", in: folder, environment: environment)
      #expect(names == ["final", "a"])
      #expect(!FileManager.default.fileExists(atPath: folder.path("pwned")))
    }
    for words in [["channel", "list"], ["channel", "show", "final"]] {
      let ending = try await Touchline.run(words, environment: environment)
      #expect(!(ending.output + ending.errors).contains("\u{1B}"), "\(ending.output)\(ending.errors)")
      #expect((ending.output + ending.errors).contains("[31mred"))
    }
    hostile.signal(SIGTERM)
    _ = try await hostile.ending()
  }

  @Test("every command with all its options is in each script", arguments: ["bash", "zsh", "fish"])
  func complete(_ shell: String) async throws {
    let script = try await Touchline.run(["completion", shell])
    #expect(script.code == 0 && script.errors == "")
    for command in HelpTests.commands {
      #expect(script.output.contains(command))
      let help = try await Touchline.run([command, "--help"])
      for line in help.lines where line.hasPrefix("  --") {
        let name = line.dropFirst(2).prefix { $0 != " " && $0 != "[" }
        let word = shell == "fish" ? "-l \(name.dropFirst(2)) " : "\(name)"
        #expect(script.output.contains(word), "\(command) \(name)")
      }
    }
  }

  @Test("bash takes its script without a complaint")
  func bashSyntax() async throws { try await check("bash") }

  @Test("zsh takes its script without a complaint", .enabled(if: Tools.has("zsh"), "zsh is not installed"))
  func zshSyntax() async throws { try await check("zsh") }

  @Test("fish takes its script without a complaint", .enabled(if: Tools.has("fish"), "fish is not installed"))
  func fishSyntax() async throws { try await check("fish") }

  private func check(_ shell: String) async throws {
    try await withFolder { folder in
      let script = try await Touchline.run(["completion", shell])
      let file = try folder.write("touchline.\(shell)", script.output)
      let ending = try await Tools.run(shell, ["-n", file])
      #expect(ending.code == 0 && ending.errors == "" && ending.output == "", "\(ending.errors)")
    }
  }

  @Test("another shell is refused, exit 2")
  func unknown() async throws {
    let ending = try await Touchline.run(["completion", "ksh"])
    #expect(ending.code == 2 && ending.errors.contains("bash, zsh or fish was expected"))
  }
}

@Suite("man")
struct ManTests {
  @Test("a page has what --help has")
  func page() async throws {
    let page = try await Touchline.run(["man", "serve"])
    #expect(page.code == 0 && page.output.hasPrefix(".TH TOUCHLINE\\-SERVE 1 "))
    for part in [
      ".SH NAME", ".SH SYNOPSIS", ".SH OPTIONS", "\\fB\\-\\-log\\-level\\fR \\fIdebug|info|warning|error\\fR",
      ".SH ENVIRONMENT", "\\fBTOUCHLINE_LOG_LEVEL\\fR", ".SH EXAMPLES", ".SH EXIT STATUS",
    ] {
      #expect(page.output.contains(part), "\(part)")
    }
    let overview = try await Touchline.run(["man"])
    for command in HelpTests.commands {
      #expect(overview.output.contains("\\fBtouchline\\-\(command)\\fR(1)"), "\(command)")
    }
  }

  @Test("all pages are written into a folder, and --dir stands alone")
  func folder() async throws {
    try await withFolder { folder in
      let ending = try await Touchline.run(["man", "--dir", folder.path("man1")])
      #expect(ending.code == 0 && ending.lines.count >= 16, "\(ending.errors)")
      #expect(ending.lines.contains(folder.path("man1/touchline-serve.1")))
      let both = try await Touchline.run(["man", "serve", "--dir", folder.path("man1")])
      #expect(both.code == 2 && both.errors.contains("--dir writes all pages"))
    }
  }

  @Test("groff has no warning for any page", .enabled(if: Tools.has("groff"), "groff is not installed"))
  func groff() async throws { try await check("groff", ["-man", "-Tutf8", "-ww", "-z"]) }

  @Test("mandoc has nothing to say of any page", .enabled(if: Tools.has("mandoc"), "mandoc is not installed"))
  func mandoc() async throws { try await check("mandoc", ["-T", "lint", "-W", "style"]) }

  private func check(_ checker: String, _ words: [String]) async throws {
    try await withFolder { folder in
      for page in try await Touchline.run(["man", "--dir", folder.path("man1")]).lines {
        let check = try await Tools.run(checker, words + [page])
        #expect(check.code == 0 && check.output == "" && check.errors == "", "\(check.output)\(check.errors)")
      }
    }
  }

  @Test("what is no command is refused with a suggestion, exit 2")
  func unknown() async throws {
    let ending = try await Touchline.run(["man", "serv"])
    #expect(ending.code == 2 && ending.errors.contains("did you mean \"serve\"?"))
  }
}
