#include "evaluate/host_spawn.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/personality.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <vector>

#include "base/error.h"
#include "base/mounts.h"
#include "evaluate/host_protocol.h"

namespace ridge::evaluate {
namespace {

using record::Defence;

struct NameSpace {
  Defence gate;
  int flag;
  std::uint32_t bit;
};
constexpr NameSpace kNameSpaces[] = {{Defence::kPidNamespace, CLONE_NEWPID, kPidNamespace},
                                     {Defence::kMountNamespace, CLONE_NEWNS, kMountNamespace},
                                     {Defence::kNetNamespace, CLONE_NEWNET, kNetNamespace},
                                     {Defence::kIpcNamespace, CLONE_NEWIPC, kIpcNamespace}};

// Everything the child needs, prepared before it exists: between clone and exec it may only make system calls.
struct Plan {
  const HostSpawn* spec = nullptr;
  char* const* argv = nullptr;
  char* const* environment = nullptr;
  bool maps_user = false, leaks_descriptor = false;
  char uid_map[64] = {}, gid_map[64] = {};
  sigset_t mask{};
  int failure = 0;
};

// Descriptors 0 to 4 and nothing else of ours.
bool arrange_descriptors(const HostSpawn& spec, bool leaks) {
  constexpr int kHigh = 100;  // 3 and 4 may be the very descriptors we hold
  const int null = ::open("/dev/null", O_RDWR);
  if (null < 0 || ::dup2(spec.region_fd, kHigh) < 0 || ::dup2(spec.artifact_fd, kHigh + 1) < 0) return false;
  if (::dup2(spec.report_fd >= 0 ? spec.report_fd : null, kHigh + 2) < 0) return false;
  if (::dup2(null, 0) < 0 || ::dup2(0, 1) < 0 || ::dup2(kHigh + 2, 2) < 0) return false;
  if (::dup2(kHigh, kRegionFd) < 0 || ::dup2(kHigh + 1, kArtifactFd) < 0) return false;
  if (leaks) ::dup2(0, kArtifactFd + 1);
  return ::close_range(static_cast<unsigned>(kArtifactFd + (leaks ? 2 : 1)), ~0u, 0) == 0;
}

int child(void* argument) {
  Plan& plan = *static_cast<Plan*>(argument);
  ::setpgid(0, 0);
  if (plan.maps_user) {
    mounts::map_user(plan.uid_map, plan.gid_map);
  }
  // Shadow memory has a fixed place, which address randomisation would sometimes take.
  if (!plan.spec->sanitizer_runtime.empty()) ::personality(ADDR_NO_RANDOMIZE);
  if (arrange_descriptors(*plan.spec, plan.leaks_descriptor)) {
    ::sigprocmask(SIG_SETMASK, &plan.mask, nullptr);
    ::execve(plan.argv[0], plan.argv, plan.environment);
  }
  plan.failure = errno;
  ::_exit(127);
}

// As posix_spawn does it: the child borrows our memory until it has become another program.
pid_t clone_child(Plan& plan, int flags) {
  constexpr std::size_t kStack = 64 << 10;
  std::vector<char> stack(kStack);
  sigset_t all, old;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, &old);
  plan.mask = old;
  plan.failure = 0;
  const pid_t pid = ::clone(child, stack.data() + kStack, CLONE_VM | CLONE_VFORK | SIGCHLD | flags, &plan);
  const int refused = errno;
  ::pthread_sigmask(SIG_SETMASK, &old, nullptr);
  if (pid < 0) {
    plan.failure = refused;
  } else if (plan.failure != 0) {
    ::waitpid(pid, nullptr, 0);
    return -1;
  }
  return pid;
}

std::vector<std::string> environment_of(const HostSpawn& spec) {
  // Waiting threads of an OpenMP kernel must sleep, or they would be charged as work outside the call.
  std::vector<std::string> variables = {"OMP_WAIT_POLICY=passive", "OMP_NUM_THREADS=" + std::to_string(spec.threads)};
  if (!spec.defences.on(Defence::kEnvironment)) variables.emplace_back("RIDGE_SECRET=leaked");
  if (spec.sanitizer_runtime.empty()) return variables;
  // No files to look things up in, and no leak search at the end.
  constexpr const char* kOptions =
      "detect_leaks=0:symbolize=0:can_use_proc_maps_statm=0:handle_segv=0:handle_sigbus=0:handle_abort=0:"
      "handle_sigfpe=0:handle_sigill=0:use_sigaltstack=0:detect_stack_use_after_return=1:print_stacktrace=0:"
      "allocator_may_return_null=1:max_allocation_size_mb=4096:quarantine_size_mb=16";
  variables.push_back("LD_PRELOAD=" + spec.sanitizer_runtime.string());
  variables.push_back(fmt::format("ASAN_OPTIONS={}", kOptions));
  variables.push_back(fmt::format("UBSAN_OPTIONS={}", kOptions));
  return variables;
}

std::vector<char*> pointers(std::vector<std::string>& texts) {
  std::vector<char*> list;
  for (std::string& text : texts) list.push_back(text.data());
  list.push_back(nullptr);
  return list;
}

}  // namespace

