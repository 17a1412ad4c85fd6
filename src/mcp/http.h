// The protocol over HTTP ("streamable HTTP"): each message is a POST to one address, whose answer is a JSON document
// or, for a call of a tool, a stream of events that ends with the result.
//
// Requests of 2026-07-28 name revision, method and subject in headers, too, which must say what the message says, and
// are cancelled by closing their stream. Older clients get a session at `initialize` and send its id with each message.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "http/server.h"
#include "mcp/server.h"

namespace ridge::mcp {

inline constexpr const char* kHttpPath = "/mcp";

class HttpFront {
 public:
  // Adds its routes to `http`, which has not started yet. Both servers outlive this.
  HttpFront(http::Server& http, Server& server);

 private:
  http::Response post(const http::Request& request);
  http::Response end_session(const http::Request& request);
  // A client that has been initialized, or null.
  std::shared_ptr<Session> session_of(const std::string& id);
  std::shared_ptr<Session> new_session();

  Server& server_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<Session>> sessions_;
  std::uint64_t requests_ = 0;
};

// The text of a header that may be written as "=?base64?...?="; nothing: it is not well formed.
std::optional<std::string> header_text(const std::string& value);

}  // namespace ridge::mcp
