#include "http/server.h"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <httplib.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <list>
#include <mutex>
#include <thread>

#include "base/error.h"
#include "base/text.h"
#include "http/access.h"

namespace ridge::http {
namespace {

constexpr std::size_t kLongestPath = 1024;

// The connection that the present thread serves: the library's callbacks do not say.
thread_local Connection* current_connection = nullptr;
// Whether the present connection is one too many.
thread_local bool overfull = false;

// The library's view of a connection.
class StreamOfConnection final : public httplib::Stream {
 public:
  explicit StreamOfConnection(Connection& connection) : connection_(&connection) {}
  bool is_readable() const override { return true; }
  bool is_writable() const override { return !connection_->close_wanted() && !connection_->peer_gone(); }
  ssize_t read(char* bytes, std::size_t most) override { return connection_->read(bytes, most); }
  ssize_t write(const char* bytes, std::size_t size) override { return connection_->write(bytes, size); }
  void get_remote_ip_and_port(std::string& ip, int& port) const override {
    ip = connection_->client();
    port = 0;
  }
  void get_local_ip_and_port(std::string&, int&) const override {}
  socket_t socket() const override { return connection_->fd(); }

 private:
  Connection* connection_;
};

// A thread for each open connection, up to a number; a stream of events keeps its thread.
class Threads final : public httplib::TaskQueue {
 public:
  explicit Threads(int most) : most_(static_cast<std::size_t>(most)) {}

  void enqueue(std::function<void()> job) override {
    {
      const std::lock_guard lock(mutex_);
      if (idle_ > jobs_.size() || threads_.size() < most_) {
        jobs_.push_back(std::move(job));
        if (idle_ < jobs_.size()) threads_.emplace_back([this] { work(); });
        wake_.notify_one();
        return;
      }
    }
    overfull = true;
    job();
    overfull = false;
  }

