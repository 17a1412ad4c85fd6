// Benchmark rows as the tables people keep: CSV and Markdown.
#pragma once

#include <string>
#include <vector>

#include "record/measurement.h"

namespace ridge::record {

// Header:
// label,implementation,Check,median_s,p10_s,p90_s,min_s,samples,sessions,noise,FLOP/s,B/s,roofline_fraction,ratio,
// ratio_low,ratio_high, and the parameters of the cases by their names
std::string bench_csv(const std::vector<BenchRow>& rows);
std::string bench_markdown(const std::vector<BenchRow>& rows);

// The smallest relative difference that a row's sessions can tell from none: the half-width of a 95 % interval of the
// median of as many normal sessions. NaN below two sessions.
double smallest_visible(const BenchRow& row);

}  // namespace ridge::record
