import Foundation
import TestSupport
import Testing

@Suite("touchline trust")
struct TrustTests {
  struct Trusted: Decodable {
    let ca, sha256, certificate, key: String
    let names: [String]
  }

  @Test("the first run makes the authority and says so, the second shows the same")
  func madeOnce() async throws {
    try await withFolder { folder in
      let words = ["trust", "--tls-dir", folder.path("t ls"), "--format", "json"]
      let first = try await Touchline.run(words)
      #expect(
        first.code == 0 && first.errors.contains("made a new certificate authority in \(folder.path("t ls"))")
      )
      let second = try await Touchline.run(words)
      #expect(second.code == 0 && second.errors == "" && second.output == first.output)
      let trusted: Trusted = try decoded(first.output)
      #expect(trusted.ca == folder.path("t ls/ca.pem"))
      #expect(trusted.names.contains("localhost") && trusted.names.contains("api.push.apple.com"))
      #expect(FileManager.default.fileExists(atPath: trusted.certificate))
      let plain = try await Touchline.run(["trust", "--tls-dir", folder.path("t ls")])
      for text in [
        trusted.sha256, "--cacert '\(trusted.ca)'", "SSL_CERT_FILE='\(trusted.ca)' python3",
        "NODE_EXTRA_CA_CERTS='\(trusted.ca)' node", "go run", "--connect-to api.sandbox.push.apple.com:443:",
        "/etc/hosts", "127.0.0.1 api.push.apple.com ",
      ] { #expect(plain.output.contains(text), "\(text)\n\(plain.output)") }
    }
  }

  @Test("the folder is beside the store, or in the user's data folder")
  func folders() async throws {
    try await withFolder { folder in
      let store = try await Touchline.run([
        "trust", "--store", folder.path("channels.sqlite"), "--format", "json",
      ])
      let beside: Trusted = try decoded(store.output)
      #expect(beside.ca == folder.path("touchline-tls/ca.pem"))
      let data = try await Touchline.run(
        ["trust", "--format", "json"], environment: ["XDG_DATA_HOME": folder.path("data")])
      let own: Trusted = try decoded(data.output)
      #expect(own.ca == folder.path("data/touchline/tls/ca.pem"))
      #expect(!FileManager.default.fileExists(atPath: folder.path("channels.sqlite")))
    }
  }

  @Test("a broken file is told and left as it is")
  func broken() async throws {
    try await withFolder { folder in
      let words = ["trust", "--tls-dir", folder.url.path]
      #expect(try await Touchline.run(words).code == 0)
      try folder.write("ca.pem", "broken")
      let ending = try await Touchline.run(words)
      #expect(ending.code == 1 && ending.output == "")
      #expect(
        ending.errors.contains("ca.pem holds no certificate that can be read; to start over, move the folder")
      )
      #expect(try String(contentsOfFile: folder.path("ca.pem"), encoding: .utf8) == "broken")
    }
  }

  @Test("--tls-dir and --store don't go together")
  func nonsense() async throws {
    let ending = try await Touchline.run(["trust", "--tls-dir", "a", "--store", "b"])
    #expect(ending.code == 2 && ending.errors.contains("--tls-dir and --store don't go together"))
    #expect(try await Touchline.run(["trust", "--store", ""]).code == 2)
  }
}
