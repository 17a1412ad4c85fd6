#include "campaign/baseline.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/error.h"
#include "campaign/project_table.h"
#include "campaign/state.h"

namespace ridge::campaign {
namespace {

constexpr std::size_t kMostRepresentatives = 5;

std::string noise_problem(const record::CampaignSpec& spec, const std::vector<record::Session>& sessions) {
  const double floor = noise_floor(spec);
  for (const SignalToNoise& one : worst_noise(sessions)) {
    if (!(one.worst < floor)) continue;
    return fmt::format(
        "the baseline's {} on {} is {:.4g} dB, below the floor of {:.4g} dB, and every candidate like it would be "
        "rejected: lower benchmark.min_snr_db, and begin a new campaign",
        one.column, one.label, one.worst, floor);
  }
  return {};
}

}  // namespace

std::vector<std::string> representative_shapes(const std::vector<record::RooflinePoint>& points,
                                               const std::vector<double>& noise_by_shape) {
  std::vector<std::size_t> order(points.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto work = [&](std::size_t i) { return std::max(points[i].cost.flop, points[i].cost.bytes); };
  std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return work(a) < work(b); });
  std::vector<std::size_t> chosen = order;
  if (order.size() > kMostRepresentatives) {
    chosen = {order.front(), order[order.size() / 2], order.back()};
    const auto noise = [&](std::size_t i) { return i < noise_by_shape.size() ? noise_by_shape[i] : 0.0; };
    std::stable_sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return noise(a) > noise(b); });
    for (const std::size_t i : order) {
      if (chosen.size() == kMostRepresentatives) break;
      if (std::find(chosen.begin(), chosen.end(), i) == chosen.end()) chosen.push_back(i);
    }
    std::sort(chosen.begin(), chosen.end());
  }
  std::vector<std::string> labels;
  for (const std::size_t i : chosen) labels.push_back(points[i].label);
  return labels;
}

std::string baseline_problem(const record::CampaignSpec& spec, const record::Evaluation& evaluation) {
  const std::vector<std::string> labels = labels_of(spec.target_cases);
  if (evaluation.outcome == record::Outcome::kCompile) return "the baseline does not compile: " + evaluation.detail;
  if (evaluation.outcome == record::Outcome::kHarnessFault) return "the harness failed: " + evaluation.detail;
  for (const std::string& label : labels) {
    const auto row = std::find_if(evaluation.checks.begin(), evaluation.checks.end(),
                                  [&](const record::CheckRow& check) { return check.label == label; });
    if (row == evaluation.checks.end()) {
      if (evaluation.outcome == record::Outcome::kPass) return fmt::format("the baseline was not checked on {}", label);
      return fmt::format("the baseline was not checked on {}: {} {}", label, record::name_of(evaluation.outcome),
                         evaluation.detail);
    }
    if (row->outcome == record::Outcome::kNotClaimed || row->outcome == record::Outcome::kDeclined) {
      return fmt::format("the baseline does not compute {}: {}", label, row->detail);
    }
    if (row->outcome != record::Outcome::kPass) {
      return fmt::format("the baseline is wrong on {}: {} {}", label, record::name_of(row->outcome), row->detail);
    }
    const auto point = std::find_if(evaluation.roofline.begin(), evaluation.roofline.end(),
                                    [&](const record::RooflinePoint& one) { return one.label == label; });
    if (point == evaluation.roofline.end() && all_void(evaluation.sessions)) {
      return "the machine is too busy to measure the baseline: " + evaluation.sessions.back().void_reason;
    }
    if (point == evaluation.roofline.end() && !evaluation.detail.empty()) {
      return fmt::format("the baseline was not measured on {}: {} {}", label, record::name_of(evaluation.outcome),
                         evaluation.detail);
    }
    if (point == evaluation.roofline.end() || !(point->bound_time > 0)) {
      return fmt::format("the roofline bound of {} is not known", label);
    }
  }
  return noise_problem(spec, evaluation.sessions);
}

}  // namespace ridge::campaign
