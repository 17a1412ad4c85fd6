// Checks of operators that work row by row: norms, activations, RoPE, losses, optimisers. And of those that only add up
// columns, count, or move rows.
//
// An operator writes its definition once, as a row model: what each element of a row is, from the inputs of that row.
// The text is generic in its number. With doubles it gives the exact value; with Numbers, which carry along how far an
// fp32 kernel may be off, also the tolerance, so that none is written anywhere. From the model come
//
//   op.reference = rows::reference<row_model>;     every element, for the full compare
//   op.spot_check = rows::spot_check<row_model>;   every element after each launch: one read of all operands
//
// with   auto row_model(const Problem&, const Arguments&) { return rows::model(reads, statistics, element); }
//
//   reads       how the operands are read, in their order (Reads)
//   statistics  [](const rows::RowOf<rows::Number>& row) -> std::array<rows::Number, K>: what is the same for a whole
//               row (a mean, a log-sum-exp)
//   element     [](const auto& row, const auto& statistics, std::size_t output, std::size_t column): row(operand,
//               column) and statistics[k] are numbers of one kind, and so is what is returned
//
// Contract: both are pure, take everything from their arguments, use the functions of rows:: (exp, sqrt, ...) and share
// no code with a kernel. `output` counts the outputs from 0. Without statistics (rows::elementwise) long rows are read
// in pieces, and `column` counts from the beginning of the piece. A constant that is easily mistaken (an eps) shows
// only where rows are as small as it: the operator's fill must have such rows.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstdint>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "numerics/error_model.h"
#include "ops/op.h"

namespace ridge::ops::rows {

// A number as a right fp32 kernel may have it: at most `error` off, by about the root of `variance`.
struct Number {
  double value = 0, error = 0, variance = 0;

