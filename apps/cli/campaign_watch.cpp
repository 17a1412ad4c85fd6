// Follows a campaign from its journal alone, as another process works on it: one line per event that tells something.
#include "campaign_watch.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>

#include "base/clock.h"
#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "context.h"
#include "journal/follow.h"
#include "record/json.h"
#include "record/listing.h"
#include "say.h"
#include "terminal.h"

namespace ridge::cli {
namespace {

namespace fs = std::filesystem;

constexpr useconds_t kPoll = 500'000;  // microseconds

struct WatchOptions {
  std::string directory;
  bool once = false;
};

record::WatchLine line_of(const record::Event& event, const campaign::State& after) {
  const campaign::Round* open = after.open_round();
  record::WatchLine line;
  line.time = event.time;
  line.event = std::string(record::name_of(event.kind));
  line.phase = std::string(record::name_of(campaign::phase_of(after)));
  line.round = open != nullptr ? open->number : after.rounds.empty() ? 1 : after.rounds.back().number;
  line.active = event.active;
  if (event.kind == record::EventKind::kDecided && open != nullptr) line.text = open->decision->reason;
  if (event.kind == record::EventKind::kProposed && open != nullptr) line.text = open->last().proposal.hypothesis.title;
  if (event.kind == record::EventKind::kProfiled) {
    const record::Profiled& profiled = after.profiles.back();
    line.text = profiled.report ? profiled.report->verdict : profiled.note;
  }
  if (event.kind == record::EventKind::kPaused) line.text = *after.paused;
  if (event.kind == record::EventKind::kTermination) line.text = after.termination->detail;
  if (event.kind == record::EventKind::kIntent) {
    if (const auto intent = record::from_json<record::Intent>(event.payload, "intent")) line.text = intent->effect;
  }
  return line;
}

void print(const record::WatchLine& line) {
  if (globals().json) {
    say("{}\n", record::to_line(line));
  } else {
    say("{}  round {:<3} {:<20} {:<11} {}\n", line.time.size() > 19 ? line.time.substr(11, 8) : line.time, line.round,
        line.phase, line.event, line.text);
  }
  std::fflush(stdout);
}

int watch(const WatchOptions& options) {
  journal::Follower follower(fs::path(options.directory) / campaign::kJournalFile);
  bool began = false;
  while (true) {
    const Result<journal::Follower::Look> look =
        follower.look([&](const record::Event& event, const journal::State& after) {
          if (began && event.sequence == 0) say(stderr, "The journal was repaired or replaced; from its beginning:\n");
          print(line_of(event, after));
        });
    if (!look) return fail(began ? look.error() : campaign::load_campaign(options.directory).error());
    began = true;
    const bool runs = campaign::lock_holder(options.directory).pid != 0;
    if (options.once || interruptions() > 0 || (!runs && (follower.state().reported || follower.state().paused)))
      return kSuccess;
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
      .action([options] { return watch(*options); });
}

}  // namespace ridge::cli
