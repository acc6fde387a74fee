/// The version of this program.
public enum TouchlineVersion {
  /// As `touchline --version` prints it.
  public static let current = "0.1.0"
}
