#include "evaluate/host_process.h"

#include <fcntl.h>
#include <linux/futex.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <optional>
#include <utility>

#include "base/error.h"
#include "evaluate/host_serve.h"
#include "evaluate/host_spawn.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using record::Gate;
using record::Outcome;

constexpr double kStartTimeout = 20.0;  // loading runs constructors: a candidate may hang there
constexpr int kEmptyCalls = 6;

Failure harness_fault(std::string detail) { return {Outcome::kHarnessFault, std::move(detail)}; }

double seconds_between(std::uint64_t start_ns, std::uint64_t end_ns) {
  return 1e-9 * static_cast<double>(end_ns - start_ns);
}

std::string system_call_name(int number) {
  char* name = ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  std::string text = name != nullptr ? name : fmt::format("number {}", number);
  std::free(name);
  return text;
}

// How many system call filters the kernel says a process has; -1 where it does not say (Linux before 5.9).
int system_call_filters(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Seccomp_filters:")) return std::atoi(line.c_str() + sizeof "Seccomp_filters:" - 1);
  }
  return -1;
}

// The first line of a sanitizer's report that says what it found; empty when there is none.
std::string finding(int report_fd) {
  char text[4096] = {};
  const ssize_t size = ::pread(report_fd, text, sizeof text - 1, 0);
  std::string_view rest(text, static_cast<std::size_t>(std::max<ssize_t>(size, 0)));
  while (!rest.empty()) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    for (const std::string_view mark : {"ERROR: AddressSanitizer: ", "runtime error: "}) {
      const std::size_t at = line.find(mark);
      if (at == std::string_view::npos) continue;
      const std::size_t words = mark.front() == 'E' ? at + mark.size() : 0;
      return std::string(line.substr(words, 300));
    }
  }
  return {};
}

}  // namespace

HostProcess::HostProcess(HostProcess&& other) noexcept { *this = std::move(other); }

HostProcess& HostProcess::operator=(HostProcess&& other) noexcept {
  if (this == &other) return *this;
  kill();
  pid_ = std::exchange(other.pid_, -1);
  region_fd_ = std::exchange(other.region_fd_, -1);
  report_fd_ = std::exchange(other.report_fd_, -1);
  region_ = std::exchange(other.region_, nullptr);
  region_bytes_ = other.region_bytes_;
  number_ = other.number_;
  sandbox_ = other.sandbox_;
  call_timeout_ = other.call_timeout_;
  memory_limit_bytes_ = other.memory_limit_bytes_;
  cpu_after_answer_ = other.cpu_after_answer_;
  last_span_ = other.last_span_;
  calls_ = other.calls_;
  contradictions_ = other.contradictions_;
  defences_ = other.defences_;
  trusted_ = other.trusted_;
  empty_wall_ = other.empty_wall_;
  wall_slack_ = other.wall_slack_;
  cpu_slack_ = other.cpu_slack_;
  quiet_slack_ = other.quiet_slack_;
  witness_gap_ = other.witness_gap_;
  return *this;
}

HostProcess::~HostProcess() { kill(); }

void HostProcess::freeze() const {
  if (pid_ > 0 && trusted_) ::kill(pid_, SIGSTOP);
}

void HostProcess::thaw() const {
  if (pid_ > 0 && trusted_) ::kill(pid_, SIGCONT);
}

void HostProcess::kill() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  if (region_ != nullptr) ::munmap(std::exchange(region_, nullptr), region_bytes_);
  if (region_fd_ >= 0) ::close(std::exchange(region_fd_, -1));
  if (report_fd_ >= 0) ::close(std::exchange(report_fd_, -1));
}

