// The definition, in fp64, a query at a time.
#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <utility>

#include "numerics/convert.h"
#include "numerics/error_model.h"
#include "numerics/format.h"
#include "ops/attention/backward/backward.h"

namespace ridge::ops::attention_backward {
namespace {

using attention::Rows;
using attention::rows_of;
using attention::Shape;

constexpr double kU = 0x1p-24, kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNormal = 0x1p-126;  // fp32 may have 0 for an exponential that is below its normal numbers

// A sum of products in fp32, its terms' magnitudes, and the squared error of the ideal kernel.
struct Dot {
  double value = 0, magnitude = 0, variance = 0;
};
Dot dot(const double* x, const double* y, std::int64_t count) {
  const attention::ProductSums sums = attention::sums_of_products(x, y, count);
  return {sums.value, sums.magnitude,
          numerics::ideal_square_error({DType::kF32, DType::kF32, count}, sums.value, sums.square)};
}

// A number that is multiplied by an element of a row: how far off it may be, and its squared error that no other
// number of the sum shares.
struct Factor {
  double value = 0, error = 0, variance = 0;
  double lost = 0;  // the value, where a kernel may have 0 for its exponential
};
// Every element of an output.
struct Sums {
  explicit Sums(std::size_t count) : value(count), magnitude(count), error(count), variance(count), lost(count) {}
  std::vector<double> value, magnitude, error, variance, lost;

  // A row of elements times a factor, to the elements from `at` on.
  void add(std::int64_t at, const Factor factor, const double* row, std::int64_t count) {
    double* const __restrict values = &value[at];
    double* const __restrict magnitudes = &magnitude[at];
    double* const __restrict errors = &error[at];
    double* const __restrict variances = &variance[at];
    const double value_size = std::fabs(factor.value);
    for (std::int64_t c = 0; c < count; ++c) {
      const double size = std::fabs(row[c]);
      values[c] += factor.value * row[c];
      magnitudes[c] += value_size * size;
      errors[c] += factor.error * size;
      variances[c] += factor.variance * size * size;
    }
    if (factor.lost == 0) return;
    for (std::int64_t c = 0; c < count; ++c) lost[at + c] += factor.lost * row[c];
  }
};

// The gradient of a sink. Rows with the same weight and the same D are off by the same: their errors add up like the
// terms, not like a root.
struct SinkSum {
  struct Equal {
    double count = 0, variance = 0;
  };
  double value = 0, magnitude = 0, error = 0, square = 0;
  std::map<std::pair<double, double>, Equal> equal;
};

// What is known of the rows of one query.
struct Query {
  std::vector<std::int64_t> keys;       // that it sees
  std::vector<Factor> weights, slopes;  // p and ds of each
  double score_variance = 0;
  Dot delta;  // D of the contract
};

class Gradients {
 public:
  Gradients(const Problem& problem, const Arguments& operands, attention::Documents documents)
      : s_(attention::shape_of(problem, operands)),
        documents_(std::move(documents)),
        q_(rows_of(operands[kQ])),
        k_(rows_of(operands[kK])),
        v_(rows_of(operands[kV])),
        o_(rows_of(operands[kO])),
        d_o_(rows_of(operands[kGradO])),
        log_sum_exp_(numerics::to_doubles(operands[kLogSumExp])),
        r_(numerics::unit_roundoff(s_.dtype)),
        least_(numerics::ulp(s_.dtype, 0.0) / 2),
        d_q_(q_.values.size()),
        d_k_(k_.values.size()),
        d_v_(v_.values.size()),
        d_sinks_(s_.sinks ? static_cast<std::size_t>(s_.heads) : 0) {
    if (s_.sinks) sinks_ = numerics::to_doubles(operand(problem, operands, "sinks"));
    if (s_.alibi) slopes_ = numerics::to_doubles(operand(problem, operands, "alibi_slopes"));
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t h = 0; h < s_.heads; ++h) {
        for (std::int64_t i = 0; i < s_.q_len; ++i) add_query(b, h, i);
      }
    }
  }

