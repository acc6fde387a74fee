import BroadcastChannels
import BroadcastServer
import Foundation
import LiveActivities
import MatchScripts

/// Files: definitions, scripts, openfootball's data, configurations, and the templates inside definitions.
enum FileTargets {
  static let all = [
    FuzzTarget(name: "definition", check: definition), FuzzTarget(name: "script", check: script),
    FuzzTarget(name: "openfootball", check: openFootball),
    FuzzTarget(name: "configuration", check: configuration), FuzzTarget(name: "template", check: template),
  ]

  private static func definition(_ bytes: [UInt8]) {
    do throws(Findings) {
      let definition = try ChannelDefinition(file: bytes, alias: nil)
      let text = Array(definition.json.utf8)
      do throws(Findings) {
        let again = try ChannelDefinition(file: text, alias: nil)
        require(again.json == definition.json, "written again, it says something else")
        require(
          again.settings.app == definition.settings.app && again.contentState == definition.contentState
            && again.presentations == definition.presentations
            && again.actions.count == definition.actions.count
            && again.sensitive == definition.sensitive && again.attributes == definition.attributes,
          "written again, it defines something else")
      } catch {
        require(false, "written again, it isn't read: \(error)")
      }
      _ = PresentationCheck.problems(definition)
      let context = PresentationContext(state: definition.attributes, attributes: nil, now: fuzzedNow)
      _ = PresentationCheck.misfits(definition, context)
    } catch {
      require(!error.all.isEmpty, "refused without a finding")
      requireInside(error.all, bytes)
    }
  }

  private static func script(_ bytes: [UInt8]) {
    do throws(Findings) {
      let script = try MatchScript(file: bytes)
      requireSound(script)
    } catch {
      require(!error.all.isEmpty, "refused without a finding")
      requireInside(error.all, bytes)
    }
  }

  /// Every message of a script can be sent, and its times don't run backwards.
  private static func requireSound(_ script: MatchScript) {
    require(!script.steps.isEmpty, "a script without a message")
    for (earlier, later) in zip(script.steps, script.steps.dropFirst()) {
      require(earlier.at <= later.at, "a time runs backwards")
    }
    for step in script.steps.prefix(4) {
      for speed in [0.5, 1, 300] {
        let body = Array("{\"aps\":".utf8) + step.aps(sentAt: fuzzedNow, speed: speed) + Array("}".utf8)
        require((try? JSONDocument(body)) != nil, "a message that is no JSON")
        _ = step.expiration(sentAt: fuzzedNow, speed: speed, storagePolicy: .latest)
      }
      _ = step.findings(definition: nil, sentAt: fuzzedNow)
      _ = DurationText.clock(step.at)
      _ = DurationText.described(step.at)
    }
  }

  private static func openFootball(_ bytes: [UInt8]) {
    do throws(Findings) {
      let feed = try OpenFootballFeed(file: bytes)
      for match in feed.matches.prefix(3) {
        if let script = try? match.script() { requireSound(script) }
        _ = try? feed.match(named: match.title)
        require(!match.title.isEmpty, "a match without a title")
      }
    } catch {
      require(!error.all.isEmpty, "refused without a finding")
      requireInside(error.all, bytes)
    }
  }

  private static func configuration(_ bytes: [UInt8]) {
    var read = ServerConfiguration()
    do throws(Findings) {
      try read.read(file: bytes)
    } catch {
      require(!error.all.isEmpty, "refused without a finding")
      requireInside(error.all, bytes)
    }
    let layers = LayeredConfiguration(file: ("touchline.json", bytes))
    guard layers.problems.isEmpty else { return }
    let configuration = layers.configuration
    require(configuration.keepAlive.silence > configuration.keepAlive.ping, "silence before a ping")
    require(!configuration.listen.host.isEmpty, "no host")
  }

  // MARK: Templates

  private static let contexts = [
    PresentationContext(state: nil, attributes: nil, now: fuzzedNow),
    PresentationContext(
      state: JSONText(
        compacting:
          #"{"home":1,"away":-1e300,"clock":"23′","kickoff":799999999.5,"far":1e999,"yes":true,"no":false,"list":[1,"a",null],"o":{"p":{"q":12345678}}}"#
          .utf8), attributes: JSONText(compacting: #"{"home":"España","s":"🏴󠁧󠁢󠁥󠁮󠁧󠁿"}"#.utf8),
      hidden: ["clock", "yes"], now: fuzzedNow),
  ]

  private static func template(_ bytes: [UInt8]) {
    let text = String(decoding: bytes, as: UTF8.self)
    do throws(PresentationTemplate.Problem) {
      let template = try PresentationTemplate(text)
      for context in contexts {
        let lines = template.lines(in: context)
        require(
          lines.count <= text.split(separator: "\n", omittingEmptySubsequences: false).count,
          "more lines than the template has")
        for line in lines { require(DisplayWidth.of(line) >= 0, "a negative width") }
      }
      for name in template.names { require(!name.isEmpty, "a value without a name") }
    } catch {
      require(!error.description.isEmpty, "refused without a reason")
    }
  }
}
