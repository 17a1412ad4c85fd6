#include "evaluate/host_process.h"

#include <linux/futex.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/stat.h>
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
#include <map>
#include <mutex>
#include <optional>
#include <sstream>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "measure/machine.h"
#include "stats/summary.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

constexpr int kEmptyCalls = 24;

double seconds_between(std::uint64_t start_ns, std::uint64_t end_ns) {
  return 1e-9 * static_cast<double>(end_ns - start_ns);
}

std::string system_call_name(int number) {
  char* name = ::seccomp_syscall_resolve_num_arch(SCMP_ARCH_NATIVE, number);
  std::string text = name != nullptr ? name : fmt::format("number {}", number);
  std::free(name);
  return text;
}

// What a hand-shake depends on: the kind of process, whether the harness spins, the processors.
using HandShakeKey = std::tuple<bool, bool, std::vector<int>>;

// The least of all hand-shakes of that kind so far, this one included.
double quickest(const HandShakeKey& key, double seen) {
  static std::mutex mutex;
  static std::map<HandShakeKey, double> known;
  const std::lock_guard lock(mutex);
  double& least = known.emplace(key, seen).first->second;
  least = std::min(least, seen);
  return least;
}

// Whether a process has more threads than its first.
bool has_more_threads(pid_t pid) {
  struct stat folder {};
  constexpr nlink_t kNone = 2;  // links of a folder without folders; each thread is one
  return ::stat(fmt::format("/proc/{}/task", pid).c_str(), &folder) != 0 || folder.st_nlink > kNone + 1;
}

// Of the process's first thread, as the kernel says; -1 when it says nothing.
int last_processor(pid_t pid) {
  constexpr int kProcessor = 37;  // fields behind the name, which may hold blanks
  std::ifstream file(fmt::format("/proc/{}/stat", pid));
  std::string line;
  std::getline(file, line);
  std::istringstream fields(line.substr(std::min(line.size(), line.rfind(')') + 1)));
  std::string field;
  for (int i = 0; i < kProcessor; ++i) fields >> field;
  return fields ? std::atoi(field.c_str()) : -1;
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
  last_latency_ = other.last_latency_;
  calls_ = other.calls_;
  contradictions_ = other.contradictions_;
  fault_at_ = other.fault_at_;
  defences_ = other.defences_;
  trusted_ = other.trusted_;
  cpus_ = std::move(other.cpus_);
  starter_ = std::move(other.starter_);
  hand_shake_ = other.hand_shake_;
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
  if (starter_ != nullptr) starter_->finish();  // it writes to the region
  if (region_ != nullptr) ::munmap(std::exchange(region_, nullptr), region_bytes_);
  if (region_fd_ >= 0) ::close(std::exchange(region_fd_, -1));
  if (report_fd_ >= 0) ::close(std::exchange(report_fd_, -1));
}

double HostProcess::cpu_seconds() const { return std::max(0.0, measure::process_cpu_seconds(pid_)); }

Verdict HostProcess::command(HostCommand command, double timeout) {
  HostControl& block = control();
  block.command = command;
  std::atomic_ref<std::uint32_t>(block.request).store(++number_, std::memory_order_release);
  ::syscall(SYS_futex, &block.request, FUTEX_WAKE, 1, nullptr, nullptr, 0);
  return wait_reply(timeout, false);
}

Attempt<HostProcess::Span> HostProcess::timed(HostCommand command, std::span<const unsigned char> touched) {
  if (starter_ == nullptr) starter_ = std::make_unique<HostStarter>(cpus_.empty() ? -1 : cpus_.front());
  const bool spins = has_own_processor();
  HostControl& block = control();
  block.command = command;
  starter_->start(pid_, &block.request, ++number_, touched);
  RIDGE_CHECK_OK(wait_reply(call_timeout_, spins));
  Span span;
  span.end_ns = measure::now_ns();
  const HostStarter::Stamp stamp = starter_->stamp();
  span.start_ns = stamp.ns;
  span.cpu = stamp.cpu;
  return span;
}

bool HostProcess::one_processor() const { return cpus_.size() == 1; }

bool HostProcess::has_own_processor() const {
  const std::vector<int> own = measure::usable_cpus();
  return !cpus_.empty() &&
         std::ranges::none_of(own, [&](int cpu) { return std::ranges::find(cpus_, cpu) != cpus_.end(); });
}

