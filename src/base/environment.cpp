#include "base/environment.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

namespace ridge {
namespace {

namespace fs = std::filesystem;

std::string_view variable(const char* name) {
  const char* value = std::getenv(name);
  return value != nullptr ? value : "";
}

fs::path home_directory() {
  if (const std::string_view home = variable("HOME"); !home.empty()) return home;
  const passwd* user = ::getpwuid(::geteuid());
  return user != nullptr && user->pw_dir != nullptr ? user->pw_dir : "";
}

InstructionSet read_limit() {
  const std::string_view value = variable("RIDGE_CPU_LIMIT");
  if (value == "portable") return InstructionSet::kPortable;
  if (value == "avx2") return InstructionSet::kAvx2;
  if (!value.empty() && value != "avx512") {
    fmt::print(stderr, "RIDGE_CPU_LIMIT={} is none of portable, avx2, avx512; nothing is limited\n", value);
  }
  return InstructionSet::kAvx512;
}

}  // namespace

std::vector<fs::path> places_in(const char* name) {
  std::vector<fs::path> places;
  std::string_view rest = variable(name);
  while (!rest.empty()) {
    const std::size_t end = std::min(rest.find(':'), rest.size());
    if (end > 0) places.emplace_back(rest.substr(0, end));
    rest.remove_prefix(std::min(end + 1, rest.size()));
  }
  return places;
}

fs::path default_cache_directory() {
  if (const std::string_view chosen = variable("RIDGE_CACHE_DIR"); !chosen.empty()) return chosen;
  if (const std::string_view xdg = variable("XDG_CACHE_HOME"); !xdg.empty()) return fs::path(xdg) / "ridge";
  if (const fs::path home = home_directory(); !home.empty()) return home / ".cache" / "ridge";
  return fmt::format("/tmp/ridge-{}", ::geteuid());
}

fs::path default_state_directory() {
  if (const std::string_view chosen = variable("RIDGE_STATE_DIR"); !chosen.empty()) return chosen;
  if (const std::string_view xdg = variable("XDG_STATE_HOME"); !xdg.empty()) return fs::path(xdg) / "ridge";
  if (const fs::path home = home_directory(); !home.empty()) return home / ".local" / "state" / "ridge";
  return fmt::format("/tmp/ridge-state-{}", ::geteuid());
}

InstructionSet instruction_set_limit() {
  static const InstructionSet limit = read_limit();
  return limit;
}

}  // namespace ridge
