/// Every bound of the system in one place, each with its reason and its source.
///
/// "Apple" marks a documented rule of the broadcast-channel API or of ActivityKit; "Touchline" marks a bound that
/// Apple keeps secret or doesn't have, chosen here so that no client can make another one pay.
public enum Limits {
}