  Number() = default;
  Number(double exact) : value(exact) {}
  Number(double v, double e, double s) : value(v), error(e), variance(s) {}
};

inline constexpr double kUnit = 0x1p-24;  // the largest relative error of one rounding in fp32

// One operation more: a rounding to fp32, or `steps` of them.
inline Number rounded(Number x, double steps = 1) {
  const double size = std::fabs(x.value);
  return {x.value, x.error + steps * (kUnit * size + 0x1p-150),
          x.variance + steps * steps * kUnit * kUnit * size * size / 6};
}
inline Number operator+(const Number& a, const Number& b) {
  return rounded({a.value + b.value, a.error + b.error, a.variance + b.variance});
}
inline Number operator-(const Number& a, const Number& b) {
  return rounded({a.value - b.value, a.error + b.error, a.variance + b.variance});
}
inline Number operator*(const Number& a, const Number& b) {
  // Below the normal numbers the product of three depends on their order: a few of the smallest numbers more.
  const double size_a = std::fabs(a.value), size_b = std::fabs(b.value), least = 0x1p-148 * (1 + size_a + size_b);
  return rounded({a.value * b.value, size_a * b.error + size_b * a.error + a.error * b.error + least,
                  a.value * a.value * b.variance + b.value * b.value * a.variance});
}
// A function of fp32 that is off by so many steps of its own: `value` and `slope` are those of f at x.
inline Number function(const Number& x, double value, double slope, double steps = 4) {
  return rounded({value, std::fabs(slope) * x.error, slope * slope * x.variance}, steps);
}
inline Number operator/(const Number& a, const Number& b) {
  return a * function(b, 1 / b.value, 1 / (b.value * b.value), 1);
}
inline Number sqrt(const Number& x) {
  const double root = std::sqrt(x.value);
  return function(x, root, 0.5 / root, 2);
}
inline Number rsqrt(const Number& x) {
  const double inverse = 1 / std::sqrt(x.value);
  return function(x, inverse, 0.5 * inverse / x.value, 2);
}
inline Number exp(const Number& x) {
  const double power = std::exp(x.value);
  return function(x, power, power);
}
inline Number log(const Number& x) { return function(x, std::log(x.value), 1 / x.value); }
inline double sqrt(double x) { return std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline double exp(double x) { return std::exp(x); }
inline double log(double x) { return std::log(x); }

// The expected square of the rounding errors of an fp32 sum. Terms of random sign round as error_model.h has it; what
// they have in common, the sum itself, may round the same way again and again (squares of numbers of few bits measure
// nine times the root of that model), so it counts for eighteen times as much.
inline double sum_variance(double length, double squares, double value) {
  return kUnit * kUnit * length * (squares / 12 + value * value);
}

// The fp32 sum of n terms in any order.
template <class Term>
Number sum(std::size_t n, const Term& term) {
  double value = 0, magnitude = 0, squares = 0, error = 0, variance = 0;
  for (std::size_t j = 0; j < n; ++j) {
    const Number t = term(j);
    value += t.value;
    magnitude += std::fabs(t.value);
    squares += t.value * t.value;
    error += t.error;
    variance += t.variance;
  }
  const numerics::Reduction reduction{DType::kF32, DType::kF32, static_cast<std::int64_t>(n)};
  return {value, error + numerics::accumulation_bound(reduction, magnitude),
          variance + sum_variance(static_cast<double>(n), squares, value)};
}

// How an operand meets the rows.
enum class Reads : std::uint8_t {
  kRow,     // [..., columns]: row i goes with row i
  kScalar,  // one element per row: a label, a saved statistic, a loss
  kShared   // the whole of it goes with every row: a weight
};

// The operands of one row, by their index; of an output its old content, where that is read.
struct Row {
  std::int64_t index = 0;
  std::array<const double*, kWarmOperands> operands{};
  std::size_t first = 0, columns = 0;  // of those that are read by rows, or of the piece that is at hand
};
// The same as numbers of one kind.
template <class T>
class RowOf {
 public:
  explicit RowOf(const Row& row) : row_(row) {}
  T operator()(std::size_t operand, std::size_t column = 0) const { return T(row_.operands[operand][column]); }
  [[nodiscard]] std::size_t columns() const { return row_.columns; }
  [[nodiscard]] std::int64_t index() const { return row_.index; }

 private:
  Row row_;
};

using NoStatistics = std::array<Number, 0>;

template <class Statistics, class Element>
struct Model {
  std::vector<Reads> reads;
  Statistics statistics;
  Element element;
};
template <class Statistics, class Element>
Model<Statistics, Element> model(std::vector<Reads> reads, Statistics statistics, Element element) {
  return {std::move(reads), std::move(statistics), std::move(element)};
}
// element(row, output, column)
template <class Element>
auto elementwise(std::vector<Reads> reads, Element element) {
  return model(
      std::move(reads), [](const RowOf<Number>&) { return NoStatistics(); },
      [element = std::move(element)](const auto& row, const auto&, std::size_t output, std::size_t column) {
        return element(row, output, column);
      });
}

// Which rows and columns are looked at: all, or secret ones where an element costs more than reading it.
struct Sample {
  std::vector<std::int64_t> rows, columns;  // ascending; empty: all
};
// At most so many of each, drawn evenly: every row and column has the same chance in every launch.
Sample secret_sample(std::int64_t rows, std::int64_t columns, std::int64_t most_rows, std::int64_t most_columns,
                     std::uint64_t seed);

// What an element may be once it is stored: RoundedOnce for a Number. What was computed in fp32 is stored there without
// another rounding.
numerics::RoundedOnce stored(DType dtype, const Number& number);

// Reads the operands of a problem row by row. `after`: those after a launch, followed by the old content of each
// read_write one.
class Reader {
 public:
  Reader(const Problem& problem, std::span<const TensorView> operands, std::span<const Reads> reads, bool after);
  // What it can read: a row has room for so many operands.
  [[nodiscard]] static Status takes(const Problem& problem);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::size_t columns() const { return columns_; }  // of the longest operand that is read by rows
  // The inputs of columns first .. first + count of a row; the spans are good until the next call.
  const Row& inputs(std::int64_t row, std::size_t first, std::size_t count);
  // What is stored there of an output, in fp64.
  const double* found(std::size_t operand, std::int64_t row, std::size_t first, std::size_t count);

 private:
  const double* load(std::size_t operand, const TensorView& view, std::int64_t row, std::size_t first,
                     std::size_t count);
  const Problem& problem_;
  std::vector<TensorView> inputs_, outputs_;  // by operand; without data: not read
  std::vector<Reads> reads_;
  std::vector<std::vector<double>> buffers_, found_;
  std::vector<bool> kept_;  // shared operands that were read already
  std::int64_t rows_ = 0;
  std::size_t columns_ = 0;
  Row row_;
};

// Compares elements with what they may be, and adds up: the worst one, and the mean square error in units of the ideal
// kernel's.
class Judge {
 public:
  Judge(const Problem& problem, std::size_t operand);
  // One element, exactly.
  void see(std::int64_t row, std::size_t column, double found, const Number& expected);
  // Which of `count` elements are further from their exact values than a rounding and a relative error of `slack`:
  // their places go to `open`. Returns how many.
  std::size_t sift(const double* found, const double* exact, std::size_t count, double slack,
                   std::uint16_t* open) const;
  // An element that sift() left over.
  void look(std::int64_t row, std::size_t column, double found, const Number& expected);
  // Adds what was found about this output. `shared`: elements of one row share an error, that of its statistics, so
  // that rows and not elements are independent.
  void conclude(SpotCheck& into, bool shared) const;

 private:
  [[nodiscard]] double step_at(double reach) const;
  [[nodiscard]] double surely_allowed(double step, double error) const;
  const Problem& problem_;
  std::size_t operand_;
  DType dtype_;
  std::int64_t smallest_exponent_, last_row_ = -1;
  double spacing_, most_;
  double worst_ = 0, squares_ = 0;
  std::int64_t elements_ = 0, rows_ = 0, worst_row_ = 0;
  std::size_t worst_column_ = 0;
  double worst_found_ = 0;
  numerics::RoundedOnce worst_expected_;
  bool all_finite_ = true;
};

inline constexpr std::size_t kPiece = 512;  // columns that are worked on at a time: they stay in the first cache
inline constexpr std::size_t kShare = 16;   // of so many columns one is held against its Number whatever it looks like

// Checks a piece of a row of one output: every element against its exact value, a secret share of them against their
// Numbers, which also tell how far the others may be off, and then those that are further.
template <class Statistics, class Element>
void check_piece(const Model<Statistics, Element>& m, const Row& row, const auto& statistics, std::size_t output,
                 std::size_t first, std::size_t count, const double* found, std::uint64_t secret, Judge& judge) {
  const RowOf<Number> numbers(row);
  const RowOf<double> doubles(row);
  std::array<double, std::tuple_size_v<std::remove_cvref_t<decltype(statistics)>>> exact_statistics{};
  for (std::size_t k = 0; k < exact_statistics.size(); ++k) exact_statistics[k] = statistics[k].value;
  double slack = HUGE_VAL, exact[kPiece];
  const std::size_t share = count < 4 * kShare ? 1 : kShare;
  for (std::size_t j = secret % share; j < count; j += share) {
    const Number expected = m.element(numbers, statistics, output, first + j);
    judge.see(row.index, row.first + first + j, found[first + j], expected);
    if (expected.value != 0) slack = std::min(slack, 0.5 * expected.error / std::fabs(expected.value));
  }
  if (share == 1) return;
  for (std::size_t j = 0; j < count; ++j) exact[j] = m.element(doubles, exact_statistics, output, first + j);
  std::uint16_t open[kPiece];
  const std::size_t left = judge.sift(found + first, exact, count, std::isfinite(slack) ? slack : 0, open);
  for (std::size_t i = 0; i < left; ++i) {
    const std::size_t j = first + open[i];
    judge.look(row.index, row.first + j, found[j], m.element(numbers, statistics, output, j));
  }
}

// Every element of these rows and columns. `residual` is the worst error in units of what is allowed, or the RMS error
// in units of its limit, whichever is larger; it passes up to 1.
template <class Statistics, class Element>
Result<SpotCheck> check(const Problem& problem, std::span<const TensorView> operands,
                        const Model<Statistics, Element>& m, std::uint64_t seed, const Sample& sample = {}) {
  constexpr bool kPieces = std::is_same_v<std::invoke_result_t<Statistics, const RowOf<Number>&>, NoStatistics>;
  RIDGE_CHECK_OK(Reader::takes(problem));
  Reader reader(problem, operands, m.reads, true);
  std::vector<Judge> judges;
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    outputs.push_back(i);
    judges.emplace_back(problem, i);
  }
  const auto look_at = [&](std::int64_t index, std::size_t first, std::size_t count) {
    const Row& row = reader.inputs(index, first, count);
    const RowOf<Number> numbers(row);
    const auto statistics = m.statistics(numbers);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const bool scalar = m.reads[outputs[o]] != Reads::kRow;
      if (scalar && first != 0) continue;
      const double* const found = reader.found(outputs[o], index, first, count);
      if (scalar) {
        judges[o].see(index, 0, *found, m.element(numbers, statistics, o, 0));
        continue;
      }
      for (const std::int64_t column : sample.columns) {
        const std::size_t at = static_cast<std::size_t>(column) - first;
        if (at < count) judges[o].see(index, first + at, found[at], m.element(numbers, statistics, o, at));
      }
      for (std::size_t at = 0; sample.columns.empty() && at < count; at += kPiece) {
        const std::uint64_t secret = (seed ^ static_cast<std::uint64_t>(index)) * 0x9e3779b97f4a7c15 >> 32;
        check_piece(m, row, statistics, o, at, std::min(kPiece, count - at), found, secret + at, judges[o]);
      }
    }
  };
  const std::int64_t rows = sample.rows.empty() ? reader.rows() : static_cast<std::int64_t>(sample.rows.size());
  for (std::int64_t i = 0; i < rows; ++i) {
    const std::int64_t index = sample.rows.empty() ? i : sample.rows[static_cast<std::size_t>(i)];
    const std::size_t step = kPieces ? kPiece : std::max<std::size_t>(reader.columns(), 1);
    for (std::size_t first = 0; first == 0 || first < reader.columns(); first += step) {
      look_at(index, first, std::min(step, reader.columns() - first));
    }
  }
  SpotCheck result;
  result.allowed = result.blind_factor = 1;
  for (const Judge& judge : judges) judge.conclude(result, !kPieces);
  return result;
}

