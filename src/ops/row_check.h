// Checks of operators that work row by row: norms, activations, RoPE, losses, optimisers. And of those that only add up
// columns, count, or move rows.
//
// An operator writes its definition once, as a row model: what each element of a row is, from the inputs of that row.
// The text is generic in its number. With doubles it gives the exact value; with Numbers, which carry along how far an
// fp32 kernel may be off, also the tolerance, so that none is written anywhere. From the model come
//
//   op.reference = rows::reference<row_model>;     every element, for the full compare
//   op.spot_check = rows::spot_check<row_model>;   every element after each launch: one read of all operands
//   op.device_check = rows::device_check<row_model>(...);   both on a GPU, from the same text (ops/row_device_check.h)
//
// with   auto row_model(const Problem&, const Arguments&) { return rows::model(reads, RowModel{...}); }
//
// and, in a file of its own that includes nothing (row_model.cuh), for the host and for a GPU
//
//   struct RowModel {
//     double alpha;                          // members of 8 bytes each: what differs from case to case
//     static constexpr int kStatistics = 1;  // what is the same for a whole row: a mean, a log-sum-exp
//     template <class Row>
//     RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const;
//     template <class Row, class T>
//     RIDGE_ROWS T element(const Row& row, const T* statistics, int output, rows::i64 column) const;
//   };
//
//   reads       how the operands are read, in their order (Reads)
//   row         row(operand, column) and statistics[k] are numbers of one kind, and so is what element() returns;
//               rows::sum(row, term) and rows::largest(row, term) go over all columns
//   output      counts the outputs from 0. Of an output that is Reads::kSum, element() is one term of the sum
//
// Contract: both functions are pure, take everything from their arguments, use the functions of rows:: (exp, sqrt, ...)
// and share no code with a kernel. Without statistics long rows are worked on in pieces. A constant that is easily
// mistaken (an eps) shows only where rows are as small as it: the operator's fill must have such rows.
#pragma once

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "numerics/cpu_isa.h"
#include "numerics/error_model.h"
#include "ops/op.h"
// clang-format off
#include "ops/row_numbers.cuh"
// clang-format on

namespace ridge::ops::rows {

// Finds the operands of a problem by name for a row model, and notes how it reads them: the others all in one way.
class Places {
 public:
  explicit Places(const Problem& problem, Reads others = kRow)
      : reads(problem.operands.size(), others), problem_(problem) {}
  // Its position; -1: the case has none.
  i64 operator()(std::string_view name, std::optional<Reads> how = {}) {
    const auto at = problem_.position(name);
    if (!at) return -1;
    if (how) reads[*at] = *how;
    return static_cast<i64>(*at);
  }
  // Which of the outputs it is; -1: the case has none.
  i64 output(std::string_view name, std::optional<Reads> how = {}) {
    const i64 at = (*this)(name, how);
    return at < 0 ? at
                  : std::count_if(problem_.operands.begin(), problem_.operands.begin() + at,
                                  [](const OperandSpec& operand) { return operand.output; });
  }
  std::vector<Reads> reads;

 private:
  const Problem& problem_;
};

// The operands of one row, by their index; of an output its old content, where that is read. Operands that are read by
// rows begin at column `first`.
struct Row {
  std::int64_t index = 0;
  std::array<const double*, kWarmOperands> operands{};
  std::array<std::int64_t, kWarmOperands> first{};
  std::int64_t columns = 0;  // of the whole row
};
// The same as numbers of one kind.
template <class T>
class RowOf {
 public:
  explicit RowOf(const Row& row) : row_(row) {}
  auto operator()(i64 operand, i64 column = 0) const {
    const auto at = static_cast<std::size_t>(operand);
    const double value = row_.operands[at][column - row_.first[at]];
    if constexpr (std::is_same_v<T, Number>) {
      return Exact(value);
    } else {
      return T(value);
    }
  }
  [[nodiscard]] i64 columns() const { return row_.columns; }
  [[nodiscard]] i64 index() const { return row_.index; }

  // Many sums side by side, so that a compiler makes vectors of them: a single one waits for itself at every addition.
  template <class Term>
  Sum add_up(const Term& term) const {
    constexpr i64 kLanes = 64;
    double value[kLanes] = {}, magnitude[kLanes] = {}, squares[kLanes] = {}, error[kLanes] = {}, variance[kLanes] = {};
    i64 j = 0;
    for (; j + kLanes <= row_.columns; j += kLanes) {
      for (i64 lane = 0; lane < kLanes; ++lane) {
        const Number t = term(j + lane);
        value[lane] += t.value;
        magnitude[lane] += std::fabs(t.value);
        squares[lane] += t.value * t.value;
        error[lane] += t.error;
        variance[lane] += t.variance;
      }
    }
    Sum sum;
    for (; j < row_.columns; ++j) sum.add(term(j));
    for (i64 lane = 0; lane < kLanes; ++lane) {
      sum.value += value[lane];
      sum.magnitude += magnitude[lane];
      sum.squares += squares[lane];
      sum.error += error[lane];
      sum.variance += variance[lane];
    }
    return sum;
  }
  template <class Term>
  Number largest(const Term& term) const {
    Number most(-HUGE_VAL);
    for (i64 j = 0; j < row_.columns; ++j) most = larger(term(j), most);
    return most;
  }