  [[nodiscard]] std::vector<ReferenceOutput> outputs() const {
    const std::int64_t group = s_.heads / std::max<std::int64_t>(s_.kv_heads, 1);
    std::vector<ReferenceOutput> all = {output(d_q_, s_.scale, s_.k_len), output(d_k_, s_.scale, s_.q_len * group),
                                        output(d_v_, 1, s_.q_len * group)};
    allow_what_spreads(all);
    if (s_.sinks) all.push_back(sink_output());
    return all;
  }

 private:
  [[nodiscard]] static bool finite(const Rows& rows, std::int64_t b, std::int64_t h) {
    for (std::int64_t i = 0; i < rows.length; ++i) {
      const double* const row = rows.row(b, i, h);
      if (!std::all_of(row, row + rows.dim, [](double x) { return std::isfinite(x); })) return false;
    }
    return true;
  }
  [[nodiscard]] bool finite_queries(std::int64_t b, std::int64_t h) const {
    const auto first = log_sum_exp_.begin() + (b * s_.heads + h) * s_.q_len;
    return finite(q_, b, h) && finite(o_, b, h) && finite(d_o_, b, h) && std::isfinite(slope(h)) &&
           std::all_of(first, first + s_.q_len, [](double x) { return x < kInfinity; });
  }