std::optional<Failure> HostProcess::create_region(std::size_t bytes) {
  region_bytes_ = kControlBytes + bytes;
  region_fd_ = ::memfd_create("ridge-operands", MFD_CLOEXEC | MFD_ALLOW_SEALING);
  if (region_fd_ < 0 || ::ftruncate(region_fd_, static_cast<off_t>(region_bytes_)) != 0) {
    return harness_fault(
        fmt::format("cannot create {} bytes of shared memory: {}", region_bytes_, std::strerror(errno)));
  }
  ::fcntl(region_fd_, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL);
  void* mapped = ::mmap(nullptr, region_bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, region_fd_, 0);
  if (mapped == MAP_FAILED) {
    return harness_fault(fmt::format("cannot map {} bytes of shared memory: {}", region_bytes_, std::strerror(errno)));
  }
  region_ = static_cast<unsigned char*>(mapped);
  return std::nullopt;
}

std::variant<HostProcess, Failure> HostProcess::start_candidate(const std::filesystem::path& artifact,
                                                                const HostOptions& options) {
  HostProcess host;
  host.defences_ = options.defences;
  constexpr double kPatience = 20;
  host.call_timeout_ = options.call_timeout * (options.defences.on(Gate::kHang) ? 1 : kPatience);
  host.memory_limit_bytes_ = options.memory_limit_bytes;
  if (auto failure = host.create_region(options.region_bytes)) return *failure;
  const int artifact_fd = ::open(artifact.c_str(), O_RDONLY | O_CLOEXEC);
  if (artifact_fd < 0) return harness_fault(fmt::format("cannot open {}: {}", artifact.string(), std::strerror(errno)));
  HostSpawn spawn{options.program, static_cast<int>(options.cpus.size()), host.region_fd_, artifact_fd};
  spawn.memory_bytes = options.memory_limit_bytes + host.region_bytes_;
  spawn.defences = options.defences;
  const bool sanitized = !options.sanitizer_runtime.empty();
  if (sanitized) {
    // Shadow memory is a sixteenth of all addresses; what bounds the memory here is the reduced shapes.
    spawn.memory_bytes = 0;
    spawn.sanitizer_runtime = options.sanitizer_runtime;
    host.report_fd_ = spawn.report_fd = ::memfd_create("ridge-report", MFD_CLOEXEC);
    host.defences_ = host.defences_.without(Gate::kUnpaidWork).without(Gate::kClock);
  }
  const Spawned spawned = spawn_host(spawn);
  ::close(artifact_fd);
  host.pid_ = spawned.pid;
  if (spawned.pid < 0) {
    return harness_fault(fmt::format("cannot start {}: {}", options.program.string(), std::strerror(spawned.failure)));
  }
  if (!options.cpus.empty()) (void)measure::pin(host.pid_, options.cpus);
  if (auto failure = host.command(HostCommand::kSandbox, kStartTimeout)) {
    return harness_fault("ridge-host did not start: " + failure->detail);
  }
  host.sandbox_ = host.control().sandbox;  // of before any candidate code was there to write it
  const int filters = system_call_filters(host.pid_);
  if (auto failure = host.command(HostCommand::kLoad, std::min(kStartTimeout, host.call_timeout_))) return *failure;
  if (host.control().status != 0) {
    char message[sizeof(HostControl::message) + 1] = {};
    std::memcpy(message, host.control().message, sizeof(HostControl::message));
    return Failure{host.control().out_of_memory != 0 ? Outcome::kOom : Outcome::kCrash,
                   fmt::format("the built object cannot be loaded: {}", message), Gate::kStatus};
  }
  const bool seals = (host.sandbox_ & kSystemCallFilter) != 0 && options.defences.on(Gate::kFiles) && !sanitized;
  if (seals && filters >= 0 && system_call_filters(host.pid_) <= filters) {
    return Failure{Outcome::kCheat, "its constructors kept the second system call filter from being loaded",
                   Gate::kFiles};
  }
  if (seals) host.sandbox_ |= kSealed;
  if (auto failure = host.calibrate()) return *failure;
  return host;
}

