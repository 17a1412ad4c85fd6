// A small HTTP server for this machine's own pages and protocols: the library (cpp-httplib, in server.cpp alone) reads
// and writes messages; who may ask, which limits hold and how it stops is decided here.
//
//   Server server({.port = 0, .token = random_token()});
//   server.route("GET", "/campaign/*", handler);      one path part for each "*", in Request::captured
//   RIDGE_CHECK_OK(server.start());                   returns when it listens; handlers run on threads of its own
//   server.url("/")  server.stop()
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "http/connection.h"
#include "http/message.h"
#include "ridge/result.h"

namespace ridge::http {

struct ServerOptions {
  std::string address = "127.0.0.1";
  std::int64_t port = 0;                // 0: any that is free; port() tells it
  std::string token;                    // empty: no token is asked for
  std::vector<std::string> host_names;  // names beside addresses and localhost under which it may be reached
  Limits limits;
  // How a refusal looks (401, 403, 404, ...); by default one line of text.
  std::function<Response(int status, const std::string& words)> refusal;
};

class Server {
 public:
  explicit Server(ServerOptions options);
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Before start(). A pattern of the same method is tried in the order of declaration. A HEAD is answered as its GET.
  // `takes`: the content type of the body; a request with another is refused.
  void route(std::string method, std::string pattern, Handler handler, std::string takes = "application/json");

  // Errors: the port is taken (kConflict), no permission for it (kIo), no such address here (kInvalidArgument).
  Status start();
  // Ends all streams, waits for handlers that run, and closes. Safe to call again.
  void stop();

  [[nodiscard]] int port() const;
  // "http://127.0.0.1:8421/path"
  [[nodiscard]] std::string url(std::string_view path) const;
  // The same with a ticket that works once and gives a browser the cookie that stands for the token.
  [[nodiscard]] std::string one_time_url(std::string_view path);
  // Called on a thread of the server after a ticket was used, for instance to show the next.
  void on_ticket_used(std::function<void()> call);

 private:
  class Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace ridge::http
