// Who may ask: the token of a request, and the names under which a browser may reach the server.
#pragma once

#include <mutex>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "http/message.h"
#include "ridge/result.h"

namespace ridge::http {

// 256 random bits in hex.
std::string random_token();

// Whether an address is one of this machine alone: 127.0.0.0/8, ::1, localhost.
bool is_loopback(std::string_view address);

// The Host of a request must be an address, "localhost" or one of `names`: a page of a foreign site whose own name was
// made to point here (DNS rebinding) is told by its name. Ports are not compared, because a tunnel has another one.
bool is_known_host(std::string_view host, const std::vector<std::string>& names);
// Whether the Origin that a browser states is the one of the page at `host`.
bool is_same_origin(std::string_view origin, std::string_view host);

// The token in `Authorization: Bearer ...`, or in the cookie that a one-time address has set.
class Access {
 public:
  // An empty token: everyone who reaches the server may ask.
  Access(std::string token, std::string cookie_name);

  // A new ticket: the `?token=` of an address that works once and then gives a browser its cookie.
  std::string issue_ticket();
  // True once for a ticket.
  bool redeem_ticket(const std::string& ticket);

  [[nodiscard]] bool open() const { return token_.empty(); }
  [[nodiscard]] bool allows(const Request& request) const;
  // The value of the header Set-Cookie.
  [[nodiscard]] std::string cookie() const;

 private:
  std::string token_, cookie_name_, cookie_value_;
  std::mutex mutex_;
  std::set<std::string> tickets_;
};

}  // namespace ridge::http
