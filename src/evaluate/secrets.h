// Secret numbers of a check: all of them follow from one seed and from what each is for, so that a failure can be
// repeated, and none of them tells another (a candidate sees contents and addresses that were drawn from some).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "base/hash.h"

namespace ridge::evaluate {

class Secrets {
 public:
  // From the operating system, different every time.
  Secrets() : Secrets(secret_seed(), {}) {}
  Secrets(std::uint64_t seed, std::string purpose) : seed_(seed), purpose_(std::move(purpose)) {}

  // Numbers for a part of the work, whatever was drawn before.
  [[nodiscard]] Secrets branch(std::string_view name) const { return {seed_, purpose_ + "/" + std::string(name)}; }
  std::uint64_t next();

 private:
  std::uint64_t seed_, drawn_ = 0;
  std::string purpose_;
};

// A seed for a whole check, which JSON and people can hold: 53 bits.
std::int64_t new_check_seed();

}  // namespace ridge::evaluate
