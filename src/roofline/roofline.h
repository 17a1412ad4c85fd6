// Where a case stands against the ceilings of the machine: pure arithmetic on records.
//
//   bound_time = max(flop / peak, bytes / bandwidth)       fraction = bound_time / latency
//
// Bytes are the compulsory traffic of the operator's contract, each operand once. A problem that stays in a cache
// between calls can therefore beat the memory bound; the compute bound it cannot beat.
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::roofline {

// The ceilings that bound a case, in FLOP/s and B/s.
struct Limits {
  double flops = 0;
  double bandwidth = 0;
  std::string flops_name, bandwidth_name;  // Ceiling::name of each
};

// Picks, for sums in fp32, the ceiling "fma_f32" and the bandwidth "read_bandwidth" measured with `threads` threads.
// The error names what is missing and what there is.
Result<Limits> limits(std::span<const record::Ceiling> ceilings, std::int64_t threads,
                      std::string_view flops_name = "fma_f32", std::string_view bandwidth_name = "read_bandwidth");

// The same for an element type: the ceiling of its matrix products (a GPU's "matrix_bf16"), or that of its
// multiply-adds
// ("fma_bf16").
Result<Limits> limits_of_type(std::span<const record::Ceiling> ceilings, std::int64_t threads, std::string_view dtype);

// latency <= 0: not measured, fraction stays 0.
record::RooflinePoint place(std::string label, const record::Cost& cost, const Limits& limits, double latency);

}  // namespace ridge::roofline
