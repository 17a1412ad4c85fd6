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

  [[nodiscard]] std::size_t in_flight() const { return in_flight_; }
  [[nodiscard]] std::size_t waiting() const { return waiting_.size(); }
  [[nodiscard]] const QueueCounts& counts() const { return counts_; }
  [[nodiscard]] const std::optional<record::UnitPlace>& device() const { return device_; }
  // Seconds that the node of the last result is ahead of this machine's clock.
  [[nodiscard]] double clock_skew() const { return skew_; }

 private:
  using Turn = std::pair<std::string, std::size_t>;  // batch, number
  struct Unit {
    bool measures = false;
    bool alone = false;        // it was lost or failed in company: from then on it has a job of its own
    double limit = 0;          // seconds that it may run; 0: none
    std::int64_t attempt = 0;  // the last one that was handed over
    int failures = 0;
    std::optional<Turn> turn;  // while the cluster has it
    bool queued = false, running = false;
    double running_since = 0;
    UnitOutcome outcome;
    [[nodiscard]] bool ended() const { return outcome.result || outcome.error; }
  };
  // A job, as the answers of the cluster show it.
  struct Job {
    std::string id, node, reason;  // no id: no answer of the cluster has had it
    bool sure = false;             // the cluster said that it took it, or has it
    bool running = false;
    bool left = false;  // it takes no more units, or was cancelled
    bool gone = false;
    double submitted = 0;
    int missing = 0;  // answers of the cluster in a row that did not have it
    // Whether it may take a unit yet.
    [[nodiscard]] bool takes() const { return !left && !gone; }
  };
  // What was handed over together, while a unit of it is in flight. Job i runs unit i, or all jobs share the units.
  struct Batch {
    bool shared = false;
    std::vector<record::UnitTurn> turns;        // of a shared one: all that were handed over, by number
    std::map<std::size_t, std::string> units;   // that are in flight, by number
    std::map<std::size_t, Job> jobs;            // by number
    std::map<std::size_t, std::size_t> takers;  // of shared ones: units that were taken, and the job that has each
    bool moved = false;                         // a unit of it has ended
  };
  using Units = std::map<std::string, Unit>;

  UnitQueue(std::unique_ptr<Cluster> cluster, Clock& clock, QueueOptions options);

  Status adopt(const std::string& key, Unit& unit);
  [[nodiscard]] Batch read_batch(const std::string& name) const;
  Result<Batch*> adopted_batch(const record::UnitSubmission& submission, const std::string& key);
  Status collect();
  Status settle(const std::string& key, Unit& unit);
  void accept(const std::string& key, Unit& unit, record::UnitResult result);
  void part_company(Unit& unit);
  void failed_attempt(const std::string& key, Unit& unit, Error error, bool for_good);
  void end(const std::string& key, Unit& unit, Error error);
  void enqueue(const std::string& key, Unit& unit);
  void dequeue(const std::string& key, Unit& unit);
  void release(Unit& unit);
  [[nodiscard]] double load_share() const;
  Status poll();
  void see(const ClusterJob& job);
  void never_starts(const std::string& name, const ClusterJob& job);
  Status look_at(const std::string& name);
  Status read_takers(const std::string& name, Batch& batch);
  static std::optional<std::size_t> job_of(const Batch& batch, std::size_t number);
  void watch(const std::string& key, Unit& unit, Job& job);
  Status miss(const std::string& key, Unit& unit, const Job& job);
  Error lost_by(const Job& job, bool& for_good);
  Status deal_again(const std::string& name);
  Status take_back(const std::string& name, const std::vector<std::size_t>& numbers);
  Status give_up(const std::string& name, const std::vector<std::size_t>& numbers);
  void cancel_waiting(const std::string& name, Batch& batch);
  void close_batches();
  [[nodiscard]] std::string withdraw(const std::string& key, const Unit& unit);
  void unreachable(const Error& error);
  Status cancel_orphans(const std::vector<ClusterJob>& jobs);
  Status orphans_of(const std::string& name, std::vector<std::string>& ids);
  [[nodiscard]] std::size_t job_room() const;
  Status submit();
  [[nodiscard]] bool shares(const Unit& unit) const;
  [[nodiscard]] std::size_t jobs_for(std::size_t units, std::size_t there) const;
  std::vector<std::string> next_keys(bool shared);
  Status submit_batch(const std::vector<std::string>& keys, std::size_t jobs, bool shared);
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
  std::map<std::string, Batch> batches_;
  std::size_t in_flight_ = 0;
  std::uint64_t batches_made_ = 0;
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
