#include "web/store.h"

#include <fmt/format.h>
#include <sys/stat.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"
#include "base/large_file.h"
#include "base/text.h"
#include "campaign/files.h"
#include "campaign/lock.h"
#include "campaign/transition.h"
#include "report/numbers.h"
#include "report/words.h"
#include "service/campaigns.h"
#include "service/progress.h"

namespace ridge::web {
namespace {

namespace fs = std::filesystem;

constexpr std::chrono::milliseconds kPoll{250};
constexpr std::size_t kMostSpeeds = 60;

// Changes when the file does; empty when there is none.
std::string stamp_of(const fs::path& path) {
  struct stat found = {};
  if (::stat(path.c_str(), &found) != 0) return {};
  return fmt::format("{}:{}:{}.{}", found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

// What is wrong with a journal that cannot be read.
std::string broken_word(const fs::path& path, const Error& error) {
  if (error.code != ErrorCode::kCorrupt) return "unreadable";
  const bool of_a_name = error.message.find("unknown key") != std::string::npos ||
                         error.message.find("is not one of") != std::string::npos;
  if (!of_a_name) return "damaged";
  const Result<std::string> text = read_file_up_to(path, kJournalBytes);
  if (!text) return "unreadable";
  const std::vector<std::string> lines = split(*text, '\n');
  const bool whole =
      std::all_of(lines.begin(), lines.end() - 1, [](const std::string& line) { return record::is_whole_line(line); });
  return whole ? "newer" : "damaged";
}

// The best so far after each closed round; of many, every n-th and the last.
std::vector<double> speeds_of(const report::Model& model) {
  std::vector<double> all = {1};
  for (const record::ReportRound& round : model.rounds) {
    if (round.state == record::RoundState::kUnfinished) continue;
    const bool accepted = round.state == record::RoundState::kAccepted && std::isfinite(round.speed);
    all.push_back(accepted ? round.speed : all.back());
  }
  if (all.size() <= kMostSpeeds) return all;
  std::vector<double> some;
  for (std::size_t i = 0; i < kMostSpeeds; ++i) some.push_back(all[i * (all.size() - 1) / (kMostSpeeds - 1)]);
  return some;
}

std::optional<double> finite(double value) { return std::isfinite(value) ? std::optional(value) : std::nullopt; }

void fill_figures(record::CampaignCard& card, const report::Model& model) {
  card.headline = report::headline(model);
  card.op = model.spec.op;
  card.backend = model.spec.backend;
  card.device = report::machine_name(model);
  card.proposer = model.spec.proposer;
  if (model.total) {
    card.speedup = model.total->ratio;
    card.low = model.total->low;
    card.high = model.total->high;
  }
  card.rests_on = model.total_source;
  if (model.baseline) card.share = finite(report::geomean_fraction_after(model));
  card.speeds = speeds_of(model);
  card.rounds = std::ranges::count_if(model.rounds,
                                      [](const auto& round) { return round.state != record::RoundState::kUnfinished; });
  card.accepted = model.accepted;
  card.active_seconds = model.active_seconds;
  card.budget_seconds = std::isfinite(model.spec.wall_budget) ? model.spec.wall_budget : 0;
  card.usage = model.usage;
  card.started = model.first_time;
  card.updated = model.last_time;
}

}  // namespace

Store::Store(const std::vector<fs::path>& roots, Changed changed) : changed_(std::move(changed)) {
  for (const fs::path& root : roots) {
    std::error_code ignored;
    const fs::path named = fs::canonical(root, ignored);  // "." has no name of its own
    roots_.push_back(named.empty() ? root : named);
  }
  single_ = roots_.size() == 1 && service::is_campaign(roots_.front());
}

Store::~Store() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Store::start() {
  scan();
  thread_ = std::thread([this] { work(); });
}

void Store::work() {
  while (true) {
    look();
    std::unique_lock lock(mutex_);
    if (wake_.wait_for(lock, kPoll, [this] { return stopping_; })) return;
  }
}

void Store::look() {
  scan();
  std::vector<EntryPointer> all;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) all.push_back(entry);
  }
  // Those that are read soon come first; later looks find all of them read.
  std::ranges::stable_sort(all, {}, [](const EntryPointer& entry) { return entry->size; });
  for (const EntryPointer& entry : all) {
    {
      const std::lock_guard lock(mutex_);
      if (stopping_) return;
    }
    look_at(*entry);
  }
  drop_unused();
}

// The campaigns that are there now, by their ids.
std::map<std::string, fs::path> Store::found() const {
  std::map<std::string, fs::path> found;
  const auto add = [&](const fs::path& campaign) {
    std::string id = campaign.filename().string();
    for (fs::path above = campaign.parent_path(); above.has_relative_path(); above = above.parent_path()) {
      const auto [place, fresh] = found.emplace(id, campaign);
      if (fresh || place->second == campaign) return;
      id = above.filename().string() + ":" + id;
    }
  };
  for (const fs::path& root : roots_) {
    if (service::is_campaign(root)) {
      add(root);
      continue;
    }
    std::vector<fs::path> inside;
    std::error_code ignored;
    for (const auto& folder : fs::directory_iterator(root, ignored))
      if (service::is_campaign(folder.path())) inside.push_back(folder.path());
    std::ranges::sort(inside);
    for (const fs::path& campaign : inside) add(campaign);
  }
  return found;
}

// Campaigns that came, and those that went.
void Store::scan() {
  std::map<std::string, fs::path> found = this->found();
  std::vector<std::string> gone;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) {
      const auto now = found.find(id);  // an id may go to another campaign of that name
      if (now == found.end() || now->second != entry->directory) gone.push_back(id);
    }
    for (const std::string& id : gone) entries_.erase(id);
    for (auto& [id, path] : found) {
      const auto [place, fresh] = entries_.try_emplace(id, nullptr);
      if (!fresh) continue;
      place->second = std::make_shared<Entry>(id, path);
      place->second->card.id = id;
      place->second->card.version = ++versions_;
      std::error_code unknown;
      place->second->size = fs::file_size(path / campaign::kJournalFile, unknown);
    }
  }
  for (const std::string& id : gone) {
    record::CampaignCard card;
    card.id = id;
    changed_(card, false);
  }
}

