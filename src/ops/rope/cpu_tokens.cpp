// Tokens in runs of heads that stay in the first-level cache between the conversions to and from fp32: q and k of a
// token while its row of the table is there. Every thread takes a run of tokens. Bound by memory from a few megabytes
// up; heads that do not lie side by side pay for a conversion each.
#include <algorithm>
#include <cstring>

#include "device/cpu/thread_pool.h"
#include "ops/rope/rope.h"
#include "ops/rope/simd/pieces.h"
#include "ops/row_of_matrix.h"

namespace ridge::ops::rope {
namespace {

constexpr std::int64_t kNumbers = 4096;  // of a run of heads

struct Angles {
  const float *cos, *sin;
};

// So many numbers from an element on, as a row.
RowOfMatrix row_at(const TensorView& heads, std::int64_t offset, std::int64_t count) {
  void* const first = static_cast<unsigned char*>(heads.data) + size_bytes(heads.dtype, offset);
  return {TensorView::matrix(first, heads.dtype, 1, count, count), 0};
}

void turn_run(const Pieces& pieces, const Shape& s, const Angles& angles, const RowOfMatrix& from,
              const RowOfMatrix& to, std::int64_t count) {
  alignas(64) float memory[kNumbers], result[kNumbers];
  const float* const x = from.read(0, count, memory);
  float* const y = to.target(0, result);
  const float sign = s.inverse ? -1 : 1;
  const auto turn = s.interleaved ? pieces.neighbours : pieces.halves;
  for (std::int64_t first = 0; first < count; first += s.dim) {
    turn(x + first, angles.cos, angles.sin, sign, y + first, s.rotary / 2);
    const auto rest = static_cast<std::size_t>(s.dim - s.rotary) * sizeof(float);
    if (x != y && rest > 0) std::memcpy(y + first + s.rotary, x + first + s.rotary, rest);
  }
  to.write(0, count, y);
}

// The heads of one token.
void turn_token(const Pieces& pieces, const Shape& s, const Angles& angles, const TensorView& from,
                const TensorView& to, std::int64_t sequence, std::int64_t token) {
  const auto start = [&](const TensorView& view) { return sequence * view.stride[0] + token * view.stride[1]; };
  const bool together = from.stride[2] == s.dim && to.stride[2] == s.dim;
  const std::int64_t heads = from.shape[2], run = together ? kNumbers / s.dim : 1;
  for (std::int64_t head = 0; head < heads; head += run) {
    const std::int64_t count = std::min(run, heads - head) * s.dim;
    turn_run(pieces, s, angles, row_at(from, start(from) + head * from.stride[2], count),
             row_at(to, start(to) + head * to.stride[2], count), count);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(check_positions("rope", problem, arguments));
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const TensorView q = named("q"), k = named("k"), q_out = named("q_out"), k_out = named("k_out"), cos = named("cos"),
                   sin = named("sin");
  const Positions positions(problem, arguments);
  const Pieces& pieces = best_pieces();
  const std::int64_t tokens = s.batch * s.length;
  const int threads = static_cast<int>(std::clamp<std::int64_t>(tokens, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = tokens * (thread + 1) / threads;
    for (std::int64_t at = tokens * thread / threads; at < last; ++at) {
      const std::int64_t sequence = at / s.length, token = at % s.length, p = positions.at(sequence, token);
      const Angles angles{static_cast<const float*>(cos.data) + p * cos.stride[0],
                          static_cast<const float*>(sin.data) + p * sin.stride[0]};
      turn_token(pieces, s, angles, q, q_out, sequence, token);
      if (k.rank != 0) turn_token(pieces, s, angles, k, k_out, sequence, token);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_tokens() {
  Implementation own;
  own.name = "cpu_tokens";
  own.summary = "runs of heads in cache, q and k of a token together, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::rope
