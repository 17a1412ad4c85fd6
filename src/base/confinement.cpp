#include "base/confinement.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sched.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/mounts.h"

namespace ridge {
namespace {

namespace fs = std::filesystem;

// Any directory that exists will do: only the new name space sees what is mounted on it.
constexpr const char* kStage = "/tmp";
constexpr std::size_t kMostSteps = 128;

// Capabilities by which root leaves a mount name space or reaches what is hidden in it: everything but the usual rights
// over files and processes (chown, dac_override, fowner, fsetid, kill, setgid, setuid, net_bind_service, ipc_lock,
// sys_nice, sys_resource).
constexpr std::uint64_t kHarmless = (1ull << 0) | (1ull << 1) | (1ull << 3) | (1ull << 4) | (1ull << 5) | (1ull << 6) |
                                    (1ull << 7) | (1ull << 10) | (1ull << 14) | (1ull << 23) | (1ull << 24);

bool inside(const fs::path& path, const fs::path& folder) {
  const fs::path relative = path.lexically_relative(folder);
  return !relative.empty() && *relative.begin() != "..";
}

fs::path real_path(const fs::path& path) {
  std::error_code failure;
  const fs::path found = fs::weakly_canonical(fs::absolute(path), failure);
  return failure ? fs::absolute(path).lexically_normal() : found;
}

}  // namespace

ConfinementPlan::ConfinementPlan(const Confinement& confinement)
    : bare_(confinement.root == Confinement::Root::kBare),
      network_(confinement.network),
      other_user_(confinement.other_user) {
  flags_ = CLONE_NEWNS | CLONE_NEWPID;
  if (bare_) flags_ |= CLONE_NEWIPC;
  if (!network_) flags_ |= CLONE_NEWNET;
  if (::geteuid() != 0) {
    flags_ |= CLONE_NEWUSER;
    maps_user_ = true;
    std::snprintf(uid_map_, sizeof uid_map_, "%u %u 1", ::geteuid(), ::geteuid());
    std::snprintf(gid_map_, sizeof gid_map_, "%u %u 1", ::getegid(), ::getegid());
  }
  if (bare_) {
    plan_bare(confinement);
  } else {
    plan_whole(confinement);
  }
}

// Every directory above `target`, below `top`.
void ConfinementPlan::make_parents(const std::string& target, const std::string& top) {
  for (std::size_t at = target.find('/', top.size() + 1); at != std::string::npos; at = target.find('/', at + 1)) {
    const std::string parent = target.substr(0, at);
    const bool known = std::any_of(steps_.begin(), steps_.end(), [&](const Step& step) { return step.to == parent; });
    if (!known) steps_.push_back({Action::kDirectory, {}, parent});
  }
}

void ConfinementPlan::plan_bare(const Confinement& confinement) {
  std::vector<fs::path> shown;
  for (const fs::path& path : confinement.readable) {
    std::error_code failure;
    const fs::file_status status = fs::symlink_status(path, failure);
    if (failure || status.type() == fs::file_type::not_found) continue;
    if (std::any_of(shown.begin(), shown.end(), [&](const fs::path& one) { return inside(path, one); })) continue;
    const std::string target = kStage + path.string();
    make_parents(target, kStage);
    if (status.type() == fs::file_type::symlink) {
      steps_.push_back({Action::kLink, fs::read_symlink(path, failure).string(), target});
      continue;
    }
    const bool directory = status.type() == fs::file_type::directory;
    if (directory) shown.push_back(path);
    steps_.push_back({directory ? Action::kDirectory : Action::kFile, {}, target});
    steps_.push_back({Action::kBindReadOnly, path.string(), target});
  }
  make_parents(std::string(kStage) + "/dev/null", kStage);
  steps_.push_back({Action::kFile, {}, std::string(kStage) + "/dev/null"});
  steps_.push_back({Action::kBind, "/dev/null", std::string(kStage) + "/dev/null"});
  for (const fs::path& path : confinement.writable) {
    const bool first = directory_.empty();
    const std::string place = first && !confinement.place.empty() ? confinement.place.string() : path.string();
    make_parents(kStage + place, kStage);
    steps_.push_back({Action::kDirectory, {}, kStage + place});
    steps_.push_back({Action::kBind, path.string(), kStage + place});
    if (first) directory_ = place;
  }
}

void ConfinementPlan::plan_whole(const Confinement& confinement) {
  std::error_code ignored;
  here_ = fs::current_path(ignored).string();
  for (const fs::path& given : confinement.readable) {
    const fs::path path = real_path(given);
    if (fs::exists(path, ignored)) steps_.push_back({Action::kBindReadOnly, path.string(), path.string()});
  }
  std::vector<fs::path> hidden;
  for (const fs::path& given : confinement.hidden) {
    const fs::path path = real_path(given);
    if (fs::is_regular_file(path, ignored)) steps_.push_back({Action::kBind, "/dev/null", path.string()});
    if (!fs::is_directory(path, ignored)) continue;
    hidden.push_back(path);
    steps_.push_back({Action::kHide, {}, path.string()});
  }
  const auto show = [&](const fs::path& given, Action action) {
    const fs::path path = real_path(given);
    if (!fs::exists(path, ignored)) return;
    for (const fs::path& folder : hidden) {
      if (!inside(path, folder) || path == folder) continue;
      make_parents(path.string(), folder.string());
      steps_.push_back({fs::is_directory(path, ignored) ? Action::kDirectory : Action::kFile, {}, path.string()});
    }
    steps_.push_back({action, path.string(), path.string()});
  };
  for (const fs::path& path : confinement.shown) show(path, Action::kBindReadOnly);
  for (const fs::path& path : confinement.writable) show(path, Action::kBind);
}

pid_t ConfinementPlan::clone_process() const {
  const auto flags = static_cast<unsigned long>(flags_ | SIGCHLD);
  return static_cast<pid_t>(::syscall(SYS_clone, flags, nullptr, nullptr, nullptr, 0));
}

// What a step binds is opened before anything is mounted, because a mount may hide it.
const char* ConfinementPlan::enter() const {
  if (maps_user_) mounts::map_user(uid_map_, gid_map_);
  if (!mounts::keep_to_ourselves()) return "a mount name space of its own";
  if (steps_.size() > kMostSteps) return "that many folders";
  int sources[kMostSteps];
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const bool binds = steps_[i].action == Action::kBind || steps_[i].action == Action::kBindReadOnly;
    sources[i] = binds ? ::open(steps_[i].from.c_str(), O_PATH | O_CLOEXEC) : -1;
    if (binds && sources[i] < 0) return "opening what it may see";
  }
  if (bare_ && !mounts::mount_empty(kStage)) return "an empty file system";
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    if (!run(steps_[i], sources[i])) return "showing it what it may see";
  }
  if (bare_) return mounts::make_read_only(kStage) && mounts::become_root_directory(kStage) ? "" : "a root of its own";
  // The current directory still is that of before, of what may be hidden now.
  if (::chdir(here_.c_str()) != 0 && ::chdir("/") != 0) return "a directory to start in";
  // Of its own processes alone; a container that masks parts of /proc refuses it, and then the old one stays, through
  // which nothing of a process outside of the user name space can be reached.
  if (::mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, nullptr) != 0 && !maps_user_) {
    return "a list of its own processes";
  }
  return "";
}