  void shutdown() override {
    {
      const std::lock_guard lock(mutex_);
      over_ = true;
    }
    wake_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    while (true) {
      ++idle_;
      wake_.wait(lock, [this] { return over_ || !jobs_.empty(); });
      --idle_;
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::size_t most_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<std::function<void()>> jobs_;
  std::list<std::thread> threads_;
  std::size_t idle_ = 0;
  bool over_ = false;
};

// The library's server over connections of ours and a listening socket of ours.
class Library final : public httplib::Server {
 public:
  explicit Library(const Limits& limits) : limits_(limits), stop_fd_(::eventfd(0, EFD_CLOEXEC)) {
    new_task_queue = [most = limits.connections] { return new Threads(most); };
  }
  ~Library() override { ::close(stop_fd_); }

  void listen_on(int socket) {
    svr_sock_ = socket;
    listen_after_bind();
  }
  void wake_all() {
    stopping_ = true;
    const std::uint64_t one = 1;
    (void)!::write(stop_fd_, &one, sizeof one);  // stays readable: every poll of every connection ends
  }
  [[nodiscard]] bool stopping() const { return stopping_; }

 private:
  bool process_and_close_socket(socket_t socket) override {
    Connection connection(socket, stop_fd_, limits_);
    if (overfull) {
      constexpr std::string_view kBusy =
          "HTTP/1.1 503 Service Unavailable\r\nConnection: close\r\nRetry-After: 5\r\nContent-Length: 0\r\n\r\n";
      connection.write(kBusy.data(), kBusy.size());
      return true;
    }
    current_connection = &connection;
    serve(connection);
    connection.finish();
    current_connection = nullptr;
    return true;
  }

  void serve(Connection& connection) {
    StreamOfConnection stream(connection);
    for (int request = 1; request <= limits_.requests_per_connection; ++request) {
      if (stopping_ || !connection.wait_for_request(limits_.idle_seconds)) return;
      connection.begin_request();
      bool closed = false;
      const bool last = request == limits_.requests_per_connection;
      const bool served = process_request(stream, last, closed, [&](httplib::Request& asked) { prepare(asked); });
      if (!served || closed || connection.close_wanted()) return;
    }
  }

  // Takes out what no route needs and what the library does at length: parts of an answer, and the slow compression.
  static void prepare(httplib::Request& asked) {
    asked.ranges.clear();
    const bool zip = asked.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
    asked.headers.erase("Accept-Encoding");
    if (zip) asked.headers.emplace("Accept-Encoding", "gzip");
    // The body of a GET is not read, and must not be taken for the next request.
    const bool reads_body = asked.method == "POST" || asked.method == "PUT" || asked.method == "PATCH";
    if (!reads_body && (asked.has_header("Content-Length") || asked.has_header("Transfer-Encoding")))
      current_connection->close_after_answer();
  }

  Limits limits_;
  int stop_fd_;
  std::atomic<bool> stopping_ = false;
};

struct Route {
  std::string method;
  std::vector<std::string> parts;
  Handler handler;
  std::string takes;
};

// The parts of the path that stand for the pattern's "*"; nothing when the path is another.
std::optional<std::vector<std::string>> match(const std::vector<std::string>& pattern,
                                              const std::vector<std::string>& path) {
  if (pattern.size() != path.size()) return std::nullopt;
  std::vector<std::string> captured;
  for (std::size_t i = 0; i < pattern.size(); ++i) {
    if (pattern[i] == "*" && !path[i].empty()) {
      captured.push_back(path[i]);
    } else if (pattern[i] != path[i]) {
      return std::nullopt;
    }
  }
  return captured;
}

Request request_of(const httplib::Request& asked) {
  Request request;
  request.method = asked.method == "HEAD" ? "GET" : asked.method;
  request.path = asked.path;
  request.body = asked.body;
  request.client = asked.remote_addr;
  for (const auto& [name, value] : asked.params) request.query.emplace(name, value);
  for (const auto& [name, value] : asked.headers) {
    std::string key = name;
    std::ranges::transform(key, key.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    request.headers.emplace(std::move(key), value);
  }
  return request;
}

std::string media_type(std::string_view content_type) {
  return std::string(trimmed(content_type.substr(0, content_type.find(';'))));
}

Error bind_error(const std::string& address, std::int64_t port, int code) {
  if (code == EADDRINUSE) {
    return with_hint(make_error(ErrorCode::kConflict, "port {} of {} is taken", port, address),
                     "another server may run there; port 0 takes any that is free");
  }
  if (code == EACCES) {
    return with_hint(make_error(ErrorCode::kIo, "no permission to listen on port {} of {}", port, address),
                     "ports below 1024 are for the system; take a higher one, or 0 for any that is free");
  }
  if (code == EADDRNOTAVAIL)
    return with_hint(invalid("this machine has no address {}", address), "127.0.0.1 is for this machine alone");
  return make_error(ErrorCode::kIo, "cannot listen on port {} of {}: {}", port, address, std::strerror(code));
}

// The library shares a port with any other program that shares it, too (SO_REUSEPORT): the socket is made here.
Result<int> listening_socket(const std::string& address, std::int64_t port) {
  if (port < 0 || port > 65535)
    return with_hint(invalid("{} is no port", port), "0 to 65535; 0 takes any that is free");
  addrinfo wanted{};
  wanted.ai_socktype = SOCK_STREAM;
  wanted.ai_flags = AI_PASSIVE;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(address.c_str(), std::to_string(port).c_str(), &wanted, &found); code != 0)
    return with_hint(invalid("no address {}: {}", address, ::gai_strerror(code)), "for instance 127.0.0.1 or 0.0.0.0");
  const std::unique_ptr<addrinfo, void (*)(addrinfo*)> guard(found, ::freeaddrinfo);
  const int socket = ::socket(found->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int yes = 1;  // a port that was left a moment ago may be taken again
  ::setsockopt(socket, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(socket, found->ai_addr, found->ai_addrlen) != 0 || ::listen(socket, 128) != 0) {
    const int code = errno;
    ::close(socket);
    return bind_error(address, port, code);
  }
  return socket;
}

int port_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  ::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size);
  return address.ss_family == AF_INET6 ? ntohs(reinterpret_cast<sockaddr_in6*>(&address)->sin6_port)
                                       : ntohs(reinterpret_cast<sockaddr_in*>(&address)->sin_port);
}

}  // namespace

class Server::Impl {
 public:
  explicit Impl(ServerOptions options) : options_(std::move(options)), library_(options_.limits) {}

  void route(Route route) { routes_.push_back(std::move(route)); }
  Status start();
  void stop();

  ServerOptions options_;
  std::unique_ptr<Access> access_;
  std::function<void()> ticket_used_;
  int port_ = 0;

 private:
  void connect_library();
  // Everything that can be refused before a body is read; without a refusal the route that answers.
  struct Admission {
    std::optional<Response> refusal;
    const Route* route = nullptr;
  };
  Admission admit(Request& request);
  std::optional<Response> refuse_sender(const Request& request);
  std::optional<Response> refuse_body(const Request& request, const Route& route) const;
  [[nodiscard]] Response refused(int status, const std::string& words) const;
  void answer(const Request& request, Response response, httplib::Response& out);
  void stream(const Request& request, const Response& response, httplib::Response& out);
  bool send_events(EventLog& log, std::uint64_t& number, double& quiet, httplib::DataSink& sink) const;

