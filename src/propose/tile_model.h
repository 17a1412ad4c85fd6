// A small cost model of a kernel that computes tiles of its output on a GPU's matrix units, in terms of the roles that
// tunables declare: `model = "tile m"` cuts the case's parameter m into tiles, "cluster m" is how many of them side by
// side share an operand, "split" how many blocks share a tile, "stages k" how many slices of k are on their way, and
// "overlap" is off its default where storing a tile hides under the next. It knows no operator. It ranks, and never
// accepts.
//
//   waves     = ceil(tiles / blocks at once)         quantisation = work / (waves x multiprocessors x tile / split)
//   reuse     = T_m T_n / (T_m + T_n)                step         = 1 + (31 / reuse)^4
//   epilogue  = 47 / k, twice that without overlap   slices       = (stages T_m T_n / 80000)^0.8, at most 1
//   fraction  = quantisation x slices / (step (1 + epilogue)), geometric mean over the cases
//
// The constants are fits to Ridgeline's own Hopper kernel on an H200. Shared memory feeds a narrow tile too slowly
// (`step`: tiles from 64 x 64 to 256 x 192, docs/operators/gemm-hopper.md). A load takes some 2500 cycles, and a slice
// of k keeps the matrix unit busy for T_m T_n / 32 of them (`slices`: 3, 4 and 5 stages of 256 x 64 reach 0.54, 0.74
// and 0.83 of the ceiling).
#pragma once

#include <map>
#include <string>

#include "propose/machine.h"
#include "propose/model.h"
#include "propose/space.h"

namespace ridge::propose {

// The values of the declared roles in one configuration; a role that is not declared keeps its neutral value.
struct Tiles {
  std::map<std::string, double> tile, cluster;  // by parameter of the case
  std::string depth;                            // the parameter that is summed over
  double stages = 0, split = 1;                 // 0: not declared
  bool overlap = false;
};
Tiles tiles_of(const Space& space, const Config& config);

// 1 where no tile is declared: then nothing is known, and all configurations are equal.
Issue tile_fraction(const Tiles& tiles, const Gpu& gpu);

}  // namespace ridge::propose
