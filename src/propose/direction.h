// Directions: the single changes that could be made to the incumbent now, each with the gain a model expects of it.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "propose/machine.h"
#include "propose/model.h"
#include "propose/past.h"
#include "propose/space.h"

namespace ridge::propose {

// Where the incumbent stands.
struct Standing {
  Config config;
  double fraction = 0;      // of the roofline bound, geomean over shapes
  bool measured = false;    // false: no roofline yet, `fraction` is what the model says
  std::string worst_label;  // the shape furthest from its bound
  double worst_fraction = 0;
  Issue issue;             // what the model allows this configuration
  double memory_time = 0;  // 1/fraction - 1/issue: time, in units of the bound, that the issue limit does not explain
};
Standing where_it_stands(const Space& space, const Machine& machine, const record::ProposalRequest& request);

// The expected time of another configuration in units of the bound (1 = at the roofline), changed by one direction.
struct Prediction {
  double gain = 0;         // fraction: 0.25 is 25 % faster
  std::string arithmetic;  // how it was computed
  Issue issue;
};
Prediction predict(const Space& space, const Machine& machine, const Standing& standing, const Config& config,
                   double credit);

std::string percent(double fraction);  // "12.5 %"

struct Direction {
  std::string mechanism;  // the tunables it changes: "VECTOR", "MR+NV"
  std::string title, category, role, effect;
  std::vector<std::string> names;  // tunables that may change
  std::vector<Config> configs;     // unseen and feasible, best first by the model
  Prediction prediction;           // of the best
  bool retune = false;
};

// Whether it is a number to be tuned together with others, by its kind or as one of a group with such; else it is an
// option, tried for itself.
bool is_parameter(const Space& space, const record::Tunable& tunable);

// Whether a processor has such vectors and so many threads; a GPU's limits are constraints of the space.
bool fits_machine(const Space& space, const Config& config, const Machine& machine);

// Best first by the model; equals in an order that is random but always the same.
void rank(const Space& space, const Machine& machine, std::vector<Config>& configs);

// Every option that is open, options of a group together, and with `parameters` those a group at a time. Left out are
// those that were tried and rolled back, have no effect now, or have no unseen feasible value.
std::vector<Direction> open_directions(const Space& space, const Machine& machine, const Standing& standing,
                                       const Past& past, bool parameters);

}  // namespace ridge::propose
