// A copy of this process that answers messages of fixed size over a socket: for work that may crash or hang the process
// that does it, and for a device context that must be fresh. It ends with the process that asked for it.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <functional>

#include "ridge/result.h"

namespace ridge::evaluate {

class ForkedProcess {
 public:
  ForkedProcess() = default;
  ForkedProcess(ForkedProcess&& other) noexcept;
  ForkedProcess& operator=(ForkedProcess&& other) noexcept;
  ForkedProcess(const ForkedProcess&) = delete;
  ForkedProcess& operator=(const ForkedProcess&) = delete;
  ~ForkedProcess();

  // `serve` runs in the copy with its end of the socket; the copy ends when it returns, without destructors.
  static Result<ForkedProcess> start(const std::function<void(int)>& serve);

  bool send(const void* message, std::size_t bytes);
  enum class Received { kMessage, kEnded, kNothing };
  // Waits at most `limit` seconds for a message of exactly that size.
  Received receive(void* message, std::size_t bytes, double limit);
  // After kEnded: "signal 11 (Segmentation fault)", "exit code 1".
  std::string how_it_ended();
  // Kills it and waits until it is gone, which for the owner of a device context means until the driver has given
  // everything back. False: it does not go away.
  bool end(double limit);

  [[nodiscard]] bool running() const { return pid_ > 0; }
  [[nodiscard]] pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
  int socket_ = -1;
};

// For the copy: one message to the other side, or from it; false when it is gone.
bool send_message(int socket, const void* message, std::size_t bytes);
bool receive_message(int socket, void* message, std::size_t bytes);

}  // namespace ridge::evaluate
