// Ed25519 signatures (RFC 8032) by OpenSSL, and the PEM files that their keys are kept in: the same as `openssl genpkey
// -algorithm ed25519` and `openssl pkey -pubout` write. Public keys and signatures are lower-case hex.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>

#include "ridge/result.h"

namespace ridge {

class SigningKey {
 public:
  // A new key from the operating system's generator.
  static SigningKey generate();
  // Refused: a file that other users may read, a key under a passphrase, a key of another kind.
  static Result<SigningKey> read(const std::filesystem::path& path);
  // FILE, readable by its owner alone, and FILE.pub. kConflict where one of them exists: a key is never overwritten.
  [[nodiscard]] Status write_new(const std::filesystem::path& path) const;

  [[nodiscard]] std::string sign(std::string_view message) const;          // 128 digits
  [[nodiscard]] const std::string& public_key() const { return public_; }  // 64 digits

 private:
  explicit SigningKey(std::string seed);
  std::string seed_, public_;
};

// The public key of a PEM file; of a private key, the public one that belongs to it.
Result<std::string> read_public_key(const std::filesystem::path& path);

// Whether the holder of that key signed exactly this message. Malformed hex is no signature.
bool is_signed(std::string_view message, std::string_view signature, std::string_view public_key);

std::string to_hex(std::string_view bytes);

}  // namespace ridge
