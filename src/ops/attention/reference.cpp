// The definition, in fp64, a row at a time.
#include <algorithm>
#include <cmath>
#include <limits>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "ops/attention/attention.h"

namespace ridge::ops::attention {
namespace {

constexpr double kU = 0x1p-24, kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormal = 0x1p-126;  // fp32 may have 0 for an exponential that is below its normal numbers

struct Row {
  std::vector<std::int64_t> keys;  // that it sees
  std::vector<double> weights;     // exp(score - log-sum-exp) of each, or NaN
  double log_sum_exp = -kInfinity;
  double unit = 0;            // the largest weight: 1 before the weights are divided by their sum
  double score_error = 0;     // e of the contract
  double score_variance = 0;  // of the ideal kernel's worst score
};

// What a head adds to its rows: without a sink one of -infinity, without a slope one of 0.
struct Head {
  double sink = -kInfinity, slope = 0;
};

Row row_of(const double* q, const Rows& k, std::int64_t b, std::int64_t h, Seen seen, const Head& head,
           const Shape& s) {
  const double sink = head.sink;
  Row row;
  row.keys = std::move(seen.keys);
  double most = -kInfinity, magnitude = 0, largest = 0;
  bool broken = false;
  for (const std::int64_t j : row.keys) {
    const double* const key = k.row(b, j, h);
    const ProductSums product = sums_of_products(q, key, k.dim);
    const double sum = product.value;
    const Score made = score_of(s, sum * s.scale, head.slope, seen.place - j);
    const double score = made.value;
    row.weights.push_back(score);
    broken = broken || std::isnan(score) || score == kInfinity;
    most = std::max(most, score);
    if (!std::isfinite(sum * s.scale)) continue;  // also where a softcap makes a number of it
    magnitude = std::max(magnitude, product.magnitude * s.scale);
    largest = std::max(largest, std::fabs(score));
    const numerics::Reduction dot{DType::kF32, DType::kF32, k.dim};
    const double slope = s.scale * made.slope;
    const double variance =
        numerics::ideal_square_error(dot, sum, product.square) * slope * slope + kU * kU * made.variance;
    row.score_variance = std::max(row.score_variance, variance);
  }
  const bool empty = !broken && most == -kInfinity;
  const double top = std::max(most, sink);
  double sum = std::exp(sink - top);
  for (const double score : row.weights) sum += std::exp(score - top);
  row.log_sum_exp = empty ? sink : top + std::log(sum);
  if (std::exp(sink - row.log_sum_exp) >= kNormal) {
    largest = std::max(largest, std::fabs(sink));
    row.score_variance = std::max(row.score_variance, kU * kU * sink * sink * 2 / 3);
  }
  row.score_error = 16 * kU * std::sqrt(static_cast<double>(k.dim)) * magnitude + 0x1p-20 * (1 + largest + s.cap);
  if (empty) {
    std::fill(row.weights.begin(), row.weights.end(), 0.0);
    return row;
  }
  if (broken || std::isnan(sink) || sink == kInfinity) {
    row.log_sum_exp = std::numeric_limits<double>::quiet_NaN();
    std::fill(row.weights.begin(), row.weights.end(), row.log_sum_exp);
    return row;
  }
  row.unit = 1 / sum;
  for (double& weight : row.weights) weight = std::exp(weight - row.log_sum_exp);
  return row;
}

void append(ReferenceOutput& output, double value, double allowed, double ideal_square) {
  output.value.push_back(value);
  output.allowed.push_back(allowed);
  output.ideal_square.push_back(ideal_square);
}

void append_output_row(const Shape& s, const Row& row, const Rows& v, std::int64_t b, std::int64_t h,
                       ReferenceOutput& o) {
  const double r = numerics::unit_roundoff(s.dtype);
  const double relative =
      r + 2 * row.score_error + 8 * kU * std::sqrt(static_cast<double>(std::max<std::int64_t>(s.k_len, 1)));
  // Weights that are too small for a relative error: below the normal numbers of fp32 they may be 0, below those of the
  // dtype they are rounded to its smallest step.
  const double least_step = numerics::ulp(s.dtype, 0.0) * row.unit,
               least = std::max(kNormal * row.unit, least_step / 2);
  const auto columns = static_cast<std::size_t>(v.dim);
  // Of every column.
  std::vector<double> sums(columns), magnitudes(columns), squares(columns), all_values(columns), all_lost(columns),
      all_of_steps(columns);
  for (std::size_t j = 0; j < row.weights.size(); ++j) {
    const double weight = row.weights[j], *const values = v.row(b, row.keys[j], h);
    for (std::size_t c = 0; c < columns; ++c) {
      const double term = weight * values[c];
      sums[c] += term;
      magnitudes[c] += std::fabs(term);
      squares[c] += term * term;
      all_values[c] += std::fabs(values[c]);
    }
    if (weight < kNormal * row.unit) {
      for (std::size_t c = 0; c < columns; ++c) all_lost[c] += weight * values[c];
    } else if (weight < least_step / (2 * r)) {
      for (std::size_t c = 0; c < columns; ++c) all_of_steps[c] += values[c] * values[c];
    }
  }
  for (std::size_t c = 0; c < columns; ++c) {
    const double sum = sums[c];
    double magnitude = magnitudes[c], square = squares[c], values = all_values[c], lost = all_lost[c],
           of_steps = all_of_steps[c];
    if (!std::isfinite(sum)) magnitude = square = values = lost = of_steps = 0;
    const double bound = relative * magnitude + least * values;
    const double step = numerics::ulp(s.dtype, std::isfinite(sum) ? std::fabs(sum) + bound : 0.0);
    // A weight's rounding is uniform within its ulp, whose size runs from r to 2 r of it: r^2 / 6 on average. Equal
    // weights all round the same way.
    const double noise = r * r * square / 6 + row.score_variance * (square + sum * sum) +
                         least_step * least_step * of_steps / 12 + lost * lost;
    append(o, sum, bound + step / 2, step * step / 12 + (std::isfinite(noise) ? noise : 0.0));
    o.shift.push_back(std::isfinite(sum) ? r * std::fabs(sum) + std::fabs(lost) : 0.0);
  }
}

std::vector<Head> heads_of(const Problem& problem, const Arguments& operands, const Shape& s) {
  std::vector<Head> heads(static_cast<std::size_t>(s.heads));
  const auto take = [&](const char* name, double Head::*to) {
    const std::vector<double> values = numerics::to_doubles(operand(problem, operands, name));
    for (std::size_t h = 0; h < heads.size(); ++h) heads[h].*to = values[h];
  };
  if (s.sinks) take("sinks", &Head::sink);
  if (s.alibi) take("alibi_slopes", &Head::slope);
  return heads;
}

}  // namespace

// By the contract's inequality, key by key.
Rows rows_of(const TensorView& view) {
  return {numerics::to_doubles(view), view.shape[1], view.shape[2], view.shape[3]};
}

Seen keys_seen(const Shape& s, const Documents& documents, std::int64_t query) {
  std::int64_t q_end = s.q_len, k_begin = 0, k_end = s.k_len;
  if (s.documents > 0) {
    k_end = 0;  // of no document
    for (std::size_t n = 0; n + 1 < documents.q_offsets.size(); ++n) {
      if (query < documents.q_offsets[n] || query >= documents.q_offsets[n + 1]) continue;
      q_end = documents.q_offsets[n + 1], k_begin = documents.k_offsets[n], k_end = documents.k_offsets[n + 1];
    }
  }
  const std::int64_t place = query + k_end - q_end;
  Seen seen{{}, place};
  for (std::int64_t j = k_begin; j < k_end; ++j) {
    if (s.window.left >= 0 && j < place - s.window.left) continue;
    if (s.window.right >= 0 && j > place + s.window.right) continue;
    seen.keys.push_back(j);
  }
  return seen;
}

ProductSums sums_of_products(const double* x, const double* y, std::int64_t count) {
  constexpr std::int64_t kSums = 4;  // at a time
  double value[kSums] = {}, magnitude[kSums] = {}, square[kSums] = {};
  const auto add = [&](std::int64_t c, std::int64_t to) {
    const double term = x[c] * y[c];
    value[to] += term;
    magnitude[to] += std::fabs(term);
    square[to] += term * term;
  };
  std::int64_t c = 0;
  for (; c + kSums <= count; c += kSums) {
    for (std::int64_t to = 0; to < kSums; ++to) add(c + to, to);
  }
  for (; c < count; ++c) add(c, 0);
  const auto all = [](const double(&sums)[kSums]) { return (sums[0] + sums[1]) + (sums[2] + sums[3]); };
  return {all(value), all(magnitude), all(square)};
}

Score score_of(const Shape& s, double product, double alibi_slope, std::int64_t distance) {
  const double tangent = s.cap == 0 ? 0.0 : std::tanh(product / s.cap);
  const double off = s.alibi ? alibi_slope * static_cast<double>(std::abs(distance)) : 0.0;
  const double score = (s.cap == 0 ? product : s.cap * tangent) - off;
  // The scaling, and the difference from the row's maximum, round once more each; a tangent is made of numbers near 1.
  return {score, 1 - tangent * tangent, (score * score * 2 + s.cap * s.cap * 4 + off * off * 2) / 3};
}

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& operands) {
  const Shape s = shape_of(problem, operands);
  RIDGE_TRY(documents, documents_of(problem, operands));
  const Rows q = rows_of(operands[kQ]);
  const Rows k = rows_of(operands[kK]);
  const Rows v = rows_of(operands[kV]);
  const std::vector<Head> heads = heads_of(problem, operands, s);
  std::vector<ReferenceOutput> outputs(2);
  std::vector<Row> rows;  // of a batch element, by query and head
  for (std::int64_t b = 0; b < s.batch; ++b) {
    rows.clear();
    for (std::int64_t i = 0; i < s.q_len; ++i) {
      for (std::int64_t h = 0; h < s.heads; ++h) {
        const Head& head = heads[static_cast<std::size_t>(h)];
        rows.push_back(row_of(q.row(b, i, h), k, b, s.kv_head(h), keys_seen(s, documents, i), head, s));
        append_output_row(s, rows.back(), v, b, s.kv_head(h), outputs[0]);
      }
    }
    for (std::int64_t h = 0; h < s.heads; ++h) {
      for (std::int64_t i = 0; i < s.q_len; ++i) {
        const Row& row = rows[static_cast<std::size_t>(i * s.heads + h)];
        const double value = row.log_sum_exp, size = std::isfinite(value) ? std::fabs(value) : 0.0;
        const double step = numerics::ulp(DType::kF32, size) + 0x1p-23;
        append(outputs[1], value, row.score_error + 0x1p-20 + 4 * kU * size, step * step / 4 + row.score_variance);
        outputs[1].shift.push_back(0x1p-21 + 2 * kU * (size + s.cap));  // of the exponential and the logarithm
      }
    }
  }
  return outputs;
}

}  // namespace ridge::ops::attention