 private:
  Row row_;
};

// Runs `work` with everything that it calls in vectors of this processor: all of it is compiled once more for each. No
// fused operations: they would round other numbers.
#if defined(__x86_64__)
template <class Work>
[[gnu::target("avx512f,avx512bw,avx512vl,avx512dq,prefer-vector-width=512"), gnu::flatten]] void in_avx512(
    const Work& work) {
  work();
}
template <class Work>
[[gnu::target("avx2"), gnu::flatten]] void in_avx2(const Work& work) {
  work();
}
#endif
template <class Work>
void in_vectors(const Work& work) {
#if defined(__x86_64__)
  if (numerics::best_isa() == numerics::Isa::kAvx512) return in_avx512(work);
  if (numerics::best_isa() == numerics::Isa::kAvx2) return in_avx2(work);
#endif
  work();
}

template <class Definition>
struct Model {
  std::vector<Reads> reads;
  Definition definition;
};
template <class Definition>
Model<Definition> model(std::vector<Reads> reads, Definition definition) {
  return {std::move(reads), std::move(definition)};
}

template <class Definition>
inline constexpr bool kElementwise = Definition::kStatistics == 0;
// The statistics of a row, as Numbers and as exact values.
template <class Definition>
struct Statistics {
  std::array<Number, std::max(Definition::kStatistics, 1)> numbers;
  std::array<double, std::max(Definition::kStatistics, 1)> exact{};

  Statistics(const Definition& definition, const Row& row) {
    if constexpr (!kElementwise<Definition>) definition.statistics(RowOf<Number>(row), numbers.data());
    for (std::size_t k = 0; k < exact.size(); ++k) exact[k] = numbers[k].value;
  }
};

// Which rows and columns are looked at: all, or secret ones where an element costs more than reading it.
struct Sample {
  std::vector<std::int64_t> rows, columns;  // ascending; empty: all
};
// At most so many of each, drawn evenly: every row and column has the same chance in every launch.
Sample secret_sample(std::int64_t rows, std::int64_t columns, std::int64_t most_rows, std::int64_t most_columns,
                     std::uint64_t seed);

// The steps of a type, for the functions of row_numbers.cuh.
Format format_of(DType dtype);

// Reads the operands of a problem row by row. `after`: those after a launch, followed by the old content of each
// read_write one.
class Reader {
 public:
  Reader(const Problem& problem, std::span<const TensorView> operands, std::span<const Reads> reads, bool after);
  // What it can read: a row has room for so many operands, and the model says of each how it is read.
  [[nodiscard]] static Status takes(const Problem& problem, std::span<const Reads> reads);
  [[nodiscard]] std::int64_t rows() const { return rows_; }
  [[nodiscard]] std::int64_t columns() const { return columns_; }  // of the longest operand that is read by rows
  // The inputs of columns first .. first + count of a row; good until the next call.
  const Row& inputs(std::int64_t row, std::int64_t first, std::int64_t count);
  // What is stored there of an output, in fp64.
  const double* found(std::size_t operand, std::int64_t row, std::int64_t first, std::int64_t count);

 private:
  void load(std::size_t operand, const TensorView& view, std::int64_t row, std::int64_t first, std::int64_t count,
            std::vector<double>& into) const;
  const Problem& problem_;
  std::vector<TensorView> inputs_, outputs_;  // by operand; without data: not read
  std::vector<Reads> reads_;
  std::vector<std::vector<double>> buffers_, found_;
  std::vector<bool> kept_;  // shared operands that were read already
  std::int64_t rows_ = 0, columns_ = 0;
  Row row_;
};

// Compares elements with what they may be, and adds up: the worst one, and the mean square error in units of the ideal
// kernel's.
class Judge {
 public:
  Judge(const Problem& problem, std::size_t operand);
  [[nodiscard]] const Format& format() const { return format_; }
  // One element, exactly.
  void see(std::int64_t row, std::int64_t column, double found, const Number& expected);
  // Which of `count` elements are further from their exact values than a rounding and a relative error of `slack`:
  // their places go to `open`. Returns how many.
  std::int64_t sift(const double* found, const double* exact, std::int64_t count, double slack,
                    std::uint16_t* open) const {
    const Format format = format_;
    std::int64_t further[kPiece], any = 0;  // as wide as the numbers
    const auto look_through = [&](auto is_f32) {
      for (std::int64_t j = 0; j < count; ++j) {
        further[j] = surely_right(format, is_f32(), found[j], exact[j], slack) ? 0 : 1;
        any |= further[j];
      }
    };
    format.is_f32 != 0 ? look_through(std::true_type()) : look_through(std::false_type());
    std::int64_t left = 0;
    for (std::int64_t j = 0; any != 0 && j < count; ++j) {
      if (further[j] != 0) open[left++] = static_cast<std::uint16_t>(j);
    }
    return left;
  }
  // An element that sift() left over.
  void look(std::int64_t row, std::int64_t column, double found, const Number& expected);
  // Adds what was found about this output. `shared`: elements of one row share an error, that of its statistics, so
  // that rows and not elements are independent.
  void conclude(SpotCheck& into, bool shared) const;

