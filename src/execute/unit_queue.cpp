#include "execute/unit_queue.h"

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDeviceFile = "device.json";
constexpr int kMissesThatCount = 2;  // answers of the cluster in a row without a job
constexpr double kWorthANote = 2.0;  // seconds of clock skew

template <class T>
std::optional<T> record_in(const fs::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text) return std::nullopt;
  auto parsed = record::parse_record<T>(*text, path.string());
  return parsed ? std::optional(std::move(*parsed)) : std::nullopt;
}

// The device that a campaign measures on, once it has one. A file that cannot be read is an error: without it the next
// unit would take the campaign to whatever device it runs on.
Result<std::optional<record::UnitPlace>> device_in(const fs::path& path) {
  const Result<std::string> text = read_file(path);
  if (!text && text.error().code == ErrorCode::kNotFound) return std::optional<record::UnitPlace>();
  if (!text) return text.error();
  auto place = record::parse_record<record::UnitPlace>(*text, "device");
  if (place) return std::optional(std::move(*place));
  return with_hint(in_context(path.string(), place.error()),
                   "it says on which device the campaign measures: put it back, or begin a new campaign");
}

void remove_quietly(const fs::path& path) {
  std::error_code ignored;
  fs::remove_all(path, ignored);
}

}  // namespace

UnitQueue::UnitQueue(std::unique_ptr<Cluster> cluster, Clock& clock, QueueOptions options)
    : cluster_(std::move(cluster)), clock_(clock), options_(std::move(options)), folder_(options_.root) {}

Result<std::unique_ptr<UnitQueue>> UnitQueue::open(std::unique_ptr<Cluster> cluster, Clock& clock,
                                                   QueueOptions options) {
  std::unique_ptr<UnitQueue> queue(new UnitQueue(std::move(cluster), clock, std::move(options)));
  RIDGE_TRY(nonce, queue->folder_.open());
  queue->nonce_ = std::move(nonce);
  queue->prefix_ = "ridge-" + queue->nonce_.substr(0, 12) + "-";
  RIDGE_TRY(offset, queue->folder_.clock_offset(clock));
  queue->offset_ = offset;
  if (queue->options_.one_device) {
    RIDGE_TRY(device, device_in(queue->options_.root / kDeviceFile));
    queue->device_ = std::move(device);
  }
  return queue;
}

void UnitQueue::note(std::string_view text) const {
  if (options_.on_note) options_.on_note(text);
}

Result<std::string> UnitQueue::add(const record::WorkerRequest& request, std::string_view scope) {
  std::string key = unit_key(request, scope);
  const auto [place, added] = units_.try_emplace(key);
  if (!added) return key;
  Unit& unit = place->second;
  unit.measures = measures(request.task) || request.task == record::WorkerTask::kDescribe;
  unit.limit = request.time_limit;
  std::error_code ignored;
  if (fs::exists(folder_.order(key), ignored)) {
    RIDGE_CHECK_OK(adopt(key, unit));
  } else {
    record::UnitOrder order{1, key, options_.version, options_.who, options_.wait_for_quiet, request};
    RIDGE_CHECK_OK(write_file_durably(folder_.order(key), record::to_line(order)));
  }
  if (!unit.ended() && !unit.turn) enqueue(key, unit);
  return key;
}

// A unit of an earlier process: its result, or the job that it was handed over as.
Status UnitQueue::adopt(const std::string& key, Unit& unit) {
  if (auto job = record_in<record::UnitSubmission>(folder_.job(key)); job && objection_to(*job).empty()) {
    unit.attempt = job->attempt;
    unit.turn = Turn{job->batch, static_cast<std::size_t>(job->index)};
    unit.submitted = clock_.monotonic();
    unit.outcome.before = static_cast<double>(std::max<std::int64_t>(0, clock_.unix_time() - job->time + 1));
    by_turn_[*unit.turn] = key;
  }
  return settle(key, unit);
}

std::optional<UnitOutcome> UnitQueue::take(const std::string& key) {
  const auto found = units_.find(key);
  if (found == units_.end() || !found->second.ended()) return std::nullopt;
  UnitOutcome outcome = std::move(found->second.outcome);
  std::erase(ended_, key);
  units_.erase(found);
  return outcome;
}

