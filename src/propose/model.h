// A small cost model of a loop nest of multiply-adds, in terms of the roles that tunables declare with `model = "..."`.
// It knows no operator. It is used to rank, never to accept: the measurement decides.
//
// Per step of the inner loop a tile of R rows and C vectors of V lanes does R*C multiply-adds, C vector loads and R
// broadcasts. With W the machine's lanes, 2 multiply-adds and 2 loads started per cycle and a latency of 4 cycles:
//
//   cycles per step = max( R*C/2        the multiply-add units
//                        , 4            each sum waits for its own previous value
//                        , (R+C+S)/2    loads, and S = 2*max(0, R*C+C+1 - registers) spills
//                        , I/6 )        instructions through the front end, I = R*C + R + C + S + 3/U, U = unrolling
//   issue fraction  = min(V,W)/W * (R*C/2) / cycles per step
//
// which is 0.8 % for a scalar dot product on 16 lanes (V = R = C = 1) and near 1 for a good tile. What the measured
// fraction of the roofline falls short of the issue fraction is put down to memory and overhead, and each direction
// that works on it (prefetch, unroll, pack, block) is credited with a fixed share of that gap. The shares order the
// directions; they come from simulated campaigns on a matrix product: 0.97x of the best library in two with packing
// before unrolling, 1.00x in one with unrolling first.
#pragma once

#include <optional>
#include <string>

#include "propose/machine.h"
#include "propose/space.h"

namespace ridge::propose {

// The values of the declared roles in one configuration; a role that is not declared keeps its neutral value.
struct Roles {
  double lanes = 1, rows = 1, cols = 1, unroll = 1, threads = 1;
  double block_m = 0, block_n = 0, block_k = 0;  // 0: not blocked
  bool reordered = false;                        // "loop_order": the inner loop walks contiguous data
};
Roles roles_of(const Space& space, const Config& config);

struct Issue {
  double fraction = 0;  // of the machine's multiply-add peak, 0..1
  std::string limit;    // "4 cycles of latency per sum", for the reasoning
};
Issue issue_fraction(const Roles& roles, const Machine& machine);

// Cache fit of the blocks, 0..1: 1 when a panel of B (block_k x cols x lanes) takes at most half of the L1 cache and a
// block of A (block_m x block_k) at most half of the L2 cache. 1 when nothing is blocked.
double block_fit(const Roles& roles, const Machine& machine);

// For ranking the configurations of one sweep: higher is better.
double rank_score(const Roles& roles, const Machine& machine);

// The model of the machine at hand: the one above, or for a GPU that of tile_model.h.
Issue issue_of(const Space& space, const Config& config, const Machine& machine);
double score_of(const Space& space, const Config& config, const Machine& machine);

// The share of that gap that a direction of this role is credited with; 0 for roles that are not about it.
double memory_share(std::string_view role);

}  // namespace ridge::propose
