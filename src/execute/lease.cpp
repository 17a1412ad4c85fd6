#include "execute/lease.h"

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "execute/unit.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;
using Steady = std::chrono::steady_clock;

constexpr useconds_t kPoll = 100'000;  // microseconds
constexpr const char* kCounter = "next";

Error lease_error(std::string_view what, const fs::path& path) {
  return make_error(ErrorCode::kIo, "cannot {} {}: {}", what, path.string(), std::strerror(errno));
}

// An open file that is locked; closing unlocks it.
class LockedFile {
 public:
  LockedFile(const fs::path& path, int operation) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0644)) {
    if (fd_ < 0) return;
    int result = 0;
    do {
      result = ::flock(fd_, operation);
    } while (result != 0 && errno == EINTR);
    locked_ = result == 0;
  }
  LockedFile(const LockedFile&) = delete;
  LockedFile& operator=(const LockedFile&) = delete;
  ~LockedFile() {
    if (fd_ >= 0) ::close(fd_);
  }
  [[nodiscard]] bool open() const { return fd_ >= 0; }
  [[nodiscard]] bool locked() const { return locked_; }
  [[nodiscard]] int fd() const { return fd_; }
  int release() { return std::exchange(fd_, -1); }

 private:
  int fd_;
  bool locked_ = false;
};

std::string text_of(int fd) {
  char buffer[256];
  const ssize_t size = ::pread(fd, buffer, sizeof buffer, 0);
  return size > 0 ? std::string(buffer, static_cast<std::size_t>(size)) : std::string();
}

Status write_text(int fd, const std::string& text, const fs::path& path) {
  const bool written =
      ::ftruncate(fd, 0) == 0 && ::pwrite(fd, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size());
  return written ? ok_status() : Status(lease_error("write", path));
}

std::string ticket_name(long number) { return fmt::format("ticket-{:012}", number); }

// Who holds a ticket before `own`, or nothing. Tickets of dead processes are removed. Called under the counter's lock,
// so that no ticket is seen between its creation and its locking.
std::optional<std::string> holder_before(const fs::path& folder, const std::string& own) {
  std::vector<fs::path> earlier;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    if (name.starts_with("ticket-") && name < own) earlier.push_back(entry.path());
  }
  std::sort(earlier.begin(), earlier.end());
  for (const fs::path& path : earlier) {
    const LockedFile ticket(path, LOCK_EX | LOCK_NB);
    if (ticket.open() && !ticket.locked()) return text_of(ticket.fd());
    fs::remove(path, error);
  }
  return std::nullopt;
}

class LeasedExecutor final : public Executor {
 public:
  LeasedExecutor(std::unique_ptr<Executor> inner, fs::path folder, std::string who)
      : inner_(std::move(inner)), folder_(std::move(folder)), who_(std::move(who)) {}

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    if (!measures(request.task)) return inner_->run(request, on_progress, should_stop);
    const Result<DeviceLease> lease = take(on_progress, should_stop);
    if (!lease) return lease.error();
    return inner_->run(request, on_progress, should_stop);
  }
  [[nodiscard]] std::size_t width() const override { return inner_->width(); }
  // All of them under one lease.
  std::vector<Result<record::WorkerResponse>> run_all(std::span<const record::WorkerRequest> requests,
                                                      const OnPartProgress& on_progress,
                                                      const ShouldStop& should_stop) override {
    const bool measuring = std::ranges::any_of(requests, [](const auto& one) { return measures(one.task); });
    if (!measuring) return inner_->run_all(requests, on_progress, should_stop);
    const auto show = [&](const record::Progress& now) {
      for (std::size_t part = 0; on_progress && part < requests.size(); ++part) on_progress(part, now);
    };
    const Result<DeviceLease> lease = take(show, should_stop);
    if (!lease) return std::vector<Result<record::WorkerResponse>>(requests.size(), lease.error());
    return inner_->run_all(requests, on_progress, should_stop);
  }
  [[nodiscard]] double waited() const override { return waited_ + inner_->waited(); }

 private:
  Result<DeviceLease> take(const OnProgress& on_progress, const ShouldStop& should_stop) {
    const Steady::time_point asked = Steady::now();
    const double before = waited_;
    const auto count = [&] { waited_ = before + std::chrono::duration<double>(Steady::now() - asked).count(); };
    const auto on_wait = [&](const std::string& holder) {
      count();
      if (on_progress) on_progress({"waiting for the device", "held by " + holder, 0});
    };
    Result<DeviceLease> lease = DeviceLease::acquire(folder_, who_, should_stop, on_wait);
    count();
    return lease;
  }

  std::unique_ptr<Executor> inner_;
  fs::path folder_;
  std::string who_;
  double waited_ = 0;
};

}  // namespace

Result<DeviceLease> DeviceLease::acquire(const fs::path& folder, const std::string& who, const ShouldStop& should_stop,
                                         const std::function<void(const std::string&)>& on_wait) {
  RIDGE_CHECK_OK(make_directories(folder));
  const fs::path counter_path = folder / kCounter;
  std::string name;
  std::optional<DeviceLease> lease;
  {
    LockedFile counter(counter_path, LOCK_EX);
    if (!counter.locked()) return lease_error("lock", counter_path);
    const long number = std::atol(text_of(counter.fd()).c_str()) + 1;
    RIDGE_CHECK_OK(write_text(counter.fd(), fmt::format("{}\n", number), counter_path));
    name = ticket_name(number);
    LockedFile ticket(folder / name, LOCK_EX | LOCK_NB);
    if (!ticket.locked()) return lease_error("lock", folder / name);
    RIDGE_CHECK_OK(write_text(ticket.fd(), fmt::format("{} (process {})", who, ::getpid()), folder / name));
    lease.emplace(DeviceLease(folder / name, ticket.release()));
  }
  while (true) {
    std::optional<std::string> holder;
    {
      const LockedFile counter(counter_path, LOCK_EX);
      if (!counter.locked()) return lease_error("lock", counter_path);
      holder = holder_before(folder, name);
    }
    if (!holder) return std::move(*lease);
    if (should_stop && should_stop()) return make_error(ErrorCode::kTimeout, "stopped while waiting for {}", *holder);
    if (on_wait) on_wait(*holder);
    ::usleep(kPoll);
  }
}

DeviceLease::DeviceLease(DeviceLease&& other) noexcept
    : ticket_(std::move(other.ticket_)), fd_(std::exchange(other.fd_, -1)) {}

DeviceLease::~DeviceLease() {
  if (fd_ < 0) return;
  std::error_code ignored;
  fs::remove(ticket_, ignored);
  ::close(fd_);
}

fs::path device_folder(const fs::path& cache_directory, const std::string& backend) {
  const std::string host = this_place().host;
  return cache_directory / "device" / (host.empty() ? "this-machine" : host) / backend;
}

std::unique_ptr<Executor> make_leased_executor(std::unique_ptr<Executor> inner, fs::path folder, std::string who) {
  return std::make_unique<LeasedExecutor>(std::move(inner), std::move(folder), std::move(who));
}

}  // namespace ridge::execute
