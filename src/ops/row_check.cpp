#include "ops/row_check.h"

#include <cstring>
#include <limits>
#include <set>

#include "base/error.h"
#include "numerics/convert.h"
#include "numerics/format.h"
#include "numerics/philox.h"

namespace ridge::ops::rows {
namespace {

// Below this share of a step, what an element rounds to is mostly certain, and only then is it asked exactly.
constexpr double kSharp = 1.0 / 16;

std::int64_t row_count(const TensorView& view) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < view.rank; ++d) rows *= view.shape[static_cast<std::size_t>(d)];
  return rows;
}
std::size_t column_count(const TensorView& view) {
  return view.rank == 0 ? 1 : static_cast<std::size_t>(view.shape[static_cast<std::size_t>(view.rank - 1)]);
}

// Where a row begins, in elements, and how far its elements are apart.
std::int64_t row_offset(const TensorView& view, std::int64_t row) {
  std::int64_t offset = 0;
  for (int d = view.rank - 2; d >= 0; --d) {
    const auto at = static_cast<std::size_t>(d);
    offset += row % view.shape[at] * view.stride[at];
    row /= view.shape[at];
  }
  return offset;
}

void load_run(const TensorView& view, std::int64_t offset, std::int64_t stride, std::span<double> into) {
  const std::int64_t bits = size_bits(view.dtype);
  if (stride == 1 && bits % 8 == 0) {
    const auto* const start = static_cast<const unsigned char*>(view.data) + offset * (bits / 8);
    numerics::to_double(view.dtype, start, into.data(), static_cast<std::int64_t>(into.size()));
    return;
  }
  for (std::size_t j = 0; j < into.size(); ++j) {
    into[j] = numerics::load(view.dtype, view.data, offset + static_cast<std::int64_t>(j) * stride);
  }
}

std::uint64_t mixed(std::uint64_t a, std::uint64_t b) {
  __extension__ using Wide = unsigned __int128;
  const auto product = static_cast<Wide>(a) * b;
  return static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
}

// A hash of a row's bytes under a key that no kernel knows.
class RowHash {
 public:
  explicit RowHash(std::uint64_t seed)
      : first_(numerics::derive_seed(seed, 1) | 1), second_(numerics::derive_seed(seed, 2) | 1) {}

  [[nodiscard]] std::uint64_t operator()(const TensorView& view, std::int64_t row) const {
    const std::size_t bytes = size_bytes(view.dtype, static_cast<std::int64_t>(column_count(view)));
    const auto* const start =
        static_cast<const unsigned char*>(view.data) + size_bytes(view.dtype, row_offset(view, row));
    std::uint64_t hash = second_ ^ bytes;
    for (std::size_t at = 0; at < bytes; at += 8) {
      std::uint64_t word = 0;
      std::memcpy(&word, start + at, std::min<std::size_t>(8, bytes - at));
      hash = mixed(hash ^ word, first_) + second_;
    }
    return mixed(hash ^ first_, second_);
  }

 private:
  std::uint64_t first_, second_;
};

bool is_zero(const TensorView& view, std::int64_t row) {
  const std::size_t bytes = size_bytes(view.dtype, static_cast<std::int64_t>(column_count(view)));
  const auto* const start =
      static_cast<const unsigned char*>(view.data) + size_bytes(view.dtype, row_offset(view, row));
  return std::all_of(start, start + bytes, [](unsigned char byte) { return byte == 0; });
}

SpotCheck exact(std::string problem) {
  SpotCheck result;
  result.allowed = 0.5;
  result.blind_factor = 1;
  result.residual = problem.empty() ? 0 : 1;
  result.detail = std::move(problem);
  return result;
}

