// Takes units, hands them to a cluster in batches, follows all of them by one question at a time, and collects what
// they left in the shared folder. Nothing of it blocks: one step() looks once, so that a virtual clock can drive it.
//
// What is known of a unit stands in its folder, so that a process that takes the queue over after a crash goes on: a
// result is taken, a job that runs is followed, and what was left by the earlier process and is not asked for again is
// cancelled.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "execute/cluster.h"
#include "execute/unit.h"

namespace ridge::execute {

struct QueueOptions {
  std::filesystem::path root;  // of the units; one process at a time
  std::string version, who;    // see record::UnitOrder
  double wait_for_quiet = 0;   // in all; what a unit waited is no more to be waited by the next
  bool one_device = false;     // what measures runs where the first unit did that measured
  std::function<void(std::string_view)> on_note = {};
  std::size_t most_in_flight = 1000;
  int most_attempts = 3;             // that fail or are lost, of one unit
  double shortest_poll = 1.0;        // seconds between two questions to the cluster, with one unit in flight
  double longest_poll = 10.0;        // and with hundreds
  double vanish_grace = 15.0;        // seconds that a file of another machine may take to be seen here
  double cluster_patience = 1800.0;  // seconds that the cluster may not be reached
  double grace = 300.0;              // seconds that a unit may run beyond its own limit
};

// What a unit is doing, for people.
struct UnitStanding {
  bool running = false;
  std::string node, reason;
};

struct UnitOutcome {
  std::optional<record::UnitResult> result;
  std::optional<Error> error;
  double before = 0;  // seconds that an earlier process had been waiting for it, at most
};

// How often the outside was asked, for tests and simulations.
struct QueueCounts {
  std::uint64_t submissions = 0, polls = 0, cancels = 0, listings = 0, lost = 0, failed = 0, attempts = 0;
};

class UnitQueue {
 public:
  static Result<std::unique_ptr<UnitQueue>> open(std::unique_ptr<Cluster> cluster, Clock& clock, QueueOptions options);

  // Puts a unit in and gives its key. One that is there already, or was when an earlier process ended, is the same.
  Result<std::string> add(const record::WorkerRequest& request, std::string_view scope);
  // Looks once. An Error is what no unit can be blamed for: the folder cannot be read or written.
  Status step();
  // Seconds until it is worth looking again.
  [[nodiscard]] double pause() const;
  // Units that have an outcome since this was asked, in the order in which it came.
  std::vector<std::string> take_ended() { return std::exchange(ended_, {}); }
  // The outcome of a unit, once.
  std::optional<UnitOutcome> take(const std::string& key);
  [[nodiscard]] std::optional<UnitStanding> standing(const std::string& key) const;
  // Cancels the jobs of units and removes what they left.
  Status cancel(const std::vector<std::string>& keys);
  // Removes the folder of a unit that was taken.
  void forget(const std::string& key);

  [[nodiscard]] std::size_t in_flight() const { return by_turn_.size(); }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const QueueCounts& counts() const { return counts_; }
  [[nodiscard]] const std::optional<record::UnitPlace>& device() const { return device_; }
  // Seconds that the node of the last result is ahead of this machine's clock.
  [[nodiscard]] double clock_skew() const { return skew_; }

 private:
  using Turn = std::pair<std::string, std::size_t>;  // batch, number
  struct Unit {
    bool measures = false;
    double limit = 0;          // seconds that it may run; 0: none
    std::int64_t attempt = 0;  // the last one that was handed over
    int failures = 0;
    std::optional<Turn> turn;  // while the cluster has it
    std::string id, node, reason;
    bool queued = false, running = false, sure = false;  // sure: the cluster said that it has it
    double submitted = 0, running_since = 0;
    int missing = 0;  // answers of the cluster in a row that did not have it
    UnitOutcome outcome;
    [[nodiscard]] bool ended() const { return outcome.result || outcome.error; }
  };
  using Units = std::map<std::string, Unit>;

  UnitQueue(std::unique_ptr<Cluster> cluster, Clock& clock, QueueOptions options);

  Status adopt(const std::string& key, Unit& unit);
  Status collect();
  Status settle(const std::string& key, Unit& unit);
  void accept(const std::string& key, Unit& unit, record::UnitResult result);
  void failed_attempt(const std::string& key, Unit& unit, Error error, bool for_good);
  void end(const std::string& key, Unit& unit, Error error);
  void enqueue(const std::string& key, Unit& unit);
  void release(Unit& unit);
  [[nodiscard]] double load_share() const;
  Status poll();
  void see(const ClusterJob& job);
  Status miss(const std::string& key, Unit& unit);
  void watch_limit(const std::string& key, Unit& unit);
  void unreachable(const Error& error);
  void cancel_orphans(const std::vector<ClusterJob>& jobs);
  Status submit();
  Status submit_batch(std::vector<std::string> keys);
  void note(std::string_view text) const;

  std::unique_ptr<Cluster> cluster_;
  Clock& clock_;
  QueueOptions options_;
  UnitFolder folder_;
  std::string nonce_, prefix_;
  double offset_ = 0, skew_ = 0;
  std::optional<record::UnitPlace> device_;
  Units units_;
  std::deque<std::string> waiting_;
  std::vector<std::string> ended_;
  std::map<Turn, std::string> by_turn_;
  std::uint64_t batches_ = 0;
  double next_poll_ = 0, next_submit_ = 0;
  std::optional<double> unreachable_since_;
  bool swept_ = false;  // what an earlier process left is cancelled
  QueueCounts counts_;
};

// Answers requests through a queue, one or several at once. `scope` names what is asked for beyond its content, for
// instance the state of a campaign: a request that is asked again in one scope by a later process has the result of the
// first, and each of several equal ones its own, by their order. Empty: every asking is a new one, and the folder of
// the units, which is of this executor alone, goes with it.
struct ClusterExecutorOptions {
  QueueOptions queue;
  std::function<std::string()> scope;
  std::function<void(double)> pause;  // waits so many seconds; empty: sleeps
};
Result<std::unique_ptr<Executor>> make_cluster_executor(std::unique_ptr<Cluster> cluster, Clock& clock,
                                                        ClusterExecutorOptions options);

}  // namespace ridge::execute
