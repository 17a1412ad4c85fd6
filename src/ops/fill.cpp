#include "ops/fill.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "numerics/convert.h"
#include "numerics/philox.h"

namespace ridge::ops {
namespace {

using numerics::Family;

// Numbers in [0, 1) that follow a family.
class Draws {
 public:
  Draws(Family family, std::uint64_t seed) : family_(family), seed_(numerics::derive_seed(seed, 0x66696c6c)) {}
  double next() {
    const double uniform = static_cast<double>(numerics::derive_seed(seed_, at_++) >> 11) * 0x1p-53;
    switch (family_) {
      case Family::kHeavyTails:
      case Family::kSpikes: return uniform * uniform * uniform * uniform;
      case Family::kConstantBlocks: return static_cast<double>(seed_ >> 11) * 0x1p-53;
      case Family::kTies: return std::floor(uniform * 4) / 4;
      default: return uniform;
    }
  }
  // From `least` to `most`, both included.
  double whole(double least, double most) { return std::min(most, least + std::floor(next() * (most - least + 1))); }

 private:
  Family family_;
  std::uint64_t seed_, at_ = 0;
};

// Places where 0 .. most is cut into `parts`, ascending.
std::vector<double> cuts(Draws& draws, std::size_t parts, double most) {
  std::vector<double> places(parts == 0 ? 0 : parts - 1);
  for (double& place : places) place = draws.whole(0, most);
  std::ranges::sort(places);
  return places;
}

std::vector<double> offsets(Draws& draws, std::size_t count, const Fill& fill) {
  std::vector<double> values;
  if (count == 0) return values;
  values.push_back(0);
  if (count == 1) return values;
  const double step = std::max(fill.least, 1.0), most = fill.most / step;
  if (fill.load == record::GroupLoad::kAny) {
    const std::vector<double> inner = cuts(draws, count - 1, most);
    values.insert(values.end(), inner.begin(), inner.end());
    values.push_back(most);
  }
  for (const std::int64_t rows :
       record::rows_of_groups(fill.load, static_cast<std::int64_t>(most), static_cast<std::int64_t>(count) - 1)) {
    values.push_back(values.back() + static_cast<double>(rows));
  }
  for (double& value : values) value *= step;
  return values;
}

std::vector<double> probabilities(Draws& draws, std::size_t count, std::size_t row) {
  std::vector<double> values(count);
  for (std::size_t first = 0; row > 0 && first < count; first += row) {
    double sum = 0;
    for (std::size_t i = first; i < first + row; ++i) sum += values[i] = draws.next() + 0x1p-20;
    for (std::size_t i = first; i < first + row; ++i) values[i] /= sum;
  }
  return values;
}

}  // namespace

void fill_input(const Fill& fill, const TensorView& view, Family family, std::uint64_t seed) {
  if (fill.rule == Fill::Rule::kNumbers) return numerics::fill(view, family, seed);
  const auto count = static_cast<std::size_t>(view.element_count());
  Draws draws(family, seed);
  std::vector<double> values;
  switch (fill.rule) {
    case Fill::Rule::kNumbers: break;
    case Fill::Rule::kUniform:
      for (std::size_t i = 0; i < count; ++i) values.push_back(fill.least + draws.next() * (fill.most - fill.least));
      break;
    case Fill::Rule::kIndices:
      for (std::size_t i = 0; i < count; ++i) values.push_back(draws.whole(fill.least, fill.most));
      break;
    case Fill::Rule::kOffsets: values = offsets(draws, count, fill); break;
    case Fill::Rule::kProbabilities: {
      const std::int64_t row = view.rank > 0 ? view.shape[static_cast<std::size_t>(view.rank - 1)] : 1;
      values = probabilities(draws, count, static_cast<std::size_t>(row));
      break;
    }
  }
  numerics::from_doubles(values, view);
}

}  // namespace ridge::ops
