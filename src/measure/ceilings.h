// What this processor can do at best, measured: arithmetic per element type and memory traffic per kind of access.
//
// A ceiling is a robust maximum (the 95th percentile over many short runs of a kernel that does nothing else), because
// a bound that noise has lowered would let a kernel look better than it is. Arithmetic: independent chains of fused
// multiply-adds in registers, at the widest vector the processor has. Narrow types on a CPU widen to fp32 unless the
// processor multiplies them natively; the ceiling is the better of the two. Where there is a matrix unit (AMX) it
// bounds products of bf16, and of 8-bit numbers, which are bf16 numbers as well. Memory: arrays of several times the
// private caches, streamed by all threads; "from DRAM" only where the arrays exceed the last-level cache (see method).
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::measure {

struct CeilingOptions {
  std::int64_t threads = 1;
  double seconds = 0.25;  // per ceiling
};

// Names: fma_f32, fma_f64, fma_bf16, fma_f16, fma_e4m3fn, fma_e5m2 in FLOP/s, and of a matrix unit matrix_bf16 and
// matrix_fp8; read_bandwidth, write_bandwidth, copy_bandwidth,
// triad_bandwidth in B/s, cold (streamed from and to memory) and, with "_warm" behind the name, in the second-level
// cache. Bytes are those of all arrays that move, read and written. `progress` is told the name and the fraction done.
Result<std::vector<record::Ceiling>> measure_ceilings(const CeilingOptions& options,
                                                      const std::function<void(const std::string&, double)>& progress);

}  // namespace ridge::measure
