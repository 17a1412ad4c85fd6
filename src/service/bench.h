// How fast, on verified calls with fresh inputs; everything interleaved, paired with one subject if asked.
#pragma once

#include <cstdint>
#include <string>

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

}  // namespace ridge::service
