import Foundation
import TestSupport
import Testing

@Suite("The container image")
struct ContainerTests {
  private static func containerfile() throws -> String { try text(of: "deploy/container/Containerfile") }

  /// The words that look like Debian's run-time libraries.
  private static func libraries(in text: Substring) -> Set<String> {
    Set(
      text.split { $0.isWhitespace || "\\`".contains($0) }.map(String.init)
        .filter { $0.hasPrefix("lib") && !$0.contains("/") })
  }

  private static func runStage() throws -> Substring {
    let file = try containerfile()
    let start = try #require(file.range(of: "FROM ${DEBIAN_IMAGE}"))
    return file[start.lowerBound...]
  }

  private static let isBookworm =
    (try? String(contentsOfFile: "/etc/os-release", encoding: .utf8))?
    .contains("VERSION_ID=\"12\"") == true

  @Test(
    "the image has every library that the program is linked to, and the service's page names the same",
    .enabled(if: isBookworm, "only Debian 12 has the packages under the image's names"))
  func libraries() async throws {
    let installed = Self.libraries(in: try Self.runStage())
    let program = try #require(Touchline.executable).path
    let places = try await succeed(URL(fileURLWithPath: "/usr/bin/ldd"), [program]).split(separator: "\n")
      .compactMap { $0.split(separator: " ").first { $0.hasPrefix("/") }.map(String.init) }
      .filter { $0.hasPrefix("/lib/") || $0.hasPrefix("/usr/lib/") }
    let owners = try await succeed(
      URL(fileURLWithPath: "/usr/bin/dpkg"), ["-S"] + places.map { "*/\(($0 as NSString).lastPathComponent)" }
    )
    let needed = Set(
      owners.split(separator: "\n").compactMap { line in
        places.contains { line.hasSuffix("/\(($0 as NSString).lastPathComponent)") }
          ? line.split(separator: ":").first.map(String.init) : nil
      })
    // In every Debian, or brought by those that are named.
    let brought: Set = [
      "libc6", "libgcc-s1", "libcap2", "libtinfo6", "zlib1g", "liblzma5", "libzstd1", "liblz4-1",
      "libgcrypt20",
      "libgpg-error0",
    ]
    #expect(needed.contains("libnghttp2-14"), "\(owners)")
    #expect(needed.subtracting(brought).isSubset(of: installed), "\(needed.subtracting(installed))")
    // Found when a client command is run, not when the program is linked.
    #expect(installed.contains("libwebsockets-evlib-uv"))
    let page = try text(of: "docs/deploying.md")
    let line = try #require(
      page.split(separator: "\n").first { $0.hasPrefix("apt-get install libwebsockets") })
    #expect(Self.libraries(in: line) == installed.subtracting(["libstdc++6"]))
  }

  @Test("it runs as nobody, asks the program itself for its health, and copies only what the project has")
  func form() throws {
    let file = try Self.containerfile()
    let lines = file.split(separator: "\n").map(String.init)
    #expect(lines.contains("USER 65534:65534"))
    #expect(lines.contains { $0.hasPrefix("HEALTHCHECK ") && $0.contains(#"CMD ["touchline", "health""#) })
    #expect(lines.contains(#"ENTRYPOINT ["touchline"]"#))
    #expect(!file.contains(":latest"))
    for line in lines where line.hasPrefix("COPY ") && !line.contains("--from=") {
      let source = try #require(line.split(separator: " ").dropFirst().first).description
      #expect(
        FileManager.default.fileExists(atPath: project.appendingPathComponent(source).path), "\(line)")
    }
  }

  @Test("its settings listen where the engine's ports lead, and don't start without keys")
  func settings() async throws {
    let ending = try await Touchline.run([
      "serve", "--config", project.appendingPathComponent("deploy/container/touchline.json").path,
      "--listen", "0.0.0.0:0", "--provider-listen", "off", "--store", "memory", "--keys", "/nowhere/keys",
    ])
    #expect(ending.code == 1 && ending.errors.contains("/nowhere/keys"), "\(ending.errors)")
    let file = try Self.containerfile()
    let settings = try text(of: "deploy/container/touchline.json")
    #expect(file.contains("EXPOSE 8080 8443"))
    #expect(settings.contains(#""listen": "0.0.0.0:8080""#))
    #expect(settings.contains(#""provider-listen": "0.0.0.0:8443""#))
    #expect(
      settings.contains(#""store": "/var/lib/touchline/"#) && file.contains("VOLUME /var/lib/touchline\n"))
  }
}
