// A row at a time, in the first-level cache, in fp64: scores in vectors, the gradients of the chosen ones, and one pass
// that writes the row. Every thread takes a run of rows. Bound by the exponential of softmax, else by memory.
#include <algorithm>
#include <cmath>
#include <limits>

#include "device/cpu/thread_pool.h"
#include "ops/route/backward/backward.h"
#include "ops/route/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::route_backward {
namespace {

using route::kMostExperts;
using route::kMostTop;
using route::padded;

// What one thread works on. `score` and `logit` are of the experts, or of the chosen ones.
struct Scratch {
  alignas(64) float logit[kMostExperts];
  alignas(64) double score[kMostExperts];
  alignas(64) float out[kMostExperts];
  double chosen[kMostTop], gradient[kMostTop], sum[kMostExperts];
};

// Scores of so many logits, which are followed by NaN: the softmax of all, or each one's sigmoid.
void make_scores(const Shape& s, std::int64_t count, Scratch& r) {
  const route::Pieces& pieces = route::best_pieces();
  std::fill(r.logit + count, r.logit + padded(count), std::numeric_limits<float>::quiet_NaN());
  if (s.sigmoid) return pieces.sigmoids(r.logit, r.score, padded(count));
  const float most = pieces.largest(r.logit, padded(count));
  double sum = pieces.powers(r.logit, most, r.score, padded(count));
  const bool none =
      !std::isfinite(most) || std::any_of(r.logit, r.logit + count, [](float one) { return std::isnan(one); });
  if (none) sum = NAN;
  for (std::int64_t j = 0; j < count; ++j) r.score[j] /= sum;
}

// The gradients of the chosen scores; returns their sum, each times its score.
double make_gradients(const Shape& s, double scale, const float* dweights, Scratch& r) {
  double sum = route::kEpsilon, off = 0;
  for (std::int64_t k = 0; k < s.top; ++k) sum += r.chosen[k];
  const double factor = s.renormalize ? scale / sum : scale;
  for (std::int64_t k = 0; s.renormalize && k < s.top; ++k) off += dweights[k] * (r.chosen[k] / sum);
  double dot = 0;
  for (std::int64_t k = 0; k < s.top; ++k) {
    r.gradient[k] = factor * (dweights[k] - off);
    dot += r.gradient[k] * r.chosen[k];
  }
  return dot;
}

void differentiate_row(const Shape& s, double scale, const Arguments& o, std::int64_t row, Scratch& r) {
  const auto* const experts = static_cast<const std::int32_t*>(o[kExperts].data) + row * o[kExperts].stride[0];
  const auto* const dweights = static_cast<const float*>(o[kDweights].data) + row * o[kDweights].stride[0];
  const RowOfMatrix dlogits(o[kDlogits], row);
  const float* const logits = RowOfMatrix(o[kLogits], row).read(0, s.experts, r.out);
  const bool all = !s.sigmoid && !s.top_first;
  for (std::int64_t k = 0; !all && k < s.top; ++k) r.logit[k] = logits[experts[k]];
  if (all) std::copy_n(logits, s.experts, r.logit);
  make_scores(s, all ? s.experts : s.top, r);
  for (std::int64_t k = 0; k < s.top; ++k) r.chosen[k] = r.score[all ? experts[k] : k];
  const double dot = make_gradients(s, scale, dweights, r);
  std::fill_n(r.sum, s.experts, 0.0);
  if (all) {
    for (std::int64_t k = 0; k < s.top; ++k) r.sum[experts[k]] += r.gradient[k];
    for (std::int64_t e = 0; e < s.experts; ++e) r.sum[e] = r.score[e] * (r.sum[e] - dot);
  } else {
    for (std::int64_t k = 0; k < s.top; ++k) {
      // 1 - s of a sigmoid near 1 has its digits from the other side.
      const double rest = s.sigmoid ? 1 / (1 + std::exp(static_cast<double>(r.logit[k]))) : 1;
      r.sum[experts[k]] += s.sigmoid ? r.gradient[k] * r.chosen[k] * rest : r.chosen[k] * (r.gradient[k] - dot);
    }
  }
  float* const out = dlogits.target(0, r.out);
  for (std::int64_t e = 0; e < s.experts; ++e) out[e] = static_cast<float>(r.sum[e]);
  dlogits.write(0, s.experts, out);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(check_experts(problem, arguments));
  const Shape s = shape_of(problem);
  const double scale = arguments.scalar(problem, route::kScale).real();
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.tokens, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Scratch scratch;
    const std::int64_t last = s.tokens * (thread + 1) / threads;
    for (std::int64_t row = s.tokens * thread / threads; row < last; ++row) {
      differentiate_row(s, scale, arguments, row, scratch);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "scores of a row in vectors of fp64, and one pass that writes its gradients";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::route_backward
