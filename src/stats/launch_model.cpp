#include "stats/launch_model.h"

#include <array>
#include <cmath>
#include <numbers>

#include "stats/summary.h"

namespace ridge::stats {
namespace {

constexpr double kDisturbed = 0.03;
constexpr double kDisturbance = 10;  // mean, in sigma

// The launches of one session, in order.
class Machine {
 public:
  Machine(RandomStream& random, const NoiseLevel& level, double effect)
      : random_(random),
        level_(level),
        candidate_(-effect + level.tau * random.normal()),
        drift_(random.coin() ? level.drift : -level.drift),
        error_(level.sigma * random.normal()) {}

  double launch(bool candidate) {
    const double fresh = std::sqrt(1 - level_.rho * level_.rho) * level_.sigma * random_.normal();
    error_ = level_.rho * error_ + fresh;
    double log_time = drift_ * static_cast<double>(count_++) + error_ + (candidate ? candidate_ : 0.0);
    if (random_.uniform() < kDisturbed)
      log_time += std::log1p(-kDisturbance * level_.sigma * std::log(random_.uniform()));
    return std::exp(log_time);
  }

 private:
  RandomStream& random_;
  const NoiseLevel& level_;
  double candidate_, drift_, error_;
  int count_ = 0;
};

}  // namespace

std::vector<NoiseLevel> usual_noise_levels() {
  return {{"quiet", 0.002, 0.004, 0.3, 2e-5}, {"middle", 0.005, 0.006, 0.5, 5e-5}, {"loud", 0.010, 0.010, 0.5, 1e-4}};
}

double RandomStream::normal() {
  return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform());
}

double simulate_session(RandomStream& random, const NoiseLevel& level, double effect, SessionShape shape) {
  Machine machine(random, level, effect);
  ShapeRatios ratios{"simulated", 1.0, {}};
  std::array<std::vector<double>, 4> blocks;
  for (int q = 0; q < shape.quads; ++q) {
    const std::string_view order = random.coin() ? "ABBA" : "BAAB";
    for (std::size_t b = 0; b < 4; ++b) {
      blocks[b].clear();
      for (int i = 0; i < shape.launches; ++i) blocks[b].push_back(machine.launch(order[b] == 'B'));
    }
    ratios.log_ratios.push_back(quad_log_ratio(order, blocks).value());
  }
  return session_statistic({&ratios, 1}).value().suite;
}

SequentialResult simulate_decision(RandomStream& random, const NoiseLevel& level, double effect,
                                   const SequentialRule& rule, SessionShape shape, bool screening) {
  SequentialTest test(rule);
  const auto look = [&](const ScreeningLook& how) {
    return simulate_session(random, level, effect, {how.quads, how.launches});
  };
  double seen = screening ? look(kFirstScreen) : HUGE_VAL;
  if (screened_out(seen, rule.min_effect) && seen > kHopeless) seen = look(kCloserLook);
  if (screened_out(seen, rule.min_effect)) {
    SequentialResult slower = test.result();
    slower.verdict = Verdict::kReject;
    slower.reason = "screened out";
    return slower;
  }
  while (test.add(simulate_session(random, level, effect, shape)) == Verdict::kUndecided) {
  }
  return test.result();
}

double simulated_sigma(RandomStream& random, const NoiseLevel& level, int sessions, SessionShape shape) {
  std::vector<double> values;
  for (int i = 0; i < sessions; ++i) values.push_back(simulate_session(random, level, 0, shape));
  return standard_deviation(values);
}

}  // namespace ridge::stats
