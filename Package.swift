// swift-tools-version: 6.1
import PackageDescription

let package = Package(
  name: "touchline",
  targets: [
    // C libraries from Debian. deploy/setup installs them; the README gives the reason for each.
    .systemLibrary(
      name: "CLibwebsockets", pkgConfig: "libwebsockets", providers: [.apt(["libwebsockets-dev"])]),
    .systemLibrary(name: "CLibuv", pkgConfig: "libuv", providers: [.apt(["libuv1-dev"])]),

    // I/O without a rule.
    .target(name: "EventLoop", dependencies: ["CLibwebsockets", "CLibuv"]),
    .testTarget(name: "EventLoopTests", dependencies: ["EventLoop"]),

    // Rules without I/O.
    .target(name: "BroadcastChannels"),
    .testTarget(name: "BroadcastChannelsTests", dependencies: ["BroadcastChannels"]),
    .target(name: "LiveActivities", dependencies: ["BroadcastChannels"]),
    .testTarget(name: "LiveActivitiesTests", dependencies: ["LiveActivities"]),
    .target(name: "MatchScripts", dependencies: ["BroadcastChannels"]),
    .testTarget(name: "MatchScriptsTests", dependencies: ["MatchScripts"]),
    .testTarget(name: "SimulationTests", dependencies: ["BroadcastChannels", "LiveActivities"]),
  ]
)
