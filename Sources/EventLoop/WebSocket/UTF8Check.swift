// Why our own: a character may be cut in two by a fragment (RFC 6455 section 5.6), and the standard library only judges whole
// texts. The ranges are those of RFC 3629 section 4, which leave out overlong forms, surrogates and what lies above U+10FFFF.

/// Reads UTF-8 piece by piece.
struct UTF8Check {
  private var missing: UInt8 = 0
  private var lowest: UInt8 = 0x80
  private var highest: UInt8 = 0xbf

  /// Whether the text may end here: no character is begun.
  var isComplete: Bool { missing == 0 }

  /// Whether the text is still right with `bytes` behind what came before. After `false` it is of no more use.
  mutating func accepts(_ bytes: some Sequence<UInt8>) -> Bool {
    for byte in bytes {
      if missing > 0 {
        guard byte >= lowest, byte <= highest else { return false }
        missing -= 1
        (lowest, highest) = (0x80, 0xbf)
        continue
      }
      switch byte {
      case ..<0x80: break
      case 0xc2...0xdf: missing = 1
      case 0xe0: (missing, lowest) = (2, 0xa0)
      case 0xed: (missing, highest) = (2, 0x9f)
      case 0xe1...0xef: missing = 2
      case 0xf0: (missing, lowest) = (3, 0x90)
      case 0xf1...0xf3: missing = 3
      case 0xf4: (missing, highest) = (3, 0x8f)
      default: return false
      }
    }
    return true
  }
}
