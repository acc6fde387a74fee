/// Something that a person did at the keyboard.
public enum Key: Sendable, Hashable {
  /// The arrows.
  case up, down, left, right
  /// Return.
  case enter
  /// A letter, a digit, or another character.
  case character(Character)
  /// A key that means nothing here.
  case unknown
  /// The terminal has gone away.
  case hangUp
}
