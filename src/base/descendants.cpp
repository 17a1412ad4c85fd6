#include "base/descendants.h"

#include <dirent.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ridge {
namespace {

// The parent of a process; 0 when it is gone.
pid_t parent_of(const char* pid) {
  char path[64], text[512];
  std::snprintf(path, sizeof path, "/proc/%.20s/stat", pid);
  std::FILE* file = std::fopen(path, "re");
  if (file == nullptr) return 0;
  const std::size_t size = std::fread(text, 1, sizeof text - 1, file);
  std::fclose(file);
  text[size] = '\0';
  const char* const end = std::strrchr(text, ')');  // the name in parentheses may hold anything
  int parent = 0;
  char state = 0;
  return end != nullptr && std::sscanf(end + 1, " %c %d", &state, &parent) == 2 ? parent : 0;
}

std::set<pid_t> children() {
  std::set<pid_t> found;
  DIR* list = ::opendir("/proc");
  if (list == nullptr) return found;
  const pid_t self = ::getpid();
  while (const dirent* entry = ::readdir(list)) {
    const pid_t pid = std::atoi(entry->d_name);
    if (pid > 0 && parent_of(entry->d_name) == self) found.insert(pid);
  }
  ::closedir(list);
  return found;
}

}  // namespace

Descendants::Descendants() : before_(children()) {
  ::prctl(PR_GET_CHILD_SUBREAPER, &was_reaper_, 0, 0, 0);
  ::prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0);
}

Descendants::~Descendants() {
  if (was_reaper_ == 0) ::prctl(PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0);
}

// Killing one makes its children ours, so it is done until none are left.
int Descendants::kill_all() {
  constexpr int kMostRounds = 100;
  int killed = 0;
  for (int round = 0; round < kMostRounds; ++round) {
    bool found = false;
    for (const pid_t pid : children()) {
      if (before_.contains(pid)) continue;
      found = true;
      ++killed;
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    if (!found) break;
  }
  return killed;
}

}  // namespace ridge