// `count` of 0 .. n, ascending, every one with the same chance.
std::vector<std::int64_t> drawn(std::int64_t n, std::int64_t count, std::uint64_t seed) {
  if (count >= n) return {};
  std::set<std::int64_t> chosen;
  for (std::int64_t j = n - count; j < n; ++j) {  // Floyd's way to draw without repeats
    const auto any = static_cast<std::int64_t>(numerics::derive_seed(seed, static_cast<std::uint64_t>(j)) %
                                               static_cast<std::uint64_t>(j + 1));
    if (!chosen.insert(any).second) chosen.insert(j);
  }
  return {chosen.begin(), chosen.end()};
}

}  // namespace

Sample secret_sample(std::int64_t rows, std::int64_t columns, std::int64_t most_rows, std::int64_t most_columns,
                     std::uint64_t seed) {
  return {drawn(rows, most_rows, numerics::derive_seed(seed, 11)),
          drawn(columns, most_columns, numerics::derive_seed(seed, 12))};
}

numerics::RoundedOnce stored(DType dtype, const Number& number) {
  const double value = number.value;
  if (!std::isfinite(value)) return numerics::rounded_once(dtype, value, 0);
  const double step = numerics::ulp(dtype, std::fabs(value) + number.error);
  const double low = numerics::round_to(dtype, value - number.error),
               high = numerics::round_to(dtype, value + number.error);
  const bool sharp = number.error < kSharp * step;
  if (sharp && low == high) return numerics::rounded_once(dtype, low, 0);
  // The part that elements of one row share, through its statistics, may lean to one side.
  const double deviation = std::sqrt(number.variance);
  if (dtype == DType::kF32 && number.error > 0) {
    return {value, std::max(number.error, step / 2), std::max(number.variance, step * step / 48), 2 * deviation};
  }
  return {value, number.error + step / 2, number.variance + step * step / 12, sharp ? step : 2 * deviation};
}

Status Reader::takes(const Problem& problem) {
  if (problem.operands.size() <= kWarmOperands) return ok_status();
  return make_error(ErrorCode::kUnsupported, "{}: {} operands; a row check reads at most {}",
                    problem.problem_case.text(), problem.operands.size(), kWarmOperands);
}

Reader::Reader(const Problem& problem, std::span<const TensorView> operands, std::span<const Reads> reads, bool after)
    : problem_(problem), reads_(reads.begin(), reads.end()) {
  const std::size_t count = problem.operands.size();
  inputs_.resize(count);
  outputs_.resize(count);
  buffers_.resize(count);
  found_.resize(count);
  kept_.resize(count, false);
  std::size_t old = count;
  for (std::size_t i = 0; i < count; ++i) {
    const OperandSpec& spec = problem.operands[i];
    if (spec.output) outputs_[i] = operands[i];
    if (!spec.output) inputs_[i] = operands[i];
    if (spec.read_write) inputs_[i] = after ? operands[old++] : operands[i];
    if (reads_[i] != Reads::kRow) continue;
    rows_ = std::max(rows_, row_count(operands[i]));
    columns_ = std::max(columns_, column_count(operands[i]));
  }
  if (columns_ == 0) rows_ = 0;
}

const double* Reader::load(std::size_t operand, const TensorView& view, std::int64_t row, std::size_t first,
                           std::size_t count) {
  std::vector<double>& into =
      &view >= outputs_.data() && &view < outputs_.data() + outputs_.size() ? found_[operand] : buffers_[operand];
  const std::int64_t apart = view.rank == 0 ? 1 : view.stride[static_cast<std::size_t>(view.rank - 1)];
  switch (reads_[operand]) {
    case Reads::kShared:
      into.resize(static_cast<std::size_t>(view.element_count()));
      for (std::size_t j = 0; j < into.size(); ++j) {
        into[j] = numerics::load_element(view, static_cast<std::int64_t>(j));
      }
      break;
    case Reads::kScalar: into.assign(1, numerics::load_element(view, row)); break;
    case Reads::kRow:
      count = std::min(count, column_count(view) - std::min(first, column_count(view)));
      into.resize(count);
      load_run(view, row_offset(view, row) + static_cast<std::int64_t>(first) * apart, apart, into);
      break;
  }
  return into.data();
}

