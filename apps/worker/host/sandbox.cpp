#include "sandbox.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <seccomp.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <initializer_list>

#include "base/mounts.h"
#include "evaluate/host_protocol.h"
#include "root_directory.h"

namespace ridge::host {
namespace {

using namespace evaluate;

constexpr int kSealErrno = EACCES;  // no directory -1 gives EBADF, an empty path ENOENT

bool limit(int resource, rlim_t value) {
  const rlimit both{value, value};
  return ::setrlimit(static_cast<__rlimit_resource>(resource), &both) == 0;
}

constexpr rlim_t kReportBytes = 1 << 20;

bool apply_limits(const Sandbox& sandbox) {
  return limit(RLIMIT_CORE, 0) && limit(RLIMIT_NOFILE, 32) &&
         limit(RLIMIT_FSIZE, sandbox.sanitized ? kReportBytes : 0) && limit(RLIMIT_MEMLOCK, 0) &&
         (sandbox.memory_bytes == 0 || limit(RLIMIT_AS, sandbox.memory_bytes));
}

class Filter {
 public:
  explicit Filter(std::uint32_t default_action) : context_(::seccomp_init(default_action)) {}
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  ~Filter() {
    if (context_ != nullptr) ::seccomp_release(context_);
  }
  void on(std::uint32_t action, std::initializer_list<int> calls) {
    for (const int call : calls) good_ = good_ && ::seccomp_rule_add(context_, action, call, 0) == 0;
  }
  void when(std::uint32_t action, int call, scmp_arg_cmp condition) {
    good_ = good_ && ::seccomp_rule_add_array(context_, action, call, 1, &condition) == 0;
  }
  bool load() { return context_ != nullptr && good_ && ::seccomp_load(context_) == 0; }

