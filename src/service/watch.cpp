#include "service/watch.h"

#include "base/error.h"
#include "campaign/campaign.h"
#include "campaign/files.h"
#include "campaign/replica.h"
#include "record/json.h"
#include "service/progress.h"

namespace ridge::service {
namespace {

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
  if (event.kind == record::EventKind::kReplicated) line.text = campaign::replica_text(after, *after.replicated);
  if (event.kind == record::EventKind::kPaused) line.text = *after.paused;
  if (event.kind == record::EventKind::kTermination) line.text = after.termination->detail;
  if (event.kind == record::EventKind::kIntent) {
    if (const auto intent = record::from_json<record::Intent>(event.payload, "intent")) line.text = intent->effect;
  }
  return line;
}

}  // namespace

CampaignWatch::CampaignWatch(std::filesystem::path directory)
    : directory_(std::move(directory)), follower_(directory_ / campaign::kJournalFile) {}

Result<CampaignWatch::Look> CampaignWatch::look(const std::function<void(const record::WatchLine&)>& on_line) {
  Look seen;
  const Result<journal::Follower::Look> read =
      follower_.look([&](const record::Event& event, const journal::State& after) {
        if (began_ && event.sequence == 0) seen.anew = true;
        on_line(line_of(event, after));
      });
  if (!read) return began_ ? read.error() : campaign::load_campaign(directory_).error();
  began_ = true;
  if (auto progress = read_progress(directory_)) seen.progress = std::move(*progress);
  const bool runs = campaign::lock_holder(directory_).pid != 0;
  seen.over = !runs && (state().reported || state().paused);
  return seen;
}

}  // namespace ridge::service
