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
  // Nothing of this is waited for the disk: what a power loss takes is written again by who asks again.
  if (const auto order = record_in<record::UnitOrder>(folder_.order(key)); order && order->key == key) {
    RIDGE_CHECK_OK(adopt(key, unit));
  } else {
    record::UnitOrder fresh{1, key, options_.version, options_.who, options_.wait_for_quiet, request};
    RIDGE_CHECK_OK(write_note(folder_.order(key), record::to_line(fresh)));
  }
  if (!unit.ended() && !unit.turn) enqueue(key, unit);
  return key;
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
  const Unit& unit = found->second;
  if (!unit.turn) return UnitStanding{};
  const Batch& batch = batches_.at(unit.turn->first);
  if (const std::optional<std::size_t> at = job_of(batch, unit.turn->second)) {
    const Job& job = batch.jobs.at(*at);
    return UnitStanding{unit.running, job.node, job.reason};
  }
  for (const auto& [number, job] : batch.jobs) {
    if (job.takes() && !job.running && !job.reason.empty()) return UnitStanding{false, {}, job.reason};
  }
  return UnitStanding{false, {}, "behind others of its batch"};
}

void UnitQueue::forget(const std::string& key) {
  remove_quietly(folder_.unit(key));
  remove_quietly(folder_.done() / key);
}

void UnitQueue::enqueue(const std::string& key, Unit& unit) {
  if (!std::exchange(unit.queued, true)) waiting_.push_back(key);
}

void UnitQueue::dequeue(const std::string& key, Unit& unit) {
  if (std::exchange(unit.queued, false)) std::erase(waiting_, key);
}

// A batch that jobs share stays until its jobs are looked after, by close_batches().
void UnitQueue::release(Unit& unit) {
  if (!unit.turn) return;
  const auto found = batches_.find(unit.turn->first);
  Batch& batch = found->second;
  batch.units.erase(unit.turn->second);
  if (!batch.shared) batch.jobs.erase(unit.turn->second);
  if (!batch.shared && batch.units.empty()) batches_.erase(found);
  --in_flight_;
  unit.turn.reset();
  unit.running = false;
}

void UnitQueue::end(const std::string& key, Unit& unit, Error error) {
  release(unit);
  dequeue(key, unit);
  unit.outcome.error = std::move(error);
  ended_.push_back(key);
}

Status UnitQueue::step() {
  RIDGE_CHECK_OK(collect());
  close_batches();
  if (in_flight_ > 0 && clock_.monotonic() >= next_poll_) RIDGE_CHECK_OK(poll());
  if (!waiting_.empty() && clock_.monotonic() >= next_submit_) RIDGE_CHECK_OK(submit());
  return ok_status();
}

double UnitQueue::pause() const {
  if (in_flight_ == 0 && waiting_.empty()) return options_.shortest_poll;
  return std::min(0.25, options_.shortest_poll);
}

// One listing tells which units have ended.
Status UnitQueue::collect() {
  if (in_flight_ == 0) return ok_status();
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
  const auto failed = [&](Error error, bool for_good) {
    part_company(unit);
    failed_attempt(key, unit, std::move(error), for_good);
  };
  const Result<std::string> text = read_file(folder_.result(key));
  if (!text && text.error().code != ErrorCode::kNotFound) return text.error();
  if (text) {
    auto result = record::parse_record<record::UnitResult>(*text, "result");
    const std::string why = result ? objection_to(*result) : std::string();
    if (result && why.empty()) {
      accept(key, unit, std::move(*result));
    } else {
      remove_quietly(folder_.result(key));  // what is not a result must not keep one from its place
      failed(in_context(folder_.result(key).string(),
                        result ? make_error(ErrorCode::kCorrupt, "{}", why) : result.error()),
             false);
    }
    return ok_status();
  }
  const auto failure = record_in<record::UnitFailure>(folder_.failed(key, unit.attempt));
  if (failure) failed(error_of(*failure), !failure->retry);
  return ok_status();
}