std::optional<UnitStanding> UnitQueue::standing(const std::string& key) const {
  const auto found = units_.find(key);
  if (found == units_.end()) return std::nullopt;
  return UnitStanding{found->second.running, found->second.node, found->second.reason};
}

void UnitQueue::forget(const std::string& key) {
  remove_quietly(folder_.unit(key));
  remove_quietly(folder_.done() / key);
}

void UnitQueue::enqueue(const std::string& key, Unit& unit) {
  if (!std::exchange(unit.queued, true)) waiting_.push_back(key);
}

void UnitQueue::release(Unit& unit) {
  if (!unit.turn) return;
  by_turn_.erase(*unit.turn);
  unit.turn.reset();
  unit.id.clear();
  unit.running = unit.sure = false;
  unit.missing = 0;
}

void UnitQueue::end(const std::string& key, Unit& unit, Error error) {
  release(unit);
  unit.outcome.error = std::move(error);
  ended_.push_back(key);
}

Status UnitQueue::step() {
  RIDGE_CHECK_OK(collect());
  if (!by_turn_.empty() && clock_.monotonic() >= next_poll_) RIDGE_CHECK_OK(poll());
  if (!waiting_.empty() && clock_.monotonic() >= next_submit_) RIDGE_CHECK_OK(submit());
  return ok_status();
}

double UnitQueue::pause() const {
  if (by_turn_.empty() && waiting_.empty()) return options_.shortest_poll;
  return std::min(0.25, options_.shortest_poll);
}

// One listing tells which units have ended.
Status UnitQueue::collect() {
  if (by_turn_.empty()) return ok_status();
  ++counts_.listings;
  std::vector<std::string> ended;
  std::error_code failure;
  for (const auto& entry : fs::directory_iterator(folder_.done(), failure)) {
    std::string key = entry.path().filename().string();
    if (units_.contains(key)) ended.push_back(std::move(key));
  }
  if (failure) return make_error(ErrorCode::kIo, "cannot list {}: {}", folder_.done().string(), failure.message());
  for (const std::string& key : ended) {
    remove_quietly(folder_.done() / key);
    if (Unit& unit = units_.at(key); !unit.ended()) RIDGE_CHECK_OK(settle(key, unit));
  }
  return ok_status();
}

// Takes what the unit's last attempt left, if it left anything.
Status UnitQueue::settle(const std::string& key, Unit& unit) {
  const Result<std::string> text = read_file(folder_.result(key));
  if (!text && text.error().code != ErrorCode::kNotFound) return text.error();
  if (text) {
    auto result = record::parse_record<record::UnitResult>(*text, "result");
    const std::string why = result ? objection_to(*result) : std::string();
    if (result && why.empty()) {
      accept(key, unit, std::move(*result));
    } else {
      remove_quietly(folder_.result(key));  // what is not a result must not keep one from its place
      failed_attempt(key, unit,
                     in_context(folder_.result(key).string(),
                                result ? make_error(ErrorCode::kCorrupt, "{}", why) : result.error()),
                     false);
    }
    return ok_status();
  }
  const auto failure = record_in<record::UnitFailure>(folder_.failed(key, unit.attempt));
  if (failure) failed_attempt(key, unit, error_of(*failure), !failure->retry);
  return ok_status();
}

void UnitQueue::accept(const std::string& key, Unit& unit, record::UnitResult result) {
  if (options_.one_device && unit.measures) {
    const std::string other = device_ ? difference_of(*device_, result.place) : std::string();
    if (!other.empty()) {
      remove_quietly(folder_.result(key));
      failed_attempt(
          key, unit,
          with_hint(make_error(ErrorCode::kConflict, "a campaign measures on one device, and there are two: {}", other),
                    "bring the first machine back, or begin a new campaign on the other"),
          false);
      return;
    }
    if (!device_) {
      device_ = result.place;
      static_cast<void>(write_file_durably(options_.root / kDeviceFile, record::to_line(result.place)));
    }
  }
  // Both sides compared themselves with the clock of the folder.
  const double skew = offset_ - result.clock_offset;
  if (std::abs(skew) >= kWorthANote && std::abs(skew - skew_) >= 1.0) {
    note(fmt::format("the clock of {} is {:.0f} s {} this machine's; nothing is decided by it", result.place.node,
                     std::abs(skew), skew > 0 ? "ahead of" : "behind"));
  }
  skew_ = skew;
  // The wait for quiet is bounded over all units, as it is over all requests of an executor beside the engine.
  options_.wait_for_quiet = std::max(0.0, options_.wait_for_quiet - result.waited);
  release(unit);
  unit.outcome.result = std::move(result);
  ended_.push_back(key);
}

