// Certificates made by the openssl command while the tests run, so that none of them ever expires in the repository.

import EventLoop
import Foundation
import TestSupport

/// A folder with a test authority, a server's and a client's certificate.
final class Certificates: Sendable {
  /// Made once for all suites, and removed when the process ends: nothing that lives as long has a deinit that runs.
  static let shared: Result<Certificates, any Error> = Result {
    let certificates = try Certificates()
    atexit {
      guard let folder = try? Certificates.shared.get().folder else { return }
      try? FileManager.default.removeItem(atPath: folder)
    }
    return certificates
  }

  private let folder: String

  var authority: String { folder + "/ca.pem" }
  var chain: String { folder + "/server.pem" }
  var key: String { folder + "/server.key" }
  var otherChain: String { folder + "/other.pem" }
  var otherKey: String { folder + "/other.key" }
  var expiredChain: String { folder + "/expired.pem" }
  var expiredKey: String { folder + "/expired.key" }
  var strangeChain: String { folder + "/strange.pem" }
  var strangeKey: String { folder + "/strange.key" }
  var clientChain: String { folder + "/client.pem" }
  var clientKey: String { folder + "/client.key" }
  var encryptedKey: String { folder + "/encrypted.key" }

  var identity: TLSIdentity { TLSIdentity(certificateChain: .file(chain), privateKey: .file(key)) }
  var otherIdentity: TLSIdentity {
    TLSIdentity(certificateChain: .file(otherChain), privateKey: .file(otherKey))
  }

  var expiredIdentity: TLSIdentity {
    TLSIdentity(certificateChain: .file(expiredChain), privateKey: .file(expiredKey))
  }

  /// For another host than where it is served.
  var misnamedIdentity: TLSIdentity {
    TLSIdentity(
      certificateChain: .file(folder + "/misnamed.pem"), privateKey: .file(folder + "/misnamed.key"))
  }

  private init() throws {
    folder = FileManager.default.temporaryDirectory.path + "/touchline-tls-\(UUID().uuidString)"
    try FileManager.default.createDirectory(atPath: folder, withIntermediateDirectories: true)
    let script = """
      set -e
      cd \(folder)
      new="openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes"
      $new -days 10 -subj "/CN=Touchline test authority" -keyout ca.key -out ca.pem \\
        -addext basicConstraints=critical,CA:TRUE
      for name in server other expired misnamed client; do
        days=10; subject="/CN=$name"; names="DNS:localhost,IP:127.0.0.1"
        [ $name = expired ] && days=-1
        [ $name = misnamed ] && names="DNS:elsewhere.example,IP:127.0.0.9"
        [ $name = client ] && subject="/UID=com.example.scores/CN=Sender \\xc3\\xa4" && names="DNS:sender.example,email:a@example.com"
        openssl req -new -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -utf8 \\
          -subj "$(printf "$subject")" -keyout $name.key -out $name.csr
        printf "subjectAltName=$names\\n" > $name.ext
        openssl x509 -req -in $name.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days $days -extfile $name.ext -out $name.pem
      done
      $new -days 10 -subj "/CN=strange" -keyout strange.key -out strange.pem
      openssl ec -in server.key -aes128 -passout pass:secret -out encrypted.key
      """
    let output = try run("/bin/bash", ["-c", script])
    guard FileManager.default.fileExists(atPath: encryptedKey) else {
      throw WaitedInVain(for: "certificates", output)
    }
  }
}
