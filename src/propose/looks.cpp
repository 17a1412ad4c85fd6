#include "propose/looks.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "propose/model.h"
#include "search/tuner.h"

namespace ridge::propose {
namespace {

constexpr std::size_t kEnough = 4;  // looks that ran, before the engine says what it expects
constexpr double kTrust = 0.7;      // in the cost model, before data
constexpr double kLessTrust = 0.3;  // beside what was measured

// What an earlier campaign looked at, of which this space has the values; nothing where that is too little.
std::optional<search::PastSource> source_of(const Space& space, const record::EarlierLooks& earlier) {
  std::map<std::uint64_t, std::optional<double>> seconds;
  for (const record::EarlierLook& look : earlier.looks) {
    const auto number = space.number(space.complete(look.defines));
    if (number && (!look.seconds || *look.seconds > 0)) seconds[*number] = look.seconds;
  }
  record::TuningCache cache;
  cache.parameters = space.points().parameters();
  std::size_t timed = 0;
  for (const auto& [number, time] : seconds) {
    record::TuningRow row{space.points().point(number), time.value_or(0), 0, time ? "" : "failed"};
    timed += time ? 1 : 0;
    cache.rows.push_back(std::move(row));
  }
  if (timed < 2) return std::nullopt;
  auto source = search::PastSource::of(cache);
  return source ? std::optional(std::move(*source)) : std::nullopt;
}

// The cost model as an expectation of the engine; none where it tells no two of them apart.
std::vector<search::Prior> model_prior(const Space& space, const Machine& machine, const std::vector<Config>& among,
                                       double trust) {
  double best = 0, worst = std::numeric_limits<double>::infinity();
  for (const Config& config : among) {
    const double score = score_of(space, config, machine);
    best = std::max(best, score);
    worst = std::min(worst, score);
  }
  if (!(best > worst)) return {};
  const auto value = [&space, &machine, best](const search::Point& point) {
    const double score = std::max(score_of(space, space.config(point), machine), 1e-9);
    return search::shown_beyond(std::max(std::log(best / score), 0.0));
  };
  return {search::Prior{value, {}, trust}};
}

// The fastest of what was looked at already, then the others.
std::vector<Config> fastest_of(const Past& past, std::vector<Config> among, std::size_t size) {
  std::map<Config, double> times;
  for (const Look& one : past.looks) {
    if (one.time) times[one.config] = *one.time;
  }
  const auto time = [&](const Config& config) {
    const auto found = times.find(config);
    return found == times.end() ? std::numeric_limits<double>::infinity() : found->second;
  };
  std::ranges::stable_sort(among, {}, time);
  if (among.size() > size) among.resize(size);
  return among;
}

}  // namespace

Looks choose_looks(const Space& space, const Machine& machine, const Past& past,
                   const std::vector<record::EarlierLooks>& earlier, const std::vector<Config>& among, std::size_t size,
                   std::uint64_t seed) {
  std::vector<std::uint64_t> numbers;
  for (const Config& config : among) {
    if (const auto number = space.number(config)) numbers.push_back(*number);
  }
  Looks looks;
  if (numbers.empty()) return looks;
  std::vector<search::PastSource> sources;  // outlive the tuner
  for (const record::EarlierLooks& one : earlier) {
    if (auto source = source_of(space, one)) sources.push_back(std::move(*source));
  }
  std::vector<search::Prior> priors = search::priors_of(space.points(), sources);
  for (search::Prior& one : model_prior(space, machine, among, sources.empty() ? kTrust : kLessTrust)) {
    priors.push_back(std::move(one));
  }
  search::Tuner tuner(space.points(), seed, std::move(priors), numbers);
  std::size_t ran = 0;
  for (const Look& one : past.looks) {
    const auto number = space.number(one.config);
    if (!number) continue;
    tuner.observe(*number, one.time);
    ran += one.time ? 1 : 0;
  }
  while (looks.configs.size() < size) {
    const std::optional<std::uint64_t> next = tuner.propose();
    if (!next) break;
    if (looks.configs.empty() && ran >= kEnough && past.time > 0) {
      if (const auto expected = tuner.outlook(*next)) {
        looks.outlook = Looks::Outlook{std::log(past.time) - expected->mean, expected->deviation, ran};
      }
    }
    looks.configs.push_back(space.config(*next));
    tuner.suppose(*next);
  }
  // All were looked at, in a round that could not be measured.
  if (looks.configs.empty()) looks.configs = fastest_of(past, among, size);
  return looks;
}

}  // namespace ridge::propose
