// Where work stands on a machine: limits from a product of the database, or from the ceilings measured here.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/hardware.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

// What a user knows or measured, as written: "148TFLOPS", "4TB/s"; empty: not given.
struct GivenRates {
  std::string arithmetic, bandwidth;
};

// B/s of "4TB/s".
Result<double> bandwidth_of(const std::string& text);

// Rates and times as a person writes them: "760TFLOPS", "0.25ms".
struct RooflineRequest {
  std::string op, on, latency, measured, bandwidth, l2_bandwidth, shared_bandwidth, launch, dtype = "bf16";
  std::vector<std::string> words, phases;
  double flop = 0, bytes = 0, profiler_bytes = 0, l2_bytes = 0, shared_bytes = 0, target = 0.9;
  std::int64_t threads = 1;
};

// One report per case. Without an operator, of `flop` and `bytes`.
Result<std::vector<record::RooflineReport>> rooflines(const Context& context, const RooflineRequest& request);

// Where cases of an operator stand on a product, or with an empty name on this processor.
Result<std::vector<record::RooflineReport>> rooflines(const Context& context, const std::string& op,
                                                      const std::vector<std::string>& words, const std::string& on,
                                                      std::int64_t threads, const GivenRates& given = {});
// The same of work that no operator of Ridgeline does.
Result<record::RooflineReport> roofline_of_work(const Context& context, const std::string& label, const std::string& on,
                                                double flop, double bytes, const std::string& dtype,
                                                const GivenRates& given);

}  // namespace ridge::service