 private:
  scmp_filter_ctx context_;
  bool good_ = true;
};

constexpr std::uint64_t kThreadFlags = CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD;
constexpr std::uint64_t kWriteFlags = O_WRONLY | O_RDWR | O_CREAT | O_TRUNC | O_APPEND;

// Everything not named here raises SIGSYS, which ends the process: processes, sockets, ptrace, mounts, and so on.
bool first_filter(bool sanitized) {
  Filter filter(SCMP_ACT_TRAP);
  filter.on(SCMP_ACT_ALLOW, {SCMP_SYS(read),
                             SCMP_SYS(pread64),
                             SCMP_SYS(close),
                             SCMP_SYS(fstat),
                             SCMP_SYS(newfstatat),
                             SCMP_SYS(lseek),
                             SCMP_SYS(mmap),
                             SCMP_SYS(munmap),
                             SCMP_SYS(mprotect),
                             SCMP_SYS(mremap),
                             SCMP_SYS(madvise),
                             SCMP_SYS(brk),
                             SCMP_SYS(futex),
                             SCMP_SYS(exit),
                             SCMP_SYS(exit_group),
                             SCMP_SYS(set_robust_list),
                             SCMP_SYS(rseq),
                             SCMP_SYS(gettid),
                             SCMP_SYS(getpid),
                             SCMP_SYS(tgkill),
                             SCMP_SYS(rt_sigaction),
                             SCMP_SYS(rt_sigprocmask),
                             SCMP_SYS(rt_sigreturn),
                             SCMP_SYS(sigaltstack),
                             SCMP_SYS(sched_yield),
                             SCMP_SYS(sched_getaffinity),
                             SCMP_SYS(sched_setaffinity),
                             SCMP_SYS(getcpu),
                             SCMP_SYS(clock_gettime),
                             SCMP_SYS(clock_getres),
                             SCMP_SYS(clock_nanosleep),
                             SCMP_SYS(nanosleep),
                             SCMP_SYS(gettimeofday),
                             SCMP_SYS(getrandom),
                             SCMP_SYS(sysinfo),
                             SCMP_SYS(uname),
                             SCMP_SYS(getuid),
                             SCMP_SYS(geteuid),
                             SCMP_SYS(getgid),
                             SCMP_SYS(getegid),
                             SCMP_SYS(restart_syscall),
                             SCMP_SYS(membarrier),
                             SCMP_SYS(getrusage),
                             SCMP_SYS(seccomp),
                             SCMP_SYS(prctl),
                             SCMP_SYS(arch_prctl),
                             SCMP_SYS(set_tid_address)});
  // Harmless questions of the C library that have an answer without us.
  filter.on(SCMP_ACT_ERRNO(EPERM), {SCMP_SYS(ioctl), SCMP_SYS(writev), SCMP_SYS(prlimit64), SCMP_SYS(readlink),
                                    SCMP_SYS(readlinkat), SCMP_SYS(fcntl), SCMP_SYS(getdents64)});
  filter.on(SCMP_ACT_ERRNO(ENOENT),
            {SCMP_SYS(access), SCMP_SYS(faccessat), SCMP_SYS(faccessat2), SCMP_SYS(stat), SCMP_SYS(lstat)});
  if (sanitized) {
    filter.when(SCMP_ACT_ALLOW, SCMP_SYS(write), SCMP_A0(SCMP_CMP_EQ, 2));  // the report
    filter.on(SCMP_ACT_ERRNO(ENOENT), {SCMP_SYS(open)});                    // of symbols and maps, for the report
  } else {
    filter.on(SCMP_ACT_ERRNO(EPERM), {SCMP_SYS(write)});
  }
  // clone3 hides its flags in memory; refused, the C library falls back to clone, whose flags can be seen: threads
  // only.
  filter.on(SCMP_ACT_ERRNO(ENOSYS), {SCMP_SYS(clone3)});
  filter.when(SCMP_ACT_ALLOW, SCMP_SYS(clone), SCMP_A0(SCMP_CMP_MASKED_EQ, kThreadFlags, kThreadFlags));
  filter.when(SCMP_ACT_ALLOW, SCMP_SYS(openat), SCMP_A2(SCMP_CMP_MASKED_EQ, kWriteFlags, 0));
  return filter.load();
}

}  // namespace

std::uint32_t enter_sandbox(const Sandbox& sandbox) {
  std::uint32_t bits = sandbox.born_in & ~static_cast<std::uint32_t>(kMountNamespace);
  const auto wants = [&sandbox](SandboxBit bit) { return (sandbox.left_out & bit) == 0; };
  const auto lacks = [&](SandboxBit bit) { return wants(bit) && (bits & bit) == 0; };
  if ((sandbox.born_in & kMountNamespace) != 0 && enter_root_directory(kArtifactFd)) bits |= kMountNamespace;
  if (wants(kLimits) && apply_limits(sandbox)) bits |= kLimits;
  // The loader may reach the artefact through /proc/self/fd, which a change of user would close without the next line.
  if (wants(kOtherUser) && mounts::become_nobody()) bits |= kOtherUser;
  ::prctl(PR_SET_DUMPABLE, 1);
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // after the change of user, which clears it
  if (lacks(kUserNamespace) && ::unshare(CLONE_NEWUSER) == 0) bits |= kUserNamespace;
  if (lacks(kNetNamespace) && ::unshare(CLONE_NEWNET) == 0) bits |= kNetNamespace;
  if (lacks(kIpcNamespace) && ::unshare(CLONE_NEWIPC) == 0) bits |= kIpcNamespace;
  if (wants(kNoNewPrivileges) && mounts::drop_capabilities(0) && ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0) {
    bits |= kNoNewPrivileges;
  }
  if (wants(kSystemCallFilter) && first_filter(sandbox.sanitized)) bits |= kSystemCallFilter;
  return bits;
}

bool seal_sandbox() {
  Filter filter(SCMP_ACT_ALLOW);
  const std::uint32_t end = SCMP_ACT_KILL_PROCESS;
  filter.when(end, SCMP_SYS(mmap), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
  filter.when(end, SCMP_SYS(mprotect), SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC));
  // Code that is mapped could be moved over other code.
  filter.when(end, SCMP_SYS(mremap), SCMP_A3(SCMP_CMP_MASKED_EQ, MREMAP_FIXED, MREMAP_FIXED));
  // The C library catches one signal when the first thread is started, and can do without.
  constexpr int kSetUserSignal = 33;
  filter.when(end, SCMP_SYS(rt_sigaction), SCMP_A0(SCMP_CMP_NE, kSetUserSignal));
  filter.when(SCMP_ACT_ERRNO(EPERM), SCMP_SYS(rt_sigaction), SCMP_A0(SCMP_CMP_EQ, kSetUserSignal));
  filter.on(end, {SCMP_SYS(sigaltstack), SCMP_SYS(seccomp), SCMP_SYS(prctl), SCMP_SYS(arch_prctl),
                  SCMP_SYS(sched_setaffinity)});
  filter.on(SCMP_ACT_ERRNO(kSealErrno), {SCMP_SYS(openat)});
  return filter.load();
}

bool sealed() { return ::openat(-1, "", O_RDONLY | O_CLOEXEC) == -1 && errno == kSealErrno; }

}  // namespace ridge::host
