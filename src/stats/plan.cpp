#include <algorithm>
#include <cmath>
#include <vector>

#include "base/error.h"
#include "stats/decide.h"

namespace ridge::stats {
namespace {

constexpr double kGoodMargin = 3;           // 3 sigma per session: 13.1 sessions on average, power 1
constexpr double kGoodShapeMargin = 2;      // 2 sigma: 14.6 sessions; the suite's own test takes 13
constexpr double kFullWork = 40;            // Q m = 8 * 5
constexpr double kSingleLaunchGain = 3;     // x
constexpr double kSingleLaunchCall = 0.02;  // seconds

struct Block {
  int quads, launches;
  [[nodiscard]] int work() const { return quads * launches; }
};

// Every allowed block once, cheapest first; of equal cost the one with more quads (drift cancels per quad).
std::vector<Block> blocks(int max_quads, int max_launches) {
  std::vector<Block> all;
  for (int q = 1; q <= max_quads; ++q) {
    for (int m = std::min(3, max_launches); m <= max_launches; ++m) all.push_back({q, m});
  }
  std::sort(all.begin(), all.end(), [](const Block& x, const Block& y) {
    return x.work() != y.work() ? x.work() < y.work() : x.quads > y.quads;
  });
  return all;
}

// Noise of sessions with `work` launches, relative to those with kFullWork.
double relative_noise(double work, const PlanInput& input) {
  return std::sqrt(input.session_share + (1 - input.session_share) * kFullWork / work);
}

// Scales a sigma of the calibration sessions to sessions with `work` launches.
double scale_of(int work, const PlanInput& input) {
  return relative_noise(std::max(work, 1), input) / relative_noise(std::max(input.calibration_work, 1), input);
}

double session_time(const Block& block, const PlanInput& input) {
  return input.session_overhead + 4.0 * block.work() * input.launch_cost;
}

}  // namespace

Plan plan_sessions(const PlanInput& input, const SequentialRule& rule) {
  const double effect =
      input.screened_effect - input.sigma_session * scale_of(input.screening_work, input) - rule.threshold();
  // What the screening session shows of its slowest shape counts as room, less that session's own noise.
  const double shape_room =
      input.shape_margin +
      std::max(0.0, input.screened_shape - input.sigma_shape * scale_of(input.screening_work, input));
  const auto margin = [&](const Block& block) {
    const double sigma = input.sigma_session * scale_of(block.work(), input);
    return sigma > 0 ? effect / sigma : (effect > 0 ? HUGE_VAL : 0.0);
  };
  const auto good = [&](const Block& block) {
    const double shape_sigma = input.sigma_shape * scale_of(block.work(), input);
    return margin(block) >= kGoodMargin && shape_room >= kGoodShapeMargin * shape_sigma;
  };
  const int sessions = rule.shortest_accept();
  const auto decision_time = [&](const Block& block) { return sessions * session_time(block, input); };
  const auto affordable = [&](const Block& block) { return input.budget <= 0 || decision_time(block) <= input.budget; };

  std::vector<Block> choices = blocks(std::max(input.max_quads, 1), std::max(input.max_launches, 1));
  const bool single = input.screened_effect > std::log(kSingleLaunchGain) && input.call_latency > kSingleLaunchCall;
  if (single) choices.insert(choices.begin(), {1, 1});

  const auto found = std::find_if(choices.begin(), choices.end(), good);
  Block chosen = found != choices.end() ? *found : choices.back();
  const bool wanted_fits = affordable(chosen);
  if (!wanted_fits) {
    chosen = choices.front();
    for (const Block& block : choices) {
      if (affordable(block)) chosen = block;
    }
  }

  Plan plan{.quads = chosen.quads,
            .launches = chosen.launches,
            .margin = margin(chosen),
            .session_time = session_time(chosen, input),
            .decision_time = decision_time(chosen),
            .within_budget = affordable(chosen),
            .reason = {}};
  plan.reason = fmt::format(
      "Q = {}, m = {}: the screened effect of {:.3g} % is {:.3g} sigma above {:.3g} % in such a session", plan.quads,
      plan.launches, 100 * std::expm1(input.screened_effect), plan.margin, 100 * rule.min_effect);
  if (!wanted_fits) plan.reason += fmt::format("; cut to the budget of {:.3g} s", input.budget);
  if (!plan.within_budget)
    plan.reason += fmt::format(", which even the smallest block exceeds ({:.3g} s)", plan.decision_time);
  return plan;
}

}  // namespace ridge::stats
