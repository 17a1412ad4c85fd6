#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/hardware.h"
#include "ridge/result.h"

namespace ridge::cli {

// What a user knows or measured, as written: "148TFLOPS", "4TB/s"; empty: not given.
struct GivenRates {
  std::string arithmetic, bandwidth;
};

// B/s of "4TB/s".
Result<double> bandwidth_of(const std::string& text);

// Where cases of an operator stand on a product, or with an empty name on this processor.
Result<std::vector<record::RooflineReport>> rooflines(const std::string& op, const std::vector<std::string>& words,
                                                      const std::string& on, std::int64_t threads,
                                                      const GivenRates& given = {});
// The same of work that no operator of Ridgeline does.
Result<record::RooflineReport> roofline_of_work(const std::string& label, const std::string& on, double flop,
                                                double bytes, const std::string& dtype, const GivenRates& given);

}  // namespace ridge::cli
