import BroadcastChannels
import Foundation

/// The folder of channel definitions: `<alias>.json` each.
public enum ChannelLibrary {
  /// What is wrong with the folder, file by file.
  public struct Broken: Error, CustomStringConvertible {
    /// One line a problem: `file:line:column: error: key: what is wrong and what was expected`.
    public let lines: [String]
    /// The lines.
    public var description: String { lines.joined(separator: "\n") }
  }

  /// Reads every definition of a folder, in the order of their names.
  public static func load(folder: String) throws(Broken) -> [ChannelDefinition] {
    let names: [String]
    do {
      names = try FileManager.default.contentsOfDirectory(atPath: folder)
    } catch {
      throw Broken(lines: [
        "\(folder): error: the folder of channel definitions can't be read; does it exist?"
      ])
    }
    var definitions: [ChannelDefinition] = []
    var lines: [String] = []
    for name in names.sorted() where name.hasSuffix(".json") && !name.hasPrefix(".") {
      let path = folder.hasSuffix("/") ? folder + name : "\(folder)/\(name)"
      do throws(Broken) {
        definitions.append(try load(file: path))
      } catch {
        lines += error.lines
      }
    }
    guard lines.isEmpty else { throw Broken(lines: lines) }
    return definitions
  }

  /// Reads one definition; its alias is the file's name without `.json`.
  public static func load(file path: String) throws(Broken) -> ChannelDefinition {
    guard let data = FileManager.default.contents(atPath: path) else {
      throw Broken(lines: ["\(path): error: the file can't be read"])
    }
    guard data.count <= Limits.fileBytes else {
      throw Broken(lines: ["\(path): error: the file has \(data.count) bytes; that is no channel definition"])
    }
    let stem = URL(fileURLWithPath: path).deletingPathExtension().lastPathComponent
    guard let alias = ChannelAlias(stem) else {
      throw Broken(lines: ["\(path): error: the file's name becomes the alias, and \(ChannelAlias.rule)"])
    }
    do throws(Findings) {
      return try ChannelDefinition(file: Array(data), alias: alias)
    } catch {
      throw Broken(lines: error.all.map { "\(path):\($0)" })
    }
  }
}
