// A cluster made of numbers: nodes that run units for stated times, fail at stated rates and are preempted, under a
// virtual clock. The queue that drives it is the real one, and so are the files in the folder of the units.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/coin.h"
#include "execute/cluster.h"

namespace ridge::execute {

struct ScriptedClusterOptions {
  std::size_t nodes = 2;
  std::size_t jobs = std::numeric_limits<std::size_t>::max();  // at once, waiting ones with them
  double start_delay = 1.0;                                    // seconds between a free node and the start of a job
  double failures_per_hour = 0.0;  // of one node, as a chance; it loses its unit, and is back after repair_time
  double repair_time = 600.0;      // seconds
  bool requeue = true;             // a lost unit goes back into the scheduler's queue, else it is gone
  std::uint64_t seed = 1;
  std::function<double(const std::string& key)> duration;  // seconds that a unit runs; empty: 10
  // Where jobs may take several units: the key of the next one that a job takes, `first` when it has just been started;
  // none ends it. Empty: a job runs the unit of its number.
  std::function<std::optional<std::string>(const std::filesystem::path& root, const std::string& batch,
                                           std::size_t index, const std::string& node, bool first)>
      take;
  JobSharing sharing = {};
  // What the process on the node does when a unit ends: writes into the folder of the units. Empty: nothing.
  std::function<void(const std::filesystem::path& root, const std::string& batch, std::size_t index,
                     const std::string& node)>
      execute;
};

// The scheduler and its nodes. It outlives its clients, as a scheduler outlives an engine that is killed.
class ScriptedScheduler {
 public:
  ScriptedScheduler(VirtualClock& clock, ScriptedClusterOptions options);

  std::unique_ptr<Cluster> client();

  // What happens to it, for tests.
  void set_reachable(bool reachable) { reachable_ = reachable; }
  // The next batch is taken, and its answer is lost on the way.
  void lose_next_answer() { lose_answer_ = true; }
  void refuse_submissions(Error error) { refusal_ = std::move(error); }
  void fail_node_of(const std::string& key);  // the node that runs a unit
  void fail_node(std::size_t node) { fail(node, clock_.monotonic()); }
  void preempt(const std::string& key);                     // back into the queue
  void drop(const std::string& key);                        // out of the queue, without a word
  void hold(const std::string& reason) { hold_ = reason; }  // nothing starts; empty: things start again

  struct Account {
    double busy = 0;  // node seconds of units that ended
    double lost = 0;  // node seconds of units that were lost on the way
    std::uint64_t starts = 0, ends = 0, failures = 0;
    std::uint64_t submissions = 0, questions = 0, cancelled = 0;
    std::size_t largest_answer = 0;  // jobs
  };
  [[nodiscard]] const Account& account() const { return account_; }
  [[nodiscard]] std::size_t running() const;
  [[nodiscard]] bool runs(const std::string& key) const;

 private:
  friend class ScriptedClient;
  struct Job {
    std::string batch, key;  // of the unit that it runs or is to run; empty: it has not taken one yet
    std::filesystem::path root;
    std::size_t index = 0;
    std::string id;
    std::size_t node = kNone;
    double started = 0;
    std::uint64_t run = 0;  // of its starts: an end of an earlier one does not count
  };
  struct Event {
    double time = 0;
    enum class Kind { kEnd, kFail, kRepair } kind = Kind::kEnd;
    std::uint64_t job = 0, run = 0;
    std::size_t node = 0;
    bool operator>(const Event& other) const { return time > other.time; }
  };
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  void catch_up();
  void handle(const Event& event);
  void start_jobs(double now);
  bool begin_unit(Job& job, std::uint64_t number, double now, bool first);
  void leave(std::uint64_t number);
  void vacate(Job& job, double now);
  void fail(std::size_t node, double now);
  void expect_failure(std::size_t node, double now);
  Job* job_of(const std::string& key);

  VirtualClock& clock_;
  ScriptedClusterOptions options_;
  Coin coin_;
  std::map<std::uint64_t, Job> jobs_;      // by number: pending and running
  std::map<std::uint64_t, bool> pending_;  // numbers in the order of submission
  std::vector<std::uint64_t> on_node_;     // the job of each node; 0: free
  std::vector<std::size_t> free_;
  std::vector<bool> broken_;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::uint64_t next_job_ = 1;
  bool reachable_ = true, lose_answer_ = false;
  std::string hold_;
  std::optional<Error> refusal_;
  Account account_;
};

}  // namespace ridge::execute
