// One client's socket with a limit on bytes and on time for every step, which the library below does not have: it waits
// anew for each byte and takes any number of header lines.
#pragma once

#include <sys/types.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <string>

namespace ridge::http {

struct Limits {
  std::size_t header_bytes = 32 << 10;  // request line and headers
  std::size_t body_bytes = 1 << 20;
  double header_seconds = 10;  // from the first byte of a request to the end of its headers
  double body_seconds = 30;
  double idle_seconds = 30;   // between two requests of a connection
  double write_seconds = 10;  // for one piece of an answer, and one second more for every 64 KiB
  double heartbeat_seconds = 15;
  int connections = 256;
  int requests_per_connection = 1000;
};

class Connection {
 public:
  // Takes the socket over. `stop_fd` becomes readable when the server stops.
  Connection(int fd, int stop_fd, const Limits& limits);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  // Whether the next request begins within that time; false also when the client has gone or the server stops.
  bool wait_for_request(double seconds);
  void begin_request();

  // As of the system: bytes, 0 at the end, -1 when a limit was reached or the client has gone.
  ssize_t read(char* bytes, std::size_t most);
  // All of it or -1.
  ssize_t write(const char* bytes, std::size_t size);
  [[nodiscard]] bool has_bytes() const { return next_ < filled_; }
  // Whether the client has closed its side.
  [[nodiscard]] bool peer_gone() const;

  // The status that tells the client which limit it reached (408, 431, 413); 0: none.
  [[nodiscard]] int problem() const { return problem_; }
  // The connection ends after this answer.
  void close_after_answer() { close_wanted_ = true; }
  [[nodiscard]] bool close_wanted() const { return close_wanted_ || problem_ != 0; }
  // Writes the status of a problem, waits a moment for what is on its way, so that the answer is not lost, and closes.
  void finish();

  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] std::string client() const;

 private:
  using Time = std::chrono::steady_clock::time_point;
  // Poll until `end`; false: the time is over, the server stops, or the socket is broken.
  [[nodiscard]] bool wait(short what, Time end, bool until_stop = true) const;
  void watch_header(const char* bytes, std::size_t size);

  int fd_, stop_fd_;
  Limits limits_;
  std::array<char, 8192> buffer_{};
  std::size_t next_ = 0, filled_ = 0;
  Time deadline_{};
  bool in_header_ = true, close_wanted_ = false;
  int header_end_ = 0;  // how much of CR LF CR LF was just read
  std::size_t header_read_ = 0, body_read_ = 0;
  int problem_ = 0;
};

}  // namespace ridge::http