Defence gate_of(std::uint32_t sandbox_bit) {
  switch (sandbox_bit) {
    case kLimits: return Defence::kMemory;
    case kOtherUser: return Defence::kOtherUser;
    case kUserNamespace: return Defence::kUserNamespace;
    case kNetNamespace: return Defence::kNetNamespace;
    case kIpcNamespace: return Defence::kIpcNamespace;
    case kNoNewPrivileges: return Defence::kPrivileges;
    case kSystemCallFilter: return Defence::kSystemCalls;
    case kPidNamespace: return Defence::kPidNamespace;
    case kMountNamespace: return Defence::kMountNamespace;
    case kSealed: return Defence::kFiles;
    default: return Defence::kNone;
  }
}

std::string describe_sandbox(std::uint32_t bits) {
  std::string missing;
  for (std::uint32_t bit = 1; bit <= kLastSandboxBit; bit <<= 1) {
    if ((bits & bit) != 0) continue;
    missing += (missing.empty() ? "without " : ", ") + std::string(record::name_of(gate_of(bit)));
  }
  return missing.empty() ? "complete" : missing;
}

Spawned spawn_host(const HostSpawn& spec) {
  int flags = 0;
  std::uint32_t bits = 0;
  for (const NameSpace& one : kNameSpaces) {
    if (!spec.defences.on(one.gate)) continue;
    flags |= one.flag;
    bits |= one.bit;
  }
  struct Attempt {
    int flags;
    std::uint32_t bits;
    bool maps_user;
  };
  std::vector<Attempt> attempts;
  if (::geteuid() == 0) {
    attempts.push_back({flags, bits, false});
  } else if (spec.defences.on(Defence::kUserNamespace)) {
    attempts.push_back({flags | CLONE_NEWUSER, bits | kUserNamespace, true});
  }
  attempts.push_back({0, 0, false});
  std::uint32_t left_out = 0;  // SandboxBits the host shall not enter, for tests of the defences
  for (unsigned bit = 1; bit <= kLastSandboxBit; bit <<= 1) {
    if (!spec.defences.on(gate_of(bit))) left_out |= bit;
  }
  std::vector<std::string> environment = environment_of(spec);
  Spawned spawned;
  for (const Attempt& attempt : attempts) {
    std::vector<std::string> arguments = {spec.program.string(), std::to_string(spec.memory_bytes),
                                          std::to_string(attempt.bits), std::to_string(left_out),
                                          spec.sanitizer_runtime.empty() ? "plain" : "sanitized"};
    const std::vector<char*> argv = pointers(arguments), variables = pointers(environment);
    Plan plan;
    plan.spec = &spec;
    plan.argv = argv.data();
    plan.environment = variables.data();
    plan.maps_user = attempt.maps_user;
    plan.leaks_descriptor = !spec.defences.on(Defence::kDescriptors);
    std::snprintf(plan.uid_map, sizeof plan.uid_map, "0 %u 1", ::geteuid());
    std::snprintf(plan.gid_map, sizeof plan.gid_map, "0 %u 1", ::getegid());
    spawned.pid = clone_child(plan, attempt.flags);
    spawned.failure = plan.failure;
    spawned.sandbox = attempt.bits;
    if (spawned.pid > 0 || plan.failure == ENOENT || plan.failure == EACCES) break;
  }
  return spawned;
}

}  // namespace ridge::evaluate
