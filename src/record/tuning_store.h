// Measurements of configurations that are kept: each with its kernel and what it was measured on. Taken from recordings
// of Kernel Tuner and given back as results in the T4 format, so that its users can come and go.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "record/tuning_cache.h"
#include "ridge/result.h"

namespace ridge::record {

struct StoredMeasurement {
  std::int64_t version = 1;
  std::string kernel;                                // its digest, or the name that its users know it by
  std::string device, clocks, compiler;              // clocks and compiler may be unknown
  std::string problem, origin;                       // the shapes, and the campaign that measured; empty: not known
  std::map<std::string, std::string> configuration;  // numbers as text
  std::optional<double> seconds;                     // of a run; none where it failed
  std::string failure;                               // why
  double cost = 0;                                   // seconds to try it
  static void fields(auto& v, auto& self) {
    v("version", self.version);
    v("kernel", self.kernel);
    v("device", self.device);
    v.optional("clocks", self.clocks);
    v.optional("compiler", self.compiler);
    v.optional("problem", self.problem);
    v.optional("origin", self.origin);
    v("configuration", self.configuration);
    v.optional("seconds", self.seconds);
    v.optional("failure", self.failure);
    v.optional("cost", self.cost);
  }
};

// A file of measurements, a line of JSON each; an error names the line.
Result<std::vector<StoredMeasurement>> parse_tuning_store(std::string_view text);
std::string tuning_store_text(const std::vector<StoredMeasurement>& measurements);

// The rows of a recording; what the file does not say is taken from `origin`, whose own configuration does not count.
std::vector<StoredMeasurement> measurements_of(const TuningCache& cache, const StoredMeasurement& origin);

// The other way: a recording of the configurations that have the parameters of the first, each once, as it was kept
// last. Parameters and their values in their order.
TuningCache recording_of(const std::vector<StoredMeasurement>& measurements);

// What measurements come from that are comparable: one device, one problem, one origin.
struct TuningSource {
  std::string device, problem, origin;
  friend auto operator<=>(const TuningSource&, const TuningSource&) = default;
};
TuningSource source_of(const StoredMeasurement& one);

// How far apart two problems are, as StoredMeasurement has them: the sum of the logarithms by which their sizes differ,
// and kOtherKind for each word that does (a layout, a dtype); of several cases that of the two nearest.
double problem_distance(std::string_view one, std::string_view other);
inline constexpr double kOtherKind = 2;
// How little a source says of a problem on a device: the distance of the problems, and more where the device is
// another.
double distance(const TuningSource& source, std::string_view device, std::string_view problem);

// Clocks as StoredMeasurement has them: "1980 MHz".
std::string clocks_text(double hertz);

// Adds those that are not there yet; how many. An error names the row (counted from 1) of one that is there with
// another time, and both times: two measurements under the same circumstances that differ are told apart by their
// clocks or compiler.
Result<std::size_t> add_measurements(std::vector<StoredMeasurement>& store,
                                     const std::vector<StoredMeasurement>& added);

// Results in the T4 format, times in milliseconds.
std::string t4_text(const std::vector<StoredMeasurement>& measurements);

// What `ridge tune import` and `ridge tune export` answer.
struct TuningStoreReport {
  std::string file, kernel, device;
  std::int64_t added = 0, measurements = 0;  // of an import: new ones, and all that the store now has of the kernel
  static void fields(auto& v, auto& self) {
    v("file", self.file);
    v("kernel", self.kernel);
    v("device", self.device);
    v("added", self.added);
    v("measurements", self.measurements);
  }
};

}  // namespace ridge::record
