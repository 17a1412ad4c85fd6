// What was measured before, on other devices or of other kernels, as one expectation for every configuration of a
// space.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "record/tuning_cache.h"
#include "search/space.h"

namespace ridge::search {

// One source of measurements.
class PastSource {
 public:
  // Of any kernel: parameters are known again by their names.
  static Result<PastSource> of(const record::TuningCache& cache);

  // Whether the parameters are those of the space: measurements of the same kernel are believed until data says
  // otherwise, those of another one only once data says so.
  [[nodiscard]] bool same_kernel(const Space& space) const;
  // Prepares look-ups by points of a space; the source outlives what is returned.
  class View;
  [[nodiscard]] View view(const Space& space) const;

 private:
  record::TuningCache cache_;
  Space rows_;
  std::vector<double> value_;                // by number in rows_; of failures, that of slow ones
  std::vector<bool> failed_;                 // the same
  std::vector<std::vector<double>> effect_;  // by parameter and value: what it adds to the mean
  double mean_ = 0;
  PastSource(record::TuningCache cache, Space rows) : cache_(std::move(cache)), rows_(std::move(rows)) {}
  void make_effects();
};

class PastSource::View {
 public:
  // The logarithm of the time beyond the fastest one's, where slow differences count less; for a configuration that the
  // source does not have, by what its values come to on average.
  [[nodiscard]] double value(const Point& point) const;
  [[nodiscard]] bool failed(const Point& point) const;

 private:
  friend class PastSource;
  [[nodiscard]] std::optional<std::uint64_t> find(const Point& point) const;
  const PastSource* source_ = nullptr;
  bool whole_ = false;               // all parameters are there
  std::vector<std::size_t> column_;  // by parameter of the source: that of the space; none where it is not there
  // By parameter of the source and value of the space: the value of the source; none where it has no such value.
  std::vector<std::vector<std::uint16_t>> exact_, nearest_;
};

// How much of a difference counts where configurations are slow.
inline constexpr double kSlowShare = 0.3;
// A difference from the fastest, of which what is beyond a factor of two counts for that share.
double shown_beyond(double beyond);

}  // namespace ridge::search
