#include "dispatch/earlier_tuning.h"

#include <algorithm>

#include "dispatch/choose.h"
#include "ops/described_kernel.h"
#include "record/tuning_store_folder.h"

namespace ridge::dispatch {
namespace {

constexpr std::size_t kMostSources = 4;
constexpr std::size_t kLeastLooks = 3;  // that ran, of one source; fewer say nothing
constexpr double kFarthest = 6;         // problems farther apart say nothing of each other
constexpr std::chrono::seconds kBetweenWrites{5};
constexpr double kBehindWinner = 1.05;  // of a table's other configurations: it does not say how far they were

}  // namespace

std::string kernel_of(const ops::Operator& op, const ops::Implementation& implementation) {
  return fmt::format("{} {}", op.name, implementation.source.empty() ? implementation.name : implementation.source);
}

std::map<std::string, std::string> values_of(const ops::Implementation& implementation, int configuration) {
  const std::string& name = implementation.configurations[static_cast<std::size_t>(configuration)];
  if (implementation.source.empty()) return {{"configuration", name}};
  const record::KernelDescription& kernel = ops::described_kernel(implementation.source).description();
  std::map<std::string, std::string> values;
  for (const auto& [tunable, value] : kernel.complete(kernel.find(name)->values)) {
    values[tunable] = std::to_string(value);
  }
  return values;
}

EarlierTuning::EarlierTuning(const ops::Operator& op, std::filesystem::path cache, TunedTable tables)
    : op_(op), cache_(std::move(cache)), tables_(std::move(tables)) {}

EarlierTuning::Groups& EarlierTuning::groups_of(const ops::Implementation& implementation) {
  const std::string kernel = kernel_of(op_, implementation);
  const auto known = kernels_.find(kernel);
  if (known != kernels_.end()) return known->second;
  Groups& groups = kernels_[kernel];
  add_winners(groups, implementation);
  if (cache_.empty()) return groups;
  auto stored = record::stored_measurements(cache_, kernel);
  if (!stored) {
    warn_once(fmt::format("earlier measurements are not used: {}", stored.error().text()));
    return groups;
  }
  for (record::StoredMeasurement& one : *stored) groups[record::source_of(one)].push_back(std::move(one));
  return groups;
}

// A line of a table tells one configuration from all others.
void EarlierTuning::add_winners(Groups& groups, const ops::Implementation& implementation) const {
  for (const auto& [key, line] : tables_.choices()) {
    if (line.bucket.op != op_.name || line.implementation != implementation.name) continue;
    if (std::ranges::count(implementation.configurations, line.configuration) == 0) continue;
    record::StoredMeasurement one;
    one.device = line.device;
    one.problem = line.bucket.label();
    one.origin = "tuned table";
    for (std::size_t i = 0; i < implementation.configurations.size(); ++i) {
      one.configuration = values_of(implementation, static_cast<int>(i));
      one.seconds = implementation.configurations[i] == line.configuration ? 1 : kBehindWinner;
      groups[record::source_of(one)].push_back(one);
    }
  }
}

std::vector<search::PastSource> EarlierTuning::sources(const ops::Implementation& implementation,
                                                       const ops::Problem& problem, const ops::DeviceInfo& device) {
  const std::string label = problem.problem_case.label();
  std::vector<std::pair<double, const std::vector<record::StoredMeasurement>*>> near;
  for (const auto& [source, group] : groups_of(implementation)) {
    const auto ran = std::ranges::count_if(group, [](const auto& one) { return one.seconds.has_value(); });
    if (ran < static_cast<std::ptrdiff_t>(kLeastLooks)) continue;
    const double distance = record::distance(source, device.name, label);
    if (distance <= kFarthest) near.emplace_back(distance, &group);
  }
  std::ranges::stable_sort(near, {}, [](const auto& one) { return one.first; });
  std::vector<search::PastSource> sources;
  for (std::size_t i = 0; i < std::min(near.size(), kMostSources); ++i) {
    auto source = search::PastSource::of(record::recording_of(*near[i].second));
    if (source) sources.push_back(std::move(*source));
  }
  return sources;
}

void EarlierTuning::add(const ops::Implementation& implementation,
                        const std::vector<record::StoredMeasurement>& measurements) {
  if (measurements.empty()) return;
  Groups& groups = groups_of(implementation);
  groups[record::source_of(measurements.front())] = measurements;
  if (cache_.empty()) return;
  auto& waiting = not_kept_[measurements.front().kernel];
  waiting.insert(waiting.end(), measurements.begin(), measurements.end());
  if (std::chrono::steady_clock::now() - kept_at_ > kBetweenWrites) keep();
}

void EarlierTuning::keep() {
  for (const auto& [kernel, measurements] : not_kept_) {
    const Status kept = record::store_measurements(cache_, measurements);
    if (!kept) warn_once(fmt::format("what was measured is not kept for later: {}", kept.error().text()));
  }
  not_kept_.clear();
  kept_at_ = std::chrono::steady_clock::now();
}

EarlierTuning::~EarlierTuning() { keep(); }

}  // namespace ridge::dispatch
