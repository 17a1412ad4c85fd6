// Error rates and power of the decision procedure, simulated launch by launch with known truth, by the code that
// campaigns decide with. Prints one JSON document.
//
//   bench_decisions [--campaigns N] [--trials N] [--seed S] [--commit HASH] > bench/results/simulation/decisions.json
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>

#include "stats/launch_model.h"

namespace {

using namespace ridge::stats;
using Json = nlohmann::ordered_json;

struct Options {
  int campaigns = 200, trials = 2000;
  std::uint64_t seed = 20261121;
  std::string commit = "unknown";
};

struct Null {
  const char* name;
  double effect;
};

Json null_campaigns(const NoiseLevel& level, const Null& null, const Options& options) {
  const SequentialRule rule;
  RandomStream random(options.seed);
  int with_false_accept = 0;
  std::int64_t false_accepts = 0, sessions = 0;
  for (int campaign = 0; campaign < options.campaigns; ++campaign) {
    bool any = false;
    for (int k = 0; k < rule.max_decisions; ++k) {
      const SequentialResult result = simulate_decision(random, level, null.effect, rule);
      sessions += result.sessions;
      if (result.verdict != Verdict::kAccept) continue;
      ++false_accepts;
      any = true;
    }
    with_false_accept += any ? 1 : 0;
  }
  return {{"null", null.name},
          {"campaigns", options.campaigns},
          {"decisions", options.campaigns * rule.max_decisions},
          {"false_accepts", false_accepts},
          {"campaigns_with_a_false_accept", with_false_accept},
          {"share_of_campaigns", with_false_accept / static_cast<double>(options.campaigns)},
          {"confirmation_sessions_per_campaign", static_cast<double>(sessions) / options.campaigns}};
}

Json power(const NoiseLevel& level, double sigma, double sigmas_above, const Options& options) {
  const SequentialRule rule;
  RandomStream random(options.seed + 1);
  int accepted = 0, accepted_with_screening = 0;
  std::int64_t sessions = 0;
  const double effect = rule.threshold() + sigmas_above * sigma;
  for (int i = 0; i < options.trials; ++i) {
    const SequentialResult result = simulate_decision(random, level, effect, rule, {}, false);
    accepted += result.verdict == Verdict::kAccept ? 1 : 0;
    sessions += result.sessions;
    accepted_with_screening += simulate_decision(random, level, effect, rule).verdict == Verdict::kAccept ? 1 : 0;
  }
  const double trials = options.trials;
  return {{"sigmas_above_the_margin", sigmas_above},
          {"effect_percent", 100 * std::expm1(effect)},
          {"trials", options.trials},
          {"accepted", accepted / trials},
          {"accepted_with_screening", accepted_with_screening / trials},
          {"mean_sessions", static_cast<double>(sessions) / trials}};
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  for (int i = 1; i + 1 < argc; i += 2) {
    const std::string name = argv[i], value = argv[i + 1];
    if (name == "--campaigns")
      options.campaigns = std::atoi(value.c_str());
    else if (name == "--trials")
      options.trials = std::atoi(value.c_str());
    else if (name == "--seed")
      options.seed = std::strtoull(value.c_str(), nullptr, 10);
    else if (name == "--commit")
      options.commit = value;
    else
      return fmt::print(stderr, "unknown argument {}\n", name), 2;
  }
  const auto start = std::chrono::steady_clock::now();
  const SequentialRule rule;
  Json document = {{"what", "simulated decisions of known truth"},
                   {"commit", options.commit},
                   {"seed", options.seed},
                   {"rule",
                    {{"min_effect", rule.min_effect},
                     {"alpha", rule.alpha},
                     {"max_decisions", rule.max_decisions},
                     {"max_sessions", rule.max_sessions},
                     {"quads", SessionShape{}.quads},
                     {"launches", SessionShape{}.launches}}},
                   {"levels", Json::array()}};
  for (const NoiseLevel& level : usual_noise_levels()) {
    RandomStream random(options.seed + 2);
    const double sigma = simulated_sigma(random, level, 20000);
    Json entry = {{"level", level.name},
                  {"tau", level.tau},
                  {"sigma", level.sigma},
                  {"rho", level.rho},
                  {"drift_per_launch", level.drift},
                  {"sigma_of_a_session", sigma},
                  {"null", Json::array()},
                  {"power", Json::array()}};
    for (const Null& null : {Null{"no difference", 0.0}, Null{"exactly the smallest effect", rule.threshold()}}) {
      entry["null"].push_back(null_campaigns(level, null, options));
    }
    for (const double above : {0.5, 1.0, 1.5, 2.0, 3.0}) entry["power"].push_back(power(level, sigma, above, options));
    document["levels"].push_back(std::move(entry));
    fmt::print(stderr, "{}: done\n", level.name);
  }
  document["seconds"] = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  fmt::print("{}\n", document.dump(2));
  return 0;
}
