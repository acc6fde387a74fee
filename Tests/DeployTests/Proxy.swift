import Foundation
import TestSupport
import Testing

/// nginx with the files of deploy/nginx, in front of a server. Paths, ports and times are changed, and nothing else.
struct Proxy {
  let program: RunningProgram
  let port: UInt16
  let streamPort: UInt16
  private let errorLog: String

  /// Starts it, as soon as it can be reached.
  ///
  /// - Parameter timeout: takes the place of the file's 75 s.
  init(in folder: URL, before server: DeployedServer, timeout: String = "75s") async throws {
    let binary = try #require(Tool.nginx)
    (port, streamPort) = (try freePort(), try freePort())
    errorLog = folder.appendingPathComponent("nginx-error.log").path
    let site = try Self.changed(
      "deploy/nginx/touchline.conf",
      [
        ("listen 443 ssl", "listen 127.0.0.1:\(port) ssl"),
        ("http://127.0.0.1:8080;", "\(server.address);"),
        ("/etc/nginx/touchline/fullchain.pem", server.certificate),
        ("/etc/nginx/touchline/privkey.pem", server.folder.appendingPathComponent("tls/server-key.pem").path),
        ("/var/log/nginx/touchline-error.log", folder.appendingPathComponent("nginx-site-error.log").path),
        ("/var/log/nginx/touchline.log", folder.appendingPathComponent("nginx.log").path),
        ("proxy_read_timeout 75s", "proxy_read_timeout \(timeout)"),
        ("proxy_send_timeout 75s", "proxy_send_timeout \(timeout)"),
      ])
    let stream = try Self.changed(
      "deploy/nginx/touchline-stream.conf",
      [
        ("listen 8444;", "listen 127.0.0.1:\(streamPort);"),
        ("proxy_pass 127.0.0.1:8443;", "proxy_pass 127.0.0.1:\(server.providerPort);"),
      ])
    let temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"].map {
      "\($0)_temp_path \(folder.path)/nginx-\($0);"
    }
    let file = folder.appendingPathComponent("nginx.conf")
    try """
    daemon off; worker_processes 1; pid \(folder.path)/nginx.pid; \(try Self.streamModule())
    events { worker_connections 256; }
    http { \(temporary.joined(separator: " "))
    \(site)
    }
    \(stream)
    """.write(to: file, atomically: true, encoding: .utf8)
    program = try RunningProgram(binary, ["-c", file.path, "-p", folder.path, "-e", errorLog])
    let (port, streamPort, errorLog) = (port, streamPort, errorLog)
    try await eventually("nginx: \((try? String(contentsOfFile: errorLog, encoding: .utf8)) ?? "")") {
      [port, streamPort].allSatisfy { (try? RawSocket(port: $0)) != nil } ? () : nil
    }
  }

  /// What the file says must be there to be changed; otherwise the test would try another file than the one that is shipped.
  private static func changed(_ path: String, _ changes: [(from: String, to: String)]) throws -> String {
    var text = try text(of: path)
    for change in changes {
      try #require(text.contains(change.from), "\(path) has no \"\(change.from)\"")
      text = text.replacing(change.from, with: change.to)
    }
    return text
  }

  /// Debian's module is a file of its own.
  private static func streamModule() throws -> String {
    let places = [
      project.appendingPathComponent(".build/tools/usr/lib/nginx/modules").path, "/usr/lib/nginx/modules",
    ]
    let module = try #require(
      places.map { "\($0)/ngx_stream_module.so" }.first { FileManager.default.fileExists(atPath: $0) },
      "libnginx-mod-stream isn't there; deploy/setup --tests brings it")
    return "load_module \(module);"
  }

  /// Stops it, and checks that it ended well.
  func stop() async throws {
    program.signal(SIGTERM)
    let ending = try await program.ending()
    #expect(ending.code == 0, "\(ending.errors)")
  }
}

/// A WebSocket client that is not ours: it prints each message, and why it ended. A line on its input ends it.
struct ProxyClient {
  let program: RunningProgram

  private static let script = """
    import asyncio, ssl, sys, websockets
    async def main():
      context = ssl.create_default_context(cafile=sys.argv[2])
      # Without pings of its own: only the server's keep the way open.
      async with websockets.connect(sys.argv[1], ssl=context, ping_interval=None) as socket:
        print("open", flush=True)
        try:
          while True: print(await socket.recv(), flush=True)
        except websockets.ConnectionClosed as end:
          print("closed", end.rcvd.code if end.rcvd else "without a word", flush=True)
    asyncio.run(main())
    """

  init(_ url: String, authority: String) async throws {
    program = try RunningProgram(
      URL(fileURLWithPath: "/usr/bin/python3"), ["-c", Self.script, url, authority])
    try await program.lines(1)
  }
}
