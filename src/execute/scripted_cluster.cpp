#include "execute/scripted_cluster.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "base/error.h"

namespace ridge::execute {
namespace {

std::string node_name(std::size_t node) { return fmt::format("node{}", node); }

}  // namespace

// A connection to the scheduler; an engine that is killed loses its own.
class ScriptedClient final : public Cluster {
 public:
  explicit ScriptedClient(ScriptedScheduler& scheduler) : scheduler_(scheduler) {}
  [[nodiscard]] std::string name() const override { return "the scripted cluster"; }
  [[nodiscard]] std::size_t width() const override { return scheduler_.options_.nodes; }
  [[nodiscard]] std::size_t capacity() const override { return scheduler_.options_.jobs; }
  [[nodiscard]] JobSharing sharing() const override { return scheduler_.options_.sharing; }

  Status submit(const ClusterBatch& batch) override {
    scheduler_.catch_up();
    if (!scheduler_.reachable_) return unreachable();
    if (scheduler_.refusal_) return *scheduler_.refusal_;
    ++scheduler_.account_.submissions;
    for (std::size_t i = 0; i < batch.jobs; ++i) {
      const std::uint64_t number = scheduler_.next_job_++;
      const std::string key = scheduler_.options_.take ? std::string() : batch.keys[i];
      ScriptedScheduler::Job job{batch.name, key, batch.root, i, std::to_string(number)};
      scheduler_.jobs_.emplace(number, std::move(job));
      scheduler_.pending_[number] = true;
    }
    scheduler_.start_jobs(scheduler_.clock_.monotonic());
    if (std::exchange(scheduler_.lose_answer_, false)) return unreachable();
    return ok_status();
  }

  Result<std::vector<ClusterJob>> jobs(const std::string& prefix) override {
    scheduler_.catch_up();
    if (!scheduler_.reachable_) return unreachable().error();
    ++scheduler_.account_.questions;
    std::vector<ClusterJob> all;
    for (const auto& [number, job] : scheduler_.jobs_) {
      if (!job.batch.starts_with(prefix)) continue;
      const bool runs = job.node != ScriptedScheduler::kNone;
      const std::string reason = runs ? "" : scheduler_.hold_.empty() ? "Resources" : scheduler_.hold_;
      all.push_back({job.batch, job.index, job.id, runs ? JobState::kRunning : JobState::kWaiting,
                     runs ? node_name(job.node) : "", reason, !runs && reason == "PartitionTimeLimit"});
    }
    scheduler_.account_.largest_answer = std::max(scheduler_.account_.largest_answer, all.size());
    return all;
  }

  Status cancel(const std::vector<std::string>& ids) override {
    scheduler_.catch_up();
    if (!scheduler_.reachable_) return unreachable();
    const double now = scheduler_.clock_.monotonic();
    for (const std::string& id : ids) {
      const auto found = scheduler_.jobs_.find(std::strtoull(id.c_str(), nullptr, 10));
      if (found == scheduler_.jobs_.end()) continue;
      scheduler_.vacate(found->second, now);
      scheduler_.pending_.erase(found->first);
      scheduler_.jobs_.erase(found);
      ++scheduler_.account_.cancelled;
    }
    scheduler_.start_jobs(now);
    return ok_status();
  }

  JobFate fate(const std::string&) override { return {"NODE_FAIL", false, {}}; }

