import Credentials
import Foundation
import TestSupport
import Testing

@Suite("The development authority")
struct DevelopmentAuthorityTests {
  let folder: Folder
  let now = Date(timeIntervalSince1970: 1_800_000_000)
  static let day: Double = 86_400

  init() throws { folder = try Folder() }

  private var tls: String { folder.file("tls") }

  private func make(days: Double = 0, host: String = "scorebox") throws -> DevelopmentAuthority {
    try DevelopmentAuthority(folder: tls, hostName: host, now: now.addingTimeInterval(days * Self.day))
  }

  private func openssl(_ words: String...) throws -> String { try run("/usr/bin/openssl", words) }

  private func verify(at date: Date, _ more: String...) throws -> String {
    try run(
      "/usr/bin/openssl",
      [
        "verify", "-x509_strict", "-attime", String(Int(date.timeIntervalSince1970)), "-CAfile",
        "\(tls)/ca.pem",
        "-purpose", "sslserver",
      ] + more + ["\(tls)/server.pem"])
  }

  private func failure(days: Double = 0) -> String {
    do throws(DevelopmentAuthority.Failure) {
      _ = try DevelopmentAuthority(
        folder: tls, hostName: "scorebox", now: now.addingTimeInterval(days * Self.day))
      return ""
    } catch {
      return error.description
    }
  }

  @Test("the first use makes an authority and a certificate, with keys that only their owner reads")
  func created() throws {
    let authority = try make()
    #expect(authority.outcome == .created && authority.notes == [])
    #expect(try folder.mode("tls") == 0o700)
    for (name, mode) in [
      ("ca.pem", 0o644), ("ca-key.pem", 0o600), ("server.pem", 0o644), ("server-key.pem", 0o600),
    ] {
      #expect(try folder.mode("tls/\(name)") == mode)
    }
    #expect(try FileManager.default.contentsOfDirectory(atPath: tls).count == 4)
    #expect(authority.authorityPath == "\(tls)/ca.pem" && authority.keyPath == "\(tls)/server-key.pem")
    let chain = try folder.read("tls/server.pem")
    #expect(chain.components(separatedBy: "-----BEGIN CERTIFICATE-----").count == 3)
    #expect(chain.hasSuffix(try folder.read("tls/ca.pem")))
  }

  @Test("OpenSSL verifies the certificate strictly, for each name, from an hour before to the last day")
  func verified() throws {
    let authority = try make()
    for days in [0, 200, 396.9] {
      #expect(try verify(at: now.addingTimeInterval(days * Self.day)).hasSuffix("server.pem: OK\n"))
    }
    #expect(try verify(at: now.addingTimeInterval(-3_599)).hasSuffix("OK\n"))
    #expect(try verify(at: now.addingTimeInterval(397.1 * Self.day)).contains("expired"))
    let names = ["localhost", "scorebox"] + DevelopmentAuthority.appleNames
    for name in names { #expect(try verify(at: now, "-verify_hostname", name).hasSuffix("OK\n")) }
    for address in ["127.0.0.1", "::1"] {
      #expect(try verify(at: now, "-verify_ip", address).hasSuffix("OK\n"))
    }
    #expect(try verify(at: now, "-verify_hostname", "example.com").contains("ostname mismatch"))
    #expect(Set(authority.names) == Set(names + ["127.0.0.1", "::1"]))
  }

  @Test("the certificates say what they are for")
  func contents() throws {
    let authority = try make()
    let ca = try openssl("x509", "-in", "\(tls)/ca.pem", "-noout", "-text")
    for text in [
      "Subject: CN = Touchline development CA scorebox", "CA:TRUE, pathlen:0", "Certificate Sign, CRL Sign",
      "X509v3 Subject Key Identifier", "NIST CURVE: P-256", "ecdsa-with-SHA256", "Version: 3",
    ] { #expect(ca.contains(text), "\(text)\n\(ca)") }
    let server = try openssl("x509", "-in", "\(tls)/server.pem", "-noout", "-text")
    for text in [
      "CA:FALSE", "TLS Web Server Authentication", "X509v3 Authority Key Identifier", "Digital Signature",
      "Issuer: CN = Touchline development CA scorebox",
    ] { #expect(server.contains(text), "\(text)\n\(server)") }
    let fingerprint = try openssl("x509", "-in", "\(tls)/ca.pem", "-noout", "-fingerprint", "-sha256")
    #expect(fingerprint.contains(authority.fingerprint) && authority.fingerprint.count == 95)
  }

  @Test("a second start keeps every file")
  func kept() throws {
    let first = try make()
    let files = try ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"].map {
      try folder.read("tls/\($0)")
    }
    let second = try make(days: 366)
    #expect(second.outcome == .kept && second.fingerprint == first.fingerprint)
    #expect(
      try ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"].map { try folder.read("tls/\($0)") }
        == files)
  }

  @Test("with less than 30 days left, or another machine name, only the server's certificate is new")
  func renewed() throws {
    let first = try make()
    let (ca, key, old) = (
      try folder.read("tls/ca.pem"), try folder.read("tls/server-key.pem"), try folder.read("tls/server.pem")
    )
    let later = try make(days: 367)
    #expect(later.outcome == .renewed && later.fingerprint == first.fingerprint)
    #expect(try folder.read("tls/ca.pem") == ca)
    #expect(try folder.read("tls/server-key.pem") == key)
    #expect(try folder.read("tls/server.pem") != old)
    #expect(try verify(at: now.addingTimeInterval(700 * Self.day)).hasSuffix("OK\n"))
    #expect(try make(days: 367, host: "otherbox").outcome == .renewed)
    #expect(
      try verify(at: now.addingTimeInterval(400 * Self.day), "-verify_hostname", "otherbox").hasSuffix("OK\n")
    )
    #expect(try make(days: 367, host: "otherbox").outcome == .kept)
  }

