// What is known of an implementation's configurations before a case is tuned: what this process measured, what earlier
// ones and campaigns on the same kernel kept in the cache folder, and which ones won in the tables that ship, on this
// device or another.
#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <string>
#include <vector>

#include "dispatch/tuned.h"
#include "ops/op.h"
#include "record/tuning_store.h"
#include "search/past.h"

namespace ridge::dispatch {

// What the store of measurements knows the kernel of an implementation by: operator and source, as campaigns on it do.
std::string kernel_of(const ops::Operator& op, const ops::Implementation& implementation);
// A configuration as the store has it: the values of its tunables, or of a kernel that does not describe them its name.
std::map<std::string, std::string> values_of(const ops::Implementation& implementation, int configuration);

class EarlierTuning {
 public:
  // `cache`: of the store; empty: nothing is read or kept. `tables`: whose winners count, on whatever device.
  EarlierTuning(const ops::Operator& op, std::filesystem::path cache, TunedTable tables);
  EarlierTuning(const EarlierTuning&) = delete;
  EarlierTuning& operator=(const EarlierTuning&) = delete;
  ~EarlierTuning();  // keeps what is not kept yet

  // The few most like the problem: in kind, sizes and device.
  std::vector<search::PastSource> sources(const ops::Implementation& implementation, const ops::Problem& problem,
                                          const ops::DeviceInfo& device);
  // Adds what was measured of a bucket, instead of what an earlier call measured of it. It is in the store some seconds
  // later, because that is read and written as a whole, or at the end. One that cannot be read or written is said
  // through on_fallback() once: the choice is kept all the same.
  void add(const ops::Implementation& implementation, const std::vector<record::StoredMeasurement>& measurements);

 private:
  using Groups = std::map<record::TuningSource, std::vector<record::StoredMeasurement>>;
  Groups& groups_of(const ops::Implementation& implementation);
  void add_winners(Groups& groups, const ops::Implementation& implementation) const;
  void keep();

  const ops::Operator& op_;
  std::filesystem::path cache_;
  TunedTable tables_;
  std::map<std::string, Groups> kernels_;                                   // those that were asked for
  std::map<std::string, std::vector<record::StoredMeasurement>> not_kept_;  // by kernel
  std::chrono::steady_clock::time_point kept_at_ = std::chrono::steady_clock::now();
};

}  // namespace ridge::dispatch