 private:
  static Status unreachable() { return make_error(ErrorCode::kTimeout, "the scripted controller is away"); }
  ScriptedScheduler& scheduler_;
};

ScriptedScheduler::ScriptedScheduler(VirtualClock& clock, ScriptedClusterOptions options)
    : clock_(clock),
      options_(std::move(options)),
      coin_(options_.seed),
      on_node_(options_.nodes, 0),
      broken_(options_.nodes, false) {
  for (std::size_t node = options_.nodes; node-- > 0;) {
    free_.push_back(node);
    expect_failure(node, clock_.monotonic());
  }
}

std::unique_ptr<Cluster> ScriptedScheduler::client() { return std::make_unique<ScriptedClient>(*this); }

// Everything that happened until now, in its order.
void ScriptedScheduler::catch_up() {
  const double now = clock_.monotonic();
  while (!events_.empty() && events_.top().time <= now) {
    const Event event = events_.top();
    events_.pop();
    handle(event);
  }
  start_jobs(now);
}

void ScriptedScheduler::handle(const Event& event) {
  if (event.kind == Event::Kind::kFail) {
    fail(event.node, event.time);
    return;
  }
  if (event.kind == Event::Kind::kRepair) {
    broken_[event.node] = false;
    free_.push_back(event.node);
    expect_failure(event.node, event.time);
    start_jobs(event.time);
    return;
  }
  const auto found = jobs_.find(event.job);
  if (found == jobs_.end() || found->second.run != event.run || found->second.node == kNone) return;
  Job& job = found->second;
  account_.busy += event.time - job.started;
  ++account_.ends;
  if (options_.execute) options_.execute(job.root, job.batch, job.index, node_name(job.node));
  if (options_.take && begin_unit(job, event.job, event.time, false)) return;
  leave(event.job);
  start_jobs(event.time);
}

// Ends a job and frees its node.
void ScriptedScheduler::leave(std::uint64_t number) {
  const auto found = jobs_.find(number);
  on_node_[found->second.node] = 0;
  free_.push_back(found->second.node);
  jobs_.erase(found);
}

// Whether there was a unit for the job.
bool ScriptedScheduler::begin_unit(Job& job, std::uint64_t number, double now, bool first) {
  if (options_.take) {
    const auto key = options_.take(job.root, job.batch, job.index, node_name(job.node), first);
    if (!key) return false;
    job.key = *key;
  }
  job.started = now + (first ? options_.start_delay : 0);
  ++account_.starts;
  const double lasts = options_.duration ? options_.duration(job.key) : 10.0;
  events_.push({job.started + lasts, Event::Kind::kEnd, number, job.run, job.node});
  return true;
}

void ScriptedScheduler::start_jobs(double now) {
  if (!hold_.empty()) return;
  while (!free_.empty() && !pending_.empty()) {
    const std::uint64_t number = pending_.begin()->first;
    pending_.erase(pending_.begin());
    Job& job = jobs_.at(number);
    job.node = free_.back();
    free_.pop_back();
    on_node_[job.node] = number;
    ++job.run;
    if (!begin_unit(job, number, now, true)) leave(number);
  }
}

// Takes a job off its node; its work so far is lost.
void ScriptedScheduler::vacate(Job& job, double now) {
  if (job.node == kNone) return;
  account_.lost += std::max(0.0, now - job.started);
  on_node_[job.node] = 0;
  if (!broken_[job.node]) free_.push_back(job.node);
  job.node = kNone;
  ++job.run;
}

void ScriptedScheduler::fail(std::size_t node, double now) {
  if (broken_[node]) return;
  ++account_.failures;
  broken_[node] = true;
  std::erase(free_, node);
  const std::uint64_t number = on_node_[node];
  if (number != 0) {
    vacate(jobs_.at(number), now);
    if (options_.requeue)
      pending_[number] = true;
    else
      jobs_.erase(number);
  }
  events_.push({now + options_.repair_time, Event::Kind::kRepair, 0, 0, node});
}

void ScriptedScheduler::expect_failure(std::size_t node, double now) {
  if (options_.failures_per_hour <= 0) return;
  const double rate = -std::log1p(-options_.failures_per_hour) / 3600.0;
  const double uniform = (static_cast<double>(coin_.next() >> 11) + 0.5) * 0x1p-53;
  events_.push({now - std::log(uniform) / rate, Event::Kind::kFail, 0, 0, node});
}

ScriptedScheduler::Job* ScriptedScheduler::job_of(const std::string& key) {
  const auto found = std::find_if(jobs_.begin(), jobs_.end(), [&](const auto& one) { return one.second.key == key; });
  return found == jobs_.end() ? nullptr : &found->second;
}

void ScriptedScheduler::fail_node_of(const std::string& key) {
  catch_up();
  if (const Job* job = job_of(key); job != nullptr && job->node != kNone) fail(job->node, clock_.monotonic());
}

void ScriptedScheduler::preempt(const std::string& key) {
  catch_up();
  Job* job = job_of(key);
  if (job == nullptr || job->node == kNone) return;
  vacate(*job, clock_.monotonic());
  pending_[std::strtoull(job->id.c_str(), nullptr, 10)] = true;
}

void ScriptedScheduler::drop(const std::string& key) {
  catch_up();
  Job* job = job_of(key);
  if (job == nullptr) return;
  const std::uint64_t number = std::strtoull(job->id.c_str(), nullptr, 10);
  vacate(*job, clock_.monotonic());
  pending_.erase(number);
  jobs_.erase(number);
}

std::size_t ScriptedScheduler::running() const {
  return static_cast<std::size_t>(
      std::count_if(on_node_.begin(), on_node_.end(), [](std::uint64_t job) { return job != 0; }));
}

bool ScriptedScheduler::runs(const std::string& key) const {
  return std::any_of(jobs_.begin(), jobs_.end(),
                     [&](const auto& one) { return one.second.key == key && one.second.node != kNone; });
}

}  // namespace ridge::execute
