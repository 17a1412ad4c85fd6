// Heads one after the other, in the first-level cache from what arrives to what leaves. A strip of tokens adds up the
// gradients of the weights in rows of its own; strips depend on the shape alone, and their sums are added in their
// order, so that equal calls give equal bits whatever the number of threads.
#include <algorithm>
#include <cstring>

#include "device/cpu/thread_pool.h"
#include "ops/rope/norm/backward/backward.h"
#include "ops/rope/simd/pieces.h"
#include "ops/row_norm/simd/pieces.h"

namespace ridge::ops::rope_norm_backward {
namespace {

// As many as there may be threads.
std::int64_t strips_of(const rope::Shape& s) { return std::clamp<std::int64_t>(s.batch * s.length / 16, 1, 64); }

// A sum for q and one for k of each strip.
std::size_t workspace_bytes(const Problem& problem, const Stream&) {
  const rope::Shape s = rope::tokens_of(problem);
  return static_cast<std::size_t>(2 * strips_of(s) * s.dim) * sizeof(float);
}

// q or k.
struct Part {
  TensorView dy, x, dx, dweight;
  const float* factors;
};

struct Angles {
  const float *cos, *sin;
};

void differentiate_head(const rope::Pieces& pieces, const rope::Shape& s, const Angles& angles, float eps,
                        const Part& part, std::int64_t sequence, std::int64_t token, std::int64_t head, float* sums) {
  alignas(64) float memory[rope::kLargestDim], more[rope::kLargestDim], g[rope::kLargestDim], to[rope::kLargestDim];
  const float* const x = rope_norm::head_of(part.x, sequence, token, head).read(0, s.dim, memory);
  const float* const dy = rope_norm::head_of(part.dy, sequence, token, head).read(0, s.dim, more);
  const auto turn = s.interleaved ? pieces.neighbours : pieces.halves;
  turn(dy, angles.cos, angles.sin, -1, g, s.rotary / 2);
  std::memcpy(g + s.rotary, dy + s.rotary, static_cast<std::size_t>(s.dim - s.rotary) * sizeof(float));
  const row_norm::Pieces& rows = row_norm::best_pieces();
  const float rstd = rope_norm::root_of(pieces.squares(x, s.dim), s.dim, eps);
  const float c = pieces.products(g, part.factors, x, s.dim) / static_cast<float>(s.dim) * rstd * rstd;
  const RowOfMatrix dx = rope_norm::head_of(part.dx, sequence, token, head);
  float* const target = dx.target(0, to);
  rows.weight(g, x, nullptr, rstd, sums, s.dim);
  rows.gradient(g, part.factors, x, nullptr, 0, c, rstd, nullptr, target, s.dim);
  dx.write(0, s.dim, target);
}

void add_strips(const TensorView& gradient, const float* sums, std::int64_t strips, std::int64_t dim) {
  alignas(64) float total[rope::kLargestDim];
  std::copy_n(sums, dim, total);
  for (std::int64_t strip = 1; strip < strips; ++strip) {
    for (std::int64_t j = 0; j < dim; ++j) total[j] += sums[2 * strip * dim + j];
  }
  numerics::from_float(gradient.dtype, total, gradient.data, dim);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(rope::check_positions("rope_norm_backward", problem, arguments));
  const rope::Shape s = rope::tokens_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const TensorView cos = named("cos"), sin = named("sin");
  const bool zero_centred = problem.values[rope_norm::kZeroCentred] == 1;
  const rope_norm::Factors q_factors(named("q_weight"), s.dim, zero_centred),
      k_factors(named("k_weight"), s.dim, zero_centred);
  const Part parts[] = {{named("dq_out"), named("q"), named("dq"), named("dq_weight"), q_factors.of},
                        {named("dk_out"), named("k"), named("dk"), named("dk_weight"), k_factors.of}};
  const auto eps = static_cast<float>(arguments.scalar(problem, rope_norm::kEps).real());
  const rope::Positions positions(problem, arguments);
  const rope::Pieces& pieces = rope::best_pieces();
  const std::int64_t tokens = s.batch * s.length, strips = strips_of(s);
  auto* const memory = reinterpret_cast<float*>(arguments.workspace.data());
  const int threads = static_cast<int>(std::clamp<std::int64_t>(strips, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    for (std::int64_t strip = thread; strip < strips; strip += threads) {
      float* const sums = memory + 2 * strip * s.dim;
      std::fill_n(sums, 2 * s.dim, 0.0F);
      for (std::int64_t at = tokens * strip / strips; at < tokens * (strip + 1) / strips; ++at) {
        const std::int64_t sequence = at / s.length, token = at % s.length, p = positions.at(sequence, token);
        const Angles angles{static_cast<const float*>(cos.data) + p * cos.stride[0],
                            static_cast<const float*>(sin.data) + p * sin.stride[0]};
        for (int i = 0; i < 2; ++i) {
          const std::int64_t heads = parts[i].x.rank == 0 ? 0 : parts[i].x.shape[2];
          for (std::int64_t head = 0; head < heads; ++head) {
            differentiate_head(pieces, s, angles, eps, parts[i], sequence, token, head, sums + i * s.dim);
          }
        }
      }
    }
  });
  for (int i = 0; i < 2; ++i) {
    if (parts[i].dweight.rank != 0) add_strips(parts[i].dweight, memory + i * s.dim, strips, s.dim);
  }
  return ok_status();
}

}  // namespace

Implementation cpu_tokens() {
  Implementation own;
  own.name = "cpu_tokens";
  own.summary = "a head in cache; strips of tokens add up the weights' gradients, and strips are added in their order";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  own.workspace_bytes = workspace_bytes;
  return own;
}

}  // namespace ridge::ops::rope_norm_backward
