// Follows a campaign from its journal alone, as another process works on it: one line per event that tells something.
#include "campaign_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include "context.h"
#include "record/json.h"
#include "record/listing.h"
#include "say.h"
#include "service/watch.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

constexpr useconds_t kPoll = 500'000;  // microseconds

struct WatchOptions {
  std::string directory;
  bool once = false;
};

void print(const record::WatchLine& line) {
  if (globals().json) {
    say("{}\n", record::to_line(line));
  } else {
    say("{}  round {:<3} {:<20} {:<11} {}\n", line.time.size() > 19 ? line.time.substr(11, 8) : line.time, line.round,
        line.phase, line.event, line.text);
  }
  std::fflush(stdout);
}

// What is done now is told on standard error, and standard output has one line per event.
void show_progress(const Context& context, const record::CampaignProgress& progress, std::string& told) {
  if (progress.state == "running") {
    context.progress({fmt::format("round {} {}", progress.round, record::name_of(progress.phase)),
                      progress.step + (progress.detail.empty() ? "" : ", " + progress.detail), progress.fraction});
  } else if (progress.state == "stale" && told != progress.updated) {
    context.note("Not running: " + progress.because);
    told = progress.updated;
  }
}

int watch(const Context& context, const WatchOptions& options) {
  service::CampaignWatch watched(options.directory);
  std::string told;
  while (true) {
    const auto look = watched.look([&](const record::WatchLine& line) {
      context.settled();
      print(line);
    });
    if (!look) return fail(look.error());
    if (look->anew) context.note("The journal was repaired or replaced; its lines came again from the first.");
    if (options.once || interruptions() > 0 || look->over) return kSuccess;
    if (look->progress) show_progress(context, *look->progress, told);
    ::usleep(kPoll);
  }
}

}  // namespace

void define_campaign_watch(Command& group) {
  auto options = std::make_shared<WatchOptions>();
  group.subcommand("watch", "Follow it from another terminal, one line per event")
      .positional("directory", options->directory, "Folder of the campaign")
      .flag("--once", options->once, "Tell what happened so far and leave")
      .example("ridge campaign watch campaigns/gemm_cpu_xeon_20260101",
               "until it is done or paused; Ctrl-C leaves it running")
      .example("ridge campaign watch campaigns/gemm_cpu_xeon_20260101 --json", "one JSON object per line")
      .exits({kSystem})
      .json("one object per line and event")
      .action([options](const Context& context) { return watch(context, *options); });
}

}  // namespace ridge::cli
