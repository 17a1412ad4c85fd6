// The kernel of attention_fp8 for Hopper on the host, matrix unit and all, and kernels that do less than it says.
// Shares nothing with what bounds its results (ops/attention/fp8/reference.cpp).
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "numerics/convert.h"
#include "ops/attention/fp8/fp8.h"
#include "ops/harness.h"
#include "ops/unit_emulation.h"

namespace ridge::testing::emulated {

// What a kernel does otherwise than ours.
struct Kernel {
  bool promotes = true;
  int weight_bits = 3;  // behind the leading one
  bool scales_of_next_head = false;
  double lazy = 0;         // how far a maximum may be exceeded, as a power of two
  std::int64_t drops = 0;  // the last keys of all, those behind a multiple of so many
};

struct Codes {
  std::vector<double> values;
  std::int64_t length = 0, heads = 0, dim = 0;
  [[nodiscard]] std::vector<double> row(std::int64_t b, std::int64_t i, std::int64_t h) const {
    const auto at = values.begin() + ((b * length + i) * heads + h) * dim;
    return {at, at + dim};
  }
};

// To e4m3, or to fewer bits of it.
inline double rounded_weight(double weight, int bits) {
  const double code = numerics::round_to(DType::kE4m3fn, std::min(weight, 448.0));
  if (bits == 3 || code == 0) return code;
  const double step = std::ldexp(1.0, std::ilogb(weight) - bits);
  return std::nearbyint(weight / step) * step;
}

inline double sum_of_unit(double partial, const std::vector<double>& a, const std::vector<double>& b) {
  for (std::size_t p = 0; p < a.size(); p += 32) {
    partial = step_of_unit(partial, a.data() + p, b.data() + p,
                           std::min<std::int64_t>(32, static_cast<std::int64_t>(a.size() - p)));
  }
  return partial;
}

// The results, o and the log-sum-exp.
struct Results {
  std::vector<double> o, sums;
};

class Emulation {
 public:
  Emulation(const ops::Problem& problem, const Operands& operands, const Kernel& kernel)
      : s_(ops::attention_fp8::shape_of(problem, {operands.views(), operands.scalars})), kernel_(kernel) {
    for (int i = 0; i < 3; ++i) codes_[i].values = operands.all[static_cast<std::size_t>(i)].values();
    codes_[0].length = s_.q_len, codes_[0].heads = s_.heads, codes_[0].dim = s_.dim;
    codes_[1].length = codes_[2].length = s_.k_len;
    codes_[1].heads = codes_[2].heads = s_.kv_heads;
    codes_[1].dim = s_.dim, codes_[2].dim = s_.v_dim;
    for (int i = 0; i < 3; ++i) scales_[i] = operands.all[static_cast<std::size_t>(3 + i)].values();
  }

  Results run() {
    Results made;
    made.sums.resize(static_cast<std::size_t>(s_.batch * s_.heads * s_.q_len));
    for (std::int64_t b = 0; b < s_.batch; ++b) {
      for (std::int64_t i = 0; i < s_.q_len; ++i) {
        for (std::int64_t h = 0; h < s_.heads; ++h) run_row(b, i, h, made);
      }
    }
    return made;
  }

 private:
  [[nodiscard]] float scale(int of, std::int64_t b, std::int64_t head, std::int64_t heads) const {
    if (kernel_.scales_of_next_head) head = (head + 1) % heads;
    return static_cast<float>(scales_[of][static_cast<std::size_t>(b * heads + head)]);
  }

  void run_row(std::int64_t b, std::int64_t i, std::int64_t h, Results& made) {
    const std::int64_t kv = s_.kv_head(h);
    const float power =
        static_cast<float>(1.4426950408889634 * s_.scale) * (scale(0, b, h, s_.heads) * scale(1, b, kv, s_.kv_heads));
    ops::attention::Range seen = s_.keys_of(i);
    if (kernel_.drops > 0) seen.end = std::min(seen.end, s_.k_len / kernel_.drops * kernel_.drops);
    const std::vector<double> q = codes_[0].row(b, i, h);
    std::vector<float> o(static_cast<std::size_t>(s_.v_dim));
    float most = -std::numeric_limits<float>::infinity(), sum = 0;
    const auto one = static_cast<float>(8 - kernel_.lazy);
    for (std::int64_t block = (seen.end + 127) / 128; block-- > seen.begin / 128 && seen.begin < seen.end;) {
      std::vector<float> scores(128, -std::numeric_limits<float>::infinity());
      float highest = most;
      for (std::int64_t j = std::max(block * 128, seen.begin); j < std::min((block + 1) * 128, seen.end); ++j) {
        const auto score = static_cast<float>(sum_of_unit(0, q, codes_[1].row(b, j, kv)));
        scores[static_cast<std::size_t>(j % 128)] = score;
        highest = std::max(highest, score);
      }
      if ((highest - most) * power <= kernel_.lazy) highest = most;
      const float factor = std::exp2((most - highest) * power);
      sum *= factor;
      most = highest;
      std::vector<double> weights(128);
      for (std::size_t j = 0; j < 128; ++j) {
        const float weight = std::exp2((scores[j] - most) * power + one);
        sum += weight;
        weights[j] = rounded_weight(weight, kernel_.weight_bits);
      }
      add_values(b, kv, block, factor, weights, o);
    }
    const bool empty = sum == 0;
    const float over = empty ? 0.0f : scale(2, b, kv, s_.kv_heads) / sum;
    for (const float x : o) made.o.push_back(numerics::round_to(s_.dtype, x * over));
    made.sums[static_cast<std::size_t>((b * s_.heads + h) * s_.q_len + i)] =
        empty ? -std::numeric_limits<float>::infinity() : (most * power + std::log2(sum) - one) * 0.693147181f;
  }

  void add_values(std::int64_t b, std::int64_t kv, std::int64_t block, float factor, const std::vector<double>& weights,
                  std::vector<float>& o) const {
    for (std::size_t c = 0; c < o.size(); ++c) {
      std::vector<double> values(128);
      for (std::int64_t j = block * 128; j < std::min((block + 1) * 128, s_.k_len); ++j) {
        values[static_cast<std::size_t>(j % 128)] =
            codes_[2].values[static_cast<std::size_t>(((b * s_.k_len + j) * s_.kv_heads + kv) * s_.v_dim) + c];
      }
      const double before = o[c] * factor;
      o[c] = static_cast<float>(kernel_.promotes ? before + sum_of_unit(0, weights, values)
                                                 : sum_of_unit(before, weights, values));
    }
  }

  ops::attention::Shape s_;
  Kernel kernel_;
  Codes codes_[3];
  std::vector<double> scales_[3];
};

}  // namespace ridge::testing::emulated
