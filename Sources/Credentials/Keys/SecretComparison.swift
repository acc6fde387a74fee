import COpenSSL

/// Whether two secrets are the same. It takes as long wherever they differ, so that time tells nothing of them but their length.
public func isSameSecret(_ one: some Collection<UInt8>, _ other: some Collection<UInt8>) -> Bool {
  let (one, other) = (Array(one), Array(other))
  return one.count == other.count && CRYPTO_memcmp(one, other, one.count) == 0
}
