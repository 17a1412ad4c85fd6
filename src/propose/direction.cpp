#include "propose/direction.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "base/error.h"

namespace ridge::propose {

std::string percent(double fraction) { return fmt::format("{:.3g} %", 100 * fraction); }
namespace {

// The gain at which an option without a prediction is worth a try, and below which loss one is not tried.
constexpr double kCuriosity = 0.01, kHopeless = -0.05;
// Tuning again what was already accepted pays less than a first attempt.
constexpr double kRetuneGain = 0.015;

// One direction per option, one per group of them; the same of parameters where they are asked for.
std::vector<Direction> families(const Space& space, bool parameters) {
  std::vector<Direction> found;
  for (const record::Tunable& tunable : space.declared().tunables) {
    if (!parameters && is_parameter(space, tunable)) continue;
    const auto same_group = [&](const Direction& d) {
      return !tunable.group.empty() && space.find(d.names[0])->group == tunable.group;
    };
    if (const auto group = std::ranges::find_if(found, same_group); group != found.end()) {
      group->names.push_back(tunable.name);
      group->mechanism += "+" + tunable.name;
      group->effect += "; " + tunable.effect;
      if (memory_share(tunable.model) > memory_share(group->role)) group->role = tunable.model;
      continue;
    }
    Direction direction;
    direction.mechanism = tunable.name;
    direction.title = tunable.group.empty() ? tunable.title : tunable.group;
    direction.category = tunable.category;
    direction.role = tunable.model;
    direction.effect = tunable.effect;
    direction.names = {tunable.name};
    found.push_back(std::move(direction));
  }
  return found;
}

// A number that depends on the configuration alone: spreads equals over a sweep instead of taking them in listed order.
std::uint64_t scatter(const Config& config) {
  std::uint64_t digest = 0;
  for (const auto& [name, value] : config) digest = Random(digest ^ static_cast<std::uint64_t>(value)).next();
  return digest;
}

}  // namespace

bool is_parameter(const Space& space, const record::Tunable& tunable) {
  constexpr std::string_view kParameter = "parameter";
  if (tunable.kind == kParameter) return true;
  return !tunable.group.empty() && std::ranges::any_of(space.declared().tunables, [&](const record::Tunable& other) {
    return other.group == tunable.group && other.kind == kParameter;
  });
}

bool fits_machine(const Space& space, const Config& config, const Machine& machine) {
  if (machine.gpu) return true;
  const Roles roles = roles_of(space, config);
  return roles.lanes <= machine.lanes && roles.threads <= machine.threads;
}

void rank(const Space& space, const Machine& machine, std::vector<Config>& configs) {
  const auto key = [&](const Config& config) { return std::pair(-score_of(space, config, machine), scatter(config)); };
  std::ranges::sort(configs, {}, key);
}

Standing where_it_stands(const Space& space, const Machine& machine, const record::ProposalRequest& request) {
  Standing standing;
  standing.config = space.complete(request.incumbent.defines);
  standing.issue = issue_of(space, standing.config, machine);
  for (const record::RooflinePoint& point : request.roofline) {
    if (!(point.fraction > 0)) continue;
    if (standing.worst_fraction > 0 && !(point.fraction < standing.worst_fraction)) continue;
    standing.worst_fraction = point.fraction;
    standing.worst_label = point.label;
  }
  const double attained = attained_fraction(request);
  standing.measured = attained > 0;
  standing.fraction = standing.measured ? std::min(1.0, attained) : standing.issue.fraction;
  standing.memory_time = std::max(0.0, 1 / standing.fraction - 1 / standing.issue.fraction);
  return standing;
}

Prediction predict(const Space& space, const Machine& machine, const Standing& standing, const Config& config,
                   double credit) {
  Prediction prediction;
  prediction.issue = issue_of(space, config, machine);
  const double now = 1 / standing.fraction;
  const double issue_now = 1 / standing.issue.fraction, issue_then = 1 / prediction.issue.fraction;
  // The part of the time that issue explains scales with the model; the rest is memory, of which `credit` goes away.
  const double explained = std::min(now, issue_now);
  const double memory_then = (1 - credit) * standing.memory_time;
  const double then = std::max(1.0, explained * issue_then / issue_now + memory_then);
  prediction.gain = now / then - 1;
  prediction.arithmetic = fmt::format(
      "in units of the bound: now 1/{:.4g} = {:.4g}, of which issue {:.4g} and memory {:.4g}; issue limit {} -> {}, "
      "memory x {:.2f}: {:.4g}; {:.4g} / {:.4g} - 1 = {:+.1f} %",
      standing.fraction, now, explained, standing.memory_time, percent(standing.issue.fraction),
      percent(prediction.issue.fraction), 1 - credit, then, now, then, 100 * prediction.gain);
  return prediction;
}

std::vector<Direction> open_directions(const Space& space, const Machine& machine, const Standing& standing,
                                       const Past& past, bool parameters) {
  std::vector<Direction> open;
  for (Direction& direction : families(space, parameters)) {
    direction.retune = past.may_retune(direction.mechanism);
    if (past.tried(direction.mechanism) && !direction.retune) continue;
    std::erase_if(direction.names,
                  [&](const std::string& name) { return !space.active(*space.find(name), standing.config); });
    if (direction.names.empty()) continue;
    direction.configs = space.vary(standing.config, direction.names);
    std::erase_if(direction.configs, [&](const Config& config) {
      return past.seen.contains(config) || !fits_machine(space, config, machine);
    });
    if (direction.configs.empty()) continue;
    rank(space, machine, direction.configs);
    direction.prediction =
        predict(space, machine, standing, direction.configs[0], direction.retune ? 0 : memory_share(direction.role));
    double& gain = direction.prediction.gain;
    if (gain < kHopeless) continue;
    if (direction.retune && gain < kRetuneGain) {
      gain = kRetuneGain;
      direction.prediction.arithmetic +=
          fmt::format("; what it interacts with has changed since round {}, which is worth {} as a rule of thumb",
                      past.attempts.at(direction.mechanism).round, percent(kRetuneGain));
    } else if (gain < kCuriosity) {
      gain = kCuriosity;
      direction.prediction.arithmetic +=
          fmt::format("; the model sees nothing here, {} is the least a look is made for", percent(kCuriosity));
    }
    open.push_back(std::move(direction));
  }
  return open;
}

}  // namespace ridge::propose