// What failed or was lost in a batch that jobs share has a job of its own from then on, whoever was to blame.
void UnitQueue::part_company(Unit& unit) {
  if (!unit.turn) return;
  Batch& batch = batches_.at(unit.turn->first);
  batch.moved = batch.moved || batch.shared;
  unit.alone = unit.alone || batch.shared;
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
  if (unit.turn) batches_.at(unit.turn->first).moved = true;
  release(unit);
  dequeue(key, unit);  // a result of an earlier attempt, which was believed to be lost
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

// Alike ones together, as many as there are jobs for, or jobs that share them.
Status UnitQueue::submit() {
  while (!waiting_.empty() && job_room() > 0 && in_flight_ < options_.most_in_flight) {
    const bool shared = shares(units_.at(waiting_.front()));
    const std::size_t there = std::min(waiting_.size(), options_.most_in_flight - in_flight_);
    const std::vector<std::string> keys = next_keys(shared);
    const std::size_t jobs = shared ? jobs_for(keys.size(), there) : keys.size();
    RIDGE_CHECK_OK(submit_batch(keys, jobs, shared && keys.size() > 1));
    if (clock_.monotonic() < next_submit_) return ok_status();
  }
  // With hundreds in flight, what ends within seconds is replaced by one batch.
  next_submit_ = clock_.monotonic() + load_share() * options_.longest_poll;
  return ok_status();
}

// Jobs for some of the units that are there: their share of those that may run, as few as may take them all, and no
// more than there are units.
std::size_t UnitQueue::jobs_for(std::size_t units, std::size_t there) const {
  const std::size_t room = job_room(), each = cluster_->sharing().most;
  if (each > 0) return std::min(room, (units + each - 1) / each);
  return room >= there ? units : std::max<std::size_t>(1, units * room / there);
}

// Whether a unit may be one of several that a job takes: none that measures, and none that was lost in company.
bool UnitQueue::shares(const Unit& unit) const {
  return !unit.measures && !unit.alone && cluster_->sharing().most != 1;
}

// Those of the kind of the first one, out of the queue.
std::vector<std::string> UnitQueue::next_keys(bool shared) {
  const std::size_t each = shared ? cluster_->sharing().most : 1, jobs = job_room();
  std::size_t most = std::min(options_.most_in_flight - in_flight_, cluster_->most_in_batch());
  if (each > 0 && jobs < most / each) most = jobs * each;
  const bool measures = units_.at(waiting_.front()).measures;
  std::vector<std::string> keys;
  while (!waiting_.empty() && keys.size() < most) {
    const Unit& next = units_.at(waiting_.front());
    if (next.measures != measures || shares(next) != shared) break;
    keys.push_back(std::move(waiting_.front()));
    waiting_.pop_front();
  }
  return keys;
}

Status UnitQueue::submit_batch(const std::vector<std::string>& keys, std::size_t jobs, bool shared) {
  ClusterBatch batch;
  batch.name = fmt::format("{}{:016x}-{}", prefix_, secret_seed(), ++batches_made_);
  batch.root = options_.root;
  batch.jobs = jobs;
  batch.measures = units_.at(keys.front()).measures;
  if (batch.measures && device_) batch.node = device_->node;
  record::UnitBatch turns{1, nonce_, {}};
  if (shared) {
    turns.jobs = static_cast<std::int64_t>(jobs);
    turns.most = static_cast<std::int64_t>(cluster_->sharing().most);
    turns.stay = cluster_->sharing().stay;
    RIDGE_CHECK_OK(make_directories(folder_.taken(batch.name)));
  }
  Batch& handed_over = batches_[batch.name];
  handed_over.shared = shared;
  for (std::size_t i = 0; i < jobs; ++i) handed_over.jobs[i].submitted = clock_.monotonic();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    Unit& unit = units_.at(keys[i]);
    unit.queued = false;
    turns.units.push_back({keys[i], ++unit.attempt});
    unit.turn = Turn{batch.name, i};
    handed_over.units[i] = keys[i];
    ++in_flight_;
    // Before the cluster is asked: a process that takes over finds the job by the name of its batch.
    const record::UnitSubmission job{unit.attempt, batch.name, static_cast<std::int64_t>(i), clock_.unix_time()};
    RIDGE_CHECK_OK(write_note(folder_.job(keys[i]), record::to_line(job)));
  }
  RIDGE_CHECK_OK(write_note(folder_.batch(batch.name) / "batch.json", record::to_line(turns)));
  if (shared) handed_over.turns = std::move(turns.units);
  batch.keys = keys;
  ++counts_.submissions;
  counts_.attempts += keys.size();
  const Status taken = cluster_->submit(batch);
  const double now = clock_.monotonic();
  next_poll_ = std::min(next_poll_, now + options_.shortest_poll);
  if (taken) {
    for (auto& [number, job] : handed_over.jobs) job.sure = true;
    return ok_status();
  }
  if (taken.error().code == ErrorCode::kTimeout) {
    // It may have been taken: the answers to come tell, and it is handed over again only when they do not have it.
    unreachable(taken.error());
    next_submit_ = now + options_.longest_poll;
    return ok_status();
  }
  for (const std::string& key : keys) end(key, units_.at(key), taken.error());
  return ok_status();
}

}  // namespace ridge::execute