// All outputs as the full compare wants them.
template <class Statistics, class Element>
Result<std::vector<ReferenceOutput>> reference_of(const Problem& problem, std::span<const TensorView> operands,
                                                  const Model<Statistics, Element>& m) {
  RIDGE_CHECK_OK(Reader::takes(problem));
  Reader reader(problem, operands, m.reads, false);
  std::vector<ReferenceOutput> references;
  for (const OperandSpec& spec : problem.operands) {
    if (spec.output) references.emplace_back();
  }
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const RowOf<Number> row(reader.inputs(index, 0, reader.columns()));
    const auto statistics = m.statistics(row);
    std::size_t output = 0;
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      if (!problem.operands[i].output) continue;
      ReferenceOutput& reference = references[output];
      const std::size_t width = m.reads[i] == Reads::kRow ? reader.columns() : 1;
      for (std::size_t j = 0; j < width; ++j) {
        const numerics::RoundedOnce one = stored(problem.operands[i].dtype, m.element(row, statistics, output, j));
        reference.value.push_back(one.value);
        reference.allowed.push_back(one.allowed);
        reference.ideal_square.push_back(one.ideal_square);
        reference.shift.push_back(one.shift);
      }
      ++output;
    }
  }
  return references;
}

// For Operator::reference and Operator::spot_check, from a function that makes the model of a call.
template <auto row_model>
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments) {
  return reference_of(problem, arguments.operands, row_model(problem, arguments));
}
template <auto row_model>
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed) {
  return check(problem, arguments.operands, row_model(problem, arguments), seed);
}

