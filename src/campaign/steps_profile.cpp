// The step that has the incumbent profiled. It is a look and no measurement: no decision reads a time from it, what it
// takes is charged to the budget, and where it fails the record says why and the campaign goes on.
#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/visible.h"
#include "campaign/campaign.h"
#include "campaign/profile_hook.h"
#include "campaign/state.h"
#include "campaign/termination.h"
#include "record/json.h"

namespace ridge::campaign {
namespace {

constexpr double kProfileSeconds = 30.0;  // at most, and without a wall budget
constexpr double kProfileShare = 0.03;    // of the wall budget
constexpr double kLeastProfileSeconds = 2.0;
constexpr std::size_t kMostKernels = 20;  // of a trace, in the record
// What a profiler wrote is of any length, and a line of the journal is not.
constexpr std::size_t kMostEntries = 100;  // of a list of the report
constexpr std::size_t kTextBytes = 200, kNoteBytes = 1000;

// The case of the shape that is furthest from its bound.
std::vector<record::Case> furthest_case(const State& state) {
  const std::vector<record::RooflinePoint>& points = state.incumbent.roofline;
  const std::vector<record::Case>& cases = state.spec().target_cases;
  const auto worst = std::ranges::min_element(points, {}, &record::RooflinePoint::fraction);
  for (const record::Case& one : cases) {
    if (worst != points.end() && one.label() == worst->label) return {one};
  }
  return {cases.front()};
}

void shorten(Json& value) {
  if (value.is_array() && value.size() > kMostEntries) value.get_ref<Json::array_t&>().resize(kMostEntries);
  if (value.is_string()) value = short_line(value.get_ref<const std::string&>(), kTextBytes);
  if (!value.is_structured()) return;
  for (Json& one : value) shorten(one);
}

// The report with every text, which a project's profiler may have written, in a short line.
Result<record::ProfileReport> shortened(const record::ProfileReport& report) {
  Json json = record::to_json(report);
  shorten(json);
  return record::from_json<record::ProfileReport>(json, "profile");
}

}  // namespace

Status Engine::profile_incumbent() {
  record::Profiled profiled;
  profiled.trigger = profile_trigger(state_);
  profiled.round = state_.incumbent.round;
  profiled.artifact = state_.incumbent.build.artifact;
  RIDGE_CHECK_OK(intend(fmt::format("profile-{}", profiled.artifact.substr(0, 12)), "profile the incumbent"));
  double allowed = kProfileSeconds;
  if (state_.wall_budget > 0)
    allowed = std::min({allowed, kProfileShare * state_.wall_budget, seconds_left(state_, termination_input())});
  if (allowed < kLeastProfileSeconds) {
    profiled.note = fmt::format("the budget leaves {} for a profile, which is less than {}",
                                format_duration(std::max(allowed, 0.0)), format_duration(kLeastProfileSeconds));
    return record(record::EventKind::kProfiled, record::to_json(profiled));
  }
  record::WorkerRequest request = this->request(record::WorkerTask::kProfile);
  request.candidates = {state_.incumbent.candidate};
  request.cases = furthest_case(state_);
  request.time_limit = allowed;
  Result<record::WorkerResponse> response = work(request);
  if (!response && interrupted_) return response.error();
  if (response && response->profile) {
    RIDGE_TRY(report, shortened(*response->profile));
    profiled.report = std::move(report);
    if (profiled.report->kernels.size() > kMostKernels) profiled.report->kernels.resize(kMostKernels);
  } else {
    profiled.note = response ? "the profiler gave no report" : short_line(response.error().text(), kNoteBytes);
  }
  return record(record::EventKind::kProfiled, record::to_json(profiled));
}

}  // namespace ridge::campaign
