#include "base/base64.h"

#include <openssl/evp.h>

namespace ridge {

std::optional<std::string> base64_decoded(std::string_view text) {
  if (text.size() % 4 != 0 || text.size() > (1u << 20)) return std::nullopt;
  const auto* const in = reinterpret_cast<const unsigned char*>(text.data());
  std::string bytes(text.size() / 4 * 3, '\0');
  const int size = static_cast<int>(text.size());
  if (EVP_DecodeBlock(reinterpret_cast<unsigned char*>(bytes.data()), in, size) < 0) return std::nullopt;
  for (int i = 0; i < 2 && text.ends_with(i == 0 ? "=" : "=="); ++i) bytes.pop_back();
  // One text for the same bytes: the library also takes others.
  std::string again(text.size() + 1, '\0');
  EVP_EncodeBlock(reinterpret_cast<unsigned char*>(again.data()), reinterpret_cast<const unsigned char*>(bytes.data()),
                  static_cast<int>(bytes.size()));
  again.pop_back();
  return again == text ? std::optional(bytes) : std::nullopt;
}

}  // namespace ridge
