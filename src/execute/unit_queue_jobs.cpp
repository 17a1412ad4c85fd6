// The jobs of a queue of units: what the cluster says of them, which unit each has, and what becomes of the units when
// they go.
#include <algorithm>
#include <limits>

#include "base/error.h"
#include "base/files.h"
#include "base/text.h"
#include "execute/unit_queue.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr int kMissesThatCount = 2;  // answers of the cluster in a row without a job
constexpr std::size_t kNoJob = std::numeric_limits<std::size_t>::max();

}  // namespace

// A unit of an earlier process: its result, or the job that it was handed over as.
Status UnitQueue::adopt(const std::string& key, Unit& unit) {
  const Result<std::string> text = read_file(folder_.job(key));
  const auto job = text ? record::parse_record<record::UnitSubmission>(*text, "job") : text.error();
  if (job && objection_to(*job).empty()) {
    unit.attempt = job->attempt;
    unit.outcome.before = static_cast<double>(std::max<std::int64_t>(0, clock_.unix_time() - job->time + 1));
    RIDGE_TRY(batch, adopted_batch(*job, key));
    if (batch != nullptr) {
      unit.turn = Turn{job->batch, static_cast<std::size_t>(job->index)};
      batch->units[unit.turn->second] = key;
      ++in_flight_;
    }
  }
  return settle(key, unit);
}

// A batch that an earlier process handed over. One that cannot be read is of units with jobs of their own, as the files
// of its units have it.
UnitQueue::Batch UnitQueue::read_batch(const std::string& name) const {
  Batch batch;
  std::optional<record::UnitBatch> written = batch_of(folder_, name);
  if (!written || written->jobs == 0) return batch;
  batch.shared = true;
  batch.turns = std::move(written->units);
  for (std::size_t i = 0; i < static_cast<std::size_t>(written->jobs); ++i)
    batch.jobs[i].submitted = clock_.monotonic();
  return batch;
}

// The batch of a unit of an earlier process; null: the two do not fit together.
Result<UnitQueue::Batch*> UnitQueue::adopted_batch(const record::UnitSubmission& submission, const std::string& key) {
  auto found = batches_.find(submission.batch);
  if (found == batches_.end()) found = batches_.emplace(submission.batch, read_batch(submission.batch)).first;
  Batch& batch = found->second;
  const auto number = static_cast<std::size_t>(submission.index);
  Batch* const none = nullptr;
  if (batch.units.contains(number)) return none;
  if (!batch.shared) {
    batch.jobs[number].submitted = clock_.monotonic();
    return &batch;
  }
  RIDGE_CHECK_OK(make_directories(folder_.taken(submission.batch)));
  const bool fits = number < batch.turns.size() && batch.turns[number].key == key &&
                    batch.turns[number].attempt == submission.attempt;
  return fits ? &batch : none;
}

// 0 with one unit in flight, 1 with hundreds: how far questions are spread.
double UnitQueue::load_share() const { return std::min(1.0, static_cast<double>(in_flight_) / 500.0); }

// Jobs that may be handed over besides those that are there.
std::size_t UnitQueue::job_room() const {
  std::size_t there = 0;
  for (const auto& [name, batch] : batches_)
    there +=
        static_cast<std::size_t>(std::ranges::count_if(batch.jobs, [](const auto& one) { return one.second.takes(); }));
  return cluster_->capacity() - std::min(cluster_->capacity(), there);
}

Status UnitQueue::poll() {
  ++counts_.polls;
  const double asked = clock_.monotonic();
  next_poll_ = asked + options_.shortest_poll + load_share() * (options_.longest_poll - options_.shortest_poll);
  const Result<std::vector<ClusterJob>> jobs = cluster_->jobs(prefix_);
  if (!jobs) {
    unreachable(jobs.error());
    return ok_status();
  }
  unreachable_since_.reset();
  for (auto& [name, batch] : batches_) {
    for (auto& [number, job] : batch.jobs) ++job.missing;
  }
  for (const ClusterJob& job : *jobs) see(job);
  std::vector<std::string> names;
  for (auto& [name, batch] : batches_) {
    names.push_back(name);
    for (auto& [number, job] : batch.jobs)
      job.gone = job.missing >= kMissesThatCount && asked - job.submitted > options_.vanish_grace;
  }
  for (const std::string& name : names) RIDGE_CHECK_OK(look_at(name));
  return swept_ ? ok_status() : cancel_orphans(*jobs);
}

