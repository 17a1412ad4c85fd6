// One request after the other through a queue of units.
#include <algorithm>
#include <chrono>
#include <map>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/files.h"
#include "base/hash.h"
#include "execute/unit_queue.h"
#include "record/json.h"

namespace ridge::execute {
namespace {

class ClusterExecutor final : public Executor {
 public:
  ClusterExecutor(std::unique_ptr<UnitQueue> queue, std::string name, Clock& clock, ClusterExecutorOptions options)
      : queue_(std::move(queue)),
        name_(std::move(name)),
        clock_(clock),
        options_(std::move(options)),
        own_scope_(fmt::format("{:016x}{:016x}", secret_seed(), secret_seed())) {}
  ClusterExecutor(const ClusterExecutor&) = delete;
  ClusterExecutor& operator=(const ClusterExecutor&) = delete;
  ~ClusterExecutor() override {
    if (options_.scope) return;
    std::error_code ignored;
    std::filesystem::remove_all(options_.queue.root, ignored);
  }

  Result<record::WorkerResponse> run(const record::WorkerRequest& request, const OnProgress& on_progress,
                                     const ShouldStop& should_stop) override {
    enter_scope();
    const std::string content = unit_key(request, "");
    RIDGE_TRY(key, queue_->add(request, fmt::format("{} {}", scope_, asked_[content])));
    const double waited = waited_, begun = clock_.monotonic();
    double last = begun;
    while (true) {
      RIDGE_CHECK_OK(queue_->step());
      if (auto outcome = queue_->take(key)) {
        waited_ = waited + waited_for(*outcome, clock_.monotonic() - begun);
        since_ = 0;
        return hand_over(key, content, std::move(*outcome));
      }
      if (should_stop && should_stop()) {
        since_ = 0;
        RIDGE_CHECK_OK(queue_->cancel({key}));
        return make_error(ErrorCode::kConflict, "stopped on request");
      }
      const UnitStanding standing = queue_->standing(key).value_or(UnitStanding{});
      const double now = clock_.monotonic();
      // Only what passes before it starts: no active time of a campaign.
      if (!standing.running) since_ += now - last;
      last = now;
      waited_ = waited + since_;
      show(standing, key, on_progress);
      rest(queue_->pause());
    }
  }
  [[nodiscard]] double waited() const override { return waited_; }

 private:
  // Of `elapsed` seconds, those in which nothing ran: its answer says how long it worked, and the questions in between
  // only about when it began. Negative where a unit worked while no engine was there; it worked no longer than since
  // it was handed over, whatever the node says.
  [[nodiscard]] double waited_for(const UnitOutcome& outcome, double elapsed) const {
    if (!outcome.result) return since_;
    const double worked = outcome.result->took - outcome.result->waited;
    return elapsed - std::clamp(worked, 0.0, elapsed + outcome.before);
  }

  // Units of an earlier scope are recorded where they belong: their folders go.
  void enter_scope() {
    std::string now = options_.scope ? options_.scope() : own_scope_;
    if (now == scope_) return;
    for (const std::string& key : handed_over_) queue_->forget(key);
    handed_over_.clear();
    asked_.clear();
    scope_ = std::move(now);
  }

  Result<record::WorkerResponse> hand_over(const std::string& key, const std::string& content, UnitOutcome outcome) {
    if (outcome.error) {
      queue_->forget(key);
      return *outcome.error;
    }
    record::WorkerResponse response = std::move(outcome.result->response);
    if (!response.error.empty() || !options_.scope) {
      queue_->forget(key);  // an answer that says no is asked for again
    } else {
      ++asked_[content];
      handed_over_.push_back(key);
    }
    if (response.version != record::WorkerResponse{}.version) {
      return make_error(ErrorCode::kCorrupt, "the worker speaks version {}, this program version {}", response.version,
                        record::WorkerResponse{}.version);
    }
    return response;
  }

  void show(const UnitStanding& standing, const std::string& key, const OnProgress& on_progress) const {
    if (!on_progress) return;
    if (!standing.running) {
      on_progress({"waiting for " + name_, standing.reason, 0});
      return;
    }
    const Result<std::string> text = read_file(UnitFolder(options_.queue.root).progress(key));
    const auto now = text ? record::parse_record<record::Progress>(*text, "progress")
                          : Result<record::Progress>(record::Progress{"running", "", 0});
    if (!now) return;
    record::Progress there = *now;
    there.stage = fmt::format("on {}: {}", standing.node, there.stage);
    on_progress(there);
  }

  void rest(double seconds) const {
    if (options_.pause) return options_.pause(seconds);
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  }

  std::unique_ptr<UnitQueue> queue_;
  std::string name_;
  Clock& clock_;
  ClusterExecutorOptions options_;
  std::string own_scope_, scope_;
  std::map<std::string, int> asked_;      // in this scope, by content: how often it was answered
  std::vector<std::string> handed_over_;  // keys of this scope
  double waited_ = 0, since_ = 0;         // since_: of the request under way, before it started
};

}  // namespace

Result<std::unique_ptr<Executor>> make_cluster_executor(std::unique_ptr<Cluster> cluster, Clock& clock,
                                                        ClusterExecutorOptions options) {
  std::string name = cluster->name();
  RIDGE_TRY(queue, UnitQueue::open(std::move(cluster), clock, options.queue));
  return std::unique_ptr<Executor>(
      std::make_unique<ClusterExecutor>(std::move(queue), std::move(name), clock, std::move(options)));
}

}  // namespace ridge::execute
