// Heads one after the other, in the first-level cache from the sum of their squares to the turned element; q and k of a
// token while its row of the table is there. Every thread takes a run of tokens. Bound by memory from a few megabytes
// up.
#include <algorithm>
#include <cstring>

#include "device/cpu/thread_pool.h"
#include "numerics/convert.h"
#include "ops/rope/norm/norm.h"
#include "ops/rope/simd/pieces.h"
#include "ops/row_norm/simd/pieces.h"

namespace ridge::ops::rope_norm {
namespace {

struct Angles {
  const float *cos, *sin;
};

void normalise_and_turn(const rope::Pieces& pieces, const rope::Shape& s, const Angles& angles, float eps,
                        const float* factors, const RowOfMatrix& from, const RowOfMatrix& to) {
  alignas(64) float memory[rope::kLargestDim], normal[rope::kLargestDim], result[rope::kLargestDim];
  const float* const x = from.read(0, s.dim, memory);
  const float rstd = root_of(pieces.squares(x, s.dim), s.dim, eps);
  row_norm::best_pieces().scale(x, nullptr, rstd, factors, nullptr, normal, s.dim);
  float* const y = to.target(0, result);
  const auto turn = s.interleaved ? pieces.neighbours : pieces.halves;
  turn(normal, angles.cos, angles.sin, 1, y, s.rotary / 2);
  std::memcpy(y + s.rotary, normal + s.rotary, static_cast<std::size_t>(s.dim - s.rotary) * sizeof(float));
  to.write(0, s.dim, y);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(rope::check_positions("rope_norm", problem, arguments));
  const rope::Shape s = rope::tokens_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const TensorView cos = named("cos"), sin = named("sin");
  const bool zero_centred = problem.values[kZeroCentred] == 1;
  const Factors q_factors(named("q_weight"), s.dim, zero_centred), k_factors(named("k_weight"), s.dim, zero_centred);
  struct Part {
    TensorView from, to;
    const float* factors;
  };
  const Part parts[] = {{named("q"), named("q_out"), q_factors.of}, {named("k"), named("k_out"), k_factors.of}};
  const auto eps = static_cast<float>(arguments.scalar(problem, kEps).real());
  const rope::Positions positions(problem, arguments);
  const rope::Pieces& pieces = rope::best_pieces();
  const std::int64_t tokens = s.batch * s.length;
  const int threads = static_cast<int>(std::clamp<std::int64_t>(tokens, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = tokens * (thread + 1) / threads;
    for (std::int64_t at = tokens * thread / threads; at < last; ++at) {
      const std::int64_t sequence = at / s.length, token = at % s.length, p = positions.at(sequence, token);
      const Angles angles{static_cast<const float*>(cos.data) + p * cos.stride[0],
                          static_cast<const float*>(sin.data) + p * sin.stride[0]};
      for (const Part& part : parts) {
        const std::int64_t heads = part.from.rank == 0 ? 0 : part.from.shape[2];
        for (std::int64_t head = 0; head < heads; ++head) {
          normalise_and_turn(pieces, s, angles, eps, part.factors, head_of(part.from, sequence, token, head),
                             head_of(part.to, sequence, token, head));
        }
      }
    }
  });
  return ok_status();
}

}  // namespace

Factors::Factors(const TensorView& weight, std::int64_t dim, bool zero_centred) {
  std::fill_n(of, dim, 1.0F);
  if (weight.rank == 0) return;
  numerics::to_float(weight.dtype, weight.data, of, dim);
  for (std::int64_t j = 0; zero_centred && j < dim; ++j) of[j] += 1.0F;
}

Implementation cpu_tokens() {
  Implementation own;
  own.name = "cpu_tokens";
  own.summary = "a head in cache from its squares to the turned elements, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::rope_norm
