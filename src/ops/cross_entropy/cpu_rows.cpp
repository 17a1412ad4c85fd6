// Rows in pieces of 2048 numbers that stay in the first-level cache. The first pass makes the powers of a piece beside
// its own largest logit and keeps them in fp32, in dlogits if that is f32, else in a row of scratch memory; the second
// multiplies them, from the second-level cache, by what the whole row says. So a logit is read once from memory and its
// exponential is made once; with a soft cap, whose slope is needed too, twice. Every thread takes a run of rows. Bound
// by memory from a few megabytes up in f32, by the exponential in 16 bits; a single row is the work of one thread.
#include "ops/cross_entropy/cpu_rows.h"

#include "device/cpu/thread_pool.h"

namespace ridge::ops::cross_entropy {
namespace {

struct Operands {
  TensorView logits, targets, grad, loss, lse, dlogits, shard[4];
  std::int64_t columns = 0;
};
// What one thread keeps of its row: powers, and of each piece the logit beside which they were made.
struct Scratch {
  float *powers = nullptr, *most = nullptr, *share = nullptr;
};
// The largest logit, the sum of the powers beside it, and the sum of the logits.
struct Statistics {
  float most = -INFINITY, sum = 0, logits = 0;
};

std::int64_t pieces_of(std::int64_t columns) { return (columns + kPiece - 1) / kPiece; }
std::int64_t scratch_of(std::int64_t columns) { return (columns + 2 * pieces_of(columns) + 15) / 16 * 16; }

int threads_of(const Shape& s, const Stream& stream) {
  return static_cast<int>(std::clamp<std::int64_t>(s.tokens, 1, std::max(stream.threads, 1)));
}
// Powers are kept for a second pass.
bool keeps(const Problem& problem) { return problem.values[kDlogits] == 1 && problem.values[kSoftCap] == 0; }

std::size_t workspace_bytes(const Problem& problem, const Stream& stream) {
  const Shape s = shape_of(problem);
  if (!keeps(problem)) return 0;
  return static_cast<std::size_t>(threads_of(s, stream) * scratch_of(s.vocabulary)) * sizeof(float);
}

float power(const Pieces& pieces, float x) {
  Lanes lanes;
  pieces.powers(&x, 0, nullptr, lanes, 1);
  return lanes.value[0];
}

// Adds powers beside another largest logit.
void add(const Pieces& pieces, Statistics& to, float most, float sum) {
  if (most > to.most) {
    to.sum = to.sum * power(pieces, to.most - most) + sum;
    to.most = most;
  } else {
    to.sum += most == to.most ? sum : sum * power(pieces, most - to.most);
  }
}

// The first pass. Where powers are kept, dlogits may be written.
Statistics read_row(const Pieces& pieces, const Numbers& n, const Operands& o, std::int64_t row, const Scratch& kept) {
  const RowOfMatrix logits(o.logits, row), dlogits(kept.powers != nullptr ? o.dlogits : o.logits, row);
  alignas(64) float memory[kPiece];
  Statistics found;
  Lanes total;
  for (std::int64_t first = 0; first < o.columns; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.columns - first);
    const float* const x = logits_of(pieces, logits, first, count, n.cap, memory);
    if (n.smoothing > 0 || o.shard[0].rank != 0) pieces.sum(x, total, count);
    const float most = pieces.largest(x, count);
    const float base = std::isfinite(most) ? most : 0;  // of -infinity alone every power is 0
    Lanes lanes;
    pieces.powers(x, base, kept.powers == nullptr ? nullptr : dlogits.target(first, kept.powers + first), lanes, count);
    if (kept.powers != nullptr) kept.most[first / kPiece] = most;
    const float sum = most == INFINITY ? NAN : total_of(lanes);
    add(pieces, found, most, sum);
  }
  found.logits = total_of(total);
  return found;
}

struct Gradient {
  std::int64_t target;
  float base;   // of the powers: e^(x - base)
  Share share;  // as for powers beside `base`
};

// The second pass, from the powers that the first one kept.
void write_row(const Pieces& pieces, const Numbers& n, const Operands& o, std::int64_t row, const Gradient& g,
               const Scratch& kept) {
  const RowOfMatrix dlogits(o.dlogits, row);
  alignas(64) float to[kPiece];
  const std::int64_t all = pieces_of(o.columns);
  Lanes unused;
  pieces.powers(kept.most, g.base, kept.share, unused, all);
  for (std::int64_t i = 0; i < all; ++i) {
    const std::int64_t first = i * kPiece, count = std::min(kPiece, o.columns - first);
    float* const out = dlogits.target(first, to);
    const float* const powers = dlogits.target(first, kept.powers + first);
    const Share share{g.share.factor * kept.share[i], g.share.shift, g.share.scale};
    const std::int64_t at = g.target - first;
    const float power = at >= 0 && at < count ? powers[at] : 0;
    pieces.scale(powers, share, out, count);
    if (at >= 0 && at < count) pieces.scale(&power, of_target(share, n), out + at, 1);
    dlogits.write(first, count, out);
  }
}

// The second pass with a soft cap: everything once more.
void write_capped_row(const Pieces& pieces, const Numbers& n, const Operands& o, std::int64_t row, const Gradient& g) {
  const RowOfMatrix logits(o.logits, row), dlogits(o.dlogits, row);
  alignas(64) float memory[kPiece], slope[kPiece], to[kPiece];
  for (std::int64_t first = 0; first < o.columns; first += kPiece) {
    const std::int64_t count = std::min(kPiece, o.columns - first);
    const float* const x = logits_of(pieces, logits, first, count, n.cap, memory, slope);
    float* const out = dlogits.target(first, to);
    const std::int64_t at = g.target - first;
    const float logit = at >= 0 && at < count ? x[at] : 0;
    pieces.gradient(x, g.base, g.share, out, count);
    if (at >= 0 && at < count) pieces.gradient(&logit, g.base, of_target(g.share, n), out + at, 1);
    pieces.multiply(slope, out, count);
    dlogits.write(first, count, out);
  }
}

void put(const TensorView& vector, std::int64_t row, float value) {
  if (vector.rank != 0) static_cast<float*>(vector.data)[row] = value;
}

// One logit as the formula knows it.
float logit_of(const Pieces& pieces, const Numbers& n, const Operands& o, std::int64_t row, std::int64_t column) {
  float memory;
  return *logits_of(pieces, RowOfMatrix(o.logits, row), column, 1, n.cap, &memory);
}

void write_shard(const Operands& o, std::int64_t row, const Statistics& s, float target) {
  put(o.shard[0], row, std::isnan(s.sum) ? NAN : s.most);
  put(o.shard[1], row, s.sum);
  put(o.shard[2], row, target);
  put(o.shard[3], row, s.logits);
}

void lose_row(const Pieces& pieces, const Numbers& n, const Operands& o, std::int64_t row, const Scratch& kept) {
  const std::int64_t target = target_at(o.targets, row);
  if (target == n.ignored) {
    for (const TensorView* view : {&o.loss, &o.lse, &o.shard[0], &o.shard[1], &o.shard[2], &o.shard[3]}) {
      put(*view, row, 0);
    }
    if (o.dlogits.rank != 0) clear_row(RowOfMatrix(o.dlogits, row), o.columns);
    return;
  }
  const std::int64_t at = target - n.first;
  const float x = at >= 0 && at < o.columns ? logit_of(pieces, n, o, row, at) : 0;
  Statistics s = read_row(pieces, n, o, row, kept);
  if (o.shard[0].rank != 0) return write_shard(o, row, s, x);
  if (!std::isfinite(s.most)) s.sum = s.most = NAN;
  const float log_sum = std::log(s.sum), lse = s.most + log_sum;
  float loss = log_sum - (1 - n.smoothing) * (x - s.most);
  if (n.smoothing > 0) loss -= n.smoothing * (s.logits / static_cast<float>(o.columns) - s.most);
  if (n.z_loss > 0) loss += n.z_loss * lse * lse;
  put(o.loss, row, loss);
  put(o.lse, row, lse);
  if (o.dlogits.rank == 0) return;
  const float scale = n.scale * (o.grad.rank != 0 ? static_cast<const float*>(o.grad.data)[row] : 1);
  const Gradient g{target, s.most, {(1 + 2 * n.z_loss * lse) / s.sum, n.spread, scale}};
  kept.powers != nullptr ? write_row(pieces, n, o, row, g, kept) : write_capped_row(pieces, n, o, row, g);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  RIDGE_CHECK_OK(check_targets(problem, arguments));
  const Shape s = shape_of(problem);
  const auto named = [&](const char* name) { return operand(problem, arguments, name); };
  const Operands o{named("logits"),
                   named("targets"),
                   named("grad"),
                   named("loss"),
                   named("lse"),
                   named("dlogits"),
                   {named("shard_max"), named("shard_sum"), named("shard_target"), named("shard_logits")},
                   s.vocabulary};
  const Numbers numbers = numbers_of(problem, arguments);
  const Pieces& pieces = best_pieces();
  const int threads = threads_of(s, stream);
  device::cpu::thread_pool().run(threads, [&](int thread) {
    Scratch kept;
    if (keeps(problem)) {
      kept.powers = reinterpret_cast<float*>(arguments.workspace.data()) + thread * scratch_of(s.vocabulary);
      kept.most = kept.powers + s.vocabulary;
      kept.share = kept.most + pieces_of(s.vocabulary);
    }
    const std::int64_t last = s.tokens * (thread + 1) / threads;
    for (std::int64_t row = s.tokens * thread / threads; row < last; ++row) lose_row(pieces, numbers, o, row, kept);
  });
  return ok_status();
}

}  // namespace

Implementation cpu_rows() {
  Implementation own;
  own.name = "cpu_rows";
  own.summary = "rows in cache; a logit is read once and its exponential made once, loss and gradient together";
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  own.run = run;
  own.workspace_bytes = workspace_bytes;
  return own;
}

}  // namespace ridge::ops::cross_entropy
