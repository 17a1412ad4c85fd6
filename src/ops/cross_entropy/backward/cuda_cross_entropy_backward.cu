// Blocks come and go, each with a piece of one row: its chunks of 16 bytes are all asked for at once, beside the three
// numbers of the row, and written as gradients. Nothing is shared, so many blocks on a multiprocessor keep loads and
// stores in flight together. Bound by memory: one read, one write; with a soft cap by the special-function unit.
// Pieces that do not start on 16 bytes have their ends by elements, and all of it where logits and dlogits lie
// differently beside 16 bytes.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "CHUNKS"
values = [1, 2, 4, 8]
default = 4
category = "tile"
title = "chunks of 16 bytes of a thread"
[[tunable]]
name = "MOST_THREADS"
values = [128, 256, 512]
default = 128
category = "resource"
title = "most threads of a block"
*/
/* ridge-kernel
op = "cross_entropy_backward"
max_registers = 128
sass = [{ opcode = "STG" }, { opcode = "MUFU" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WIDE_TARGETS = { value = "index == 0" }
RIDGE_CAPPED = { value = "capped" }
RIDGE_THREADS = { value = "threads" }
RIDGE_BLOCKS = { value = "min(32, floor_div(CHUNKS > 4 ? 1024 : CHUNKS > 2 ? 1280 : 1536, threads))" }
[configs]
default = { }
chunks2 = { CHUNKS = 2 }
chunks8 = { CHUNKS = 8 }
threads256 = { MOST_THREADS = 256 }
[variants]
bf16_128256 = { case = "cross_entropy_backward tokens=8192 vocabulary=128256", every = true }
bf16_1000 = { case = "cross_entropy_backward tokens=8192 vocabulary=1000 index=i32" }
bf16_50257 = { case = "cross_entropy_backward tokens=8192 vocabulary=50257" }
bf16_256000_capped = { case = "cross_entropy_backward tokens=4096 vocabulary=256000 soft_cap=1", every = true }
f16_128256 = { case = "cross_entropy_backward tokens=8192 vocabulary=128256 dtype=f16" }
f32_128256 = { case = "cross_entropy_backward tokens=8192 vocabulary=128256 dtype=f32" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "ceil_div(vocabulary * logits_bytes, 16)"
[[value]]
name = "threads"
expression = "min(MOST_THREADS, max(32, round_up(ceil_div(chunks, CHUNKS), 32)))"
# Elements of a piece: a multiple of 128 bytes, so that pieces start where rows do.
[[value]]
name = "piece"
expression = "floor_div(16 * threads * CHUNKS, logits_bytes)"
[[value]]
name = "pieces"
expression = "ceil_div(vocabulary, piece)"
[[needs]]
expression = "tokens * ceil_div(vocabulary * logits_bytes, 2048) <= 2147483647"
reason = "a grid has at most so many pieces of rows"
[[kernel]]
symbol = "ridge_cross_entropy_backward"
grid = ["tokens * pieces"]
block = ["threads"]
args = [{ struct = [
  { operand = "logits" }, { operand = "targets" }, { operand = "dloss" }, { operand = "lse" }, { operand = "dlogits" },
  { i64 = "logits_stride0 * logits_bytes" }, { i64 = "dlogits_stride0 * dlogits_bytes" }, { i64 = "vocabulary" },
  { u32 = "piece" }, { u32 = "pieces" },
  { f32 = "label_smoothing" }, { f32 = "z_loss" }, { f32 = "soft_cap" }, { f32 = "grad_scale" },
  { f64 = "ignore_index" }, { f64 = "first" }, { f64 = "whole" },
] }]
*/
// clang-format on

#include "../cuda_rows.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes.
struct CrossEntropyBackwardParameters {
  const u8* logits;
  const void* targets;
  const float *dloss, *lse;
  u8* dlogits;
  i64 logits_pitch, dlogits_pitch, columns;
  u32 piece, pieces;  // elements of a piece, pieces of a row
  LossSettings settings;
};