// An output of [columns] that adds up one term per row, the gradient of a weight: term(row, statistics, column) is a
// Number. One pass over the rows; memory for one number per column.
template <class Statistics, class Term>
Result<std::vector<Number>> column_sums(const Problem& problem, std::span<const TensorView> operands, bool after,
                                        const Model<Statistics, Term>& m) {
  RIDGE_CHECK_OK(Reader::takes(problem));
  Reader reader(problem, operands, m.reads, after);
  const std::size_t columns = reader.columns();
  std::vector<double> value(columns), magnitude(columns), squares(columns), error(columns), variance(columns);
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const RowOf<Number> row(reader.inputs(index, 0, columns));
    const auto statistics = m.statistics(row);
    for (std::size_t j = 0; j < columns; ++j) {
      const Number term = m.element(row, statistics, j);
      value[j] += term.value;
      magnitude[j] += std::fabs(term.value);
      squares[j] += term.value * term.value;
      error[j] += term.error;
      variance[j] += term.variance;
    }
  }
  const auto length = static_cast<double>(reader.rows());
  const numerics::Reduction reduction{DType::kF32, DType::kF32, reader.rows()};
  std::vector<Number> sums;
  for (std::size_t j = 0; j < columns; ++j) {
    sums.push_back({value[j], error[j] + numerics::accumulation_bound(reduction, magnitude[j]),
                    variance[j] + sum_variance(length, squares[j], value[j])});
  }
  return sums;
}
// Such an output against its sums, and the sums for the full compare.
SpotCheck check_sums(const Problem& problem, std::size_t operand, const TensorView& found,
                     std::span<const Number> sums);
ReferenceOutput reference_of_sums(DType dtype, std::span<const Number> sums);

// Counts, offsets, indices: equal or wrong.
SpotCheck check_integers(const std::string& name, std::span<const std::int64_t> found,
                         std::span<const std::int64_t> expected);

// Row i of `to` must be row source[i] of `from`, bit by bit, and zero where source[i] is negative. Rows are compared by
// hashes under a secret key: two reads, and no copy.
SpotCheck check_moved_rows(const std::string& name, const TensorView& to, const TensorView& from,
                           std::span<const std::int64_t> source, std::uint64_t seed);
// The rows of `a` are those of `b` in some order, each as often: for a routing whose order within an expert is free.
SpotCheck check_same_rows(const std::string& name, const TensorView& a, const TensorView& b, std::uint64_t seed);

}  // namespace ridge::ops::rows
