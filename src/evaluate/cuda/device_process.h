// A process that owns a GPU context, seen from the harness: forked fresh, asked over a socket, killed when it does not
// answer. It runs our code and the candidate's kernels, so a kernel that never ends costs this process and nothing
// else: the driver tears its context down, and the next one starts clean.
//
// The worker itself never initialises CUDA: a context does not survive a fork.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/cuda/device_subject_runner.h"
#include "evaluate/host_fork.h"

namespace ridge::evaluate::cuda {

class DeviceProcess {
 public:
  DeviceProcess() = default;  // none: every question is answered by a Failure

  // Forks; the new process opens its runner and says so later.
  static Attempt<DeviceProcess> start(SubjectRunnerSpec spec);
  // Waits until the runner is open. Called by the first question, too.
  Verdict await_ready();

  Attempt<DeviceLaunch> launch(std::size_t index, Depth depth);
  Verdict check(std::size_t index, CheckExtent extent, CheckNote& note);
  Verdict finish();
  // For the next session: the module loaded anew, other memory, nothing remembered.
  Verdict renew();
  [[nodiscard]] const Verification& verification(std::size_t index) const { return verifications_[index]; }
  [[nodiscard]] const std::map<std::string, double>& facts() const { return facts_; }
  [[nodiscard]] bool running() const { return process_.running(); }
  [[nodiscard]] pid_t pid() const { return process_.pid(); }

 private:
  struct Question;
  struct Answer;
  Attempt<Answer> ask(const Question& question, double limit);
  Attempt<Answer> await(double limit);
  Failure ended(Failure failure);

  static void serve(int socket, SubjectRunnerSpec spec);

  ForkedProcess process_;
  bool ready_ = false;
  std::optional<Failure> never_ready_;  // why it did not open
  double call_timeout_ = 30;
  std::vector<Verification> verifications_;
  std::map<std::string, double> facts_;
};

}  // namespace ridge::evaluate::cuda