  @Test("the server's certificate never outlives the authority, whose end is an error that says what to do")
  func authorityEnds() throws {
    _ = try make()
    let last = try make(days: 3_500)
    #expect(last.certificateExpires == last.authorityExpires)
    #expect(failure(days: 3_651).contains("move the folder \(tls) away and trust the new ca.pem"))
  }

  @Test("an authority from the future, made by a wrong clock, is told; a server's certificate is made anew")
  func wrongClock() throws {
    _ = try make()
    #expect(failure(days: -1).contains("which has yet to come; set this machine's clock"))
    _ = try make(days: 380)
    #expect(try make(days: 300).outcome == .renewed)
  }

  @Test("what an interrupted start left is completed")
  func interrupted() throws {
    let first = try make()
    for name in ["server.pem", "server-key.pem"] {
      try FileManager.default.removeItem(atPath: "\(tls)/\(name)")
      let authority = try make()
      #expect(authority.outcome == .renewed && authority.fingerprint == first.fingerprint)
      #expect(try verify(at: now).hasSuffix("OK\n"))
    }
    try FileManager.default.removeItem(atPath: "\(tls)/ca.pem")
    let old = try folder.read("tls/ca-key.pem")
    #expect(try make().outcome == .created)
    #expect(try folder.read("tls/ca-key.pem") == old)
    #expect(try verify(at: now).hasSuffix("OK\n"))
  }