  // Zero weights times what is not finite, as the contract allows: a query may spoil keys that it does not see, and a
  // key queries that do not see it.
  void allow_what_spreads(std::vector<ReferenceOutput>& outputs) const {
    const auto allow_all = [&](ReferenceOutput& output, const Rows& of, std::int64_t b, std::int64_t h) {
      for (std::int64_t i = 0; i < of.length; ++i) {
        for (std::int64_t c = 0; c < of.dim; ++c) {
          const auto at = static_cast<std::size_t>(of.at(b, i, h) + c);
          if (std::isfinite(output.value[at])) output.allowed[at] = kInfinity;
        }
      }
    };
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t h = 0; h < s_.heads; ++h) {
        const std::int64_t kv = s_.kv_head(h);
        if (!finite(k_, b, kv) || !finite(v_, b, kv)) allow_all(outputs[0], q_, b, h);
        if (finite_queries(b, h)) continue;
        allow_all(outputs[1], k_, b, kv);
        allow_all(outputs[2], v_, b, kv);
      }
    }
  }

  [[nodiscard]] Query query(std::int64_t b, std::int64_t h, std::int64_t i) const {
    const std::int64_t kv = s_.kv_head(h);
    const double log_sum = this->log_sum(b, h, i);
    const double* const d_o = d_o_.row(b, i, h);
    const Dot delta = dot(d_o, o_.row(b, i, h), s_.v_dim);
    std::vector<Dot> products;
    std::vector<double> scores, slopes;  // and the slope of each by its softcap
    double most = 0, largest = 0;
    Query row;
    attention::Seen seen = attention::keys_seen(s_, documents_, i);
    row.keys = std::move(seen.keys);
    for (const std::int64_t j : row.keys) {
      const Dot product = dot(q_.row(b, i, h), k_.row(b, j, kv), s_.dim);
      const attention::Score made = attention::score_of(s_, product.value * s_.scale, slope(h), seen.place - j);
      scores.push_back(made.value);
      slopes.push_back(made.slope);
      products.push_back(dot(d_o, v_.row(b, j, kv), s_.v_dim));
      const double factor = s_.scale * made.slope;
      if (!std::isfinite(product.value * s_.scale)) continue;
      most = std::max(most, product.magnitude * s_.scale);
      largest = std::max(largest, std::fabs(made.value));
      row.score_variance = std::max(row.score_variance, product.variance * factor * factor + kU * kU * made.variance);
    }
    const auto sums = [](std::int64_t dim) { return 16 * kU * std::sqrt(static_cast<double>(dim)); };
    const double shift = std::isfinite(log_sum) ? std::fabs(log_sum) : 0.0;
    const double of_weight = 2 * (sums(s_.dim) * most + 0x1p-20 * (1 + largest + s_.cap + shift));
    row.score_variance += kU * kU * shift * shift;
    row.delta = delta;
    const double noise =
        r_ * r_ / 6 + 2 * row.score_variance;  // relative, squared: of rounding, of the score and the sum
    for (std::size_t j = 0; j < scores.size(); ++j) {
      const double p = log_sum == -kInfinity ? 0.0 : std::exp(scores[j] - log_sum);
      const double slope = slopes[j], uncapped = p * (products[j].value - delta.value), ds = uncapped * slope;
      const double of_slope = s_.cap == 0 ? 0.0 : 0x1p-20 + of_weight / (2 * s_.cap);
      const double of_product = sums(s_.v_dim) * (products[j].magnitude + delta.magnitude);
      const double difference = std::fabs(products[j].value - delta.value), least = std::max(least_, kNormal);
      const bool lost = p < kNormal;
      row.weights.push_back({p, p * (of_weight + r_) + least, p * p * noise + of_step(p), lost ? p : 0.0});
      row.slopes.push_back(
          {ds,
           std::fabs(ds) * (of_weight + r_ + 4 * kU) + p * of_product + std::fabs(uncapped) * of_slope +
               kNormal * difference + least,
           ds * ds * noise + p * p * (products[j].variance + delta.variance) + of_step(ds) +
               (s_.cap == 0 ? 0.0 : uncapped * uncapped * (4 * kU * kU + row.score_variance / (s_.cap * s_.cap))),
           lost ? ds : 0.0});
    }
    return row;
  }

  [[nodiscard]] double slope(std::int64_t h) const { return s_.alibi ? slopes_[static_cast<std::size_t>(h)] : 0.0; }
  [[nodiscard]] double log_sum(std::int64_t b, std::int64_t h, std::int64_t i) const {
    return log_sum_exp_[static_cast<std::size_t>((b * s_.heads + h) * s_.q_len + i)];
  }

  // The squared error of rounding a number that is below the normal ones of the dtype to the smallest step.
  [[nodiscard]] double of_step(double x) const {
    return x != 0 && std::fabs(x) < least_ / r_ ? least_ * least_ / 3 : 0.0;
  }

  void add_query(std::int64_t b, std::int64_t h, std::int64_t i) {
    const Query row = query(b, h, i);
    if (s_.sinks) add_sink(b, h, i, row.delta);
    const std::int64_t kv = s_.kv_head(h), to = q_.at(b, i, h);
    const double *const q = q_.row(b, i, h), *const d_o = d_o_.row(b, i, h);
    std::vector<double> weighted(
        static_cast<std::size_t>(s_.dim));  // sum of p k, which an error of delta is multiplied by
    for (std::size_t j = 0; j < row.slopes.size(); ++j) {
      const std::int64_t key = row.keys[j];
      const double* const k = k_.row(b, key, kv);
      d_q_.add(to, row.slopes[j], k, s_.dim);
      d_k_.add(k_.at(b, key, kv), row.slopes[j], q, s_.dim);
      d_v_.add(v_.at(b, key, kv), row.weights[j], d_o, s_.v_dim);
      for (std::size_t c = 0; c < weighted.size(); ++c) weighted[c] += row.weights[j].value * k[c];
    }
    for (std::size_t c = 0; c < weighted.size(); ++c) {  // errors that all keys of a query have in common
      const std::size_t at = static_cast<std::size_t>(to) + c;
      const double value = d_q_.value[at], all = weighted[c];
      d_q_.variance[at] += value * value * row.score_variance + all * all * row.delta.variance;
    }
  }

  // What a row adds to the gradient of its head's sink.
  void add_sink(std::int64_t b, std::int64_t h, std::int64_t i, const Dot& delta) {
    const auto at = static_cast<std::size_t>(h);
    const double sink = sinks_[at], sum = log_sum(b, h, i);
    const double weight = sum == -kInfinity ? 0.0 : std::exp(sink - sum), size = 1 + std::fabs(sink) + std::fabs(sum);
    const double of_product = 16 * kU * std::sqrt(static_cast<double>(s_.v_dim)) * delta.magnitude;
    SinkSum& all = d_sinks_[at];
    all.value -= weight * delta.value;
    all.magnitude += std::fabs(weight * delta.value);
    all.error += (0x1p-19 * size * weight + kNormal) * std::fabs(delta.value) + weight * of_product;
    // Terms of D that are equal round the same way again and again.
    const double of_exponential = 2 * size * size, of_sum = static_cast<double>(s_.v_dim);
    const double variance = kU * kU * (of_exponential + of_sum) * delta.value * delta.value + delta.variance;
    if (std::isfinite(weight * delta.value)) {
      SinkSum::Equal& equal = all.equal[{weight, delta.value}];
      ++equal.count;
      equal.variance = weight * weight * variance;
    }
    all.square += weight * weight * delta.value * delta.value;
  }

  [[nodiscard]] ReferenceOutput sink_output() const {
    ReferenceOutput output;
    const std::int64_t terms = std::max<std::int64_t>(s_.batch * s_.q_len, 1);
    for (const SinkSum& sum : d_sinks_) {
      double variance = 0;
      for (const auto& [term, equal] : sum.equal) variance += equal.count * equal.count * equal.variance;
      const bool finite = std::isfinite(sum.value) && std::isfinite(sum.error);
      const double bound = finite ? sum.error + 8 * kU * std::sqrt(static_cast<double>(terms)) * sum.magnitude : 0.0;
      output.value.push_back(sum.value);
      output.allowed.push_back(bound + numerics::ulp(DType::kF32, finite ? std::fabs(sum.value) + bound : 0.0) / 2);
      const numerics::Reduction all{DType::kF32, DType::kF32, terms};
      output.ideal_square.push_back(finite ? variance + numerics::ideal_square_error(all, sum.value, sum.square) : 0.0);
      output.shift.push_back(finite ? 0x1p-21 * sum.magnitude : 0.0);  // of the exponential
    }
    return output;
  }

  [[nodiscard]] ReferenceOutput output(const Sums& sums, double factor, std::int64_t terms) const {
    ReferenceOutput output;
    const double length = 8 * kU * std::sqrt(static_cast<double>(std::max<std::int64_t>(terms, 1)));
    for (std::size_t at = 0; at < sums.value.size(); ++at) {
      const double value = factor * sums.value[at], size = std::fabs(value), variance = sums.variance[at];
      const bool finite = std::isfinite(value) && std::isfinite(sums.error[at]) && std::isfinite(variance);
      const double bound = finite ? factor * (sums.error[at] + length * sums.magnitude[at]) : 0.0;
      const double step = numerics::ulp(s_.dtype, std::isfinite(value) ? size + bound : 0.0);
      output.value.push_back(value);
      output.allowed.push_back(bound + step / 2);
      const double lost = finite ? factor * std::fabs(sums.lost[at]) : 0.0;
      output.ideal_square.push_back((finite ? factor * factor * variance : 0.0) + lost * lost + step * step / 12);
      output.shift.push_back(std::isfinite(value) ? r_ * size + lost : 0.0);  // equal factors all round the same way
    }
    return output;
  }

  Shape s_;
  attention::Documents documents_;
  Rows q_, k_, v_, o_, d_o_;
  std::vector<double> log_sum_exp_;
  double r_, least_;  // the dtype's unit roundoff, and half the step of its smallest numbers
  Sums d_q_, d_k_, d_v_;
  std::vector<SinkSum> d_sinks_;
  std::vector<double> sinks_, slopes_;
};

}  // namespace

Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& operands) {
  RIDGE_TRY(documents, attention::documents_of(problem, operands));
  return Gradients(problem, operands, std::move(documents)).outputs();
}

}  // namespace ridge::ops::attention_backward
