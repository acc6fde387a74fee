import BroadcastChannels
import Foundation
import Testing

@testable import BroadcastServer

@Suite struct SettingsTests {
  private func layers(
    file: String? = nil, variables: [String: String] = [:], flags: [String: String] = [:]
  ) -> LayeredConfiguration {
    LayeredConfiguration(
      file: file.map { ("touchline.json", Array($0.utf8)) }, variables: variables,
      foreign: ["TOUCHLINE_SERVER"], flags: flags)
  }

  private func source(_ key: String, _ layers: LayeredConfiguration) throws -> LayeredConfiguration.Source {
    layers.source(of: try #require(Setting.all.first { $0.key == key }))
  }

  @Test func theNamesOfASettingFollowFromItsKey() throws {
    let level = try #require(Setting.all.first { $0.key == "log-level" })
    #expect(level.flag == "--log-level" && level.variable == "TOUCHLINE_LOG_LEVEL")
    #expect(Set(Setting.all.map(\.key)).count == Setting.all.count)
  }

  @Test func flagsWinOverVariablesOverTheFileOverTheDefault() throws {
    let file = """
      {
        "listen": "127.0.0.1:1",
        "store": "file.sqlite",
        "log-level": "error"
      }
      """
    let found = layers(
      file: file, variables: ["TOUCHLINE_LISTEN": "127.0.0.1:2", "TOUCHLINE_STORE": "variable.sqlite"],
      flags: ["--listen": "127.0.0.1:3"])
    #expect(found.problems.isEmpty)
    #expect(found.configuration.listen.port == 3 && found.configuration.store == "variable.sqlite")
    #expect(found.configuration.logLevel == .error && found.configuration.usesTLS == false)
    #expect(try source("listen", found) == .flag("--listen"))
    #expect(try source("store", found) == .variable("TOUCHLINE_STORE"))
    #expect(try source("log-level", found) == .file(path: "touchline.json", line: 4))
    #expect(try source("tls", found) == .standard)
  }

  @Test func everySettingHasAVariableThatIsReadLikeItsFlag() throws {
    let texts = [
      "listen": "127.0.0.1:7", "tls": "true", "provider-listen": "off", "tls-cert": "c.pem",
      "tls-key": "k.pem",
      "tls-dir": "tls", "keys": "keys", "client-ca": "ca.pem", "insecure-open": "true", "strict": "headers",
      "environment": "production", "origins": "https://a.example,https://b.example", "store": "s.sqlite",
      "channels": "Channels", "ping-seconds": "1.5", "silence-seconds": "7", "log-level": "debug",
      "max-connections": "500", "max-connections-per-address": "10", "max-requests-per-address": "50",
      "max-frames-per-session": "100", "unlimited-addresses": "10.0.0.0/8,::1",
      "loops": "3", "log-format": "json", "metrics": "off", "metrics-token": "token",
    ]
    for setting in Setting.all where texts[setting.key] == nil {
      Issue.record("\(setting.key) is missing here")
    }
    let variables = layers(
      variables: Dictionary(
        uniqueKeysWithValues: Setting.all.compactMap { setting in
          texts[setting.key].map { (setting.variable, $0) }
        }))
    let flags = layers(
      flags: Dictionary(
        uniqueKeysWithValues: Setting.all.compactMap { setting in
          texts[setting.key].map { (setting.flag, $0) }
        }))
    #expect(variables.problems.isEmpty && flags.problems.isEmpty)
    #expect(variables.configuration == flags.configuration)
    for setting in Setting.all {
      #expect(setting.shown(in: flags.configuration) == texts[setting.key], "\(setting.key)")
      #expect(variables.source(of: setting) == .variable(setting.variable))
    }
  }

  @Test func theDefaultsInTheHelpAreTheDefaults() {
    for setting in Setting.all {
      let shown = setting.shown(in: ServerConfiguration())
      // These depend on the machine, and the help says how.
      if ["store", "max-connections"].contains(setting.key) { continue }
      // As many as the machine has.
      if setting.key == "loops" {
        #expect(shown == "\(ServerConfiguration.availableProcessors)")
        continue
      }
      switch setting.form {
      // The user's folder of state is the environment's.
      case .text where setting.key == "store":
        #expect(shown == "-" || shown.hasSuffix("/touchline/channels.sqlite"))
      case .list where setting.key == "unlimited-addresses": #expect(setting.standard == shown)
      case .toggle, .words, .choice, .seconds, .count, .text:
        #expect(setting.standard == shown, "\(setting.key)")
      case .file, .folder, .list: #expect(shown == "-", "\(setting.key)")
      }
    }
  }

  @Test func aFlagTakesBackWhatTheFileTurnedOn() {
    let file = #"{"tls": true, "strict": true}"#
    let kept = layers(file: file).configuration
    #expect(kept.usesTLS && kept.strictness.count == 3)
    let taken = layers(file: file, flags: ["--tls": "false", "--strict": "false"]).configuration
    #expect(!taken.usesTLS && taken.strictness.isEmpty)
    let alone = layers(flags: ["--tls": "", "--strict": ""]).configuration
    #expect(alone.usesTLS && alone.strictness.count == 3)
    #expect(
      layers(flags: ["--strict": "headers,token-claims"]).configuration.strictness == [
        .headers, .tokenClaims,
      ])
  }

