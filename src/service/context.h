// What a use case is given beside its request: the installation, the caches, a stream of progress, and who may stop it.
//
// Each use case of Ridgeline is a function of this module: (Context, request) -> Result<record>. It prints nothing,
// reads no terminal, and has no state of the process, so that several may run at once in one process, each with a
// Context of its own. A front (command line, MCP, web) makes the Context from its own settings and passes it down.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "execute/executor.h"
#include "record/campaign.h"
#include "record/progress.h"
#include "record/worker.h"

namespace ridge::service {

struct Context {
  // The installation.
  std::filesystem::path worker_program;          // ridge-worker
  std::filesystem::path data_directory;          // shipped: candidates/, hardware/, knowledge/, harness/, shapes/
  std::filesystem::path cache_directory;         // built objects, measured ceilings, queues of devices
  std::vector<std::filesystem::path> knowledge;  // folders of the user's own pages
  std::filesystem::path library_sources;         // src/ of the tree that it was built from
  std::filesystem::path kernel_builds;           // the list of all builds of the library's kernels
  std::string version;                           // of Ridgeline
  // How the library compiles a kernel for "avx512", "avx2" or any x86-64 processor.
  std::function<std::vector<std::string>(const std::string& instructions)> library_flags;

  // The stream of progress. Each may be empty. They are called on the thread of the use case, and must not throw.
  std::function<void(const record::Progress&)> on_progress;   // of the step under way
  std::function<void()> on_settled;                           // that step is over; what comes is another one
  std::function<void(std::string_view)> on_note;              // a sentence for a person, of no record
  std::function<void(const record::RoundSummary&)> on_round;  // a campaign closed a round
  std::function<void(const record::CampaignProgress&)> on_campaign = {};  // what progress.json holds, as it is written

  // How often it was asked to stop: 1 finishes the measurement under way, 2 leaves at once. Empty: never.
  std::function<int()> stops;

  // Another executor in place of ridge-worker, for tests. Empty: `worker_program` on this machine.
  std::function<std::unique_ptr<execute::Executor>()> make_worker;

  // The same without listeners: for a server, whose threads share no progress line.
  [[nodiscard]] Context silent() const {
    Context copy = *this;
    copy.on_progress = {};
    copy.on_settled = {};
    copy.on_note = {};
    copy.on_round = {};
    copy.on_campaign = {};
    return copy;
  }

  [[nodiscard]] bool stopped() const { return stops && stops() > 0; }
  void progress(const record::Progress& now) const {
    if (on_progress) on_progress(now);
  }
  void settled() const {
    if (on_settled) on_settled();
  }
  void note(std::string_view line) const {
    if (on_note) on_note(line);
  }
};

}  // namespace ridge::service
