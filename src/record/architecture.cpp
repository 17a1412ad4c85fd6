#include "record/architecture.h"

#include <cctype>
#include <charconv>
#include <optional>

#include "base/error.h"

namespace ridge::record {
namespace {

// The units that a generation brought and that are asked for by name.
struct Units {
  ArchitectureFamily family;
  int first_major, last_major;
  std::vector<std::string_view> names;
};
const Units kUnits[] = {{ArchitectureFamily::kNvidia, 9, 9, {"wgmma", "tma", "cluster"}}};

Error refused(std::string_view name) {
  return with_hint(invalid("\"{}\" is no architecture", name),
                   "write it as compilers do: sm_90, sm_90a, sm_100f, gfx942, gfx90a:sramecc+, x86-64, x86-64-v3");
}

std::optional<int> number(std::string_view digits) {
  int value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  const bool whole = error == std::errc() && end == digits.data() + digits.size();
  return whole && !digits.empty() && digits.front() != '-' ? std::optional(value) : std::nullopt;
}

std::optional<int> hexadecimal(char digit) {
  if (digit >= '0' && digit <= '9') return digit - '0';
  if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
  return std::nullopt;
}

// "90a": all digits but the last are the major number.
std::optional<Architecture> nvidia(std::string_view rest) {
  Architecture found{ArchitectureFamily::kNvidia, 0, 0, 0, {}};
  if (rest.ends_with('a') || rest.ends_with('f')) {
    found.feature = rest.back();
    rest.remove_suffix(1);
  }
  const std::optional<int> digits = number(rest);
  if (!digits || rest.size() < 2 || rest.size() > 3 || rest.front() == '0') return std::nullopt;
  found.major = *digits / 10;
  found.minor = *digits % 10;
  return found;
}

// "942", "90a", "1100": the last two digits are hexadecimal, minor number and stepping.
std::optional<Architecture> amd(std::string_view rest) {
  Architecture found{ArchitectureFamily::kAmd, 0, 0, 0, {}};
  if (const std::size_t colon = rest.find(':'); colon != std::string_view::npos) {
    found.feature = rest.substr(colon + 1);
    if (found.feature.empty()) return std::nullopt;
    rest = rest.substr(0, colon);
  }
  if (rest.size() < 3 || rest.size() > 4) return std::nullopt;
  const std::optional<int> major = number(rest.substr(0, rest.size() - 2)), minor = hexadecimal(rest[rest.size() - 2]),
                           stepping = hexadecimal(rest.back());
  if (!major || *major == 0 || !minor || !stepping) return std::nullopt;
  found.major = *major;
  found.minor = *minor;
  found.stepping = *stepping;
  return found;
}

std::optional<Architecture> x86(std::string_view rest) {
  if (rest.empty()) return Architecture{ArchitectureFamily::kX86, 1, 0, 0, {}};
  const bool level = rest.size() == 3 && rest.starts_with("-v") && rest[2] >= '1' && rest[2] <= '4';
  if (!level) return std::nullopt;
  return Architecture{ArchitectureFamily::kX86, rest[2] - '0', 0, 0, {}};
}

struct Family {
  ArchitectureFamily family;
  std::string_view name, prefix;
  std::optional<Architecture> (*parse)(std::string_view rest);
};
constexpr Family kArchitectureFamilies[] = {{ArchitectureFamily::kNvidia, "sm", "sm_", nvidia},
                                            {ArchitectureFamily::kAmd, "gfx", "gfx", amd},
                                            {ArchitectureFamily::kX86, "x86-64", "x86-64", x86}};

}  // namespace

std::string_view to_string(ArchitectureFamily family) {
  return kArchitectureFamilies[static_cast<std::size_t>(family)].name;
}

Result<Architecture> parse_architecture(std::string_view name) {
  for (const Family& family : kArchitectureFamilies) {
    if (!name.starts_with(family.prefix)) continue;
    std::optional<Architecture> found = family.parse(name.substr(family.prefix.size()));
    if (found) return std::move(*found);
  }
  return refused(name);
}

std::partial_ordering by_age(const Architecture& a, const Architecture& b) {
  if (a.family != b.family) return std::partial_ordering::unordered;
  if (a.major != b.major) return a.major <=> b.major;
  if (a.minor != b.minor) return a.minor <=> b.minor;
  return a.stepping <=> b.stepping;
}

bool at_least(std::string_view name, std::string_view other) {
  const Result<Architecture> a = parse_architecture(name), b = parse_architecture(other);
  return a && b && by_age(*a, *b) >= 0;
}

std::string nvidia_target(int major, int minor) {
  return fmt::format("sm_{}{}{}", major, minor, major >= 9 ? "a" : "");
}

std::vector<std::string> features_of(std::string_view name) {
  std::vector<std::string> features = {std::string(name)};
  const Result<Architecture> architecture = parse_architecture(name);
  if (!architecture) return features;
  for (const Units& units : kUnits) {
    const bool has = units.family == architecture->family && units.first_major <= architecture->major &&
                     architecture->major <= units.last_major;
    if (has) features.insert(features.end(), units.names.begin(), units.names.end());
  }
  return features;
}

}  // namespace ridge::record