  Library library_;
  std::vector<Route> routes_;
  std::thread listener_;
  std::mutex mutex_;
  std::set<std::shared_ptr<EventLog>> streams_;
};

Status Server::Impl::start() {
  RIDGE_TRY(socket, listening_socket(options_.address, options_.port));
  port_ = port_of(socket);
  access_ = std::make_unique<Access>(options_.token, fmt::format("ridge_{}", port_));
  connect_library();
  listener_ = std::thread([this, socket] { library_.listen_on(socket); });
  while (!library_.is_running()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  return ok_status();
}

void Server::Impl::stop() {
  if (!listener_.joinable()) return;
  library_.wake_all();
  {
    const std::lock_guard lock(mutex_);
    for (const std::shared_ptr<EventLog>& log : streams_) log->wake();
  }
  library_.stop();
  listener_.join();
}

void Server::Impl::connect_library() {
  using Handled = httplib::Server::HandlerResponse;
  library_.set_payload_max_length(options_.limits.body_bytes);
  library_.set_default_headers({{"X-Content-Type-Options", "nosniff"},
                                {"X-Frame-Options", "DENY"},
                                {"Referrer-Policy", "no-referrer"},
                                {"Cross-Origin-Resource-Policy", "same-origin"},
                                {"Cache-Control", "no-store"}});
  library_.set_exception_handler([this](const httplib::Request& asked, httplib::Response& out, std::exception_ptr) {
    answer(request_of(asked), refused(500, "this is a bug of ridge: the request could not be answered"), out);
  });
  library_.set_error_handler([this](const httplib::Request& asked, httplib::Response& out) {
    if (out.body.empty()) answer(request_of(asked), refused(out.status, "the request cannot be read"), out);
    current_connection->close_after_answer();
  });
  // A GET is answered here; for one with a body this only looks whether it is worth reading.
  library_.set_pre_routing_handler([this](const httplib::Request& asked, httplib::Response& out) {
    Request request = request_of(asked);
    Admission admission = admit(request);
    if (admission.refusal) {
      if (asked.method != "GET" && asked.method != "HEAD") current_connection->close_after_answer();
      answer(request, std::move(*admission.refusal), out);
      return Handled::Handled;
    }
    if (request.method == "POST") return Handled::Unhandled;
    answer(request, admission.route->handler(request), out);
    return Handled::Handled;
  });
  library_.Post("[\\s\\S]*", [this](const httplib::Request& asked, httplib::Response& out) {
    Request request = request_of(asked);
    const Admission admission = admit(request);
    answer(request, admission.refusal ? *admission.refusal : admission.route->handler(request), out);
  });
}

Response Server::Impl::refused(int status, const std::string& words) const {
  return options_.refusal ? options_.refusal(status, words) : text_response(status, words);
}

std::optional<Response> Server::Impl::refuse_sender(const Request& request) {
  if (request.path.size() > kLongestPath) return refused(414, "the path is too long");
  const std::string& host = request.header("host");
  if (!is_known_host(host, options_.host_names)) {
    return refused(403, fmt::format("the name \"{}\" is not one of this server's: use an address, or name it when the "
                                    "server is started",
                                    host));
  }
  if (const std::string& origin = request.header("origin"); !origin.empty() && !is_same_origin(origin, host))
    return refused(403, fmt::format("a page of {} may not ask this server", origin));
  if (request.method == "GET" && !request.parameter("token").empty()) {
    if (access_->redeem_ticket(request.parameter("token"))) {
      if (ticket_used_) ticket_used_();
      Response response = see_other(request.path);
      response.headers["Set-Cookie"] = access_->cookie();
      return response;
    }
    if (access_->allows(request)) return see_other(request.path);
  }
  if (!access_->allows(request)) {
    Response response =
        refused(401, "a token is needed: the address that the server printed holds one, which works once");
    response.headers["WWW-Authenticate"] = "Bearer";
    return response;
  }
  return std::nullopt;
}

std::optional<Response> Server::Impl::refuse_body(const Request& request, const Route& route) const {
  if (request.method != "POST") return std::nullopt;
  if (!request.header("content-encoding").empty()) return refused(415, "a compressed body is not taken");
  if (media_type(request.header("content-type")) != route.takes)
    return refused(415, fmt::format("the body must be of the type {}", route.takes));
  return std::nullopt;
}

Server::Impl::Admission Server::Impl::admit(Request& request) {
  if (std::optional<Response> refusal = refuse_sender(request)) return {std::move(refusal)};
  const std::vector<std::string> path = split(request.path, '/');
  std::string allowed;
  for (const Route& route : routes_) {
    std::optional<std::vector<std::string>> captured = match(route.parts, path);
    if (!captured) continue;
    if (route.method == request.method) {
      request.captured = std::move(*captured);
      return {refuse_body(request, route), &route};
    }
    allowed += (allowed.empty() ? "" : ", ") + route.method;
  }
  if (allowed.empty()) return {refused(404, fmt::format("there is no page {}", request.path))};
  Response response = refused(405, fmt::format("{} takes {} only", request.path, allowed));
  response.headers["Allow"] = allowed;
  return {std::move(response)};
}

void Server::Impl::answer(const Request& request, Response response, httplib::Response& out) {
  out.status = response.status;
  response.headers.try_emplace("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'");
  for (const auto& [name, value] : response.headers) {
    out.headers.erase(name);
    out.set_header(name, value);
  }
  // The library closes after an error, and does not say so.
  if (current_connection->close_wanted() || response.status >= 400) {
    out.headers.erase("Connection");
    out.set_header("Connection", "close");
  }
  if (response.events) {
    stream(request, response, out);
  } else {
    out.set_content(response.body, response.type);
  }
}

void Server::Impl::stream(const Request& request, const Response& response, httplib::Response& out) {
  const std::shared_ptr<EventLog> log = response.events;
  EventLog::Place place;
  const std::string& seen = request.header("last-event-id");
  if (!seen.empty()) place = log->place_of(seen);
  if (seen.empty() && response.from_now) place.number = log->last();
  std::string opening = "retry: 1000\n" + wire_text("", "hello", response.first);
  if (response.first.empty()) opening = "retry: 1000\n\n";
  if (place.missed) {
    place.number = log->last();
    opening += wire_text(log->id_of(place.number), "missed", "");
  }
  {
    const std::lock_guard lock(mutex_);
    streams_.insert(log);
  }
  const auto finished = std::make_shared<bool>(false);
  out.set_chunked_content_provider(
      "text/event-stream",
      [this, log, finished, opening, number = place.number, quiet = 0.0](std::size_t, httplib::DataSink& sink) mutable {
        if (!opening.empty()) {
          const std::string text = std::exchange(opening, {});
          return sink.write(text.data(), text.size());
        }
        *finished = send_events(*log, number, quiet, sink);
        return *finished || (sink.is_writable() && !library_.stopping());
      },
      [this, log, finished, gone = response.gone](bool) {
        {
          const std::lock_guard lock(mutex_);
          streams_.erase(log);
        }
        if (!*finished && gone) gone();
      });
}

// Waits a moment for events and sends them; a comment now and then shows both sides that the connection lives. True
// when the log is closed and all of it is sent.
bool Server::Impl::send_events(EventLog& log, std::uint64_t& number, double& quiet, httplib::DataSink& sink) const {
  constexpr double kWait = 0.5;  // how soon a client that has gone is noticed
  const EventLog::Batch batch = log.after(number, kWait);
  std::string text;
  if (batch.missed) text += wire_text("", "missed", "");
  for (const Event& event : batch.events) {
    text += wire_text(log.id_of(event.number), event.name, event.data);
    number = event.number;
  }
  quiet = text.empty() ? quiet + kWait : 0;
  if (text.empty() && quiet >= options_.limits.heartbeat_seconds) {
    text = ": alive\n\n";
    quiet = 0;
  }
  if (!text.empty() && !sink.write(text.data(), text.size())) return false;
  if (batch.closed) sink.done();
  return batch.closed;
}

Server::Server(ServerOptions options) : impl_(std::make_unique<Impl>(std::move(options))) {}
Server::~Server() { stop(); }

void Server::route(std::string method, std::string pattern, Handler handler, std::string takes) {
  impl_->route({std::move(method), split(pattern, '/'), std::move(handler), std::move(takes)});
}
Status Server::start() { return impl_->start(); }
void Server::stop() { impl_->stop(); }
int Server::port() const { return impl_->port_; }

std::string Server::url(std::string_view path) const {
  const std::string& address = impl_->options_.address;
  const bool bracketed = address.find(':') != std::string::npos;
  return fmt::format("http://{}:{}{}", bracketed ? "[" + address + "]" : address, impl_->port_, path);
}

std::string Server::one_time_url(std::string_view path) {
  if (impl_->access_->open()) return url(path);
  return fmt::format("{}?token={}", url(path), impl_->access_->issue_ticket());
}

void Server::on_ticket_used(std::function<void()> call) { impl_->ticket_used_ = std::move(call); }

}  // namespace ridge::http
