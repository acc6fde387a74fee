// Why: what can go wrong while setting up is a short list an operator can act on, each with the address
// or descriptor it happened to. Faults of a single connection are not errors: they close it.

import CLibuv
import Glibc

/// Why a loop, a server or a watch could not be set up.
public enum EventLoopError: Error, Equatable, CustomStringConvertible {
  /// The system gave no event loop.
  case noLoop(reason: String)
  /// libwebsockets gave no context.
  case noContext
  /// Another socket listens there already.
  case portInUse(address: String)
  /// The process may not listen there (ports below 1024, for instance).
  case notPermitted(address: String)
  /// The host is not a numeric address of this machine.
  case badAddress(address: String, reason: String)
  /// Listening failed for another reason.
  case cannotListen(address: String, reason: String)
  /// A descriptor cannot be watched.
  case cannotWatch(descriptor: Int32, reason: String)
  /// A certificate or key cannot be used; `path` is the file, or the name that was given to the bytes.
  case badTLSFile(path: String, reason: String)
  /// OpenSSL gave no context.
  case noTLS(reason: String)

  /// One line for a log.
  public var description: String {
    switch self {
    case .noLoop(let reason): "no event loop: \(reason)"
    case .noContext: "libwebsockets made no context (are its event library plugins installed?)"
    case .portInUse(let address): "\(address) is in use by another process"
    case .notPermitted(let address): "no permission to listen on \(address)"
    case .badAddress(let address, let reason): "\(address) is no address to listen on: \(reason)"
    case .cannotListen(let address, let reason): "cannot listen on \(address): \(reason)"
    case .cannotWatch(let descriptor, let reason): "cannot watch descriptor \(descriptor): \(reason)"
    case .badTLSFile(let path, let reason): "\(path): \(reason)"
    case .noTLS(let reason): "no TLS: \(reason)"
    }
  }
}

func describe(uvError code: Int32) -> String { String(cString: uv_strerror(code)) }

func describe(errno code: Int32) -> String { String(cString: strerror(code)) }

/// `host:port`, with brackets around an IPv6 address.
func joinAddress(_ host: String, _ port: UInt16) -> String {
  host.contains(":") ? "[\(host)]:\(port)" : "\(host):\(port)"
}