void UnitQueue::see(const ClusterJob& seen) {
  const auto found = batches_.find(seen.batch);
  if (found == batches_.end()) return;
  Batch& batch = found->second;
  if (!batch.shared && !batch.jobs.contains(seen.index)) return;
  Job& job = batch.jobs[seen.index];
  job.id = seen.id;
  job.node = seen.node;
  job.reason = seen.reason;
  job.running = seen.state == JobState::kRunning;
  job.sure = true;
  job.missing = 0;
  if (!seen.hopeless) return;
  ++counts_.cancels;
  static_cast<void>(cluster_->cancel({seen.id}));
  job.left = true;
  never_starts(seen.batch, seen);
}

// The jobs of a batch are alike: where one will never start, neither will the others.
void UnitQueue::never_starts(const std::string& name, const ClusterJob& seen) {
  const Batch& batch = batches_.at(name);
  std::vector<std::string> keys;
  for (const auto& [number, key] : batch.units) {
    if (batch.shared ? !batch.moved && batch.takers.empty() : number == seen.index) keys.push_back(key);
  }
  for (const std::string& key : keys) {
    end(key, units_.at(key),
        with_hint(
            make_error(ErrorCode::kInvalidArgument, "{} will never start this unit: {}", cluster_->name(), seen.reason),
            "change what is asked of it (partition, account, time, gres, constraint)"));
  }
}

// The number of the job that has a unit; none: it waits for one to take it.
std::optional<std::size_t> UnitQueue::job_of(const Batch& batch, std::size_t number) {
  if (!batch.shared) return number;
  const auto taker = batch.takers.find(number);
  return taker == batch.takers.end() ? std::nullopt : std::optional(taker->second);
}

// What became of the units of a batch, after the cluster has said which of its jobs it has.
Status UnitQueue::look_at(const std::string& name) {
  if (batches_.at(name).shared) RIDGE_CHECK_OK(read_takers(name, batches_.at(name)));
  const std::map<std::size_t, std::string> units = batches_.at(name).units;
  for (const auto& [number, key] : units) {
    Batch& batch = batches_.at(name);  // is there as long as a unit of it is in flight
    const std::optional<std::size_t> at = job_of(batch, number);
    if (!at) continue;
    Job& job = batch.jobs.at(*at);
    if (job.gone)
      RIDGE_CHECK_OK(miss(key, units_.at(key), Job(job)));
    else
      watch(key, units_.at(key), job);
  }
  return batches_.contains(name) && batches_.at(name).shared ? deal_again(name) : ok_status();
}

// Which job has which unit, and which jobs take no more.
Status UnitQueue::read_takers(const std::string& name, Batch& batch) {
  RIDGE_TRY(notes, notes_of(folder_, name));
  for (const std::size_t number : notes.left) {
    if (const auto job = batch.jobs.find(number); job != batch.jobs.end()) job->second.left = true;
  }
  for (const std::size_t number : notes.taken) {
    const auto unit = batch.units.find(number);
    if (unit == batch.units.end() || batch.takers.contains(number)) continue;
    const std::optional<std::int64_t> taker = taker_of(folder_, name, number);
    if (taker == -1) {  // an earlier process took it back, and was not there any more to hand it over again
      const std::string key = unit->second;
      release(units_.at(key));
      enqueue(key, units_.at(key));
      continue;
    }
    const std::size_t job = taker ? static_cast<std::size_t>(*taker) : kNoJob;
    batch.takers[number] = job;
    if (const auto [place, added] = batch.jobs.try_emplace(job); added) place->second.submitted = clock_.monotonic();
  }
  return ok_status();
}

// Limits of a scheduler are in minutes, and a node whose own limit did not end the unit is hung.
void UnitQueue::watch(const std::string& key, Unit& unit, Job& job) {
  const double now = clock_.monotonic();
  if (job.running && !unit.running) unit.running_since = now;
  unit.running = job.running;
  const double ran = now - unit.running_since;
  if (!unit.running || unit.limit <= 0 || ran <= unit.limit + options_.grace) return;
  ++counts_.cancels;
  job.left = true;
  static_cast<void>(cluster_->cancel({job.id}));
  failed_attempt(key, unit,
                 make_error(ErrorCode::kTimeout, "on {}: no result {:.0f} s after its limit of {:.0f} s", job.node,
                            ran - unit.limit, unit.limit),
                 true);
}

Error UnitQueue::lost_by(const Job& job, bool& for_good) {
  const JobFate fate = job.id.empty() ? JobFate{"it is not there any more", false, {}} : cluster_->fate(job.id);
  Error error = make_error(ErrorCode::kToolFailed, "{} ended a job without a result{}: {}", cluster_->name(),
                           job.node.empty() ? "" : " on " + job.node, fate.text);
  error.hint = fate.hint;
  for_good = fate.for_good;
  return error;
}

