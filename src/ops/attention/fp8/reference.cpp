// The definition, in fp64, a row at a time, and how far sums of the matrix unit and weights of 8 bits may be from it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "ops/attention/fp8/fp8.h"
#include "ops/matmul/matrix_unit.h"

namespace ridge::ops::attention_fp8 {
namespace {

using attention::Rows;
using attention::Shape;

constexpr double kU = 0x1p-24, kInfinity = std::numeric_limits<double>::infinity(),
                 kNoNumber = std::numeric_limits<double>::quiet_NaN();
constexpr double kMostFactor = 0x1p99;     // of scores
constexpr std::int64_t kKeysAtOnce = 128;  // that the matrix unit adds up
// Weights as e4m3: half a step of one, relative to it, and the smallest step, relative to the largest weight, whose
// code is at least 2^6. The matrix unit aligns codes below the least normal one as if they were that.
constexpr double kWeightRoundoff = 0x1p-4, kLeastStep = 0x1p-15, kLeastNormal = 0x1p-12;

double aligned(double code) {
  return code == 0 ? 0.0 : std::max(std::fabs(code), numerics::min_normal(DType::kE4m3fn));
}

// A head of k or v with what the matrix unit may lose of products with it: [terms of the sum, columns].
struct Factor {
  std::vector<double> values;
  ProductModel model;

  [[nodiscard]] Truncation truncation(std::vector<double> row, std::vector<double> weights) {
    model.weight_a = std::move(weights);
    return matrix_unit_truncation(model, row, values);
  }
};

Factor factor_of(std::vector<double> values, std::int64_t terms, std::int64_t columns, std::int64_t at_once) {
  Factor made{std::move(values), {}};
  made.model.m = 1, made.model.n = columns, made.model.k = terms;
  made.model.matrix_unit_terms = at_once;
  made.model.weight_b.resize(made.values.size());
  std::ranges::transform(made.values, made.model.weight_b.begin(), aligned);
  return made;
}

// What a query head reads.
struct Head {
  std::int64_t batch = 0, head = 0, kv_head = 0;
  double factor = 1, value_scale = 1;  // of scores and of values
  Factor keys, values;                 // keys turned
};

struct Row {
  std::vector<std::int64_t> keys;  // that it sees
  std::vector<double> weights;     // exp(score - log-sum-exp) of each, or NaN
  double log_sum_exp = -kInfinity;
  double unit = 0;            // the largest weight
  double score_error = 0;     // e of the contract
  double score_variance = 0;  // of the ideal kernel's worst score
};

Row row_of(const Rows& q, const Rows& k, Head& head, std::int64_t query, const Shape& s) {
  Row row;
  row.keys = attention::keys_seen(s, {}, query).keys;
  if (row.keys.empty()) return row;
  const double* const codes = q.row(head.batch, query, head.head);
  std::vector<double> own(codes, codes + s.dim), weights(own.size());
  std::ranges::transform(own, weights.begin(), aligned);
  const Truncation lost = head.keys.truncation(std::move(own), std::move(weights));
  double most = -kInfinity, largest = 0, error = 0;
  bool broken = !(head.factor >= 0 && head.factor <= kMostFactor);
  for (const std::int64_t j : row.keys) {
    const auto at = static_cast<std::size_t>(j);
    const double score =
        head.factor * attention::sums_of_products(codes, k.row(head.batch, j, head.kv_head), s.dim).value;
    row.weights.push_back(score);
    broken = broken || std::isnan(score);
    most = std::max(most, score);
    largest = std::max(largest, std::fabs(score));
    error = std::max(error, head.factor * lost.allowed[at]);
    row.score_variance =
        std::max(row.score_variance, head.factor * head.factor * lost.square[at] + kU * kU * score * score * 2 / 3);
  }
  if (broken) {
    row.log_sum_exp = kNoNumber;
    std::ranges::fill(row.weights, kNoNumber);
    return row;
  }
  double sum = 0;
  for (const double score : row.weights) sum += std::exp(score - most);
  row.log_sum_exp = most + std::log(sum);
  row.unit = 1 / sum;
  row.score_error = error + 0x1p-20 * (1 + largest);
  for (double& weight : row.weights) weight = std::exp(weight - row.log_sum_exp);
  return row;
}

void append(ReferenceOutput& output, double value, double allowed, double ideal_square, double shift) {
  output.value.push_back(value);
  output.allowed.push_back(allowed);
  output.ideal_square.push_back(ideal_square);
  output.shift.push_back(shift);
}

// The root of the expected square of a weight's rounding, uniform within its step. Steps run from 2^-4 to 2^-3 of a
// weight; the smallest have a size of their own, and what they lose is no more than the weight.
double rounding_of(double weight, double unit) {
  if (weight < kLeastNormal * unit) return std::min(weight, kLeastStep * unit / std::sqrt(12.0));
  return kWeightRoundoff * weight / std::sqrt(6.0);
}

// Weights that are within 4 % of each other, which round the same way.
int alike(double weight, double unit) {
  return weight > 0 ? static_cast<int>(std::floor(16 * std::log2(weight / unit))) : std::numeric_limits<int>::min();
}

// Of every column, sums over the keys of a row.
struct Columns {
  std::vector<double> sum, magnitude, square, all, rounding;  // the last: the expected square of all weights' rounding

