// How a host process is started: its shared memory, its sandbox, what is loaded into it.
#include <fcntl.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <mutex>

#include "base/error.h"
#include "evaluate/artifact.h"
#include "evaluate/host_process.h"
#include "evaluate/host_serve.h"
#include "evaluate/host_spawn.h"
#include "measure/machine.h"

namespace ridge::evaluate {
namespace {

using record::Defence;
using record::Outcome;

constexpr double kStartTimeout = 20.0;

// How many system call filters the kernel says a process has; -1 where it does not say (Linux before 5.9).
int system_call_filters(pid_t pid) {
  std::ifstream status(fmt::format("/proc/{}/status", pid));
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Seccomp_filters:")) return std::atoi(line.c_str() + sizeof "Seccomp_filters:" - 1);
  }
  return -1;
}

// Parts of the sandbox that a test has switched off.
std::uint32_t left_out(const Defences& defences) {
  std::uint32_t bits = 0;
  for (std::uint32_t bit = 1; bit <= kLastSandboxBit; bit <<= 1) bits |= defences.on(gate_of(bit)) ? 0 : bit;
  // Without the first filter there is no second one.
  return (bits & kSystemCallFilter) != 0 ? bits | kSealed : bits;
}

}  // namespace

Verdict HostProcess::create_region(std::size_t bytes) {
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
  return passed();
}

// Up to the point where anything of the artefact would be mapped.
Attempt<HostProcess> HostProcess::start_empty(int artifact_fd, const HostOptions& options) {
  HostProcess host;
  host.defences_ = options.defences;
  constexpr double kPatience = 20;
  host.call_timeout_ = options.call_timeout * (options.defences.on(Defence::kHang) ? 1 : kPatience);
  host.memory_limit_bytes_ = options.memory_limit_bytes;
  RIDGE_CHECK_OK(host.create_region(options.region_bytes));
  HostSpawn spawn{options.program, static_cast<int>(options.cpus.size()), host.region_fd_, artifact_fd};
  spawn.memory_bytes = options.memory_limit_bytes + host.region_bytes_;
  spawn.defences = options.defences;
  if (!options.sanitizer_runtime.empty()) {
    // Shadow memory is a sixteenth of all addresses; what bounds the memory here is the reduced shapes.
    spawn.memory_bytes = 0;
    spawn.sanitizer_runtime = options.sanitizer_runtime;
    host.report_fd_ = spawn.report_fd = ::memfd_create("ridge-report", MFD_CLOEXEC);
    host.defences_ = host.defences_.without(Defence::kUnpaidWork).without(Defence::kClock);
  }
  const Spawned spawned = spawn_host(spawn);
  host.pid_ = spawned.pid;
  if (spawned.pid < 0) {
    return harness_fault(fmt::format("cannot start {}: {}", options.program.string(), std::strerror(spawned.failure)));
  }
  if (!options.cpus.empty()) (void)measure::pin(host.pid_, options.cpus);
  host.cpus_ = options.cpus;
  if (const Verdict started = host.command(HostCommand::kSandbox, kStartTimeout); !started) {
    return harness_fault("ridge-host did not start: " + started.error().detail);
  }
  host.sandbox_ = host.control().sandbox;
  return host;
}

// What an empty host of this machine has, found out once: a run that has less is a fault of ours, whatever its reason.
Attempt<std::uint32_t> HostProcess::sandbox_of_machine(const std::filesystem::path& program) {
  static std::mutex mutex;
  static std::map<std::filesystem::path, std::uint32_t> known;
  const std::lock_guard lock(mutex);
  if (const auto found = known.find(program); found != known.end()) return found->second;
  const int nothing = ::memfd_create("ridge-nothing", MFD_CLOEXEC);
  if (nothing < 0) return harness_fault(fmt::format("cannot create a file in memory: {}", std::strerror(errno)));
  HostOptions options;
  options.program = program;
  options.region_bytes = 4096;
  auto started = start_empty(nothing, options);
  ::close(nothing);
  if (!started) return started.error();
  std::uint32_t bits = started->sandbox_;
  if ((bits & kSystemCallFilter) != 0) bits |= kSealed;
  known[program] = bits;
  return bits;
}

Verdict HostProcess::load(bool sanitized) {
  const int filters = system_call_filters(pid_);
  RIDGE_CHECK_OK(command(HostCommand::kLoad, std::min(kStartTimeout, call_timeout_)));
  if (const std::int32_t status = control().status; status != 0) {
    constexpr std::int32_t kNotSealed = 3;
    char message[sizeof(HostControl::message) + 1] = {};
    std::memcpy(message, control().message, sizeof(HostControl::message));
    if (status == kNotSealed) return harness_fault(message);
    return Failure{control().out_of_memory != 0 ? Outcome::kOom : Outcome::kCrash,
                   fmt::format("the built object cannot be loaded: {}", message), Defence::kStatus};
  }
  // The host says that the filter answers, and no instruction of the candidate has run yet; the kernel says it is
  // there.
  sandbox_ |= control().sandbox & kSealed;
  if ((sandbox_ & kSealed) != 0 && !sanitized && filters >= 0 && system_call_filters(pid_) <= filters) {
    sandbox_ &= ~static_cast<std::uint32_t>(kSealed);
  }
  return passed();
}

Attempt<HostProcess> HostProcess::start_candidate(const std::filesystem::path& artifact, const HostOptions& options) {
  const bool sanitized = !options.sanitizer_runtime.empty();
  // What the sanitizers add has constructors of its own; nothing is timed there.
  if (!sanitized && options.defences.on(Defence::kBuild)) {
    if (const auto why = refuse_artifact(artifact)) return Failure{Outcome::kCompile, *why, Defence::kBuild};
  }
  RIDGE_TRY(machine, sandbox_of_machine(options.program));
  const int artifact_fd = ::open(artifact.c_str(), O_RDONLY | O_CLOEXEC);
  if (artifact_fd < 0) return harness_fault(fmt::format("cannot open {}: {}", artifact.string(), std::strerror(errno)));
  auto started = start_empty(artifact_fd, options);
  ::close(artifact_fd);
  if (!started) return started.error();
  HostProcess host = std::move(*started);
  if (const Verdict answers = host.calibrate(); !answers) {
    return harness_fault("ridge-host does not answer: " + answers.error().detail);
  }
  RIDGE_CHECK_OK(host.load(sanitized));
  std::uint32_t wanted = machine & ~left_out(options.defences);
  if (sanitized) wanted &= ~static_cast<std::uint32_t>(kSealed);
  if (const std::uint32_t missing = wanted & ~host.sandbox_; missing != 0) {
    return harness_fault(fmt::format("the sandbox is not what this machine has: it is {}; nothing was run",
                                     describe_sandbox(host.sandbox_ | ~wanted)));
  }
  host.settle();  // what loading used is not charged
  return host;
}

Attempt<HostProcess> HostProcess::start_library(Kernel kernel, const HostOptions& options) {
  HostProcess host;
  host.defences_ = options.defences;
  host.call_timeout_ = options.call_timeout;
  host.trusted_ = true;
  RIDGE_CHECK_OK(host.create_region(options.region_bytes));
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
    serve(host.region_, host.region_bytes_, handlers);
  }
  ::setpgid(pid, pid);
  host.pid_ = pid;
  host.cpus_ = options.cpus;
  RIDGE_CHECK_OK(host.command(HostCommand::kLoad, kStartTimeout));
  RIDGE_CHECK_OK(host.calibrate());
  return host;
}

}  // namespace ridge::evaluate