std::variant<HostProcess, Failure> HostProcess::start_library(Kernel kernel, const HostOptions& options) {
  HostProcess host;
  host.defences_ = options.defences;
  host.call_timeout_ = options.call_timeout;
  host.trusted_ = true;
  if (auto failure = host.create_region(options.region_bytes)) return *failure;
  const pid_t parent = ::getpid();
  const pid_t pid = ::fork();
  if (pid < 0) return harness_fault(fmt::format("cannot fork: {}", std::strerror(errno)));
  if (pid == 0) {
    ::setpgid(0, 0);
    ::prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (::getppid() != parent) ::_exit(1);
    if (!options.cpus.empty()) (void)measure::pin(0, options.cpus);
    ::madvise(host.region_, host.region_bytes_, MADV_POPULATE_WRITE);
    install_fault_handlers(host.control());
    HostHandlers handlers;
    handlers.sandbox = [](HostControl&) { return 0; };
    handlers.load = [](HostControl&) { return 0; };
    handlers.call = std::move(kernel);
    serve(host.region_, handlers);
  }
  ::setpgid(pid, pid);
  host.pid_ = pid;
  if (auto failure = host.command(HostCommand::kLoad, kStartTimeout)) return *failure;
  if (auto failure = host.calibrate()) return *failure;
  return host;
}

double HostProcess::cpu_seconds() const { return std::max(0.0, measure::process_cpu_seconds(pid_)); }

std::optional<Failure> HostProcess::command(HostCommand command, double timeout) {
  HostControl& block = control();
  block.command = command;
  std::atomic_ref<std::uint32_t>(block.request).store(++number_, std::memory_order_release);
  ::syscall(SYS_futex, &block.request, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  return wait_reply(timeout);
}

std::optional<Failure> HostProcess::wait_reply(double timeout) {
  HostControl& block = control();
  const std::atomic_ref<std::uint32_t> reply(block.reply);
  const std::uint64_t start = measure::now_ns();
  while (true) {
    const std::uint32_t seen = reply.load(std::memory_order_acquire);
    if (seen == number_) return std::nullopt;
    int wait_status = 0;
    if (::waitpid(pid_, &wait_status, WNOHANG) == pid_) {
      Failure failure = explain_end(wait_status);
      pid_ = -1;
      return failure;
    }
    if (seconds_between(start, measure::now_ns()) > timeout) {
      kill();
      return Failure{Outcome::kHang, fmt::format("no answer within {:.1f} s; killed", timeout), Gate::kHang};
    }
    const timespec slice{0, 10'000'000};
    ::syscall(SYS_futex, &block.reply, FUTEX_WAIT, seen, &slice, nullptr, 0);
  }
}

// Reads the processor time of the call. The kernel brings that account up to date when a thread goes to sleep, so it
// is read once the host waits for its next request: requeueing the waiters of a futex onto itself counts them.
void HostProcess::settle() {
  constexpr double kPatience = 2e-2, kAsleep = 5e-6;
  HostControl& block = control();
  const std::uint64_t start = measure::now_ns();
  while (::syscall(SYS_futex, &block.request, FUTEX_CMP_REQUEUE, 0, INT_MAX, &block.request, number_) <= 0 &&
         seconds_between(start, measure::now_ns()) < kPatience) {
  }
  const std::uint64_t queued = measure::now_ns();
  while (seconds_between(queued, measure::now_ns()) < kAsleep) {
  }
  cpu_after_answer_ = cpu_seconds();
}

std::string HostProcess::explain_address() const {
  const std::uint64_t address = control().fault_address;
  if (address < 4096) return fmt::format("address 0x{:x} (a null pointer)", address);
  return fmt::format("address 0x{:x}", address);
}

// How it ended is the kernel's word; the handlers' notes only add to the text.
Failure HostProcess::explain_end(int wait_status) const {
  const HostControl& block = control();
  const int noted = block.signal;
  const bool by_handler = WIFEXITED(wait_status) && noted != 0 && WEXITSTATUS(wait_status) == 128 + noted;
  if (report_fd_ >= 0 && WIFEXITED(wait_status)) {
    if (std::string found = finding(report_fd_); !found.empty()) {
      return {Outcome::kWrong, std::move(found), Gate::kSanitizer};
    }
  }
  if (by_handler && noted == SIGSYS) {
    return {Outcome::kCheat,
            fmt::format("called {}, which a kernel has no use for; the sandbox refused it",
                        system_call_name(block.system_call)),
            Gate::kSystemCalls};
  }
  if (by_handler && block.out_of_memory != 0) {
    return {Outcome::kOom,
            fmt::format("used up its {} MiB of address space and died by {}", memory_limit_bytes_ >> 20,
                        ::strsignal(noted)),
            Gate::kMemory};
  }
  if (by_handler) {
    const bool has_address = noted == SIGSEGV || noted == SIGBUS;
    return {Outcome::kCrash,
            fmt::format("{}{}", ::strsignal(noted), has_address ? " at " + explain_address() : std::string()),
            Gate::kCrash};
  }
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
    return {Outcome::kOom, "killed by the system, which does so when memory runs out", Gate::kMemory};
  }
  if (WIFSIGNALED(wait_status))
    return {Outcome::kCrash, fmt::format("{}", ::strsignal(WTERMSIG(wait_status))), Gate::kCrash};
  return {Outcome::kCrash,
          fmt::format("ended its process with exit code {} instead of returning", WEXITSTATUS(wait_status)),
          Gate::kStatus};
}

