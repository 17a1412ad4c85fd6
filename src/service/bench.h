// How fast, on verified calls with fresh inputs; everything interleaved, paired with one subject if asked.
#pragma once

#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "record/measurement.h"
#include "ridge/result.h"
#include "service/subjects.h"

namespace ridge::service {

struct BenchRequest {
  Subjects subjects;
  std::string versus;         // compare every subject with this one, in the same sessions; empty: none
  std::string budget;         // "90s" for all of it; empty: none
  std::string mode = "cold";  // or warm
  std::int64_t samples = 0;   // timed calls of every subject on every case; 0: the worker's own number
  double min_time = 0;        // seconds of them, at least
};
Result<record::BenchReport> bench_subjects(const Context& context, const BenchRequest& request);

// Whether all of it was right: something was measured, and nothing failed.
bool all_measured(const record::BenchReport& report);

// A report that was kept, and one row now against the same subject and case then. The two runs met the machine at
// different times: `noise` is that between sessions of both.
Result<record::BenchReport> read_bench_report(const std::string& path);
struct EarlierRow {
  std::string label, subject;
  double before = 0, now = 0;   // seconds, median
  double ratio = 1, noise = 0;  // speed against then
  bool slower = false;          // by more than the tolerance, beyond the noise
  [[nodiscard]] bool differs() const { return std::fabs(ratio - 1) > noise; }
};
// Errors: nothing in common, or another machine, threads or mode.
Result<std::vector<EarlierRow>> compare_with_earlier(const record::BenchReport& now, const record::BenchReport& before,
                                                     double tolerance);

}  // namespace ridge::service
