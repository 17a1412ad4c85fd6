// A client that sends any bytes, right or wrong, and reads what comes back.
#pragma once

#include <arpa/inet.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <chrono>
#include <string>
#include <string_view>

namespace ridge::http {

class TestClient {
 public:
  explicit TestClient(int port, int receive_buffer = 0) : fd_(::socket(AF_INET, SOCK_STREAM, 0)) {
    if (receive_buffer > 0) ::setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer, sizeof receive_buffer);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    ::inet_pton(AF_INET, "127.0.0.1", &address.sin_addr);
    connected_ = ::connect(fd_, reinterpret_cast<sockaddr*>(&address), sizeof address) == 0;
  }
  ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  [[nodiscard]] bool connected() const { return connected_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t sent = ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (sent <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(sent));
    }
    return true;
  }
  void close() {
    if (fd_ >= 0) ::close(fd_);
    fd_ = -1;
  }
  // Everything up to `end`, to the end of the connection, or to the time limit; kept for the next call behind `end`.
  std::string read_until(std::string_view end, double seconds = 5) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
    while (true) {
      if (const std::size_t at = end.empty() ? std::string::npos : read_.find(end); at != std::string::npos) {
        std::string result = read_.substr(0, at + end.size());
        read_.erase(0, at + end.size());
        return result;
      }
      const auto left = std::chrono::duration<double>(limit - std::chrono::steady_clock::now()).count();
      pollfd watched{fd_, POLLIN, 0};
      if (left <= 0 || ::poll(&watched, 1, static_cast<int>(left * 1000) + 1) <= 0) break;
      char buffer[4096];
      const ssize_t got = ::recv(fd_, buffer, sizeof buffer, 0);
      if (got <= 0) {
        ended_ = true;
        break;
      }
      read_.append(buffer, static_cast<std::size_t>(got));
    }
    return std::exchange(read_, {});
  }
  [[nodiscard]] bool ended() const { return ended_; }
  // One request of its own connection; the whole answer.
  std::string ask(std::string_view request, double seconds = 5) {
    send(request);
    return read_until("", seconds);
  }

 private:
  int fd_;
  bool connected_ = false, ended_ = false;
  std::string read_;
};

inline std::string get(std::string_view path, std::string_view more_headers = {}, std::string_view host = "localhost") {
  return fmt::format("GET {} HTTP/1.1\r\nHost: {}\r\n{}Connection: close\r\n\r\n", path, host, more_headers);
}
inline std::string post(std::string_view path, std::string_view body, std::string_view more_headers = {},
                        std::string_view type = "application/json") {
  return fmt::format(
      "POST {} HTTP/1.1\r\nHost: localhost\r\nContent-Type: {}\r\n{}Content-Length: {}\r\nConnection: close\r\n\r\n{}",
      path, type, more_headers, body.size(), body);
}

}  // namespace ridge::http