namespace {

constexpr Number kTypeX = Number::RIDGE_TYPE_X;
constexpr bool kCapped = RIDGE_CAPPED != 0;
using Words = Chunk<kTypeX>;
using Logit = LogitOf<kCapped>;
using AllTargets = Targets<RIDGE_WIDE_TARGETS != 0>;

// What the row says about its gradient.
struct Row {
  RowGradient gradient;
  float scale, share, lse, shift;  // of the target's column
  i64 target;                      // in the piece; outside: none

  __device__ __forceinline__ float at_target(float given, const Logit& logit) const {
    float slope;
    const float x = logit(given, slope), found = scale * (share * exact_power_beside(x, lse) - shift);
    return kCapped ? found * slope : found;
  }
};

// Of a piece that begins at this column.
__device__ __forceinline__ Row row_of(const CrossEntropyBackwardParameters& p, float dloss, float lse, i64 target,
                                      i64 begin) {
  const LossSettings& s = p.settings;
  Row row;
  row.lse = lse;
  row.scale = s.scale * dloss;
  row.share = 1.0f + 2.0f * s.z_loss * row.lse;
  const float spread = static_cast<float>(static_cast<double>(s.smoothing) / s.whole);
  row.shift = spread + (1.0f - s.smoothing);
  row.target = target - static_cast<i64>(s.first) - begin;
  row.gradient = {row.lse, row.share, spread, row.scale};
  return row;
}

__device__ __forceinline__ void differentiate(const CrossEntropyBackwardParameters& p) {
  const i64 index = blockIdx.x / p.pieces, begin = static_cast<i64>(blockIdx.x % p.pieces) * p.piece;
  const i64 count = min(static_cast<i64>(p.piece), p.columns - begin);
  const u8* const from = p.logits + index * p.logits_pitch + begin * Words::kBytes;
  u8* const to = p.dlogits + index * p.dlogits_pitch + begin * Words::kBytes;
  const Span<Words> span(from, to, count);
  const AllTargets targets(p.targets, p.settings);
  const i64 target = targets[index];
  const float dloss = p.dloss[index], lse = p.lse[index];  // asked for together
  const RowKind kind = targets.kind(target);
  if (kind != RowKind::kCounts) {  // not read
    const float value = kind == RowKind::kIgnored ? 0.0f : not_a_number();
    const Words words = filled_chunk<Words>(value);
    for (i64 c = threadIdx.x; c < span.chunks; c += RIDGE_THREADS) {
      words.store_global(to + span.chunk_at(c) * Words::kBytes);
    }
    for (i64 i = threadIdx.x; i < span.ones(); i += RIDGE_THREADS) store_number<kTypeX>(to, span.one(i), value);
    return;
  }
  Words chunks[CHUNKS];
#pragma unroll
  for (u32 j = 0; j < CHUNKS; ++j) {
    const u32 c = j * RIDGE_THREADS + threadIdx.x;
    chunks[j].clear();
    if (c < span.chunks) chunks[j].load_own(from + span.chunk_at(c) * Words::kBytes);
  }
  const Logit logit(p.settings.cap);
  const Row row = row_of(p, dloss, lse, target, begin);
#pragma unroll
  for (u32 j = 0; j < CHUNKS; ++j) {
    const u32 c = j * RIDGE_THREADS + threadIdx.x;
    const i64 at = span.chunk_at(c);
    float corrected = 0.0f;
    const bool has_target = c < span.chunks && row.target >= at && row.target < at + Words::kCount;
    if (has_target) corrected = row.at_target(load_number<kTypeX>(from, row.target), logit);
    row.gradient(chunks[j], logit);
    if (c < span.chunks) chunks[j].store_global(to + at * Words::kBytes);
    if (has_target) store_number<kTypeX>(to, row.target, corrected);
  }
  for (i64 i = threadIdx.x; i < span.ones(); i += RIDGE_THREADS) {
    const i64 at = span.one(i);
    const float given = load_number<kTypeX>(from, at);
    store_number<kTypeX>(to, at, at == row.target ? row.at_target(given, logit) : row.gradient(given, logit));
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_cross_entropy_backward(const ridge::cuda::CrossEntropyBackwardParameters p) {
  ridge::cuda::differentiate(p);
}