// The cluster does not have the job any more. Its files count first. What happened to a job that others shared may have
// been meant for one of them.
Status UnitQueue::miss(const std::string& key, Unit& unit, const Job& job) {
  RIDGE_CHECK_OK(settle(key, unit));
  if (unit.ended() || !unit.turn) return ok_status();
  ++counts_.lost;
  const bool shared = batches_.at(unit.turn->first).shared;
  if (job.sure || shared) {
    bool for_good = false;
    Error error = lost_by(job, for_good);
    part_company(unit);
    failed_attempt(key, unit, std::move(error), for_good && !shared);
    return ok_status();
  }
  release(unit);  // a process that ended before it asked, or an answer that never came
  enqueue(key, unit);
  return ok_status();
}

// Units of a shared batch that no job has yet: taken back where no job is left that would take them, or where more jobs
// may run than are left. Jobs that found nothing to take would only wait.
Status UnitQueue::deal_again(const std::string& name) {
  Batch& batch = batches_.at(name);
  std::vector<std::size_t> untaken;
  for (const auto& [number, key] : batch.units) {
    if (!batch.takers.contains(number)) untaken.push_back(number);
  }
  if (untaken.empty()) {
    cancel_waiting(name, batch);
    return ok_status();
  }
  const auto jobs =
      static_cast<std::size_t>(std::ranges::count_if(batch.jobs, [](const auto& one) { return one.second.takes(); }));
  if (jobs == 0) return give_up(name, untaken);
  const std::size_t room = job_room();
  if (!waiting_.empty() || room == 0 || untaken.size() <= jobs || cluster_->sharing().most > 0) return ok_status();
  const std::size_t more = std::min(room, untaken.size() - jobs);
  const std::size_t theirs = untaken.size() * more / (jobs + more);
  return take_back(name, {untaken.end() - static_cast<std::ptrdiff_t>(theirs), untaken.end()});
}

// A unit that is taken back is none that a job of the batch begins any more, however late it starts.
Status UnitQueue::take_back(const std::string& name, const std::vector<std::size_t>& numbers) {
  for (const std::size_t number : numbers) {
    RIDGE_TRY(ours, take_unit(folder_, name, number, -1));
    if (!ours) continue;
    const std::string key = batches_.at(name).units.at(number);
    release(units_.at(key));
    enqueue(key, units_.at(key));
  }
  return ok_status();
}

// No job of the batch is left. Where they have worked, or were never there, the units that none took are handed over
// again; jobs that took nothing have failed all of them.
Status UnitQueue::give_up(const std::string& name, const std::vector<std::size_t>& numbers) {
  const Batch& batch = batches_.at(name);
  const auto sure = std::ranges::find_if(batch.jobs, [](const auto& one) { return one.second.sure; });
  if (batch.moved || !batch.takers.empty() || sure == batch.jobs.end()) return take_back(name, numbers);
  bool for_good = false;
  const Error error = lost_by(sure->second, for_good);
  for (const std::size_t number : numbers) {
    RIDGE_TRY(ours, take_unit(folder_, name, number, -1));
    if (!ours) continue;
    ++counts_.lost;
    const std::string key = batches_.at(name).units.at(number);
    failed_attempt(key, units_.at(key), error, for_good);
  }
  return ok_status();
}

// Jobs that wait although nothing is left for them.
void UnitQueue::cancel_waiting(const std::string& name, Batch& batch) {
  std::vector<std::string> ids;
  for (auto& [number, job] : batch.jobs) {
    if (job.running || !job.takes() || job.id.empty() || job.missing > 0) continue;
    ids.push_back(job.id);
    job.left = true;
  }
  if (ids.empty()) return;
  ++counts_.cancels;
  if (!cluster_->cancel(ids)) note(fmt::format("{} jobs of {} find nothing to do", ids.size(), name));
}

// Shared batches of which no unit is in flight any more.
void UnitQueue::close_batches() {
  std::vector<std::string> over;
  for (const auto& [name, batch] : batches_) {
    if (batch.units.empty()) over.push_back(name);
  }
  for (const std::string& name : over) {
    Batch& batch = batches_.at(name);
    const Result<BatchNotes> notes = notes_of(folder_, name);
    const bool all_left = notes && std::ranges::all_of(batch.jobs, [&](const auto& one) {
                            return !one.second.takes() || notes->left.contains(one.first);
                          });
    if (const auto jobs =
            all_left ? Result<std::vector<ClusterJob>>(std::vector<ClusterJob>()) : cluster_->jobs(prefix_)) {
      for (const ClusterJob& job : *jobs) {
        if (job.batch == name) see(job);
      }
      cancel_waiting(name, batch);
    }
    batches_.erase(name);
  }
}