// A spinning wait sees an answer within a fraction of a microsecond. It turns into a sleeping one after a time beside
// which being woken is short.
Verdict HostProcess::wait_reply(double timeout, bool spins) {
  constexpr double kLongestSpin = 20e-3, kLook = 1e-3;
  constexpr int kGlances = 64;
  HostControl& block = control();
  const std::atomic_ref<std::uint32_t> reply(block.reply);
  const std::uint64_t start = measure::now_ns();
  double looked = 0;
  while (true) {
    for (int i = 0; i < (spins ? kGlances : 1); ++i) {
      if (reply.load(std::memory_order_acquire) == number_) return passed();
    }
    const double waited = seconds_between(start, measure::now_ns());
    spins = spins && waited < kLongestSpin;
    if (spins && waited - looked < kLook) continue;
    looked = waited;
    int wait_status = 0;
    if (::waitpid(pid_, &wait_status, WNOHANG) == pid_) {
      Failure failure = explain_end(wait_status);
      pid_ = -1;
      return failure;
    }
    if (waited > timeout) {
      kill();
      return Failure{Outcome::kHang, fmt::format("no answer within {:.1f} s; killed", timeout), Defence::kHang};
    }
    if (spins) continue;
    const std::uint32_t seen = reply.load(std::memory_order_acquire);
    if (seen == number_) return passed();
    const timespec slice{0, 10'000'000};
    ::syscall(SYS_futex, &block.reply, FUTEX_WAIT, seen, &slice, nullptr, 0);
  }
}

// Reads the processor time of the call. The kernel brings that account up to date when a thread goes to sleep, so it
// is read once the host waits for its next request: requeueing the waiters of a futex onto itself counts them. Another
// thread of the host may go on running then, if it has another; on one processor the starter, which lives there, reads
// it in its place.
void HostProcess::settle() {
  constexpr double kPatience = 2e-2, kAsleep = 2e-5;
  HostControl& block = control();
  const std::uint64_t start = measure::now_ns();
  bool waits = false;
  while (!waits && seconds_between(start, measure::now_ns()) < kPatience) {
    waits = ::syscall(SYS_futex, &block.request, FUTEX_CMP_REQUEUE, 0, INT_MAX, &block.request, number_) > 0;
  }
  const std::uint64_t queued = measure::now_ns();
  while (seconds_between(queued, measure::now_ns()) < kAsleep) {
  }
  const bool may_run = !waits || has_more_threads(pid_);
  const bool whole = may_run && one_processor() && starter_ != nullptr && defences_.on(Part::kWholeAccount);
  cpu_after_answer_ = whole ? std::max(0.0, starter_->processor_seconds(pid_)) : cpu_seconds();
}

std::string HostProcess::explain_address() const {
  const std::uint64_t address = control().fault_address;
  if (address < 4096) return fmt::format("address 0x{:x} (a null pointer)", address);
  return fmt::format("address 0x{:x}", address);
}

// How it ended is the kernel's word; the handlers' notes only add to the text.
Failure HostProcess::explain_end(int wait_status) {
  const HostControl& block = control();
  const int noted = block.signal;
  const bool by_handler = WIFEXITED(wait_status) && noted != 0 && WEXITSTATUS(wait_status) == 128 + noted;
  if (report_fd_ >= 0 && WIFEXITED(wait_status)) {
    if (std::string found = finding(report_fd_); !found.empty()) {
      return {Outcome::kWrong, std::move(found), Defence::kSanitizer};
    }
  }
  if (by_handler && noted == SIGSYS) {
    return {Outcome::kCheat,
            fmt::format("called {}, which a kernel has no use for; the sandbox refused it",
                        system_call_name(block.system_call)),
            Defence::kSystemCalls};
  }
  if (by_handler && block.out_of_memory != 0) {
    return {Outcome::kOom,
            fmt::format("used up its {} MiB of address space and died by {}", memory_limit_bytes_ >> 20,
                        ::strsignal(noted)),
            Defence::kMemory};
  }
  if (by_handler && noted == SIGSEGV && block.fault_offset >= static_cast<std::int64_t>(kControlBytes) &&
      block.fault_offset < static_cast<std::int64_t>(region_bytes_)) {
    fault_at_ = static_cast<std::size_t>(block.fault_offset) - kControlBytes;
    return {Outcome::kWrong, "touched memory between its operands", Defence::kGuardPage};
  }
  if (by_handler) {
    const bool has_address = noted == SIGSEGV || noted == SIGBUS;
    return {Outcome::kCrash,
            fmt::format("{}{}", ::strsignal(noted), has_address ? " at " + explain_address() : std::string()),
            Defence::kCrash};
  }
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGSYS) {
    return {
        Outcome::kCheat,
        "asked for what a loaded kernel has no use for (executable memory, a mapping moved over another one, a signal "
        "handler, a system call filter, prctl, another processor); the sandbox ended it",
        Defence::kFiles};
  }
  if (WIFSIGNALED(wait_status) && WTERMSIG(wait_status) == SIGKILL) {
    return {Outcome::kOom, "killed by the system, which does so when memory runs out", Defence::kMemory};
  }
  if (WIFSIGNALED(wait_status))
    return {Outcome::kCrash, fmt::format("{}", ::strsignal(WTERMSIG(wait_status))), Defence::kCrash};
  return {Outcome::kCrash,
          fmt::format("ended its process with exit code {} instead of returning", WEXITSTATUS(wait_status)),
          Defence::kStatus};
}

