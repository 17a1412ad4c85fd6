// Name spaces of its own for a program that is started: what it sees of the file system, whether it has a network, and
// that all it starts ends with it. run_process() enters them between fork and exec (ProcessSpec::confinement).
//
// Two kinds. A bare root shows nothing but what is named; a whole root shows everything but what is hidden. In both the
// program has process, mount, IPC and, unless it may use the network, network name spaces of its own. As root they are
// made by root; otherwise inside a new user name space.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge {

struct Confinement {
  enum class Root { kBare, kWhole };
  Root root = Root::kBare;
  // Bare: shown, read-only, each at its own place (a symbolic link as the same link). What does not exist is left out.
  // Whole: shown as they are, but not writable.
  std::vector<std::filesystem::path> readable;
  // Whole: shown as an empty folder, or as an empty file; what is written there goes nowhere.
  std::vector<std::filesystem::path> hidden;
  // Shown and writable, also inside of what is hidden or not writable.
  std::vector<std::filesystem::path> writable;
  // Shown and not writable, inside of what is hidden.
  std::vector<std::filesystem::path> shown;
  // Bare: where the first writable folder is shown; the program starts there. Empty: at its own place.
  std::filesystem::path place;
  bool network = false;
  // The program started by root becomes the user nobody without any capability; writable folders must be that user's.
  bool other_user = false;
};

// The prepared steps of entering: between clone and exec only system calls are made.
class ConfinementPlan {
 public:
  explicit ConfinementPlan(const Confinement& confinement);

  // A copy of this process in the new name spaces, the first process of its own process name space, like fork(); -1 and
  // errno where the machine refuses them.
  [[nodiscard]] pid_t clone_process() const;
  // In the copy: makes the view of the file system. An empty text, or which step the machine refused; errno says why.
  [[nodiscard]] const char* enter() const;
  // In the copy's own child, last of all before exec: gives up the user and all capabilities.
  [[nodiscard]] bool become_other_user() const;
  // Where the program starts.
  [[nodiscard]] const std::string& directory() const { return directory_; }

 private:
  enum class Action { kDirectory, kLink, kFile, kBind, kBindReadOnly, kHide };
  struct Step {
    Action action;
    std::string from, to;
  };
  void plan_bare(const Confinement& confinement);
  void plan_whole(const Confinement& confinement);
  void make_parents(const std::string& target, const std::string& top);
  [[nodiscard]] bool run(const Step& step, int source) const;

  std::vector<Step> steps_;
  std::string directory_, here_;
  bool bare_ = true, network_ = false, other_user_ = false;
  int flags_ = 0;
  bool maps_user_ = false;
  char uid_map_[64] = {}, gid_map_[64] = {};
};

// Whether this machine makes such name spaces for this user; tried once with a program that does nothing. Empty: it
// does; else what is refused, for people.
const std::string& why_not_confined();

}  // namespace ridge
