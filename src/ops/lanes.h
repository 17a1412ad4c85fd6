// What CPU kernels add up, apart from their functions: files of every instruction set include it.
#pragma once

namespace ridge::ops {

// Sums in 64 lanes, added up in one order whatever the instruction set's width (total_of).
struct Lanes {
  float value[64] = {};
};

}  // namespace ridge::ops