bool ConfinementPlan::run(const Step& step, int source) const {
  char from[64];
  std::snprintf(from, sizeof from, "/proc/self/fd/%d", source);
  const char* const to = step.to.c_str();
  switch (step.action) {
    case Action::kDirectory: return ::mkdir(to, 0755) == 0 || errno == EEXIST;
    case Action::kLink: return ::symlink(step.from.c_str(), to) == 0;
    case Action::kFile: {
      const int fd = ::open(to, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
      return fd >= 0 && ::close(fd) == 0;
    }
    case Action::kBind: return mounts::bind(from, to);
    case Action::kBindReadOnly: return mounts::bind_read_only(from, to);
    case Action::kHide: return mounts::mount_empty(to);
  }
  return false;
}

bool ConfinementPlan::become_other_user() const {
  if (other_user_ && !mounts::become_nobody()) return false;
  if (bare_) {
    mounts::drop_capabilities(0);
    return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0;
  }
  return ::geteuid() != 0 || mounts::drop_capabilities(kHarmless);
}

const std::string& why_not_confined() {
  static const std::string why = [] {
    Confinement smallest;
    smallest.readable = {"/usr"};
    const ConfinementPlan plan(smallest);
    const pid_t pid = plan.clone_process();
    if (pid == 0) {
      const bool entered = *plan.enter() == '\0';
      ::_exit(entered ? 0 : (errno != 0 ? errno : 255));
    }
    if (pid < 0) return fmt::format("no name spaces: {}", std::strerror(errno));
    int status = 0;
    while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return std::string();
    return fmt::format("no mounts in a name space of its own: {}",
                       WIFEXITED(status) ? std::strerror(WEXITSTATUS(status)) : "it ended by a signal");
  }();
  return why;
}

}  // namespace ridge
