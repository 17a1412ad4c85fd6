#include "base/hash.h"

#include <openssl/evp.h>
#include <sys/random.h>

#include <array>

#include "base/check.h"
#include "base/large_file.h"

namespace ridge {

std::string sha256(std::string_view bytes) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned size = 0;
  check(EVP_Digest(bytes.data(), bytes.size(), digest.data(), &size, EVP_sha256(), nullptr) == 1, "SHA-256 failed");
  static constexpr char kHex[] = "0123456789abcdef";
  std::string hex;
  hex.reserve(2 * size);
  for (unsigned i = 0; i < size; ++i) {
    hex += kHex[digest[i] >> 4];
    hex += kHex[digest[i] & 15];
  }
  return hex;
}

Result<std::string> sha256_file(const std::filesystem::path& path) {
  RIDGE_TRY(bytes, read_file_up_to(path, kCodeFileBytes));
  return sha256(bytes);
}

std::uint64_t secret_seed() {
  std::uint64_t seed = 0;
  check(getrandom(&seed, sizeof seed, 0) == static_cast<ssize_t>(sizeof seed), "getrandom failed");
  return seed;
}

}  // namespace ridge
