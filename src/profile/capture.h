// What a profiler recorded, still in its own names: the launches with their counters. One reader per tool.
//
//   ncu              `ncu --csv`, pages raw (one column per metric) and details (one row per metric); a .ncu-rep file
//   is
//                    opened with `ncu --import`
//   cupti            CUPTI's kernel activity as `nsys stats --report cuda_gpu_trace --format csv` prints it
//   rocprofv3        *_kernel_trace.csv, *_counter_collection.csv
//   rocprof-compute  pmc_perf.csv of a workload
//   perf             `perf stat -x,`
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ridge/result.h"

namespace ridge::profile {

struct Value {
  double value = 0;  // in base units: seconds, bytes, B/s, fractions
  std::string unit;  // "s", "B", "B/s", "1"
};

struct Launch {
  std::string kernel;
  double start = -1, duration = 0;        // seconds; a start below 0 is unknown, a duration of 0 too
  std::map<std::string, Value> counters;  // by the tool's own name
};

struct Capture {
  std::string tool, device;
  std::vector<Launch> launches;
  double span = 0;                   // seconds from the first start to the last end, where starts are known
  std::vector<std::string> remarks;  // counters that the report has and that say nothing, each with the reason
};

// By the tool's name, or by what the text looks like when `tool` is empty. kInvalidArgument says what was expected.
Result<Capture> parse_capture(std::string_view text, std::string tool);

// The readers.
Result<Capture> parse_ncu(std::string_view text);
Result<Capture> parse_cupti(std::string_view text);
Result<Capture> parse_rocprofv3(std::string_view text);
Result<Capture> parse_rocprof_compute(std::string_view text);
Result<Capture> parse_perf(std::string_view text);

// ---- for the readers ------------------------------------------------------------------------------------------------

// CSV with quotes; lines before the header (banners of a tool) are the reader's to skip.
struct Table {
  std::vector<std::string> header;
  std::vector<std::vector<std::string>> rows;
  [[nodiscard]] int column(std::string_view name) const;  // -1: none
};
// The table whose header holds all of `columns`; an error names what is missing.
Result<Table> read_table(std::string_view text, const std::vector<std::string>& columns);

// "1,234.5" and "12.5" as numbers; false for "n/a", "<not supported>", "".
bool read_number(const std::string& text, double& value);
// A value in the unit that a tool printed ("%", "usecond", "Kbyte/block", "Gbyte/second") in base units.
Value in_base_units(double value, const std::string& unit);
// Fills `span` from starts and durations.
void set_span(Capture& capture);

}  // namespace ridge::profile
