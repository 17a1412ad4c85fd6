#include "http/access.h"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "base/hash.h"
#include "base/installation_key.h"
#include "base/text.h"

namespace ridge::http {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// "[::1]:80" -> "::1", "localhost:80" -> "localhost"
std::string without_port(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return std::string(end == std::string_view::npos ? host : host.substr(1, end - 1));
  }
  const std::size_t colon = host.rfind(':');
  return lower(colon == std::string_view::npos ? host : host.substr(0, colon));
}

bool is_address(const std::string& host) {
  unsigned char buffer[sizeof(in6_addr)];
  return ::inet_pton(AF_INET, host.c_str(), buffer) == 1 || ::inet_pton(AF_INET6, host.c_str(), buffer) == 1;
}

}  // namespace

std::string random_token() {
  std::string seed;
  for (int i = 0; i < 4; ++i) seed += fmt::format("{:016x}", secret_seed());
  return seed;
}

bool is_loopback(std::string_view address) {
  in_addr v4{};
  if (address == "localhost" || address == "::1") return true;
  return ::inet_pton(AF_INET, std::string(address).c_str(), &v4) == 1 && (ntohl(v4.s_addr) >> 24) == 127;
}

bool is_known_host(std::string_view host, const std::vector<std::string>& names) {
  const std::string name = without_port(host);
  if (is_address(name) || name == "localhost") return true;
  return std::ranges::any_of(names, [&](const std::string& known) { return lower(known) == name; });
}

bool is_same_origin(std::string_view origin, std::string_view host) {
  for (const std::string_view scheme : {"http://", "https://"})
    if (origin.starts_with(scheme)) return lower(origin.substr(scheme.size())) == lower(host);
  return false;
}

Access::Access(std::string token, std::string cookie_name)
    : token_(std::move(token)), cookie_name_(std::move(cookie_name)), cookie_value_(hmac_sha256(token_, "cookie")) {}

std::string Access::issue_ticket() {
  const std::string ticket = random_token();
  const std::lock_guard lock(mutex_);
  tickets_.insert(sha256(ticket));  // found by digest: how long a look-up takes tells nothing about a ticket
  return ticket;
}

bool Access::redeem_ticket(const std::string& ticket) {
  const std::lock_guard lock(mutex_);
  return tickets_.erase(sha256(ticket)) == 1;
}

bool Access::allows(const Request& request) const {
  if (open()) return true;
  constexpr std::string_view kBearer = "bearer ";
  const std::string& authorization = request.header("authorization");
  if (lower(authorization).starts_with(kBearer))
    return same_tag(trimmed(std::string_view(authorization).substr(kBearer.size())), token_);
  for (const std::string& part : split(request.header("cookie"), ';')) {
    const std::string_view pair = trimmed(part);
    if (pair.size() > cookie_name_.size() && pair.starts_with(cookie_name_) && pair[cookie_name_.size()] == '=' &&
        same_tag(pair.substr(cookie_name_.size() + 1), cookie_value_))
      return true;
  }
  return false;
}

std::string Access::cookie() const {
  return fmt::format("{}={}; Path=/; HttpOnly; SameSite=Strict", cookie_name_, cookie_value_);
}

}  // namespace ridge::http
