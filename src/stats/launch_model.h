// Simulated sessions of known truth: what the decision procedure is held against, launch by launch.
//
// The log time of launch i of an arm is  log(base) + arm effect + session effect + drift i + e_i,  with
//   session effect  normal(0, tau), drawn once per session and added to the candidate's arm only: memory layout and the
//                   like favour one process over another, and no number of launches averages that away
//   drift           per launch, in a random direction per session: the machine warms up or cools down
//   e_i             AR(1) with correlation rho and stationary standard deviation sigma
// and 3 % of the launches are disturbed: they take longer by an exponential share with mean 10 sigma.
#pragma once

#include <cstdint>
#include <random>
#include <span>
#include <string>
#include <vector>

#include "stats/decide.h"
#include "stats/session.h"

namespace ridge::stats {

struct NoiseLevel {
  std::string name;
  double tau, sigma, rho, drift;  // per session, per launch, between launches, per launch
};
// Quiet, middle and loud, as measured on GPUs and shared machines.
std::vector<NoiseLevel> usual_noise_levels();

// Random numbers that are the same on every machine, which the standard distributions do not promise.
class RandomStream {
 public:
  explicit RandomStream(std::uint64_t seed) : engine_(seed) {}
  double uniform() { return (static_cast<double>(engine_() >> 11) + 0.5) * 0x1p-53; }
  double normal();
  bool coin() { return (engine_() >> 63) != 0; }

 private:
  std::mt19937_64 engine_;
};

struct SessionShape {
  int quads = 8, launches = 5;
};

// One session of a candidate that is faster by `effect` (a log ratio), reduced by the same code as a real one.
double simulate_session(RandomStream& random, const NoiseLevel& level, double effect, SessionShape shape = {});

// Screening, then confirmation, as in a campaign.
SequentialResult simulate_decision(RandomStream& random, const NoiseLevel& level, double effect,
                                   const SequentialRule& rule, SessionShape shape = {}, bool screening = true);

// Standard deviation of simulated A/A sessions.
double simulated_sigma(RandomStream& random, const NoiseLevel& level, int sessions, SessionShape shape = {});

}  // namespace ridge::stats
