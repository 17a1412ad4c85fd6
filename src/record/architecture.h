// Names of instruction sets as compilers take them ("sm_90a", "gfx942", "x86-64-v3"), read into numbers that can be
// compared: as text "sm_100a" is less than "sm_90".
#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::record {

enum class ArchitectureFamily : std::uint8_t { kNvidia, kAmd, kX86 };
std::string_view to_string(ArchitectureFamily family);  // "sm", "gfx", "x86-64"

struct Architecture {
  ArchitectureFamily family = ArchitectureFamily::kX86;
  int major = 0, minor = 0;  // sm_90a: 9, 0; gfx942: 9, 4; x86-64-v3: 3, 0, and x86-64 alone: 1, 0
  int stepping = 0;          // gfx942: 2; elsewhere 0
  // What follows the number: "a" (instructions of exactly that generation), "f" (of its relatives, too),
  // "sramecc+:xnack-"; mostly nothing.
  std::string feature;

  friend bool operator==(const Architecture&, const Architecture&) = default;
};

// An error names the text and what is expected.
Result<Architecture> parse_architecture(std::string_view name);

// Older before newer, whatever the features; unordered between families.
std::partial_ordering by_age(const Architecture& a, const Architecture& b);
// Whether `name` is of the family of `other` and no older. False where one of the two is no architecture.
bool at_least(std::string_view name, std::string_view other);

// The target of compilers for a GPU of NVIDIA's of that compute capability: "sm_90a" for 9 and 0. From Hopper on with
// the suffix that opens the instructions of exactly that generation (wgmma, setmaxnreg).
std::string nvidia_target(int major, int minor);
// What kernels may ask for by name on an architecture (DeviceInfo::features): its own name, then "wgmma", "tma",
// "cluster".
std::vector<std::string> features_of(std::string_view name);

// What device code is compiled for where no GPU is there to say.
inline constexpr const char* kUsualTarget = "sm_90a";

}  // namespace ridge::record