 private:
  const Problem& problem_;
  std::size_t operand_;
  Format format_;
  std::int64_t last_row_ = -1;
  double worst_ = 0, squares_ = 0;
  std::int64_t elements_ = 0, rows_ = 0, worst_row_ = 0, worst_column_ = 0;
  // Runs of equal elements that may be equal numbers, which have one error: so many are independent at most.
  std::int64_t runs_ = 0;
  double last_found_ = 0, last_expected_ = 0;
  double worst_found_ = 0;
  Stored worst_expected_;
  bool all_finite_ = true;
};

// The sums over all rows of an output that is Reads::kSum. Memory for three numbers per column.
class ColumnSums {
 public:
  ColumnSums(std::int64_t columns, std::int64_t rows);
  // Adds element(column) for columns first .. first + count.
  template <class Element>
  void add(std::int64_t first, std::int64_t count, const Element& element) {
    double *const value = value_.data(), *const error = error_.data(), *const variance = variance_.data();
    for (std::int64_t j = first; j < first + count; ++j) {
      const Number term = element(j);
      value[j] += term.value;
      error[j] += term.error + per_magnitude_ * std::fabs(term.value);
      variance[j] += term.variance + per_square_ * term.value * term.value;
    }
  }
  [[nodiscard]] std::int64_t columns() const { return std::ssize(value_); }
  [[nodiscard]] Number at(std::int64_t column) const {
    const auto j = static_cast<std::size_t>(column);
    return finished_sum(length_, value_[j], error_[j], variance_[j]);
  }

