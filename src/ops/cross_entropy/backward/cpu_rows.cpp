// Rows in pieces of 2048 numbers that stay in the first-level cache between the conversions to and from fp32: one read,
// one write. Every thread takes a run of rows. Bound by memory from a few megabytes up in f32, by the exponential in 16
// bits.
#include "ops/cross_entropy/cpu_rows.h"

#include "device/cpu/thread_pool.h"
#include "ops/cross_entropy/backward/backward.h"

namespace ridge::ops::cross_entropy_backward {
namespace {

using cross_entropy::kPiece;
using cross_entropy::Numbers;
using cross_entropy::Pieces;
using cross_entropy::Share;

enum OperandAt : std::size_t { kDloss, kLogits, kTargets, kLse, kDlogits };

void differentiate_row(const Pieces& pieces, const Numbers& n, const Arguments& o, std::int64_t row) {
  const RowOfMatrix logits(o[kLogits], row), dlogits(o[kDlogits], row);
  const std::int64_t columns = o[kLogits].shape[1], target = cross_entropy::target_at(o[kTargets], row);
  if (target == n.ignored) return cross_entropy::clear_row(dlogits, columns);
  const float lse = static_cast<const float*>(o[kLse].data)[row];
  const float scale = n.scale * static_cast<const float*>(o[kDloss].data)[row];
  const Share share{1 + 2 * n.z_loss * lse, n.spread, scale};
  alignas(64) float memory[kPiece], slope[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < columns; first += kPiece) {
    const std::int64_t count = std::min(kPiece, columns - first), at = target - n.first - first;
    const float* const x = cross_entropy::logits_of(pieces, logits, first, count, n.cap, memory, slope);
    float* const out = dlogits.target(first, to);
    const float logit = at >= 0 && at < count ? x[at] : 0;
    pieces.gradient(x, lse, share, out, count);
    if (at >= 0 && at < count) pieces.gradient(&logit, lse, of_target(share, n), out + at, 1);
    if (n.cap != 0) pieces.multiply(slope, out, count);
    dlogits.write(first, count, out);
  }
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(cross_entropy::check_targets(problem, arguments));
  const cross_entropy::Shape s = cross_entropy::shape_of(problem);
  const Numbers numbers = cross_entropy::numbers_of(problem, arguments);
  const Pieces& pieces = cross_entropy::best_pieces();
  const int threads = static_cast<int>(std::clamp<std::int64_t>(s.tokens, 1, std::max(stream.threads, 1)));
  device::cpu::thread_pool().run(threads, [&](int thread) {
    const std::int64_t last = s.tokens * (thread + 1) / threads;
    for (std::int64_t row = s.tokens * thread / threads; row < last; ++row) {
      differentiate_row(pieces, numbers, arguments, row);
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache, one read and one write, in vectors of fp32";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  return own;
}

}  // namespace ridge::ops::cross_entropy_backward
