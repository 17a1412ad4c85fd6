#include "http/url.h"

#include <fmt/format.h>

#include <string_view>

namespace ridge::http {
namespace {

std::string encoded(std::string_view text, std::string_view kept) {
  constexpr std::string_view kPlain = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~";
  std::string result;
  for (const char c : text) {
    if (kPlain.find(c) != std::string_view::npos || kept.find(c) != std::string_view::npos) {
      result += c;
    } else {
      result += fmt::format("%{:02X}", static_cast<unsigned char>(c));
    }
  }
  return result;
}

}  // namespace

std::string encoded_path(std::string_view path) { return encoded(path, "/"); }
std::string encoded_part(std::string_view part) { return encoded(part, ""); }

}  // namespace ridge::http
