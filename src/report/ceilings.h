// The limits that speeds are held against: ceilings measured on the machine, and peaks that its documents state.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "report/report.h"

namespace ridge::report {

// The measured ceiling that bounds shapes of this kind ("compute" or "memory"); null when none was measured.
const record::Ceiling* measured_ceiling(const Model& model, std::string_view bound);

// A peak out of the hardware database, as the campaign's targets cite it.
struct CitedPeak {
  std::string metric, words;  // "matrix_bf16", "989.4 TFLOPS"
  std::string source;         // page and row of the document
  double value = 0;           // in `unit`; NaN when the words are in no unit known here
  std::string unit;           // FLOP/s | B/s
};
std::vector<CitedPeak> cited_peaks(const Model& model);

}  // namespace ridge::report
