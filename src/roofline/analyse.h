// The hierarchical roofline of one problem: what each limit of the machine alone would cost, which one binds, where the
// problem stands, and when an optimisation of it is done.
//
//   time of an axis = work / peak        bound_time = max over the axes      utilisation = bound_time / latency
//
// Phases of different element types share the matrix or vector units one after the other, so their times add up. Bytes
// of the outermost memory are the compulsory traffic of the operator's contract unless a profiler counted them; inner
// levels need counted bytes. A utilisation above 100 % is impossible and refused: one of its numbers is wrong.
#pragma once

#include <string>
#include <vector>

#include "record/hardware.h"
#include "roofline/machine.h"

namespace ridge::roofline {

struct Phase {
  Limit limit;  // of its element type
  double flop = 0;
};

struct Problem {
  std::string label;
  std::vector<Phase> phases;
  double compulsory_bytes = 0;
  double profiler_bytes = 0;              // of the outermost memory; 0: not counted
  double l2_bytes = 0, shared_bytes = 0;  // 0: not counted
  double latency = 0;                     // seconds; 0: not measured
  double target_fraction = 0.9;
};

Result<record::RooflineReport> analyse(const Problem& problem, const Machine& machine);

// For a terminal, and as sections "Hardware Spec", "Roofline" and "Stop Conditions" of a workspace's README.
std::string to_text(const record::RooflineReport& report);
std::string to_markdown(const record::RooflineReport& report);

// `readme` with those three sections replaced, or added at its end.
std::string with_sections(const std::string& readme, const record::RooflineReport& report);

// A drawing that stands alone: log axes, every roof with its name, the problem at its intensity, its target.
std::string to_svg(const record::RooflineReport& report);

}  // namespace ridge::roofline
