// How many blocks of a kernel one compute unit holds at the same time, and what stops it from holding more.
//
// The same arithmetic for both vendors, from the facts of the spec: registers are allocated to each warp in steps, out
// of the part of the register file that belongs to one scheduler; shared memory to each block in steps, plus what the
// system reserves.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "hardware/spec.h"

namespace ridge::hardware {

struct KernelUse {
  std::int64_t threads_per_block = 0;
  std::int64_t registers_per_thread = 0;
  std::int64_t shared_bytes = 0;  // static and dynamic together
};

struct OccupancyLimit {
  std::string resource;  // "warps", "blocks", "registers", "shared memory"
  std::int64_t blocks = 0;
};

struct Occupancy {
  std::int64_t blocks_per_unit = 0, warps_per_unit = 0, max_warps_per_unit = 0;
  double fraction = 0;                 // of the unit's warps
  std::vector<OccupancyLimit> limits;  // each alone
  std::string limiter;                 // the smallest, all of them when several tie
  std::string lift;                    // what would allow one more block; empty when nothing would
};

Result<Occupancy> occupancy(const Spec& spec, const KernelUse& use);

}  // namespace ridge::hardware
