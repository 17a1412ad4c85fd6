// Recorded tuning: every configuration of a kernel with what it took to build, to measure and to run. Read as Kernel
// Tuner writes it, so that a search can be replayed without a GPU.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "record/search_space.h"
#include "ridge/result.h"

namespace ridge::record {

struct TuningRow {
  std::vector<std::uint16_t> values;  // the position of every parameter's value
  double time = 0;                    // seconds of a run; NaN where it failed
  double cost = 0;                    // seconds to try it: building, measuring, checking and the tuner around it
  std::string failure = {};           // why there is no time
  [[nodiscard]] bool failed() const { return !failure.empty(); }
};

struct TuningCache {
  std::string kernel, device;  // empty where the file does not say
  std::vector<SearchParameter> parameters;
  std::vector<TuningRow> rows;  // each configuration once
  std::string problem = {};     // of a recording of ours: the case, as --case takes it
};

// A cache file of Kernel Tuner or results in the T4 format; the file's own keys tell which. An error names the row with
// its configuration: a parameter missing or a value not declared, a configuration that is there twice; or says that no
// row has a time, or that the text ends early.
Result<TuningCache> parse_tuning_cache(std::string_view text);

// The space of a problem in the T1 format: its values and conditions are written in Python, of which numbers, words,
// lists, range(), list(), sums and one comprehension are read, and comparisons, arithmetic, and, or, not.
Result<SpaceDefinition> parse_tuning_problem(std::string_view text);

// The positions in `parameters` of a row of `cache`; an error names the parameter or the value that is not there: a
// cache of another kernel.
Result<std::vector<std::uint16_t>> positions_in(const std::vector<SearchParameter>& parameters,
                                                const TuningCache& cache, const TuningRow& row);

}  // namespace ridge::record