// Before any code of a candidate is mapped, so that nothing of it can make the hand-shake look slow.
Verdict HostProcess::calibrate() {
  std::vector<double> walls, cpus, quiet;
  for (int i = 0; i < kEmptyCalls; ++i) {
    RIDGE_TRY(span, timed(HostCommand::kEmpty));
    if (i > 0) quiet.push_back(span.cpu - cpu_after_answer_);
    walls.push_back(seconds_between(span.start_ns, span.end_ns));
    settle();
    cpus.push_back(cpu_after_answer_ - span.cpu);
  }
  // The quickest of all processes that were started in the same way: a slower one was disturbed.
  hand_shake_ = quickest({trusted_, has_own_processor(), cpus_}, *std::min_element(walls.begin(), walls.end()));
  cpu_slack_ = std::min(5e-5, stats::median(cpus) + 5e-6);
  quiet_slack_ = std::min(1e-5, stats::median(quiet) + 1e-6);
  return passed();
}

double HostProcess::hidden() const {
  constexpr double kOwnInstructions = 2.5e-7;  // of ridge-host between its wake-up and the kernel
  return trusted_ || !defences_.on(Part::kHiddenCharge) ? 0.0 : kOwnInstructions + quiet_slack_;
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

Verdict HostProcess::check_quiet() {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  if (trusted_ || !defences_.on(Defence::kUnpaidWork)) return passed();
  const double used = cpu_seconds() - cpu_after_answer_ - quiet_slack_;
  const bool suspect = used > std::max(5e-4, 0.2 * last_latency_);
  if (suspect && (works_without_request() || habitual())) return went_on_working(used);
  return passed();
}

Verdict HostProcess::finish() {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  if (!trusted_ && defences_.on(Defence::kUnpaidWork) && works_without_request())
    return went_on_working(cpu_seconds() - cpu_after_answer_);
  return check_quiet();
}

Failure HostProcess::went_on_working(double used) const {
  return {Outcome::kCheat,
          fmt::format("went on working for {:.3f} ms of processor time after it had returned "
                      "(the call itself took {:.3f} ms)",
                      used * 1e3, last_latency_ * 1e3),
          Defence::kUnpaidWork};
}

Verdict HostProcess::fence(std::span<const std::pair<std::size_t, std::size_t>> ranges) {
  if (pid_ <= 0 || 2 * ranges.size() > kMaxParams) return harness_fault("these ranges cannot be fenced off");
  HostControl& block = control();
  block.param_count = static_cast<std::int32_t>(2 * ranges.size());
  for (std::size_t i = 0; i < ranges.size(); ++i) {
    block.params[2 * i] = static_cast<std::int64_t>(kControlBytes + ranges[i].first);
    block.params[2 * i + 1] = static_cast<std::int64_t>(ranges[i].second);
  }
  RIDGE_CHECK_OK(command(HostCommand::kFence, call_timeout_));
  if (block.status != 0) return harness_fault("the host could not make pages inaccessible");
  settle();
  return passed();
}

CallResult HostProcess::call(const ops::Arguments& arguments, std::span<const std::int64_t> params,
                             std::int64_t threads, const std::function<void()>& collect,
                             std::span<const unsigned char> touched) {
  if (pid_ <= 0) return harness_fault("the host process is gone");
  const std::span<const TensorView> operands = arguments.operands;
  if (operands.size() > kMaxOperands || params.size() > kMaxParams || arguments.scalars.size() > kMaxScalars) {
    return harness_fault(
        fmt::format("{} operands, {} parameters and {} scalars; at most {}, {} and {} can be handed over",
                    operands.size(), params.size(), arguments.scalars.size(), kMaxOperands, kMaxParams, kMaxScalars));
  }
  RIDGE_CHECK_OK(check_quiet());
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
  block.scalar_count = static_cast<std::int32_t>(arguments.scalars.size());
  for (std::size_t i = 0; i < arguments.scalars.size(); ++i) block.scalars[i] = arguments.scalars[i].bits;

  const double cpu_before = cpu_after_answer_;
  RIDGE_TRY(span, timed(HostCommand::kCall, touched));
  if (collect) collect();
  settle();
  RIDGE_CHECK_OK(check_processor());
  if (block.status != 0) {
    return Failure{block.out_of_memory != 0 ? Outcome::kOom
                   : trusted_               ? Outcome::kCrash
                                            : Outcome::kDeclined,
                   fmt::format("ridge_kernel returned {} instead of 0", block.status), Defence::kStatus};
  }
  CallTiming timing;
  timing.outside = trusted_ ? 0.0 : std::max(0.0, span.cpu - cpu_before - quiet_slack_);
  timing.wall = span.end_ns > span.start_ns ? seconds_between(span.start_ns, span.end_ns) : 0.0;
  timing.cpu = cpu_after_answer_ - span.cpu;
  return judge_clocks(span, timing, threads);
}

// The processor that the host ran on last: one that moved to the harness's had its operands in that one's caches.
Verdict HostProcess::check_processor() const {
  if (trusted_ || cpus_.empty() || !defences_.on(Defence::kCold)) return passed();
  const int processor = last_processor(pid_);
  if (processor < 0 || std::find(cpus_.begin(), cpus_.end(), processor) != cpus_.end()) return passed();
  return Failure{
      Outcome::kCheat,
      fmt::format("ran on processor {}, although it was put on {}: the operands are in the caches of another one",
                  processor, fmt::join(cpus_, ", ")),
      Defence::kCold};
}

// With kClock off the host's own stamps are believed, and nothing else is asked.
CallResult HostProcess::judge_clocks(const Span& span, CallTiming timing, std::int64_t threads) {
  const std::uint64_t from = control().start_ns, to = control().end_ns;
  const bool watched = defences_.on(Defence::kClock);
  if (watched && !trusted_ && (from < span.start_ns || to < from || to > span.end_ns)) {
    return Failure{Outcome::kCheat,
                   fmt::format("its clock shows a call from {} to {} ns, but the harness waited from {} to {} ns", from,
                               to, span.start_ns, span.end_ns),
                   Defence::kClock};
  }
  timing.span = seconds_between(from, to);
  // A process that was started since may have been disturbed less: both arms are taken the same off.
  hand_shake_ = quickest({trusted_, has_own_processor(), cpus_}, hand_shake_);
  witness_gap_ = std::max(witness_gap_, timing.wall - timing.span - hand_shake_);
  const double per_thread = (timing.cpu - cpu_slack_) / static_cast<double>(std::max<std::int64_t>(threads, 1));
  const double by_cpu = watched && !trusted_ ? per_thread : 0.0;
  // Never below the step of the clock.
  // On a busy machine host and harness wait for their processors, a kernel of one thread for nothing else: what the
  // wall clock shows beyond its processor time is counted up to a limit. Processor time that is accounted late counts
  // as used outside, in the next call.
  constexpr double kLongestWait = 1e-4;
  double wall = timing.wall - hand_shake_;
  if (threads == 1 && one_processor()) wall = std::min(wall, std::max(timing.cpu - cpu_slack_, 0.0) + kLongestWait);
  timing.latency = watched ? std::max({wall, by_cpu, 1e-9}) : timing.span;
  last_latency_ = timing.latency;
  timing.latency += timing.outside;
  ++calls_;
  constexpr double kScatter = 5e-5;  // processor time around the kernel of an honest host, on a busy machine
  if (by_cpu > 2.0 * timing.span + kScatter && habitual()) {
    return Failure{Outcome::kCheat,
                   fmt::format("its clock shows {:.3f} ms, but it used {:.3f} ms of processor time on {} thread(s)",
                               timing.span * 1e3, timing.cpu * 1e3, threads),
                   Defence::kClock};
  }
  return timing;
}

}  // namespace ridge::evaluate
