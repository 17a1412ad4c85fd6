// What a GPU can do at best, measured: `ridge ceilings --on cuda`.
//
//   read_bandwidth write_bandwidth copy_bandwidth triad_bandwidth    B/s from and to memory; bytes of all arrays that
//                                                                    move, each dozens of times the L2
//   the same with _warm                                              of arrays that stay in the L2, past the L1
//   l2_bandwidth shared_memory_bandwidth                             B/s of the best of those; of all units together
//   fma_f32 fma_f64                                                  FLOP/s of the vector units
//   matrix_bf16 matrix_fp16 matrix_fp8 matrix_tf32                   FLOP/s of 8192^3 products of random data by the
//                                                                    fastest of our kernels and the vendor's library
//   launch_time launch_time_chained                                  s of an empty kernel, alone and in a row of many
//
// Rates are robust maxima (95th percentile), times robust minima; the samples are kept. Every kernel is tried in
// several shapes first. Random data, because power and with it the clock depends on how many bits flip.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "evaluate/cuda/ceiling_bench.h"

namespace ridge::evaluate::cuda {

using NoteCeiling = std::function<void(const std::string& name, double fraction)>;

Result<std::vector<record::Ceiling>> measure_ceilings(CeilingBench& bench, const NoteCeiling& note);

// The parts of it.
Status stream_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings);
Status unit_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings);
Status product_ceilings(CeilingBench& bench, const NoteCeiling& note, std::vector<record::Ceiling>& ceilings);

}  // namespace ridge::evaluate::cuda
