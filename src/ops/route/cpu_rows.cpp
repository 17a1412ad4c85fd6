// A row at a time, in the first-level cache: scores in fp64, in vectors, where the choice or the weights ask for all of
// them; then one pass that keeps the best experts so far, sorted. Every thread takes a run of rows. Bound by the
// exponential, and by the pass where many experts are chosen.
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>

#include "device/cpu/thread_pool.h"
#include "ops/route/route.h"
#include "ops/route/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::route {
namespace {

struct Operands {
  TensorView logits, bias, weights, experts;
  float scale = 1;
};

// Ranks order as the numbers that are compared: NaN is below all of them, and -0 is 0.
std::int32_t rank_of(float key) {
  if (std::isnan(key)) return std::numeric_limits<std::int32_t>::min();
  const auto bits = std::bit_cast<std::int32_t>(key + 0.0F);
  return bits < 0 ? bits ^ 0x7fffffff : bits;
}

// The places with the highest ranks among those taken, in falling order; of equal ranks the one taken first.
struct Best {
  std::int64_t most = 0, count = 0;
  std::int32_t ranks[kMostExperts], places[kMostExperts];

  void clear(std::int64_t wanted) { most = wanted, count = 0; }
  void take(std::int32_t rank, std::int64_t place) {
    if (count == most && rank <= ranks[count - 1]) return;
    std::int64_t at = count < most ? count++ : count - 1;
    for (; at > 0 && ranks[at - 1] < rank; --at) ranks[at] = ranks[at - 1], places[at] = places[at - 1];
    ranks[at] = rank, places[at] = static_cast<std::int32_t>(place);
  }
};

// What one thread works on: logits, the numbers that are compared, and the scores or the powers that they are made of.
struct Scratch {
  alignas(64) float x[kMostExperts];
  alignas(64) float key[kMostExperts];
  alignas(64) double score[kMostExperts];
  Best experts, groups;
  bool closed[kMostExperts];  // groups
  bool has_nan = false;
};

void read_row(const Shape& s, const Operands& o, std::int64_t row, Scratch& r) {
  const float* const x = RowOfMatrix(o.logits, row).read(0, s.experts, r.x);
  if (x != r.x) std::copy_n(x, s.experts, r.x);
  std::fill(r.x + s.experts, r.x + padded(s.experts), std::numeric_limits<float>::quiet_NaN());
  r.has_nan = std::any_of(r.x, r.x + s.experts, [](float one) { return std::isnan(one); });
}

// Scores of all experts, without the NaN of a row: a softmax leaves it out. Returns whether they are NaN by the
// formula.
bool make_scores(const Shape& s, Scratch& r) {
  const Pieces& pieces = best_pieces();
  if (s.sigmoid) {
    pieces.sigmoids(r.x, r.score, padded(s.experts));
    return false;
  }
  const float most = pieces.largest(r.x, padded(s.experts));
  const double sum = pieces.powers(r.x, most, r.score, padded(s.experts));
  for (std::int64_t e = 0; e < s.experts; ++e) r.score[e] /= sum;
  return r.has_nan || !std::isfinite(most);
}

void make_keys(const Shape& s, const Operands& o, Scratch& r) {
  for (std::int64_t e = 0; e < s.experts; ++e) {
    const float score = s.by_logits() ? r.x[e] : static_cast<float>(r.score[e]);
    r.key[e] = std::isnan(r.x[e]) ? r.x[e] : score;
  }
  const auto* const bias = static_cast<const float*>(o.bias.data);
  for (std::int64_t e = 0; s.bias && e < s.experts; ++e) r.key[e] += bias[e];
}

// The sum of the two best numbers of a group; of one expert its own.
float mark_of(const float* key, std::int64_t count) {
  float first = -INFINITY, second = -INFINITY;
  for (std::int64_t e = 0; e < count; ++e) {
    if (key[e] > first) {
      second = first, first = key[e];
    } else if (key[e] > second) {
      second = key[e];
    }
  }
  return count == 1 ? first : first + second;
}

void choose(const Shape& s, Scratch& r) {
  const std::int64_t size = s.experts / s.groups;
  std::fill_n(r.closed, s.groups, s.group_top < s.groups);
  if (s.group_top < s.groups) {
    r.groups.clear(s.group_top);
    for (std::int64_t g = 0; g < s.groups; ++g) r.groups.take(rank_of(mark_of(r.key + g * size, size)), g);
    for (std::int64_t i = 0; i < s.group_top; ++i) r.closed[r.groups.places[i]] = false;
  }
  r.experts.clear(s.top);
  for (std::int64_t g = 0; g < s.groups; ++g) {
    if (r.closed[g]) continue;
    for (std::int64_t e = g * size; e < (g + 1) * size; ++e) r.experts.take(rank_of(r.key[e]), e);
  }
}

// Scores of the chosen experts alone.
void score_chosen(const Shape& s, Scratch& r, double* score) {
  alignas(64) float x[kMostTop];
  std::fill_n(x, kMostTop, std::numeric_limits<float>::quiet_NaN());
  for (std::int64_t k = 0; k < s.top; ++k) x[k] = r.x[r.experts.places[k]];
  const Pieces& pieces = best_pieces();
  if (s.sigmoid) return pieces.sigmoids(x, score, padded(s.top));
  const float most = pieces.largest(x, padded(s.top));
  const double sum = pieces.powers(x, most, score, padded(s.top));
  const bool none = !std::isfinite(most) || std::any_of(x, x + s.top, [](float one) { return std::isnan(one); });
  for (std::int64_t k = 0; k < s.top; ++k) score[k] = none ? NAN : score[k] / sum;
}

void write_row(const Shape& s, const Operands& o, std::int64_t row, bool none, Scratch& r) {
  alignas(64) double score[kMostTop];
  if (s.top_first || s.sigmoid) {
    score_chosen(s, r, score);
  } else {
    for (std::int64_t k = 0; k < s.top; ++k) score[k] = none ? NAN : r.score[r.experts.places[k]];
  }
  double sum = kEpsilon;
  for (std::int64_t k = 0; k < s.top; ++k) sum += score[k];
  auto* const weights = static_cast<float*>(o.weights.data) + row * o.weights.stride[0];
  auto* const experts = static_cast<std::int32_t*>(o.experts.data) + row * o.experts.stride[0];
  for (std::int64_t k = 0; k < s.top; ++k) {
    const double weight = s.renormalize ? score[k] / sum : score[k];
    weights[k] = static_cast<float>(weight * static_cast<double>(o.scale));
    experts[k] = r.experts.places[k];
  }
}

void route_row(const Shape& s, const Operands& o, std::int64_t row, Scratch& r) {
  read_row(s, o, row, r);
  const bool all = !s.by_logits() || (!s.sigmoid && !s.top_first);
  const bool none = all && make_scores(s, r);
  make_keys(s, o, r);
  choose(s, r);
  write_row(s, o, row, none, r);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Operands o{named("logits"), named("bias"), named("weights"), named("experts"),
                   static_cast<float>(arguments.scalar(problem, kScale).real())};
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.tokens, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Scratch scratch;
    const std::int64_t last = s.tokens * (thread + 1) / threads;
    for (std::int64_t row = s.tokens * thread / threads; row < last; ++row) route_row(s, o, row, scratch);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "scores of a row in vectors of fp64, and one pass over the experts that keeps the best";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::route