const Row& Reader::inputs(std::int64_t row, std::size_t first, std::size_t count) {
  row_.index = row;
  row_.first = first;
  row_.columns = count;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (problem_.operands[i].output && !problem_.operands[i].read_write) continue;
    const bool shared = reads_[i] == Reads::kShared;
    if (!shared || !kept_[i]) (void)load(i, inputs_[i], row, first, count);
    kept_[i] = shared;
    // A weight has an element for every column, and the piece begins at one of them.
    row_.operands[i] = buffers_[i].data() + (shared && buffers_[i].size() == columns_ ? first : 0);
  }
  return row_;
}

const double* Reader::found(std::size_t operand, std::int64_t row, std::size_t first, std::size_t count) {
  return load(operand, outputs_[operand], row, first, count);
}

Judge::Judge(const Problem& problem, std::size_t operand)
    : problem_(problem), operand_(operand), dtype_(problem.operands[operand].dtype) {
  const numerics::FloatFormat format = numerics::format_of(dtype_);
  spacing_ = std::ldexp(1.0, -format.mantissa_bits);
  smallest_exponent_ = static_cast<std::int64_t>(format.min_exponent() + 1023) << 52;
  most_ = numerics::max_value(dtype_);
}

// The exponent of a double is that of its format's steps; below the normal numbers the steps stay the same.
double Judge::step_at(double reach) const {
  const std::int64_t exponent = std::bit_cast<std::int64_t>(reach) & 0x7ff0000000000000;
  return std::bit_cast<double>(std::max(exponent, smallest_exponent_)) * spacing_;
}

// A bound that stored() is nowhere below.
double Judge::surely_allowed(double step, double error) const {
  if (dtype_ == DType::kF32) return std::max(step / 2, error);
  return step / 2 + (error < kSharp * step ? 0.0 : error);
}

void Judge::see(std::int64_t row, std::size_t column, double found, const Number& expected) {
  look(row, column, found, expected);
  if (!std::isfinite(found) || !std::isfinite(expected.value)) return;
  const double step = step_at(std::fabs(expected.value) + expected.error), distance = found - expected.value;
  const bool again = dtype_ != DType::kF32 || expected.error == 0;  // rounded once more by the store
  squares_ += distance * distance /
              (again ? expected.variance + step * step / 12 : std::max(expected.variance, step * step / 48));
  ++elements_;
  rows_ += row != last_row_ ? 1 : 0;
  last_row_ = row;
}

std::size_t Judge::sift(const double* found, const double* exact, std::size_t count, double slack,
                        std::uint16_t* open) const {
  std::array<unsigned char, kPiece> further;
  int any = 0;
  for (std::size_t j = 0; j < count; ++j) {
    const double size = std::fabs(exact[j]), allowed = surely_allowed(step_at(size), slack * size);
    const bool fits = std::fabs(found[j] - exact[j]) <= allowed && size < most_;
    further[j] = fits ? 0 : 1;
    any |= further[j];
  }
  std::size_t left = 0;
  for (std::size_t j = 0; any != 0 && j < count; ++j) {
    if (further[j] != 0) open[left++] = static_cast<std::uint16_t>(j);
  }
  return left;
}

void Judge::look(std::int64_t row, std::size_t column, double found, const Number& expected) {
  if (!std::isfinite(found)) all_finite_ = false;
  // Most are the nearest number, or well within a bound that is wider than a step.
  const double step = step_at(std::fabs(expected.value)), distance = std::fabs(found - expected.value);
  const double least = surely_allowed(step, expected.error);
  if (distance <= least && distance <= worst_ * least) return;
  const numerics::RoundedOnce right = stored(dtype_, expected);
  const bool same = found == right.value || (std::isnan(found) && std::isnan(right.value));
  double ratio = same ? 0.0 : std::fabs(found - right.value) / right.allowed;
  if (std::isnan(ratio)) ratio = std::numeric_limits<double>::infinity();
  if (ratio <= worst_) return;
  worst_ = ratio;
  worst_row_ = row;
  worst_column_ = column;
  worst_found_ = found;
  worst_expected_ = right;
}