void UnitQueue::failed_attempt(const std::string& key, Unit& unit, Error error, bool for_good) {
  release(unit);
  ++counts_.failed;
  if (for_good || ++unit.failures >= options_.most_attempts) {
    if (!for_good) error.message = fmt::format("{} attempts failed; the last: {}", unit.failures, error.message);
    end(key, unit, std::move(error));
    return;
  }
  note(fmt::format("tried again: {}", error.text()));
  enqueue(key, unit);
}

// 0 with one unit in flight, 1 with hundreds: how far questions are spread.
double UnitQueue::load_share() const { return std::min(1.0, static_cast<double>(by_turn_.size()) / 500.0); }

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
  for (const auto& [turn, key] : by_turn_) ++units_.at(key).missing;
  for (const ClusterJob& job : *jobs) see(job);
  std::vector<std::string> gone;
  for (const auto& [turn, key] : by_turn_) {
    const Unit& unit = units_.at(key);
    if (unit.missing >= kMissesThatCount && asked - unit.submitted > options_.vanish_grace) gone.push_back(key);
  }
  for (const std::string& key : gone) RIDGE_CHECK_OK(miss(key, units_.at(key)));
  if (!swept_) cancel_orphans(*jobs);
  return ok_status();
}

void UnitQueue::see(const ClusterJob& job) {
  const auto found = by_turn_.find({job.batch, job.index});
  if (found == by_turn_.end()) return;
  const std::string key = found->second;
  Unit& unit = units_.at(key);
  unit.id = job.id;
  unit.node = job.node;
  unit.reason = job.reason;
  unit.sure = true;
  unit.missing = 0;
  if (job.state == JobState::kRunning && !unit.running) unit.running_since = clock_.monotonic();
  unit.running = job.state == JobState::kRunning;
  if (job.hopeless) {
    ++counts_.cancels;
    static_cast<void>(cluster_->cancel({job.id}));
    end(key, unit,
        with_hint(
            make_error(ErrorCode::kInvalidArgument, "{} will never start this unit: {}", cluster_->name(), job.reason),
            "change what is asked of it (partition, account, time, gres, constraint)"));
    return;
  }
  watch_limit(key, unit);
}

// Limits of a scheduler are in minutes, and a node whose own limit did not end the unit is hung.
void UnitQueue::watch_limit(const std::string& key, Unit& unit) {
  if (!unit.running || unit.limit <= 0) return;
  const double ran = clock_.monotonic() - unit.running_since;
  if (ran <= unit.limit + options_.grace) return;
  ++counts_.cancels;
  static_cast<void>(cluster_->cancel({unit.id}));
  failed_attempt(key, unit,
                 make_error(ErrorCode::kTimeout, "on {}: no result {:.0f} s after its limit of {:.0f} s", unit.node,
                            ran - unit.limit, unit.limit),
                 true);
}

// The cluster does not have the job any more. Its files count first.
Status UnitQueue::miss(const std::string& key, Unit& unit) {
  RIDGE_CHECK_OK(settle(key, unit));
  if (unit.ended() || !unit.turn) return ok_status();
  ++counts_.lost;
  const bool began = unit.sure;
  const JobFate fate = unit.id.empty() ? JobFate{"it was never taken", false, {}} : cluster_->fate(unit.id);
  Error error = make_error(ErrorCode::kToolFailed, "{} ended a job without a result{}: {}", cluster_->name(),
                           unit.node.empty() ? "" : " on " + unit.node, fate.text);
  error.hint = fate.hint;
  if (began || !unit.id.empty()) {
    failed_attempt(key, unit, std::move(error), fate.for_good);
    return ok_status();
  }
  release(unit);  // a process that ended before it asked, or an answer that never came
  enqueue(key, unit);
  return ok_status();
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
  waiting_.clear();
}

