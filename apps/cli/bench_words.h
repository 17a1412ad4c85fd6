// A benchmark in words and tables for people.
#pragma once

#include <string>
#include <vector>

#include "record/measurement.h"
#include "service/bench.h"

namespace ridge::cli {

// The table of a terminal, failures with their reasons below it. What all cases and rows share stands above it; `width`
// (0: any) is what it has to fit.
std::string bench_table(const record::BenchReport& report, std::size_t width);

// "cpu_simd ran 1.06 ± 0.02 times faster than cpu_onednn", a line for every pair that was compared: paired with --vs,
// else the fastest subject against each other one. Empty where nothing can be compared.
std::string summary_words(const record::BenchReport& report);

// What the noise hides, and what disturbed the machine; a few sentences.
std::string noise_words(const record::BenchReport& report);

// A table of what became of each row since an earlier report, and what it cannot claim.
std::string earlier_words(const std::vector<service::EarlierRow>& rows);

}  // namespace ridge::cli