  @Test func defaultTakesBackWhatLiesBelow() throws {
    let file = """
      {
        "listen": "0.0.0.0:1", "provider-listen": "0.0.0.0:2", "keys": "keys", "origins": ["https://a.example"],
        "max-connections": 5, "store": "memory", "metrics-token": "token", "log-level": "debug"
      }
      """
    let found = layers(
      file: file,
      variables: [
        "TOUCHLINE_KEYS": "default", "TOUCHLINE_STORE": "default", "TOUCHLINE_METRICS_TOKEN": "default",
      ],
      flags: [
        "--listen": "default", "--provider-listen": "default", "--origins": "default",
        "--max-connections": "default", "--metrics-token": "other",
      ])
    var expected = ServerConfiguration()
    expected.logLevel = .debug
    expected.metricsToken = "other"
    #expect(found.problems.isEmpty && found.configuration == expected)
    #expect(try source("keys", found) == .variable("TOUCHLINE_KEYS"))
    #expect(try source("listen", found) == .flag("--listen"))
  }

  @Test func anUnknownVariableIsAnErrorWithASuggestion() {
    let found = layers(variables: [
      "TOUCHLINE_LOGLEVEL": "debug", "TOUCHLINE_SERVER": "http://x", "TOUCHLINE_KEYS": "", "HOME": "/",
    ])
    #expect(
      found.problems.map(\.description) == [
        "TOUCHLINE_LOGLEVEL: is no variable of touchline; unset it, or correct its name; did you mean \"TOUCHLINE_LOG_LEVEL\"?"
      ])
    #expect(found.configuration.keys == nil)
  }

  /// What Kubernetes gives a container beside a service called "touchline".
  @Test(arguments: [
    ("TOUCHLINE_SERVICE_HOST", "10.0.0.1"), ("TOUCHLINE_SERVICE_PORT", "8080"),
    ("TOUCHLINE_SERVICE_PORT_HTTP", "8080"), ("TOUCHLINE_PORT", "tcp://10.0.0.1:8080"),
    ("TOUCHLINE_PORT_8080_TCP", "tcp://10.0.0.1:8080"), ("TOUCHLINE_PORT_8080_TCP_PROTO", "tcp"),
    ("TOUCHLINE_METRICS_SERVICE_HOST", "10.0.0.2"),
  ])
  func variablesOfAClusterAreNoMistake(_ name: String, _ value: String) {
    #expect(layers(variables: [name: value]).problems.isEmpty)
  }

  @Test func aPortAsAPersonWouldWriteItIsAMistake() {
    #expect(layers(variables: ["TOUCHLINE_PORT": "8080"]).problems.count == 1)
  }

  @Test func everythingThatIsWrongIsToldAtOnceAndWhere() {
    let found = layers(
      file: "{\n \"chanels\": \"x\",\n \"ping-seconds\": 100\n}", variables: ["TOUCHLINE_METRICS": "locl"],
      flags: ["--listen": "nowhere:x", "--tls-cert": "c.pem"])
    let lines = found.problems.map(\.description)
    #expect(lines.count == 5, "\(lines)")
    #expect(
      lines[0].hasPrefix("touchline.json:2:2: error: chanels: is no key of a configuration; did you mean"))
    #expect(
      lines[1] == "TOUCHLINE_METRICS is \"locl\"; local, all or off was expected; did you mean \"local\"?")
    #expect(lines[2].hasPrefix("--listen is \"nowhere:x\"; HOST:PORT was expected"))
    #expect(
      lines[3].hasPrefix("touchline.json:3: error: silence-seconds: is 50 and ping-seconds 100; a peer must"))
    #expect(lines[4] == "tls-cert is given without tls-key; --tls-cert and --tls-key go together")
  }

  @Test func aSecretInThePlaceOfAPathIsNotRepeated() {
    let pem = "-----BEGIN PRIVATE KEY-----\nMIGHAgEAMBMGByqGSM49\n-----END PRIVATE KEY-----\n"
    let token = "eyJhbGciOiJFUzI1NiJ9.eyJpc3MiOiJURUFNIn0.c2lnbmF0dXJl"
    let found = layers(variables: ["TOUCHLINE_KEYS": pem, "TOUCHLINE_LOG_LEVEL": token])
    #expect(found.problems.count == 2)
    for problem in found.problems {
      #expect(!problem.description.contains("MIGHA") && !problem.description.contains("iss"), "\(problem)")
      #expect(!problem.description.contains("c2lnbmF0dXJl"), "\(problem)")
    }
  }
}
