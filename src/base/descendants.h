// Finds and kills what a program left behind where there is no process name space to do it: this process becomes the
// one that orphans below it fall to (PR_SET_CHILD_SUBREAPER), whatever group or session they moved to.
//
// For one program at a time: what falls to this process between construction and kill_all() counts as the program's.
#pragma once

#include <sys/types.h>

#include <set>

namespace ridge {

class Descendants {
 public:
  Descendants();
  Descendants(const Descendants&) = delete;
  Descendants& operator=(const Descendants&) = delete;
  ~Descendants();

  // After the program itself was waited for. Returns how many processes it killed.
  int kill_all();

 private:
  std::set<pid_t> before_;  // children that this process had
  int was_reaper_ = 0;
};

}  // namespace ridge