void UnitQueue::unreachable(const Error& error) {
  const double now = clock_.monotonic();
  if (!unreachable_since_) {
    unreachable_since_ = now;
    note(fmt::format("{} cannot be reached ({}); what runs there goes on", cluster_->name(), error.message));
  }
  if (now - *unreachable_since_ < options_.cluster_patience) return;
  for (auto& [key, unit] : units_) {
    if (unit.ended()) continue;
    end(key, unit,
        make_error(ErrorCode::kTimeout, "{} was not reached for {}: {}", cluster_->name(),
                   format_duration(now - *unreachable_since_), error.message));
  }
}

// Jobs under our name that no unit stands for: an earlier process asked for them, and what it asked is not asked again.
Status UnitQueue::cancel_orphans(const std::vector<ClusterJob>& jobs) {
  swept_ = true;
  std::vector<std::string> ids;
  for (const ClusterJob& job : jobs) {
    const auto batch = batches_.find(job.batch);
    const bool known = batch != batches_.end() && (batch->second.shared || batch->second.units.contains(job.index));
    if (!known) ids.push_back(job.id);
  }
  std::vector<std::string> names;
  for (const auto& [name, batch] : batches_) {
    if (batch.shared) names.push_back(name);
  }
  for (const std::string& name : names) RIDGE_CHECK_OK(orphans_of(name, ids));
  if (ids.empty()) return ok_status();
  ++counts_.cancels;
  note(fmt::format("{} job{} of an earlier process cancelled", ids.size(), ids.size() == 1 ? "" : "s"));
  static_cast<void>(cluster_->cancel(ids));
  return ok_status();
}

// Of a batch that jobs share, the units that are not asked for again are taken back, and a job that works on one of
// them is cancelled: the others of the batch do without it.
Status UnitQueue::orphans_of(const std::string& name, std::vector<std::string>& ids) {
  Batch& batch = batches_.at(name);
  for (std::size_t number = 0; number < batch.turns.size(); ++number) {
    const record::UnitTurn& turn = batch.turns[number];
    std::error_code ignored;
    if (batch.units.contains(number) || !fs::exists(folder_.order(turn.key), ignored)) continue;
    RIDGE_TRY(ours, take_unit(folder_, name, number, -1));
    const std::optional<std::int64_t> taker = ours ? std::nullopt : taker_of(folder_, name, number);
    if (taker.value_or(-1) < 0 || fs::exists(folder_.result(turn.key), ignored) ||
        fs::exists(folder_.failed(turn.key, turn.attempt), ignored))
      continue;
    const auto job = batch.jobs.find(static_cast<std::size_t>(*taker));
    if (job == batch.jobs.end() || job->second.missing > 0 || job->second.left) continue;
    job->second.left = true;
    ids.push_back(job->second.id);
  }
  return ok_status();
}

// Takes a unit from its job, which is to be cancelled where it works on it; empty: it does not.
std::string UnitQueue::withdraw(const std::string& key, const Unit& unit) {
  if (!unit.turn) return {};
  const auto& [name, number] = *unit.turn;
  Batch& batch = batches_.at(name);
  std::size_t taker = number;
  if (batch.shared) {
    batch.moved = true;
    const Result<bool> ours = take_unit(folder_, name, number, -1);
    std::error_code ignored;
    if ((ours && *ours) || fs::exists(folder_.result(key), ignored)) return {};
    taker = static_cast<std::size_t>(taker_of(folder_, name, number).value_or(-1));
  }
  const auto job = batch.jobs.find(taker);
  if (job == batch.jobs.end()) return {};
  job->second.left = true;
  return job->second.id;
}

Status UnitQueue::cancel(const std::vector<std::string>& keys) {
  bool unknown = false;
  for (const std::string& key : keys) {
    const auto found = units_.find(key);
    if (found == units_.end() || !found->second.turn) continue;
    const Batch& batch = batches_.at(found->second.turn->first);
    const std::optional<std::size_t> job = job_of(batch, found->second.turn->second);
    unknown = unknown || !job || batch.jobs.at(*job).id.empty();
  }
  if (unknown) {
    const Result<std::vector<ClusterJob>> jobs = cluster_->jobs(prefix_);
    if (jobs) {
      for (const ClusterJob& job : *jobs) see(job);
    }
  }
  std::vector<std::string> ids;
  for (const std::string& key : keys) {
    const auto found = units_.find(key);
    if (found == units_.end()) continue;
    std::string id = withdraw(key, found->second);
    if (!id.empty() && std::ranges::find(ids, id) == ids.end()) ids.push_back(std::move(id));
    release(found->second);
    units_.erase(found);
    std::erase(waiting_, key);
    forget(key);
  }
  close_batches();
  if (ids.empty()) return ok_status();
  ++counts_.cancels;
  return cluster_->cancel(ids);
}

}  // namespace ridge::execute