// Jobs under our name that no unit stands for: an earlier process asked for them, and what it asked is not asked again.
void UnitQueue::cancel_orphans(const std::vector<ClusterJob>& jobs) {
  swept_ = true;
  std::vector<std::string> ids;
  for (const ClusterJob& job : jobs) {
    if (!by_turn_.contains({job.batch, job.index})) ids.push_back(job.id);
  }
  if (ids.empty()) return;
  ++counts_.cancels;
  note(fmt::format("{} job{} of an earlier process cancelled", ids.size(), ids.size() == 1 ? "" : "s"));
  static_cast<void>(cluster_->cancel(ids));
}

// As many as may be in flight, alike ones together.
Status UnitQueue::submit() {
  const std::size_t most = std::min(options_.most_in_flight, cluster_->capacity());
  while (!waiting_.empty() && by_turn_.size() < most) {
    const std::size_t room = std::min(most - by_turn_.size(), cluster_->most_in_batch());
    const bool measuring = units_.at(waiting_.front()).measures;
    std::vector<std::string> keys;
    while (!waiting_.empty() && keys.size() < room && units_.at(waiting_.front()).measures == measuring) {
      keys.push_back(std::move(waiting_.front()));
      waiting_.pop_front();
    }
    const Status done = submit_batch(std::move(keys));
    if (!done) return done.error();
    if (clock_.monotonic() < next_submit_) return ok_status();
  }
  // With hundreds in flight, what ends within seconds is replaced by one batch.
  next_submit_ = clock_.monotonic() + load_share() * options_.longest_poll;
  return ok_status();
}

Status UnitQueue::submit_batch(std::vector<std::string> keys) {
  ClusterBatch batch;
  batch.name = fmt::format("{}{:016x}-{}", prefix_, secret_seed(), ++batches_);
  batch.root = options_.root;
  batch.measures = units_.at(keys.front()).measures;
  if (batch.measures && device_) batch.node = device_->node;
  record::UnitBatch turns{1, nonce_, {}};
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Unit& unit = units_.at(keys[i]);
    unit.queued = false;
    turns.units.push_back({keys[i], ++unit.attempt});
    unit.turn = Turn{batch.name, i};
    by_turn_[*unit.turn] = keys[i];
    unit.submitted = clock_.monotonic();
    // Before the cluster is asked: a process that takes over finds the job by the name of its batch.
    const record::UnitSubmission job{unit.attempt, batch.name, static_cast<std::int64_t>(i), clock_.unix_time()};
    RIDGE_CHECK_OK(write_file_durably(folder_.job(keys[i]), record::to_line(job)));
  }
  RIDGE_CHECK_OK(write_file_durably(folder_.batch(batch.name) / "batch.json", record::to_line(turns)));
  batch.keys = keys;
  ++counts_.submissions;
  counts_.attempts += keys.size();
  const Status taken = cluster_->submit(batch);
  const double now = clock_.monotonic();
  next_poll_ = std::min(next_poll_, now + options_.shortest_poll);
  if (taken) return ok_status();
  if (taken.error().code == ErrorCode::kTimeout) {
    // It may have been taken: the answers to come tell, and it is handed over again only when they do not have it.
    unreachable(taken.error());
    next_submit_ = now + options_.longest_poll;
    return ok_status();
  }
  for (const std::string& key : keys) end(key, units_.at(key), taken.error());
  return ok_status();
}

Status UnitQueue::cancel(const std::vector<std::string>& keys) {
  bool unknown = false;
  for (const std::string& key : keys) {
    const auto found = units_.find(key);
    unknown = unknown || (found != units_.end() && found->second.turn && found->second.id.empty());
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
    if (!found->second.id.empty()) ids.push_back(found->second.id);
    release(found->second);
    units_.erase(found);
    std::erase(waiting_, key);
    forget(key);
  }
  if (ids.empty()) return ok_status();
  ++counts_.cancels;
  return cluster_->cancel(ids);
}

}  // namespace ridge::execute
