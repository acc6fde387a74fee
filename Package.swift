// swift-tools-version: 6.2
import Foundation
import PackageDescription

let package = Package(
  name: "touchline",
  targets: [
    // C libraries from Debian. deploy/setup installs them; the README gives the reason for each.
    .systemLibrary(
      name: "CLibwebsockets", pkgConfig: "libwebsockets", providers: [.apt(["libwebsockets-dev"])]),
    .systemLibrary(name: "CLibuv", pkgConfig: "libuv", providers: [.apt(["libuv1-dev"])]),
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev"])]),
    .systemLibrary(name: "CNghttp2", pkgConfig: "libnghttp2", providers: [.apt(["libnghttp2-dev"])]),
    .systemLibrary(name: "CSQLite", pkgConfig: "sqlite3", providers: [.apt(["libsqlite3-dev"])]),
    .systemLibrary(name: "CSystemd", pkgConfig: "libsystemd", providers: [.apt(["libsystemd-dev"])]),

    .systemLibrary(name: "CNcurses", providers: [.apt(["libncurses-dev"])]),

    // The lock that everybody takes.
    .target(name: "Locks"),

    // I/O without a rule.
    .target(
      name: "CNcursesShims", dependencies: ["CNcurses"],
      linkerSettings: [.linkedLibrary("ncursesw"), .linkedLibrary("tinfo")]),
    .target(name: "Terminal", dependencies: ["CNcursesShims"]),
    .testTarget(name: "TerminalTests", dependencies: ["Terminal", "LiveActivities", "touchline"]),
    .target(name: "CLibwebsocketsShims", dependencies: ["CLibwebsockets"]),
    .target(name: "COpenSSLShims", dependencies: ["COpenSSL"]),
    .target(
      name: "EventLoop",
      dependencies: [
        "CLibwebsockets", "CLibwebsocketsShims", "CLibuv", "CLinux", "COpenSSL", "COpenSSLShims", "CNghttp2",
        "Locks",
      ]),
    .testTarget(name: "EventLoopTests", dependencies: ["EventLoop", "TestSupport", "CNghttp2"]),

    // Programs as children of this one.
    .systemLibrary(name: "CLinux"),
    .target(name: "ChildProcesses", dependencies: ["CLinux", "Locks"]),
    .testTarget(name: "ChildProcessesTests", dependencies: ["ChildProcesses"]),

    // Raw sockets, programs and waiting, for the tests that need a far end.
    .target(name: "TestSupport", dependencies: ["ChildProcesses"], path: "Tests/TestSupport"),

    // Thousands of WebSocket connections of one process, for the soak.
    .target(name: "SubscriberSwarm", dependencies: ["CLinux", "COpenSSL", "COpenSSLShims"]),
    .testTarget(name: "SubscriberSwarmTests", dependencies: ["SubscriberSwarm", "TestSupport", "touchline"]),

    // What systemd wants to hear of a service.
    .target(name: "ServiceManager", dependencies: ["CSystemd"]),

    // Rules without I/O.
    .target(name: "BroadcastChannels"),
    .testTarget(name: "BroadcastChannelsTests", dependencies: ["BroadcastChannels"]),
    .target(name: "LiveActivities", dependencies: ["BroadcastChannels"]),
    .testTarget(name: "LiveActivitiesTests", dependencies: ["LiveActivities"]),
    .target(name: "MatchScripts", dependencies: ["BroadcastChannels"]),
    .testTarget(name: "MatchScriptsTests", dependencies: ["MatchScripts"]),
    .target(name: "Rehearsal", dependencies: ["BroadcastChannels", "LiveActivities", "MatchScripts"]),
    .testTarget(name: "RehearsalTests", dependencies: ["Rehearsal"], exclude: ["Snapshots"]),
    .target(name: "PhoneScreen", dependencies: ["BroadcastChannels", "LiveActivities"]),
    .testTarget(
      name: "PhoneScreenTests", dependencies: ["PhoneScreen", "BroadcastChannels", "LiveActivities"],
      exclude: ["Snapshots"]),
    .target(name: "SubscriberProtocol", dependencies: ["BroadcastChannels"]),
    .target(
      name: "Soak",
      dependencies: ["BroadcastChannels", "MatchScripts", "SubscriberProtocol"]),
    .testTarget(
      name: "SoakTests",
      dependencies: ["Soak", "BroadcastChannels", "LiveActivities", "MatchScripts", "TestSupport"]),
    .testTarget(
      name: "SimulationTests", dependencies: ["BroadcastChannels", "LiveActivities", "TestSupport"]),

    // Who may publish and subscribe, and the server's own certificate.
    .target(name: "Credentials", dependencies: ["BroadcastChannels", "COpenSSL"]),
    .testTarget(name: "CredentialsTests", dependencies: ["Credentials", "BroadcastChannels", "TestSupport"]),

    // Where channels live.
    .target(name: "ChannelStore", dependencies: ["BroadcastChannels", "CSQLite"]),
    .testTarget(
      name: "ChannelStoreTests",
      dependencies: ["ChannelStore", "BroadcastChannels", "CFaultyDisk", "TestSupport"]),
    // A disk that fails and loses its power when a test says so.
    .target(name: "CFaultyDisk", dependencies: ["CSQLite"], path: "Tests/CFaultyDisk"),

    // Rules and I/O joined.
    .target(
      name: "BroadcastServer",
      dependencies: [
        "BroadcastChannels", "SubscriberProtocol", "ChannelStore", "Credentials", "EventLoop", "Locks",
      ]),
    .testTarget(
      name: "BroadcastServerTests",
      dependencies: [
        "BroadcastServer", "BroadcastChannels", "ChannelStore", "CFaultyDisk", "Credentials", "EventLoop",
        "SubscriberProtocol",
        "TestSupport",
      ]),
    .testTarget(
      name: "APIDocumentTests",
      dependencies: [
        "BroadcastChannels", "BroadcastServer", "ChannelStore", "ChildProcesses", "Credentials", "EventLoop",
        "TestSupport",
      ],
      exclude: ["documents.py", "guarded.py", "check_openapi.py", "check_asyncapi.py"]),
    .target(
      name: "BroadcastClient",
      dependencies: ["BroadcastChannels", "Credentials", "SubscriberProtocol", "EventLoop"]),
    .executableTarget(
      name: "touchline",
      dependencies: [
        "BroadcastChannels", "LiveActivities", "MatchScripts", "SubscriberProtocol", "ChannelStore",
        "BroadcastServer", "BroadcastClient", "EventLoop", "Rehearsal", "PhoneScreen", "Terminal",
        "Credentials", "Soak", "SubscriberSwarm", "ServiceManager", "ChildProcesses", "CLinux", "Locks",
      ]),
    .testTarget(name: "CommandTests", dependencies: ["touchline", "TestSupport"]),
    // The real program, killed at random moments, and disks that are full.
    .testTarget(name: "CrashTests", dependencies: ["touchline", "TestSupport", "ChildProcesses"]),
    // APNs libraries and HTTP/2 clients that know nothing of this program; deploy/setup --tests installs them.
    .testTarget(
      name: "SenderTests", dependencies: ["touchline", "TestSupport"],
      exclude: ["senders", "requirements.txt"]),
    // The files of deploy/ with the programs that they are for: nginx, systemd's checks, Prometheus.
    .testTarget(name: "DeployTests", dependencies: ["touchline", "TestSupport"]),
  ]
)

// Parsers under libFuzzer: built only by deploy/fuzz, which says where the toolchain's libFuzzer is.
if let library = ProcessInfo.processInfo.environment["TOUCHLINE_LIBFUZZER"] {
  package.targets += [
    .systemLibrary(name: "CFuzzer", path: "Tests/Fuzzing/CFuzzer"),
    .executableTarget(
      name: "Fuzzing",
      dependencies: [
        "CFuzzer", "BroadcastChannels", "LiveActivities", "MatchScripts", "SubscriberProtocol",
        "BroadcastServer", "BroadcastClient", "EventLoop", "Credentials",
      ],
      path: "Tests/Fuzzing", exclude: ["CFuzzer", "words.dict"],
      // The library without a main function, instead of the one that -sanitize=fuzzer links: the target is chosen first.
      linkerSettings: [
        .unsafeFlags(["-Xclang-linker", "-fno-sanitize=fuzzer", library, "-lstdc++", "-lm"])
      ]),
  ]
}
