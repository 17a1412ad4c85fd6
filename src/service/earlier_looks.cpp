#include "service/earlier_looks.h"

#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <map>
#include <optional>

#include "base/error.h"
#include "campaign/campaign.h"
#include "propose/past.h"
#include "record/backend.h"
#include "record/tunables.h"
#include "record/tuning_store_folder.h"
#include "stats/summary.h"

namespace ridge::service {
namespace {

constexpr std::size_t kMostSources = 4;
constexpr double kHertz = 1e3;          // of a kilohertz
constexpr std::size_t kLeastLooks = 4;  // of one source; fewer say nothing

// The operator and the source that declares the tunables: the same for every version of it. Empty: none does.
std::string kernel_of(const campaign::State& state) {
  const record::Candidate& candidate = state.incumbent.candidate;
  for (const record::SourceFile& source : candidate.sources) {
    const auto space = record::parse_tunables(source.text);
    if (space && !space->tunables.empty()) return fmt::format("{} {}", candidate.op, source.path);
  }
  return {};
}

std::string device_of(const campaign::State& state) {
  const std::string_view fact = record::backend_of_name(state.spec().backend).device;
  return state.prepared->environment.fact(fact.empty() ? "cpu.model" : fact, state.spec().backend);
}

std::string problem_of(const campaign::State& state) {
  std::vector<std::string> labels;
  for (const record::Case& one : state.spec().target_cases) labels.push_back(one.label());
  return fmt::format("{}", fmt::join(labels, "; "));
}

std::string origin_of(const campaign::State& state) {
  return fmt::format("{} {}", state.spec().id, state.first_hash.substr(0, 12));
}

bool has_looks(const campaign::State& state) {
  return state.baseline_committed && state.prepared && state.tips && !state.rounds.empty() && !kernel_of(state).empty();
}

// The fastest ones, and of the others as many, evenly spread; failures are the slowest.
void thin(std::vector<record::EarlierLook>& looks, std::size_t most) {
  std::ranges::stable_sort(looks, {}, [](const record::EarlierLook& one) { return one.seconds.value_or(HUGE_VAL); });
  if (looks.size() <= most) return;
  const std::size_t fastest = most / 2, spread = most - fastest, others = looks.size() - fastest;
  for (std::size_t i = 0; i < spread; ++i)
    looks[fastest + i] = record::EarlierLook(looks[fastest + i * others / spread]);
  looks.resize(most);
}

std::optional<record::EarlierLook> look_of(const record::StoredMeasurement& one) {
  record::EarlierLook look{{}, one.seconds};
  for (const auto& [name, text] : one.configuration) {
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), look.defines[name]);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;  // no number: another's kernel
  }
  return look;
}

// From times in units of the roofline bound to seconds: the geometric mean of the bounds.
double unit_of(const record::ProposalRequest& request) {
  std::vector<double> bounds;
  for (const record::RooflinePoint& point : request.roofline) {
    if (point.bound_time > 0) bounds.push_back(point.bound_time);
  }
  return bounds.empty() ? 1 : stats::geomean(bounds);
}

Result<std::vector<record::StoredMeasurement>> looks_of(const campaign::State& state) {
  const record::ProposalRequest request = campaign::proposal_request(state);
  RIDGE_TRY(space, propose::Space::create(request.space));
  record::StoredMeasurement one;
  one.kernel = kernel_of(state);
  one.device = device_of(state);
  one.problem = problem_of(state);
  one.origin = origin_of(state);
  one.compiler = request.environment.fact("compiler");
  if (const std::string clock = request.environment.fact("gpu.core_clock_khz"); !clock.empty())
    one.clocks = record::clocks_text(kHertz * std::strtod(clock.c_str(), nullptr));
  std::vector<record::StoredMeasurement> looks;
  for (const propose::Look& look : propose::digest_history(space, request).looks) {
    one.configuration.clear();
    for (const auto& [name, value] : look.config) one.configuration[name] = std::to_string(value);
    one.seconds.reset();
    if (look.time) one.seconds = *look.time * unit_of(request);
    one.failure = look.time ? "" : "failed";
    looks.push_back(one);
  }
  return looks;
}

}  // namespace

std::vector<record::EarlierLooks> earlier_looks(const Context& context, const campaign::State& state,
                                                std::size_t most) {
  const std::string kernel = kernel_of(state);
  if (kernel.empty() || !state.prepared) return {};
  const auto stored = record::stored_measurements(context.cache_directory, kernel);
  if (!stored) {
    context.note(fmt::format("earlier measurements are not used: {}", stored.error().message));
    return {};
  }
  const std::string mine = origin_of(state), device = device_of(state), problem = problem_of(state);
  std::map<record::TuningSource, std::vector<record::EarlierLook>> sources;
  for (const record::StoredMeasurement& one : *stored) {
    if (one.origin == mine) continue;
    if (const auto look = look_of(one)) sources[record::source_of(one)].push_back(*look);
  }
  std::vector<std::pair<double, record::EarlierLooks>> near;  // with its distance
  for (auto& [source, looks] : sources) {
    if (looks.size() < kLeastLooks) continue;
    near.emplace_back(record::distance(source, device, problem),
                      record::EarlierLooks{source.device, source.problem, std::move(looks)});
  }
  std::ranges::stable_sort(near, [](const auto& a, const auto& b) {
    return std::pair(a.first, b.second.looks.size()) < std::pair(b.first, a.second.looks.size());
  });
  if (near.size() > kMostSources) near.resize(kMostSources);
  std::vector<record::EarlierLooks> found;
  for (auto& [distance, one] : near) found.push_back(std::move(one));
  for (record::EarlierLooks& one : found) thin(one.looks, most);
  return found;
}

void keep_looks(const Context& context, const campaign::State& state) {
  if (!has_looks(state)) return;
  const auto looks = looks_of(state);
  const Status kept = looks ? record::store_measurements(context.cache_directory, *looks) : Status(looks.error());
  if (!kept) context.note(fmt::format("what was looked at is not kept for later campaigns: {}", kept.error().message));
}

}  // namespace ridge::service