 private:
  double length_, per_magnitude_, per_square_;
  std::vector<double> value_, error_, variance_;
};

inline constexpr std::int64_t kShare = 16;  // of so many columns one is held against its Number whatever it looks like

// Checks a piece of a row of one output: every element against its exact value, a secret share of them against their
// Numbers, which also tell how far the others may be off, and then those that are further. `found` begins with column
// `first`.
template <class Definition>
void check_piece(const Definition& definition, const Row& row, const Statistics<Definition>& statistics, int output,
                 std::int64_t first, std::int64_t count, const double* found, std::uint64_t secret, Judge& judge) {
  const RowOf<Number> numbers(row);
  const RowOf<double> doubles(row);
  const auto number = [&](std::int64_t at) -> Number {
    return definition.element(numbers, statistics.numbers.data(), output, first + at);
  };
  double slack = HUGE_VAL, exact[kPiece];
  const std::int64_t share = count < 4 * kShare ? 1 : kShare;
  for (auto j = static_cast<std::int64_t>(secret % static_cast<std::uint64_t>(share)); j < count; j += share) {
    const Number expected = number(j);
    judge.see(row.index, first + j, found[j], expected);
    if (expected.value != 0) slack = std::min(slack, 0.5 * expected.error / std::fabs(expected.value));
  }
  if (share == 1) return;
  for (std::int64_t j = 0; j < count; ++j) {
    exact[j] = definition.element(doubles, statistics.exact.data(), output, first + j);
  }
  std::uint16_t open[kPiece];
  const std::int64_t left = judge.sift(found, exact, count, std::isfinite(slack) ? slack : 0, open);
  for (std::int64_t i = 0; i < left; ++i) judge.look(row.index, first + open[i], found[open[i]], number(open[i]));
}

// Every element of these rows and columns; sums are over all rows whatever the sample. `residual` is the worst error in
// units of what is allowed, or the RMS error in units of its limit, whichever is larger; it passes up to 1.
template <class Definition>
Result<SpotCheck> check(const Problem& problem, std::span<const TensorView> operands, const Model<Definition>& m,
                        std::uint64_t seed, const Sample& sample = {}) {
  RIDGE_CHECK_OK(Reader::takes(problem, m.reads));
  Reader reader(problem, operands, m.reads, true);
  struct Output {
    std::size_t operand;
    int index;
    Judge judge;
    std::optional<ColumnSums> sums;
  };
  std::vector<Output> outputs;
  int next = 0;
  bool sums = false;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (!problem.operands[i].output) continue;
    const int index = next++;
    if (m.reads[i] == kApart) continue;
    outputs.push_back({i, index, Judge(problem, i), std::nullopt});
    if (m.reads[i] != kSum) continue;
    sums = true;
    outputs.back().sums.emplace(reader.columns(), reader.rows());
  }
  const auto look_at = [&](std::int64_t index, std::int64_t first, std::int64_t count, bool sums_alone) {
    const Row& row = reader.inputs(index, first, count);
    const RowOf<Number> numbers(row);
    const Statistics<Definition> statistics(m.definition, row);
    for (Output& output : outputs) {
      const auto number = [&](std::int64_t column) -> Number {
        return m.definition.element(numbers, statistics.numbers.data(), output.index, column);
      };
      if (output.sums) {
        output.sums->add(first, count, number);
        continue;
      }
      const bool scalar = m.reads[output.operand] == kScalar;
      if (sums_alone || (scalar && first != 0)) continue;
      const double* const found = reader.found(output.operand, index, first, count);
      if (scalar) {
        output.judge.see(index, 0, *found, number(0));
        continue;
      }
      for (const std::int64_t column : sample.columns) {
        if (column < first || column >= first + count) continue;
        output.judge.see(index, column, found[column - first], number(column));
      }
      for (std::int64_t at = 0; sample.columns.empty() && at < count; at += kPiece) {
        const std::uint64_t secret = (seed ^ static_cast<std::uint64_t>(index)) * 0x9e3779b97f4a7c15 >> 32;
        check_piece(m.definition, row, statistics, output.index, first + at, std::min<std::int64_t>(kPiece, count - at),
                    found + at, secret + static_cast<std::uint64_t>(first + at) / kPiece, output.judge);
      }
    }
  };
  auto drawn = sample.rows.begin();
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const bool wanted = sample.rows.empty() || (drawn != sample.rows.end() && *drawn == index);
    if (wanted && !sample.rows.empty()) ++drawn;
    if (!wanted && !sums) continue;
    const std::int64_t step = kElementwise<Definition> ? kPiece : reader.columns();
    for (std::int64_t first = 0; first < reader.columns(); first += step) {
      in_vectors([&] { look_at(index, first, std::min(step, reader.columns() - first), !wanted); });
    }
  }
  SpotCheck result;
  result.allowed = result.blind_factor = 1;
  for (Output& output : outputs) {
    for (std::int64_t j = 0; output.sums && j < output.sums->columns(); ++j) {
      output.judge.see(0, j, *reader.found(output.operand, 0, j, 1), output.sums->at(j));
    }
    output.judge.conclude(result, !kElementwise<Definition> && !output.sums);
  }
  return result;
}

// Appends what an output may hold there to what the full compare wants.
void append(ReferenceOutput& reference, const Stored& one);

// All outputs as the full compare wants them; nothing of one that is Reads::kApart.
template <class Definition>
Result<std::vector<ReferenceOutput>> reference_of(const Problem& problem, std::span<const TensorView> operands,
                                                  const Model<Definition>& m) {
  RIDGE_CHECK_OK(Reader::takes(problem, m.reads));
  Reader reader(problem, operands, m.reads, false);
  std::vector<ReferenceOutput> references;
  std::vector<std::size_t> outputs;
  for (std::size_t i = 0; i < problem.operands.size(); ++i) {
    if (problem.operands[i].output) outputs.push_back(i);
  }
  references.resize(outputs.size());
  std::vector<std::optional<ColumnSums>> sums(outputs.size());
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (m.reads[outputs[o]] == kSum) sums[o].emplace(reader.columns(), reader.rows());
  }
  for (std::int64_t index = 0; index < reader.rows(); ++index) {
    const Row& row = reader.inputs(index, 0, reader.columns());
    const RowOf<Number> numbers(row);
    const Statistics<Definition> statistics(m.definition, row);
    for (std::size_t o = 0; o < outputs.size(); ++o) {
      const auto number = [&](std::int64_t column) -> Number {
        return m.definition.element(numbers, statistics.numbers.data(), static_cast<int>(o), column);
      };
      const Reads reads = m.reads[outputs[o]];
      const Format format = format_of(problem.operands[outputs[o]].dtype);
      if (reads == kSum) sums[o]->add(0, reader.columns(), number);
      if (reads == kScalar) append(references[o], stored(format, number(0)));
      for (std::int64_t j = 0; reads == kRow && j < reader.columns(); ++j) {
        append(references[o], stored(format, number(j)));
      }
    }
  }
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!sums[o]) continue;
    const Format format = format_of(problem.operands[outputs[o]].dtype);
    for (std::int64_t j = 0; j < sums[o]->columns(); ++j) append(references[o], stored(format, sums[o]->at(j)));
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
