#include "http/connection.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace ridge::http {
namespace {

std::chrono::steady_clock::time_point after(double seconds) {
  return std::chrono::steady_clock::now() +
         std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(seconds));
}

int milliseconds_until(std::chrono::steady_clock::time_point end) {
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now()).count();
  return static_cast<int>(std::clamp<long long>(left, 0, 1'000'000));
}

}  // namespace

Connection::Connection(int fd, int stop_fd, const Limits& limits) : fd_(fd), stop_fd_(stop_fd), limits_(limits) {
  ::fcntl(fd_, F_SETFD, FD_CLOEXEC);
  ::fcntl(fd_, F_SETFL, ::fcntl(fd_, F_GETFL) | O_NONBLOCK);
  const int yes = 1;  // an event is not held back until more follows
  ::setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof yes);
}

Connection::~Connection() { ::close(fd_); }

bool Connection::wait(short what, Time end, bool until_stop) const {
  while (true) {
    pollfd watched[2] = {{fd_, what, 0}, {stop_fd_, POLLIN, 0}};
    const int ready = ::poll(watched, until_stop ? 2 : 1, milliseconds_until(end));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return false;
    if ((watched[0].revents & what) != 0) return true;
    return false;
  }
}

bool Connection::wait_for_request(double seconds) { return has_bytes() || wait(POLLIN, after(seconds)); }

void Connection::begin_request() {
  in_header_ = true;
  header_end_ = 0;
  header_read_ = body_read_ = 0;
  deadline_ = after(limits_.header_seconds);
}

// Follows the bytes as they are taken, because the end of the headers starts the body's limits.
void Connection::watch_header(const char* bytes, std::size_t size) {
  constexpr std::string_view kEnd = "\r\n\r\n";
  for (std::size_t i = 0; i < size && in_header_; ++i) {
    ++header_read_;
    if (bytes[i] == kEnd[static_cast<std::size_t>(header_end_)]) {
      ++header_end_;
    } else {
      header_end_ = bytes[i] == '\r' ? 1 : 0;
    }
    if (header_end_ < 4) continue;
    in_header_ = false;
    deadline_ = after(limits_.body_seconds);
  }
}

ssize_t Connection::read(char* bytes, std::size_t most) {
  if (problem_ != 0) return -1;
  if (!has_bytes()) {
    if (!wait(POLLIN, deadline_)) {
      problem_ = 408;
      return -1;
    }
    const ssize_t got = ::recv(fd_, buffer_.data(), buffer_.size(), 0);
    if (got <= 0) {
      close_wanted_ = true;
      return got;
    }
    next_ = 0;
    filled_ = static_cast<std::size_t>(got);
  }
  const std::size_t taken = std::min(most, filled_ - next_);
  std::memcpy(bytes, buffer_.data() + next_, taken);
  next_ += taken;
  if (in_header_) {
    watch_header(bytes, taken);
  } else {
    body_read_ += taken;
  }
  if (header_read_ > limits_.header_bytes) problem_ = 431;
  // A body in chunks has a frame of a few bytes around each.
  if (body_read_ > 2 * limits_.body_bytes + 65536) problem_ = 413;
  return problem_ != 0 ? -1 : static_cast<ssize_t>(taken);
}

ssize_t Connection::write(const char* bytes, std::size_t size) {
  if (problem_ != 0) return -1;  // finish() says what it was
  const Time end = after(limits_.write_seconds + static_cast<double>(size) / 65536);
  for (std::size_t sent = 0; sent < size;) {
    const ssize_t got = ::send(fd_, bytes + sent, size - sent, MSG_NOSIGNAL);
    if (got > 0) {
      sent += static_cast<std::size_t>(got);
    } else if (errno == EAGAIN || errno == EWOULDBLOCK) {
      if (!wait(POLLOUT, end, false)) return close_wanted_ = true, -1;
    } else if (errno != EINTR) {
      return close_wanted_ = true, -1;
    }
  }
  return static_cast<ssize_t>(size);
}

bool Connection::peer_gone() const {
  pollfd watched{fd_, POLLRDHUP, 0};
  return ::poll(&watched, 1, 0) > 0 && (watched.revents & (POLLRDHUP | POLLHUP | POLLERR)) != 0;
}

void Connection::finish() {
  if (problem_ != 0) {
    const std::string_view words = problem_ == 408   ? "Request Timeout"
                                   : problem_ == 431 ? "Request Header Fields Too Large"
                                                     : "Content Too Large";
    const std::string text =
        fmt::format("HTTP/1.1 {} {}\r\nConnection: close\r\nContent-Length: 0\r\n\r\n", problem_, words);
    (void)::send(fd_, text.data(), text.size(), MSG_NOSIGNAL);
  }
  ::shutdown(fd_, SHUT_WR);
  const Time end = after(2);
  char rest[16384];
  while (wait(POLLIN, end) && ::recv(fd_, rest, sizeof rest, 0) > 0) {
  }
}

std::string Connection::client() const {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  if (::getpeername(fd_, reinterpret_cast<sockaddr*>(&address), &size) != 0) return "unknown";
  char text[INET6_ADDRSTRLEN] = "unknown";
  if (address.ss_family == AF_INET)
    ::inet_ntop(AF_INET, &reinterpret_cast<sockaddr_in*>(&address)->sin_addr, text, sizeof text);
  if (address.ss_family == AF_INET6)
    ::inet_ntop(AF_INET6, &reinterpret_cast<sockaddr_in6*>(&address)->sin6_addr, text, sizeof text);
  return text;
}

}  // namespace ridge::http