  @Test(
    "a broken or foreign file is an error with its name, and stays as it is",
    arguments: ["ca.pem", "ca-key.pem", "server.pem", "server-key.pem"])
  func broken(_ name: String) throws {
    _ = try make()
    try folder.write("broken", "tls/\(name)")
    let message = failure()
    #expect(
      message.contains("\(tls)/\(name)") && (message.contains("away") || message.contains("delete it")),
      "\(message)")
    #expect(try folder.read("tls/\(name)") == "broken")
  }

  @Test("another authority's certificate or key is not taken for ours")
  func foreign() throws {
    _ = try make()
    let other = try Folder()
    _ = try DevelopmentAuthority(folder: other.path, hostName: "x", now: now)
    let (key, server) = (try folder.read("tls/ca-key.pem"), try folder.read("tls/server.pem"))
    try folder.write(try other.read("ca-key.pem"), "tls/ca-key.pem")
    #expect(failure().contains("ca-key.pem is not the key of ca.pem"))
    try folder.write(key, "tls/ca-key.pem")
    try folder.write(try other.read("server.pem"), "tls/server.pem")
    #expect(failure().contains("server.pem is not issued by ca.pem"))
    try folder.write(server, "tls/server.pem")
    try FileManager.default.removeItem(atPath: "\(tls)/ca-key.pem")
    #expect(failure().contains("ca-key.pem is missing beside ca.pem"))
    try folder.write(key, "tls/ca-key.pem")
    try folder.write(server, "tls/ca.pem")
    #expect(failure().contains("ca.pem is no authority's certificate"))
  }

  @Test("a key that others can read is noted")
  func permissions() throws {
    _ = try make()
    try FileManager.default.setAttributes([.posixPermissions: 0o644], ofItemAtPath: "\(tls)/ca-key.pem")
    #expect(try make().notes.first?.contains("ca-key.pem: others on this machine can read") == true)
  }

  @Test(
    "an odd or long machine name doesn't get in the way",
    arguments: ["", "a,DNS:evil.example", "a b", "LOCALHOST", String(repeating: "x", count: 200), "10.0.0.7"])
  func hostNames(_ host: String) throws {
    let authority = try make(host: host)
    #expect(!authority.names.contains { $0.contains(",") || $0.contains(" ") || $0.isEmpty })
    #expect(try verify(at: now, "-verify_hostname", "localhost").hasSuffix("OK\n"))
    #expect(try verify(at: now, "-verify_hostname", "evil.example").contains("ostname mismatch"))
    #expect(try make(host: host).outcome == .kept)
  }

  @Test("Python's ssl and curl trust it, by Apple's host name too")
  func clients() throws {
    let authority = try DevelopmentAuthority(folder: tls, hostName: "scorebox", now: Date())
    let script = """
      import http.server, ssl, subprocess, socket, threading
      context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
      context.load_cert_chain("\(authority.certificatePath)", "\(authority.keyPath)")
      class Handler(http.server.BaseHTTPRequestHandler):
          def do_GET(self):
              self.send_response(200); self.send_header("content-length", "2"); self.end_headers(); self.wfile.write(b"ok")
          def log_message(self, *_): pass
      server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
      server.socket = context.wrap_socket(server.socket, server_side=True)
      threading.Thread(target=server.serve_forever, daemon=True).start()
      port = server.server_address[1]
      client = ssl.create_default_context(cafile="\(authority.authorityPath)")
      client.verify_flags |= ssl.VERIFY_X509_STRICT
      for name in ["localhost", "127.0.0.1", "api.push.apple.com"]:
          with client.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname=name) as s: print(s.version())
      words = ["curl", "--silent", "--show-error", "--noproxy", "*", "--cacert", "\(authority.authorityPath)"]
      print(subprocess.run(words + [f"https://localhost:{port}/"], capture_output=True, text=True).stdout)
      print(subprocess.run(words + ["--connect-to", f"api.sandbox.push.apple.com:443:127.0.0.1:{port}", "https://api.sandbox.push.apple.com/"], capture_output=True, text=True).stdout)
      print(subprocess.run(words[:-2] + [f"https://localhost:{port}/"], capture_output=True, text=True).returncode)
      """
    // 60: "Peer certificate cannot be authenticated with known CA certificates" (curl(1)).
    #expect(try python(script) == "TLSv1.3\nTLSv1.3\nTLSv1.3\nok\nok\n60\n")
  }

  @Test("the folder is beside the store, or in the user's data folder")
  func standardFolder() {
    func folder(_ store: String?, _ environment: [String: String] = ["HOME": "/home/a"]) -> String {
      DevelopmentAuthority.standardFolder(store: store, environment: environment)
    }
    #expect(folder("/var/lib/touchline/channels.sqlite") == "/var/lib/touchline/touchline-tls")
    #expect(folder("channels.sqlite") == "touchline-tls")
    #expect(folder("data/channels.sqlite") == "data/touchline-tls")
    #expect(folder("/channels.sqlite") == "/touchline-tls")
    #expect(folder(nil) == "/home/a/.local/share/touchline/tls")
    #expect(folder("memory") == "/home/a/.local/share/touchline/tls")
    #expect(folder(nil, ["HOME": "/home/a", "XDG_DATA_HOME": "/data"]) == "/data/touchline/tls")
    #expect(
      folder(nil, ["HOME": "/home/a", "XDG_DATA_HOME": "data"]) == "/home/a/.local/share/touchline/tls")
    #expect(folder(nil, [:]) == "touchline-tls")
  }
}
