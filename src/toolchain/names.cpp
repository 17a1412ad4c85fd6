#include "toolchain/names.h"

#include <algorithm>
#include <cctype>
#include <filesystem>

namespace ridge::toolchain {

namespace {
constexpr std::size_t kLogLimit = 4000;
}

bool is_macro_name(std::string_view name) {
  return !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
         std::all_of(name.begin(), name.end(),
                     [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_'; });
}

bool stays_inside(const std::string& path) {
  const std::filesystem::path relative(path);
  return !path.empty() && relative.is_relative() && path.find('\0') == std::string::npos && path[0] != '-' &&
         std::none_of(relative.begin(), relative.end(), [](const auto& part) { return part == ".."; });
}

std::string shortened(const std::string& log, const std::string& private_directory) {
  std::string text = log;
  const std::string prefix = private_directory + "/";
  for (std::size_t at = text.find(prefix); at != std::string::npos; at = text.find(prefix, at))
    text.erase(at, prefix.size());
  if (text.size() > kLogLimit) text = text.substr(0, kLogLimit) + "\n... shortened";
  return text;
}

}  // namespace ridge::toolchain
