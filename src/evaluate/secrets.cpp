#include "evaluate/secrets.h"

#include <charconv>

#include "base/error.h"

namespace ridge::evaluate {

std::uint64_t Secrets::next() {
  const std::string digest = sha256(fmt::format("{}\n{}\n{}", seed_, purpose_, drawn_++));
  std::uint64_t value = 0;
  std::from_chars(digest.data(), digest.data() + 16, value, 16);
  return value;
}

std::int64_t new_check_seed() { return static_cast<std::int64_t>(secret_seed() >> 11); }

}  // namespace ridge::evaluate