void Store::look_at(Entry& entry) {
  record::CampaignCard card;
  bool only_doing = false;
  {
    const std::lock_guard lock(entry.mutex);
    const std::string stamp = fmt::format(
        "{} {} {} {}", stamp_of(entry.directory / campaign::kJournalFile), campaign::lock_holder(entry.directory).pid,
        stamp_of(entry.directory / campaign::kPauseFile), stamp_of(entry.directory / campaign::kStopFile));
    const std::string progress_stamp = stamp_of(entry.directory / service::kProgressFile);
    if (stamp == entry.stamp && progress_stamp == entry.progress_stamp) return;
    only_doing = stamp == entry.stamp;
    entry.stamp = stamp;
    entry.progress_stamp = progress_stamp;
    const Status status = read(entry);
    card = card_of(entry, status);
    const std::lock_guard store_lock(mutex_);
    card.version = ++versions_;
    entry.card = card;
  }
  changed_(card, only_doing);
}

// Brings the follower up to date.
Status Store::read(Entry& entry) {
  {
    const std::lock_guard lock(mutex_);
    entry.used = ++uses_;
  }
  const fs::path path = entry.directory / campaign::kJournalFile;
  if (!entry.follower) entry.follower = std::make_unique<journal::Follower>(path);
  const auto look = entry.follower->look();
  if (!look) {
    entry.model.reset();
    return look.error();
  }
  entry.replaced = entry.replaced || look->anew;
  if (look->anew || look->events > 0) entry.model.reset();
  entry.bytes = entry.follower->size();
  return ok_status();
}

const report::Model& Store::model_of(Entry& entry) {
  if (!entry.model) entry.model = std::make_unique<report::Model>(report::draw(entry.follower->state()));
  return *entry.model;
}

record::CampaignCard Store::card_of(Entry& entry, const Status& status) const {
  record::CampaignCard card;
  card.id = entry.id;
  const fs::path path = entry.directory / campaign::kJournalFile;
  if (!status) {
    card.state = broken_word(path, status.error());
    card.problem = status.error().text();
    if (card.state == "newer")
      card.problem = "Every line is whole, but this version cannot read it; a newer version of ridge wrote it. " +
                     status.error().message;
    return card;
  }
  const journal::State& state = entry.follower->state();
  if (!state.created) {
    card.state = "unreadable";
    card.problem = "the journal has no whole line yet";
    return card;
  }
  fill_figures(card, model_of(entry));
  card.state = service::state_of_campaign(entry.directory, state);
  card.phase = record::name_of(campaign::phase_of(state));
  card.action = campaign::next_transition(state).action;
  if (const auto progress = service::read_progress(entry.directory);
      progress && *progress && (*progress)->state == "running")
    card.doing = service::progress_text(**progress);
  const std::uint64_t torn = entry.follower->torn_bytes();
  if (torn > 0 && card.state != "running") {
    card.problem = fmt::format(
        "The file is cut: {} bytes behind its last whole line never counted, and are removed when "
        "the campaign goes on.",
        torn);
  }
  if (entry.replaced) {
    card.problem += fmt::format(
        "{}The journal is not a continuation of what was read before: it was repaired, restored "
        "or replaced.",
        card.problem.empty() ? "" : " ");
  }
  return card;
}

void Store::drop_unused() {
  std::vector<std::pair<std::uint64_t, EntryPointer>> loaded;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& [id, entry] : entries_) loaded.emplace_back(entry->used, entry);
  }
  std::ranges::sort(loaded, std::greater{}, &std::pair<std::uint64_t, EntryPointer>::first);
  std::uintmax_t kept = 0;
  for (const auto& [used, entry] : loaded) {
    const std::lock_guard lock(entry->mutex);
    if (!entry->follower) continue;
    kept += entry->bytes;
    if (kept <= kLoadedBytes || loaded.size() == 1) continue;
    entry->follower.reset();
    entry->model.reset();
  }
}

Store::EntryPointer Store::find(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? nullptr : found->second;
}

std::vector<record::CampaignCard> Store::cards() const {
  const std::lock_guard lock(mutex_);
  std::vector<record::CampaignCard> cards;
  for (const auto& [id, entry] : entries_) cards.push_back(entry->card);
  return cards;
}

Result<record::CampaignCard> Store::card(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end()) return make_error(ErrorCode::kNotFound, "there is no campaign {}", id);
  return found->second->card;
}

Result<fs::path> Store::folder(const std::string& id) const {
  const EntryPointer entry = find(id);
  if (!entry) return make_error(ErrorCode::kNotFound, "there is no campaign {}", id);
  return entry->directory;
}

Status Store::view(const std::string& id,
                   const std::function<void(const report::Model&, const journal::State&)>& call) {
  const EntryPointer entry = find(id);
  if (!entry) return make_error(ErrorCode::kNotFound, "there is no campaign {}", id);
  const std::lock_guard lock(entry->mutex);
  RIDGE_CHECK_OK(read(*entry));
  if (!entry->follower->state().created)
    return make_error(ErrorCode::kCorrupt, "the journal of {} has no whole line yet", id);
  call(model_of(*entry), entry->follower->state());
  return ok_status();
}

}  // namespace ridge::web
