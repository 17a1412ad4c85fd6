// Benchmark rows as the tables people keep: CSV and Markdown.
#pragma once

#include <string>
#include <vector>

#include "record/measurement.h"

namespace ridge::record {

// Header:
// label,implementation,Check,median_s,p10_s,p90_s,min_s,samples,FLOP/s,B/s,roofline_fraction,ratio,ratio_low,ratio_high
std::string bench_csv(const std::vector<BenchRow>& rows);
std::string bench_markdown(const std::vector<BenchRow>& rows);

}  // namespace ridge::record
