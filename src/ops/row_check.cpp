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

std::int64_t row_count(const TensorView& view) {
  std::int64_t rows = 1;
  for (int d = 0; d + 1 < view.rank; ++d) rows *= view.shape[static_cast<std::size_t>(d)];
  return rows;
}
std::int64_t column_count(const TensorView& view) {
  return view.rank == 0 ? 1 : view.shape[static_cast<std::size_t>(view.rank - 1)];
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
    const std::size_t bytes = size_bytes(view.dtype, column_count(view));
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
  const std::size_t bytes = size_bytes(view.dtype, column_count(view));
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

Format format_of(DType dtype) {
  const numerics::FloatFormat layout = numerics::format_of(dtype);
  Format format;
  format.spacing = std::ldexp(1.0, -layout.mantissa_bits);
  format.least_normal = std::ldexp(1.0, layout.min_exponent());
  format.most = numerics::max_value(dtype);
  format.beyond = numerics::round_to(dtype, HUGE_VAL);
  format.is_f32 = dtype == DType::kF32 ? 1 : 0;
  return format;
}

Status Reader::takes(const Problem& problem, std::span<const Reads> reads) {
  if (problem.operands.size() > kWarmOperands) {
    return make_error(ErrorCode::kUnsupported, "{}: {} operands; a row check reads at most {}",
                      problem.problem_case.text(), problem.operands.size(), kWarmOperands);
  }
  if (reads.size() == problem.operands.size()) return ok_status();
  return make_error(ErrorCode::kInternal, "{}: its row model says of {} operands how they are read; there are {}",
                    problem.problem_case.text(), reads.size(), problem.operands.size());
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
    if (reads_[i] != kRow) continue;
    rows_ = std::max(rows_, row_count(operands[i]));
    columns_ = std::max(columns_, column_count(operands[i]));
  }
  if (columns_ == 0) rows_ = 0;
}

void Reader::load(std::size_t operand, const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t count,
                  std::vector<double>& into) const {
  const std::int64_t apart = view.rank == 0 ? 1 : view.stride[static_cast<std::size_t>(view.rank - 1)];
  switch (reads_[operand]) {
    case kApart: break;
    case kShared:
      into.resize(static_cast<std::size_t>(view.element_count()));
      for (std::size_t j = 0; j < into.size(); ++j) {
        into[j] = numerics::load_element(view, static_cast<std::int64_t>(j));
      }
      break;
    case kScalar: into.assign(1, numerics::load_element(view, row)); break;
    case kSum: row = 0; [[fallthrough]];
    case kRow:
      into.resize(static_cast<std::size_t>(std::clamp<std::int64_t>(column_count(view) - first, 0, count)));
      load_run(view, row_offset(view, row) + first * apart, apart, into);
      break;
  }
}

const Row& Reader::inputs(std::int64_t row, std::int64_t first, std::int64_t count) {
  row_.index = row;
  row_.columns = columns_;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    if (problem_.operands[i].output && !problem_.operands[i].read_write) continue;
    const bool shared = reads_[i] == kShared;
    if (!shared || !kept_[i]) load(i, inputs_[i], row, first, count, buffers_[i]);
    kept_[i] = shared;
    row_.operands[i] = buffers_[i].data();
    row_.first[i] = reads_[i] == kRow ? first : 0;
  }
  return row_;
}

const double* Reader::found(std::size_t operand, std::int64_t row, std::int64_t first, std::int64_t count) {
  load(operand, outputs_[operand], row, first, count, found_[operand]);
  return found_[operand].data();
}

Judge::Judge(const Problem& problem, std::size_t operand)
    : problem_(problem), operand_(operand), format_(format_of(problem.operands[operand].dtype)) {}

void Judge::see(std::int64_t row, std::int64_t column, double found, const Number& expected) {
  look(row, column, found, expected);
  if (!std::isfinite(found) || !std::isfinite(expected.value)) return;
  squares_ += normal_square(format_, found, expected);
  ++elements_;
  rows_ += row != last_row_ ? 1 : 0;
  last_row_ = row;
  runs_ += runs_ == 0 || found != last_found_ || expected.value != last_expected_ ? 1 : 0;
  last_found_ = found, last_expected_ = expected.value;
}

void Judge::look(std::int64_t row, std::int64_t column, double found, const Number& expected) {
  if (!std::isfinite(found)) all_finite_ = false;
  // Most are the nearest number, or well within a bound that is wider than a step.
  const double distance = std::fabs(found - expected.value);
  const double least = surely_allowed(format_.is_f32 != 0, format_.step(std::fabs(expected.value)), expected.error);
  if (distance <= least && distance <= worst_ * least) return;
  Stored right;
  double ratio = error_ratio(format_, found, expected, right);
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
  const double limit = numerics::rms_limit(std::max<std::int64_t>(shared ? rows_ : runs_, 1));
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

ColumnSums::ColumnSums(std::int64_t columns, std::int64_t rows)
    : length_(static_cast<double>(rows)),
      per_magnitude_(sum_error(length_)),
      per_square_(sum_variance(length_)),
      value_(static_cast<std::size_t>(columns)),
      error_(value_.size()),
      variance_(value_.size()) {}

void append(ReferenceOutput& reference, const Stored& one) {
  reference.value.push_back(one.value);
  reference.allowed.push_back(one.allowed);
  reference.ideal_square.push_back(one.ideal_square);
  reference.shift.push_back(one.shift);
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
