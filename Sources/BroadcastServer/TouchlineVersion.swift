/// The version of this program.
public enum TouchlineVersion {
  /// As `touchline --version` prints it.
  public static let current = "0.1.0"
  /// When this version was made, for the manual.
  public static let released = "2026-11-30"
}
