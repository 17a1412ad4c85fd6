// A scheduler, or a few machines, as the queue of units sees it: takes batches, and says in one answer what became of
// all of them. Slurm and SSH implement it; a scripted one stands in for tests and simulations.
#pragma once

#include <cstddef>
#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "ridge/result.h"

namespace ridge::execute {

// Units that are handed over together, on one machine or on many. Job number i runs unit i, or all jobs share the
// units.
struct ClusterBatch {
  std::string name;               // unique; jobs() knows it by that
  std::filesystem::path root;     // of the units (execute/unit.h)
  std::vector<std::string> keys;  // number i is keys[i]
  std::size_t jobs = 0;           // to be started, with the numbers from 0 on
  bool measures = false;          // wants a device to itself
  std::string node;               // has to run there; empty: anywhere
};

enum class JobState { kWaiting, kRunning };

// A job that the scheduler has and that has not ended.
struct ClusterJob {
  std::string batch;
  std::size_t index = 0;  // its number
  std::string id;         // for cancel() and fate()
  JobState state = JobState::kWaiting;
  std::string node, reason;  // where it runs; why it waits
  bool hopeless = false;     // it will wait for ever
};

// How many units a job may take, one after the other, of those that want no device to themselves.
struct JobSharing {
  std::size_t most = 1;  // 1: every unit has a job of its own; 0: as many as there are
  double stay = 0;       // seconds after which a job takes no further one; 0: no limit
};

// Why a job is gone that left no result.
struct JobFate {
  std::string text;       // "NODE_FAIL", "exit code 127: ridge: not found"
  bool for_good = false;  // another attempt would end the same way
  std::string hint;
};

class Cluster {
 public:
  virtual ~Cluster() = default;
  [[nodiscard]] virtual std::string name() const = 0;  // for messages: "Slurm", "gpu1, gpu2"
  // Units that can be counted on to run at once.
  [[nodiscard]] virtual std::size_t width() const { return 1; }
  // The most jobs at once, and units in a batch.
  [[nodiscard]] virtual std::size_t capacity() const { return std::numeric_limits<std::size_t>::max(); }
  [[nodiscard]] virtual std::size_t most_in_batch() const { return 500; }
  [[nodiscard]] virtual JobSharing sharing() const { return {}; }
  // kTimeout: it cannot be reached just now, and may have taken the batch or not. Any other Error is for good.
  virtual Status submit(const ClusterBatch& batch) = 0;
  // All jobs of batches whose names begin with `prefix`. kTimeout: it cannot be reached just now.
  virtual Result<std::vector<ClusterJob>> jobs(const std::string& prefix) = 0;
  virtual Status cancel(const std::vector<std::string>& ids) = 0;
  virtual JobFate fate(const std::string& id) = 0;
};

}  // namespace ridge::execute
