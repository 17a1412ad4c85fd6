#include "evaluate/host_fork.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "base/error.h"
#include "measure/machine.h"

namespace ridge::evaluate {
namespace {

constexpr double kEndLimit = 30.0;

double seconds_since(std::uint64_t start_ns) { return 1e-9 * static_cast<double>(measure::now_ns() - start_ns); }

}  // namespace

ForkedProcess::ForkedProcess(ForkedProcess&& other) noexcept { *this = std::move(other); }

ForkedProcess& ForkedProcess::operator=(ForkedProcess&& other) noexcept {
  if (this == &other) return *this;
  end(kEndLimit);
  pid_ = std::exchange(other.pid_, -1);
  socket_ = std::exchange(other.socket_, -1);
  return *this;
}

ForkedProcess::~ForkedProcess() { end(kEndLimit); }

Result<ForkedProcess> ForkedProcess::start(const std::function<void(int)>& serve) {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0) {
    return make_error(ErrorCode::kIo, "socketpair: {}", std::strerror(errno));
  }
  ForkedProcess process;
  process.socket_ = ends[0];
  const pid_t parent = ::getpid();
  process.pid_ = ::fork();
  if (process.pid_ == 0) {
    ::close(ends[0]);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    // What a kernel prints goes nowhere: descriptor 1 is our caller's.
    if (const int nowhere = ::open("/dev/null", O_WRONLY | O_CLOEXEC); nowhere >= 0) ::dup2(nowhere, 1);
    if (::getppid() == parent) serve(ends[1]);
    ::_exit(0);  // no destructors: what they would give back is not theirs, or the driver's fault already
  }
  ::close(ends[1]);
  if (process.pid_ < 0) return make_error(ErrorCode::kIo, "fork: {}", std::strerror(errno));
  return process;
}

bool send_message(int socket, const void* message, std::size_t bytes) {
  return ::send(socket, message, bytes, MSG_NOSIGNAL) == static_cast<ssize_t>(bytes);
}

bool receive_message(int socket, void* message, std::size_t bytes) {
  ssize_t got;
  do {
    got = ::recv(socket, message, bytes, 0);
  } while (got < 0 && errno == EINTR);
  return got == static_cast<ssize_t>(bytes);
}

bool ForkedProcess::send(const void* message, std::size_t bytes) {
  return running() && send_message(socket_, message, bytes);
}

ForkedProcess::Received ForkedProcess::receive(void* message, std::size_t bytes, double limit) {
  const std::uint64_t start = measure::now_ns();
  while (running()) {
    const double left = limit - seconds_since(start);
    if (left <= 0) return Received::kNothing;
    pollfd waiting{socket_, POLLIN, 0};
    const int ready = ::poll(&waiting, 1, static_cast<int>(std::min(left, 1000.0) * 1e3) + 1);
    if (ready > 0) return receive_message(socket_, message, bytes) ? Received::kMessage : Received::kEnded;
  }
  return Received::kEnded;
}

std::string ForkedProcess::how_it_ended() {
  int status = 0;
  if (pid_ <= 0 || ::waitpid(pid_, &status, 0) != pid_) return "no exit status";
  pid_ = -1;
  if (WIFSIGNALED(status)) return fmt::format("signal {} ({})", WTERMSIG(status), ::strsignal(WTERMSIG(status)));
  return fmt::format("exit code {}", WEXITSTATUS(status));
}

bool ForkedProcess::end(double limit) {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  if (pid_ <= 0) return true;
  ::kill(pid_, SIGKILL);
  for (const std::uint64_t start = measure::now_ns(); seconds_since(start) < limit; ::poll(nullptr, 0, 2)) {
    const pid_t ended = ::waitpid(pid_, nullptr, WNOHANG);
    if (ended == pid_ || (ended < 0 && errno == ECHILD)) {
      pid_ = -1;
      return true;
    }
  }
  return false;
}

}  // namespace ridge::evaluate
