// What a request asks and what a route answers, without the library that carries them.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/event_log.h"

namespace ridge::http {

struct Request {
  std::string method;
  std::string path;                   // decoded: "/campaign/a b"
  std::vector<std::string> captured;  // the path's parts that stood for "*" in the route's pattern, in order
  std::multimap<std::string, std::string> query;
  std::map<std::string, std::string> headers;  // by lower-case name; the first value of each
  std::string body;
  std::string client;  // address

  // The value, or an empty text.
  [[nodiscard]] const std::string& header(const std::string& lower_case_name) const;
  [[nodiscard]] const std::string& parameter(const std::string& name) const;
  // Every value of a name.
  [[nodiscard]] std::vector<std::string> parameters(const std::string& name) const;
};

struct Response {
  int status = 200;
  std::string type = "text/plain; charset=utf-8";
  std::string body;
  std::map<std::string, std::string> headers;  // added to those of every answer; one of the same name replaces it

  // With a log the answer is a stream of server-sent events that lasts until the log is closed, the client goes away
  // or the server stops; `body` is not sent.
  std::shared_ptr<EventLog> events;
  bool from_now = false;       // a client that names no event gets only what is published from now on
  std::string first;           // sent before all events, as an event `hello` without an id; empty: none
  std::function<void()> gone;  // called once when the client left before the log was closed
};

// An answer of one line of text, for what cannot be done.
Response text_response(int status, std::string_view text);
Response json_response(std::string body, int status = 200);
// 303: see this path of the same server.
Response see_other(std::string_view path);

using Handler = std::function<Response(const Request&)>;

}  // namespace ridge::http