void Judge::conclude(SpotCheck& into, bool shared) const {
  into.finite = into.finite && all_finite_;
  const double limit = numerics::rms_limit(std::max<std::int64_t>(shared ? rows_ : elements_, 1));
  const double rms = elements_ > 0 ? std::sqrt(squares_ / static_cast<double>(elements_)) : 0;
  const std::string& name = problem_.operands[operand_].name;
  if (worst_ > into.residual) {
    into.residual = worst_;
    into.detail =
        fmt::format("{}: row {} column {} of {} is {:.9g}, not {:.9g} +- {:.3g}", problem_.problem_case.text(),
                    worst_row_, worst_column_, name, worst_found_, worst_expected_.value, worst_expected_.allowed);
  }
  if (rms / limit > into.residual) {
    into.residual = rms / limit;
    into.detail = fmt::format("{}: the RMS error of {} is {:.3g} times the ideal kernel's; {:.3g} times is allowed",
                              problem_.problem_case.text(), name, rms, limit);
  }
}

SpotCheck check_sums(const Problem& problem, std::size_t operand, const TensorView& found,
                     std::span<const Number> sums) {
  SpotCheck result;
  result.allowed = result.blind_factor = 1;
  const std::vector<double> values = numerics::to_doubles(found);
  Judge judge(problem, operand);
  for (std::size_t j = 0; j < sums.size(); ++j) judge.see(0, j, values[j], sums[j]);
  judge.conclude(result, false);
  return result;
}

ReferenceOutput reference_of_sums(DType dtype, std::span<const Number> sums) {
  ReferenceOutput reference;
  for (const Number& sum : sums) {
    const numerics::RoundedOnce one = stored(dtype, sum);
    reference.value.push_back(one.value);
    reference.allowed.push_back(one.allowed);
    reference.ideal_square.push_back(one.ideal_square);
    reference.shift.push_back(one.shift);
  }
  return reference;
}

SpotCheck check_integers(const std::string& name, std::span<const std::int64_t> found,
                         std::span<const std::int64_t> expected) {
  if (found.size() != expected.size()) {
    return exact(fmt::format("{} has {} elements, not {}", name, found.size(), expected.size()));
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] != expected[i]) return exact(fmt::format("{}[{}] is {}, not {}", name, i, found[i], expected[i]));
  }
  return exact({});
}

SpotCheck check_moved_rows(const std::string& name, const TensorView& to, const TensorView& from,
                           std::span<const std::int64_t> source, std::uint64_t seed) {
  const std::int64_t rows = row_count(to), available = row_count(from);
  if (rows != static_cast<std::int64_t>(source.size()) || column_count(to) != column_count(from) ||
      to.dtype != from.dtype) {
    return exact(fmt::format("{} is {}, for {} rows of {}", name, to.describe(), source.size(), from.describe()));
  }
  const RowHash hash(seed);
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t at = source[static_cast<std::size_t>(i)];
    if (at >= available) return exact(fmt::format("{}: row {} comes from row {} of {}", name, i, at, available));
    const bool right = at < 0 ? is_zero(to, i) : hash(to, i) == hash(from, at);
    if (right) continue;
    return exact(at < 0 ? fmt::format("row {} of {} is not zero", i, name)
                        : fmt::format("row {} of {} is not row {} of its source", i, name, at));
  }
  return exact({});
}

SpotCheck check_same_rows(const std::string& name, const TensorView& a, const TensorView& b, std::uint64_t seed) {
  if (row_count(a) != row_count(b) || column_count(a) != column_count(b) || a.dtype != b.dtype) {
    return exact(fmt::format("{} is {}, not {}", name, a.describe(), b.describe()));
  }
  const RowHash hash(seed);
  std::uint64_t difference = 0;
  for (std::int64_t i = 0; i < row_count(a); ++i) difference += hash(a, i) - hash(b, i);
  return exact(difference == 0 ? std::string() : name + " does not hold the same rows");
}

}  // namespace ridge::ops::rows