std::optional<Failure> HostProcess::calibrate() {
  std::vector<double> walls, cpus, quiet;
  for (int i = 0; i < kEmptyCalls; ++i) {
    const double before = cpu_seconds();
    if (i > 0) quiet.push_back(before - cpu_after_answer_);
    const std::uint64_t start = measure::now_ns();
    if (auto failure = command(HostCommand::kEmpty, call_timeout_)) return failure;
    walls.push_back(seconds_between(start, measure::now_ns()));
    settle();
    cpus.push_back(cpu_after_answer_ - before);
  }
  empty_wall_ = stats::median(walls);
  // Constructors of a candidate ran before this and could fake a slow hand-shake; the caps bound what that gains.
  wall_slack_ = std::min(1e-3, 4 * *std::max_element(walls.begin(), walls.end()) + 1e-4);
  cpu_slack_ = std::min(1.5e-4, *std::max_element(cpus.begin(), cpus.end()) + 5e-6);
  quiet_slack_ = std::min(1e-4, *std::max_element(quiet.begin(), quiet.end()) + 2e-5);
  return std::nullopt;
}

bool HostProcess::habitual() {
  constexpr int kFew = 8, kOneIn = 2;
  return ++contradictions_ >= kFew && contradictions_ * kOneIn >= calls_;
}

// Whether processor time goes on being used while the host has nothing to do; one that was only late to fall asleep has
// stopped by now. The look spans more than two ticks, because the account of a running thread moves at ticks only.
bool HostProcess::works_without_request() const {
  constexpr double kLook = 10e-3, kShare = 0.25;
  const double before = cpu_seconds();
  const std::uint64_t start = measure::now_ns();
  while (seconds_between(start, measure::now_ns()) < kLook) {
  }
  return cpu_seconds() - before > kShare * kLook;
}

std::optional<Failure> HostProcess::check_quiet() {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  if (trusted_ || !defences_.on(Gate::kUnpaidWork)) return std::nullopt;
  const double used = cpu_seconds() - cpu_after_answer_ - quiet_slack_;
  const bool suspect = used > std::max(5e-4, 0.2 * last_span_);
  if (suspect && (works_without_request() || habitual())) return went_on_working(used);
  return std::nullopt;
}