  explicit Columns(std::size_t count) : sum(count), magnitude(count), square(count), all(count), rounding(count) {}
};

Columns columns_of(const Row& row, const Rows& v, const Head& head) {
  const auto count = static_cast<std::size_t>(v.dim);
  Columns made(count);
  std::map<int, std::vector<double>> rounded;  // of weights that round the same way
  for (std::size_t j = 0; j < row.weights.size(); ++j) {
    const double weight = row.weights[j], rounding = rounding_of(weight, row.unit);
    const double* const values = v.row(head.batch, row.keys[j], head.kv_head);
    std::vector<double>& alike_sums = rounded[std::isnan(weight) ? 0 : alike(weight, row.unit)];
    alike_sums.resize(count);
    for (std::size_t c = 0; c < count; ++c) {
      const double term = weight * values[c];
      made.sum[c] += term;
      made.magnitude[c] += std::fabs(term);
      made.square[c] += term * term;
      made.all[c] += std::fabs(values[c]);
      alike_sums[c] += rounding * values[c];
    }
  }
  for (const auto& [at, sums] : rounded) {
    for (std::size_t c = 0; c < count; ++c) made.rounding[c] += sums[c] * sums[c];
  }
  return made;
}

// What the matrix unit may lose of the products of a row's weights and values.
Truncation lost_of_values(const Row& row, Head& head, const Shape& s) {
  std::vector<double> weights(static_cast<std::size_t>(s.k_len)), aligned_weights(weights.size());
  for (std::size_t j = 0; j < row.keys.size(); ++j) {
    const auto at = static_cast<std::size_t>(row.keys[j]);
    weights[at] = row.weights[j];
    aligned_weights[at] = std::max(row.weights[j], kLeastNormal * row.unit);
  }
  return head.values.truncation(std::move(weights), std::move(aligned_weights));
}

void append_output_row(const Shape& s, const Row& row, const Rows& v, Head& head, ReferenceOutput& o) {
  const double scale = std::isfinite(head.value_scale) || row.keys.empty() ? head.value_scale : kNoNumber;
  const double relative = numerics::unit_roundoff(s.dtype) + kWeightRoundoff + 2 * row.score_error +
                          8 * kU * std::sqrt(static_cast<double>(std::max<std::int64_t>(s.k_len, 1)));
  const Columns columns = columns_of(row, v, head);
  const Truncation lost = row.keys.empty() ? Truncation{} : lost_of_values(row, head, s);
  for (std::size_t c = 0; c < columns.sum.size(); ++c) {
    const double sum = row.keys.empty() ? 0.0 : scale * columns.sum[c];
    if (row.keys.empty() || !std::isfinite(sum)) {
      const double step = numerics::ulp(s.dtype, 0.0);
      append(o, sum, step / 2, step * step / 12, 0.0);
      continue;
    }
    const double size = std::fabs(scale);
    const double bound =
        size * (relative * columns.magnitude[c] + kLeastStep / 2 * row.unit * columns.all[c] + lost.allowed[c]);
    const double step = numerics::ulp(s.dtype, std::fabs(sum) + bound);
    const double noise = columns.rounding[c] + lost.square[c] +
                         row.score_variance * (columns.square[c] + columns.sum[c] * columns.sum[c]);
    append(o, sum, bound + step / 2, step * step / 12 + size * size * noise,
           kWeightRoundoff * std::fabs(sum) + size * lost.shift[c]);
  }
}

void append_sum(const Shape& s, const Row& row, ReferenceOutput& sums) {
  const double value = row.log_sum_exp, size = std::isfinite(value) ? std::fabs(value) : 0.0;
  const double step = numerics::ulp(DType::kF32, size) + 0x1p-23;
  const double of_sum = 8 * kU * std::sqrt(static_cast<double>(s.k_len));
  append(sums, value, row.score_error + 0x1p-20 + 4 * kU * size + of_sum, step * step / 4 + row.score_variance,
         0x1p-21 + 2 * kU * size);
}

std::vector<double> rows_of_head(const Rows& codes, std::int64_t b, std::int64_t h) {
  std::vector<double> rows;
  for (std::int64_t i = 0; i < codes.length; ++i) {
    const double* const row = codes.row(b, i, h);
    rows.insert(rows.end(), row, row + codes.dim);
  }
  return rows;
}

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& operands) {
  const Shape s = shape_of(problem, operands);
  const Rows q = attention::rows_of(operands[kQ]);
  const Rows k = attention::rows_of(operands[kK]);
  const Rows v = attention::rows_of(operands[kV]);
  const std::vector<double> q_scale = numerics::to_doubles(operands[kQScale]),
                            k_scale = numerics::to_doubles(operands[kKScale]),
                            v_scale = numerics::to_doubles(operands[kVScale]);
  std::vector<ReferenceOutput> outputs(2);
  for (std::int64_t b = 0; b < s.batch; ++b) {
    std::vector<Head> heads;
    for (std::int64_t h = 0; h < s.heads; ++h) {
      const std::int64_t of_kv = s.kv_head(h);
      const auto at = static_cast<std::size_t>(b * s.heads + h),
                 kv_at = static_cast<std::size_t>(b * s.kv_heads + of_kv);
      heads.push_back({b, h, of_kv, s.scale * q_scale[at] * k_scale[kv_at], v_scale[kv_at],
                       factor_of(transposed_copy(rows_of_head(k, b, of_kv), s.k_len, s.dim), s.dim, s.k_len, s.dim),
                       factor_of(rows_of_head(v, b, of_kv), s.k_len, s.v_dim, kKeysAtOnce)});
    }
    std::vector<Row> rows;  // by query and head
    for (std::int64_t i = 0; i < s.q_len; ++i) {
      for (Head& head : heads) {
        rows.push_back(row_of(q, k, head, i, s));
        append_output_row(s, rows.back(), v, head, outputs[0]);
      }
    }
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.q_len; ++i) {
        append_sum(s, rows[static_cast<std::size_t>(i * s.heads + h)], outputs[1]);
      }
    }
  }
  return outputs;
}

}  // namespace ridge::ops::attention_fp8
