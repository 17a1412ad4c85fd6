#include "mcp/http.h"

#include <fmt/format.h>

#include <algorithm>
#include <condition_variable>
#include <optional>

#include "base/base64.h"
#include "http/access.h"

namespace ridge::mcp {
namespace {

using record::McpFault;
using record::McpRequest;

constexpr std::size_t kMostSessions = 1000;
constexpr const char* kSessionHeader = "Mcp-Session-Id";

int status_of(int code) {
  switch (code) {
    case record::kMcpNotJson:
    case record::kMcpNoRequest:
    case record::kMcpBadParameters:
    case record::kMcpHeaderMismatch:
    case record::kMcpWrongRevision: return 400;
    case record::kMcpNoMethod: return 404;
    default: return 200;
  }
}

http::Response fault(const McpFault& fault, const std::string& revision = {}) {
  const Message message(fault, revision);
  return http::json_response(message.text, status_of(message.code));
}

bool accepts(const http::Request& request, std::string_view type) {
  const std::string& accept = request.header("accept");
  return accept.find(type) != std::string::npos || accept.find("*/*") != std::string::npos;
}

// What the headers of a request of 2026-07-28 say otherwise than its message; empty: nothing.
std::string mismatch(const http::Request& http, const McpRequest& request) {
  if (http.header("mcp-protocol-version") != request.revision)
    return fmt::format("the header MCP-Protocol-Version is \"{}\", params._meta names {}",
                       http.header("mcp-protocol-version"), request.revision);
  if (http.header("mcp-method") != request.method)
    return fmt::format("the header Mcp-Method is \"{}\", the method {}", http.header("mcp-method"), request.method);
  const bool by_name = request.method == "tools/call" || request.method == "prompts/get";
  if (!by_name && request.method != "resources/read") return {};
  const std::string& subject = by_name ? request.name : request.uri;
  if (header_text(http.header("mcp-name")) == subject) return {};
  return fmt::format("the header Mcp-Name is \"{}\", the message asks for \"{}\"", http.header("mcp-name"), subject);
}

// The messages of one exchange, as a stream or together.
struct Answer {
  std::shared_ptr<http::EventLog> log = std::make_shared<http::EventLog>("m");
  std::mutex mutex;
  std::condition_variable changed;
  Message last;
  bool done = false, streamed = false;
};

Exchange exchange_of(const std::shared_ptr<Answer>& answer) {
  return {[answer](const Message& message) {
            const std::lock_guard lock(answer->mutex);
            answer->last = message;
            answer->log->publish("", message.text);
          },
          [answer] {
            const std::lock_guard lock(answer->mutex);
            answer->done = true;
            answer->log->close();
            answer->changed.notify_all();
          }};
}

}  // namespace

std::optional<std::string> header_text(const std::string& value) {
  constexpr std::string_view kBegin = "=?base64?", kEnd = "?=";
  if (!value.starts_with(kBegin) || !value.ends_with(kEnd) || value.size() < kBegin.size() + kEnd.size()) return value;
  return base64_decoded(std::string_view(value).substr(kBegin.size(), value.size() - kBegin.size() - kEnd.size()));
}

HttpFront::HttpFront(http::Server& http, Server& server) : server_(server) {
  http.route("POST", kHttpPath, [this](const http::Request& request) { return post(request); });
  http.route("DELETE", kHttpPath, [this](const http::Request& request) { return end_session(request); });
}

std::shared_ptr<Session> HttpFront::session_of(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const auto found = sessions_.find(id);
  return found == sessions_.end() ? nullptr : found->second;
}

std::shared_ptr<Session> HttpFront::new_session() {
  const std::lock_guard lock(mutex_);
  auto session = std::make_shared<Session>();
  session->name = http::random_token();
  if (sessions_.size() >= kMostSessions) sessions_.erase(sessions_.begin());  // one of them, by chance: ids are random
  sessions_[session->name] = session;
  return session;
}

http::Response HttpFront::end_session(const http::Request& request) {
  const std::lock_guard lock(mutex_);
  const bool ended = sessions_.erase(request.header("mcp-session-id")) > 0;
  return ended ? http::text_response(200, "ended") : http::text_response(404, "there is no such session");
}

http::Response HttpFront::post(const http::Request& request) {
  if (!accepts(request, "application/json"))
    return http::text_response(406, "Accept must name application/json, and text/event-stream for calls of tools");
  const std::variant<McpRequest, McpFault> read = record::read_mcp(request.body);
  if (const auto* wrong = std::get_if<McpFault>(&read)) return fault(*wrong);
  const auto& message = std::get<McpRequest>(read);
  const bool modern = message.revision == record::kMcpModern;
  if (modern && !message.id.empty()) {
    if (const std::string what = mismatch(request, message); !what.empty())
      return fault({message.id, record::kMcpHeaderMismatch, what});
  }
  const bool begins = message.method == "initialize";
  std::shared_ptr<Session> session;
  const std::string& id = request.header("mcp-session-id");
  if (modern || message.method == "server/discover") {
    session = std::make_shared<Session>();  // stands for this request alone
    const std::lock_guard lock(mutex_);
    session->name = fmt::format("request {}", ++requests_);
  } else if (begins) {
    session = new_session();
  } else if (id.empty() &&
             (request.header("mcp-protocol-version") == record::kMcpModern || !message.revision.empty())) {
    session = std::make_shared<Session>();  // told which revisions there are
  } else if (id.empty()) {
    return fault({message.id.empty() ? "null" : message.id, record::kMcpNoRequest,
                  "a message without params._meta needs the header Mcp-Session-Id that initialize was answered with"});
  } else if (session = session_of(id); !session) {
    return http::text_response(404, "there is no such session: call initialize again");
  }
  const auto answer = std::make_shared<Answer>();
  server_.receive(request.body, *session, exchange_of(answer));
  std::unique_lock lock(answer->mutex);
  if (!answer->done && accepts(request, "text/event-stream")) {
    http::Response stream;
    stream.events = answer->log;
    // The session is kept for the call's sake.
    stream.gone = [this, session, call = message.id, modern, ends = !server_.goes_on_alone(message.name)] {
      if (modern && ends) server_.cancel(*session, call);
    };
    return stream;
  }
  answer->changed.wait(lock, [&] { return answer->done; });
  if (answer->last.text.empty()) {
    http::Response taken = http::text_response(202, "");
    taken.body.clear();
    return taken;
  }
  http::Response response = http::json_response(answer->last.text, modern ? status_of(answer->last.code) : 200);
  if (begins) response.headers[kSessionHeader] = session->name;
  return response;
}

}  // namespace ridge::mcp