std::optional<Failure> HostProcess::finish() {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  if (!trusted_ && defences_.on(Gate::kUnpaidWork) && works_without_request())
    return went_on_working(cpu_seconds() - cpu_after_answer_);
  return check_quiet();
}

Failure HostProcess::went_on_working(double used) const {
  return {Outcome::kCheat,
          fmt::format("went on working for {:.3f} ms of processor time after it had returned "
                      "(the call itself reported {:.3f} ms)",
                      used * 1e3, last_span_ * 1e3),
          Gate::kUnpaidWork};
}

CallResult HostProcess::call(std::span<const TensorView> operands, std::span<const std::int64_t> params,
                             std::int64_t threads) {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  if (operands.size() > kMaxOperands || params.size() > kMaxParams) return harness_fault("too many operands");
  if (auto failure = check_quiet()) return *failure;
  HostControl& block = control();
  block.threads = static_cast<std::int32_t>(threads);
  block.operand_count = static_cast<std::int32_t>(operands.size());
  block.param_count = static_cast<std::int32_t>(params.size());
  for (std::size_t i = 0; i < operands.size(); ++i) {
    HostOperand& out = block.operands[i];
    out.offset = static_cast<std::uint64_t>(static_cast<unsigned char*>(operands[i].data) - region_);
    out.dtype = static_cast<std::int32_t>(operands[i].dtype);
    out.rank = operands[i].rank;
    std::copy(operands[i].shape.begin(), operands[i].shape.end(), out.shape);
    std::copy(operands[i].stride.begin(), operands[i].stride.end(), out.stride);
  }
  std::copy(params.begin(), params.end(), block.params);

  CallTiming timing;
  const double cpu_before = cpu_seconds();
  timing.outside = trusted_ ? 0.0 : std::max(0.0, cpu_before - cpu_after_answer_ - quiet_slack_);
  const std::uint64_t start = measure::now_ns();
  if (auto failure = command(HostCommand::kCall, call_timeout_)) return *failure;
  const std::uint64_t end = measure::now_ns();
  settle();
  const std::uint64_t claimed_start = block.start_ns, claimed_end = block.end_ns;
  if (block.status != 0) {
    return Failure{block.out_of_memory != 0 ? Outcome::kOom
                   : trusted_               ? Outcome::kCrash
                                            : Outcome::kDeclined,
                   fmt::format("ridge_kernel returned {} instead of 0", block.status), Gate::kStatus};
  }
  timing.wall = seconds_between(start, end);
  timing.cpu = cpu_after_answer_ - cpu_before;
  const bool believed = trusted_ || !defences_.on(Gate::kClock);  // a witness is not asked
  if (!believed && (claimed_start < start || claimed_end < claimed_start || claimed_end > end)) {
    return Failure{Outcome::kCheat,
                   fmt::format("its clock shows a call from {} to {} ns, but the harness waited from {} to "
                               "{} ns",
                               claimed_start, claimed_end, start, end),
                   Gate::kClock};
  }
  timing.span = seconds_between(claimed_start, claimed_end);
  last_span_ = timing.span;
  witness_gap_ = std::max(witness_gap_, timing.wall - timing.span - empty_wall_);
  const double per_thread = (timing.cpu - cpu_slack_) / static_cast<double>(std::max<std::int64_t>(threads, 1));
  const double by_cpu = believed ? 0.0 : per_thread,
               by_wall = defences_.on(Gate::kClock) ? timing.wall - wall_slack_ : 0;
  timing.latency = std::max({timing.span, by_cpu, by_wall}) + timing.outside;
  ++calls_;
  if (by_cpu > 2.0 * timing.span + 1e-3 && habitual()) {
    return Failure{Outcome::kCheat,
                   fmt::format("its clock shows {:.3f} ms, but it used {:.3f} ms of processor time on {} "
                               "thread(s)",
                               timing.span * 1e3, timing.cpu * 1e3, threads),
                   Gate::kClock};
  }
  return timing;
}

}  // namespace ridge::evaluate
