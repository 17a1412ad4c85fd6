// A row is read once and its gradient written once: its logits stay in registers, packed, from the pass that finds the
// log-sum-exp to the pass that writes. Every warp has a ring of its own in shared memory, which the copy engine fills
// with the next pieces of the warp's part of this row and of the rows after it; a piece is free again when the warp has
// it in registers, so loads are in flight through the sums and the writing. The largest logit is found on the way: a
// thread makes powers beside a base of its own, and moves it when a logit is far above. Warps of all blocks of a row
// meet once, in a table of what each found.
//
// A block of one to eight warps takes a row of up to 76 KiB, a cluster of two, four or eight blocks one of up to 608
// KiB (311296 columns of 16 bits). Two blocks on a multiprocessor are at different rows: one writes while the other
// adds up. Without a gradient nothing is kept and a block takes a row of any length. Longer rows with a gradient are
// read twice, by a cluster, the second time mostly from the second-level cache. Rows that do not start on 16 bytes, or
// are no multiple of 16 bytes long, go the same way without the copy engine, their ends by elements.
//
// Bound by memory; with a soft cap by the special-function unit, which then has six operations for an element instead
// of two. Rows below 1 KiB are bound by what there is to do for each.

// clang-format off
/* ridge-tunables
[[tunable]]
name = "BLOCK_THREADS"
values = [256, 512]
default = 256
category = "resource"
title = "most threads of a block; so many blocks share a multiprocessor that it has 512 that keep a row"
[[tunable]]
name = "STREAM_THREADS"
values = [512, 1024]
default = 1024
category = "resource"
title = "threads of a multiprocessor where no row is kept"
[[tunable]]
name = "PIECE"
values = [1, 2, 4, 8]
default = 4
category = "pipeline"
title = "chunks of 16 bytes that a thread has of a piece of the ring"
[[tunable]]
name = "MOST"
values = [16, 19]
default = 19
category = "tile"
title = "most chunks of 16 bytes that a thread keeps"
*/
/* ridge-kernel
op = "cross_entropy"
max_registers = 128
sass = [{ opcode = "UBLKCP", when = "by_chunks" }, { opcode = "MUFU" }]
[define]
RIDGE_TYPE_X = { value = "dtype", names = ["kF32", "kBf16", "kF16"] }
RIDGE_WIDE_TARGETS = { value = "index == 0" }
RIDGE_CAPPED = { value = "capped" }
RIDGE_GRADIENT = { value = "dlogits" }
RIDGE_VECTORS = { value = "by_chunks" }
RIDGE_KEPT = { value = "kept" }
RIDGE_PIECE = { value = "piece" }
RIDGE_THREADS = { value = "threads" }
RIDGE_BLOCKS = { value = "by_chunks ? resident : 4" }
RIDGE_CLUSTER = { value = "blocks > 1" }
[configs]
default = { }
blocks512 = { BLOCK_THREADS = 512 }
piece2 = { PIECE = 2 }
piece8 = { PIECE = 8 }
most16 = { MOST = 16 }
stream512 = { STREAM_THREADS = 512, PIECE = 8 }
[variants]
bf16_128256_gradient = { case = "cross_entropy tokens=8192 vocabulary=128256 dlogits=1", every = true }
bf16_152064_gradient = { case = "cross_entropy tokens=8192 vocabulary=152064 dlogits=1 grad=1", every = true }
bf16_32000_gradient = { case = "cross_entropy tokens=16384 vocabulary=32000 dlogits=1 index=i32" }
bf16_1000_gradient = { case = "cross_entropy tokens=16384 vocabulary=1000 dlogits=1" }
bf16_128256 = { case = "cross_entropy tokens=8192 vocabulary=128256", every = true }
bf16_128256_few = { case = "cross_entropy tokens=64 vocabulary=128256" }
bf16_128256_shard = { case = "cross_entropy tokens=8192 vocabulary=128256 shard=1" }
bf16_50257_gradient = { case = "cross_entropy tokens=8192 vocabulary=50257 dlogits=1" }
bf16_50257 = { case = "cross_entropy tokens=8192 vocabulary=50257" }
bf16_400000_gradient = { case = "cross_entropy tokens=8192 vocabulary=400000 dlogits=1" }
bf16_256000_gradient_capped = { case = "cross_entropy tokens=4096 vocabulary=256000 dlogits=1 soft_cap=1" }
bf16_152064_gradient_capped = { case = "cross_entropy tokens=4096 vocabulary=152064 dlogits=1 soft_cap=1" }
bf16_256000_capped = { case = "cross_entropy tokens=4096 vocabulary=256000 soft_cap=1" }
bf16_50257_gradient_capped = { case = "cross_entropy tokens=8192 vocabulary=50257 dlogits=1 soft_cap=1" }
f16_152064_gradient = { case = "cross_entropy tokens=8192 vocabulary=152064 dlogits=1 dtype=f16" }
f32_128256_gradient = { case = "cross_entropy tokens=8192 vocabulary=128256 dlogits=1 dtype=f32" }
f32_128256 = { case = "cross_entropy tokens=8192 vocabulary=128256 dtype=f32" }
*/
/* ridge-launch
[[value]]
name = "chunks"
expression = "floor_div(vocabulary * logits_bytes, 16)"
[[value]]
name = "by_chunks"
expression = "vectors"
[[value]]
name = "block_chunks"
expression = "BLOCK_THREADS * MOST"
# Blocks of a row: as many as keep it in registers, or, where nothing is kept, as few as give every multiprocessor work.
[[value]]
name = "blocks"
expression = "by_chunks == 0 || chunks <= 4096 ? 1 : dlogits ? (chunks <= block_chunks ? 1 : chunks <= 2 * block_chunks ? 2 : chunks <= 4 * block_chunks ? 4 : 8) : tokens >= 264 ? 1 : tokens >= 132 ? 2 : tokens >= 66 ? 4 : 8"
[[value]]
name = "slice"
expression = "round_up(ceil_div(chunks, blocks), 8)"
[[value]]
name = "threads"
expression = "by_chunks == 0 ? 256 : chunks > 4096 ? BLOCK_THREADS : chunks > 2048 ? 256 : chunks > 1024 ? 128 : chunks > 512 ? 64 : 32"
[[value]]
name = "warps"
expression = "floor_div(threads, 32)"
[[value]]
name = "part"
expression = "round_up(ceil_div(slice, warps), 8)"
# Chunks that a thread keeps of a row; 0: none.
[[value]]
name = "kept"
expression = "by_chunks && dlogits && ceil_div(part, 32) <= MOST ? ceil_div(part, 32) : 0"
# Threads that stream have registers for four chunks, or, half as many of them, for eight.
[[value]]
name = "piece"
expression = "kept > 0 || STREAM_THREADS == 512 ? PIECE : min(PIECE, 4)"
[[value]]
name = "resident"
expression = "floor_div(kept > 0 ? 512 : STREAM_THREADS, threads)"
# Shared memory: two barriers, those of the rings, the table of what warps found, the rings.
[[value]]
name = "table"
expression = "16 + 128 * warps"
[[value]]
name = "rings"
expression = "round_up(table + 32 * warps * blocks, 128)"
[[value]]
name = "stage_bytes"
expression = "16 * min(part, 32 * piece)"
[[value]]
name = "stages"
expression = "max(2, min(16, floor_div(floor_div(233472, resident) - 1024 - rings, stage_bytes * warps)))"
[[value]]
name = "shared_bytes"
expression = "by_chunks ? rings + stages * stage_bytes * warps : 0"
[[needs]]
expression = "by_chunks == 0 || resident * (1024 + shared_bytes) <= 233472"
reason = "the rings of all blocks of a multiprocessor must fit its shared memory"
[[needs]]
expression = "tokens <= 2147483647"
reason = "rows are counted in 32 bits"
[[kernel]]
symbol = "ridge_cross_entropy"
grid = ["by_chunks == 0 ? min(tokens, 8 * sm_count) : blocks * min(tokens, floor_div(resident * sm_count, blocks))"]
persistent = 1
block = ["threads"]
cluster = ["blocks"]
shared = "shared_bytes"
args = [{ struct = [
  { operand = "logits" }, { operand = "targets" }, { operand = "grad", when = "grad" },
  { operand = "loss", when = "shard == 0" }, { operand = "lse", when = "lse" }, { operand = "dlogits", when = "dlogits" },
  { operand = "shard_max", when = "shard" }, { operand = "shard_sum", when = "shard" },
  { operand = "shard_target", when = "shard" }, { operand = "shard_logits", when = "shard" },
  { i64 = "logits_stride0 * logits_bytes" }, { i64 = "dlogits_stride0 * dlogits_bytes", when = "dlogits" },
  { i64 = "vocabulary" },
  { u32 = "tokens" }, { u32 = "chunks" }, { u32 = "slice" }, { u32 = "part" }, { u32 = "stages" }, { u32 = "12816" },
  { f32 = "label_smoothing" }, { f32 = "z_loss" }, { f32 = "soft_cap" }, { f32 = "grad_scale" },
  { f64 = "ignore_index" }, { f64 = "first" }, { f64 = "whole" },
] }]
*/
// clang-format on

#include "../../device/cuda/kernel/mbarrier.cuh"
#include "../../device/cuda/kernel/tma.cuh"
#include "cuda_rows.cuh"

namespace ridge::cuda {

// As the launch plan fills it; pitches in bytes. Null: not wanted, or not given.
struct CrossEntropyParameters {
  const u8* logits;
  const void* targets;
  const float* grad;
  float *loss, *lse;
  u8* dlogits;
  float *shard_max, *shard_sum, *shard_target, *shard_logits;
  i64 logits_pitch, dlogits_pitch, columns;
  u32 rows;
  u32 chunks, slice, part, stages;  // of a row, of a block's part of it, of a warp's; stages of a ring
  u32 order;                        // kInOrder
  LossSettings settings;
};
static_assert(sizeof(CrossEntropyParameters) == 13 * 8 + 6 * 4 + sizeof(LossSettings),
              "the launch plan lists the members of the settings one by one: no padding may be in front of them");

namespace {

using Words = Chunk<Number::RIDGE_TYPE_X>;
using AllTargets = Targets<RIDGE_WIDE_TARGETS != 0>;
using Logit = LogitOf<RIDGE_CAPPED != 0>;
constexpr Number kTypeX = Number::RIDGE_TYPE_X;
constexpr bool kCapped = RIDGE_CAPPED != 0, kGradient = RIDGE_GRADIENT != 0, kCluster = RIDGE_CLUSTER != 0;
constexpr u32 kCount = Words::kCount, kWarps = RIDGE_THREADS / kWarpThreads;
constexpr u32 kKept = RIDGE_KEPT;                                          // chunks that a thread keeps of a row
constexpr bool kTwice = kGradient && kKept == 0;                           // rows are read once more for the gradient
constexpr u32 kPiece = RIDGE_PIECE, kPieceChunks = kPiece * kWarpThreads;  // chunks of a thread, of a stage
constexpr u32 kMostStages = 16;
constexpr float kFar = 8.0f;  // above its base: a sum of powers stays far from the ends of fp32

// What was found in some of a row's logits: the largest, the sum of their powers beside a base, the sum of themselves.
struct Found {
  float most = minus_infinity(), base = kLeastFloat, sum = 0.0f, logits = 0.0f;

  // Those of a chunk; of one that is not there they are -infinity.
  __device__ __forceinline__ void add(const float (&x)[kCount]) {
    float largest[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) largest[i] = x[i];
#pragma unroll
    for (u32 width = kCount / 2; width > 0; width /= 2) {
#pragma unroll
      for (u32 i = 0; i < width; ++i) largest[i] = fmaxf(largest[i], largest[i + width]);
    }
    lift(largest[0]);
    float powers[kCount];
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) powers[i] = power_beside(x[i], base);
    sum += total(powers);
  }
  __device__ __forceinline__ void add_logits(const float (&x)[kCount]) { logits += total(x); }
  __device__ __forceinline__ void add(float x, bool with_logits) {
    lift(x);
    sum += power_beside(x, base);
    if (with_logits) logits += x;
  }
  // The base is far below the largest logit only where a new one came: most rows never come here again.
  __device__ __forceinline__ void lift(float largest) {
    most = fmaxf(most, largest);
    if (!(largest > base + kFar)) return;
    sum *= power_beside(base, largest);
    base = largest;
  }
  // Beside the largest of more logits than these. A NaN and +infinity are in the sum as NaN.
  __device__ __forceinline__ void move_to(float largest) {
    const float to = fmaxf(largest, kLeastFloat);
    sum *= power_beside(base, to);
    most = largest;
    base = to;
  }
  __device__ __forceinline__ void join(const Found& other) {
    Found more = other;
    const float largest = fmaxf(most, more.most);
    move_to(largest);
    more.move_to(largest);
    sum += more.sum;
    logits += more.logits;
  }
  __device__ __forceinline__ void over_warp() {
    float largest = most;
#pragma unroll
    for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, mask));
    }
    move_to(largest);
#pragma unroll
    for (int mask = kWarpThreads / 2; mask > 0; mask /= 2) {
      sum += __shfl_xor_sync(~0u, sum, mask);
      logits += __shfl_xor_sync(~0u, logits, mask);
    }
  }

 private:
  __device__ __forceinline__ static float total(const float (&x)[kCount]) {
    float sums[kCount / 2];
#pragma unroll
    for (u32 i = 0; i < kCount / 2; ++i) sums[i] = x[i] + x[i + kCount / 2];
#pragma unroll
    for (u32 width = kCount / 4; width > 0; width /= 2) {
#pragma unroll
      for (u32 i = 0; i < width; ++i) sums[i] += sums[i + width];
    }
    return sums[0];
  }
};

// Chunks first .. last of an array, of which the k-th is there if there(k). Sums of logits are apart: in between they
// would take their time of every row, wanted or not.
template <u32 kSize, class There>
__device__ __forceinline__ void add_chunks(Found& found, const Words (&chunks)[kSize], u32 first, u32 last,
                                           const Logit& logit, bool with_logits, u32 order, const There& there) {
  float x[kCount];
#pragma unroll
  for (u32 k = first; k < kSize && k < last; ++k) {
    // With a soft cap -infinity is a number. And one chunk after the other leaves registers for those that are kept.
    if (kCapped && !there(k)) continue;
#pragma unroll
    for (u32 i = 0; i < kCount; ++i) x[i] = logit(chunks[k][i]);
    found.add(x);
    if (kCapped && with_logits) found.add_logits(x);
  }
  if constexpr (!kCapped) {
    if (!with_logits) return;
#pragma unroll
    for (u32 k = first; k < kSize && k < last; ++k) {
      Words packed = chunks[k];
      packed.stay_packed(order);
#pragma unroll
      for (u32 i = 0; i < kCount; ++i) x[i] = packed[i];
      if (there(k)) found.add_logits(x);
    }
  }
}

__device__ __forceinline__ u32 blocks_of_row() {
  if constexpr (!kCluster) return 1;
  u32 count;
  asm volatile("mov.u32 %0, %%cluster_nctarank;" : "=r"(count));
  return count;
}
__device__ __forceinline__ u32 rank_in_row() { return kCluster ? cluster_rank() : 0; }

// Where the warps of a row's blocks put what they found, in turns: the next row's goes into the other half. A warp that
// is two rows ahead would have needed every warp's entry of the row between, which each sends when it has read this
// one's.
class Meeting {
 public:
  // `barriers`: two of 8 bytes; `table`: 2 x blocks x warps entries of 16 bytes.
  __device__ __forceinline__ Meeting(u32 barriers, u32 table)
      : barriers_(barriers), table_(table), entries_(blocks_of_row() * kWarps) {}

  __device__ __forceinline__ static void prepare(u32 barriers) {
    for (u32 i = 0; i < 2; ++i) barrier_init(barriers + i * kBarrierBytes, kCluster ? 1 : kWarps);
  }

  // `found` of this warp, the same in all lanes, becomes that of the whole row, and `at_target`, which the first warp's
  // first lane knows, is told to all.
  __device__ __forceinline__ void operator()(Found& found, float& at_target) {
    const u32 lane = threadIdx.x % kWarpThreads, met = barriers_ + turn_ * kBarrierBytes;
    const u32 half = table_ + turn_ * entries_ * 16;
    const u32 own = rank_in_row() * kWarps + threadIdx.x / kWarpThreads;
    if constexpr (kCluster) {
      if (threadIdx.x == 0) barrier_arrive_expect_bytes(met, entries_ * 16);
      // Lane 0 has the target's logit, and the lanes send.
      const float told = __shfl_sync(~0u, at_target, 0);
      if (lane < blocks_of_row()) send(found, told, half + own * 16, met, lane);
    } else {
      if (lane == 0) {
        store_shared_v4(half + own * 16, found.most, found.sum, found.logits, at_target);
        barrier_arrive(met);
      }
    }
    barrier_wait(met, parity_ >> turn_ & 1u);
    parity_ ^= 1u << turn_;
    at_target = load_shared(half + 12);
    read(found, half, lane);
    turn_ ^= 1;
  }

 private:
  __device__ __forceinline__ static void send(const Found& found, float at_target, u32 entry, u32 met, u32 block) {
    u32 to, barrier;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(to) : "r"(entry), "r"(block));
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(barrier) : "r"(met), "r"(block));
    asm volatile("st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.b32 [%0], {%1, %2, %3, %4}, [%5];" ::"r"(to),
                 "r"(__float_as_uint(found.most)), "r"(__float_as_uint(found.sum)), "r"(__float_as_uint(found.logits)),
                 "r"(__float_as_uint(at_target)), "r"(barrier)
                 : "memory");
  }
  // In an order that depends on shapes alone.
  __device__ __forceinline__ void read(Found& found, u32 half, u32 lane) const {
    found = Found();
    for (u32 entry = lane; entry < entries_; entry += kWarpThreads) {
      float x[4];
      load_shared_v4(half + entry * 16, x);
      Found one;
      one.most = x[0];
      one.base = fmaxf(x[0], kLeastFloat);
      one.sum = x[1];
      one.logits = x[2];
      found.join(one);
    }
    found.over_warp();
  }

  u32 barriers_, table_, entries_, turn_ = 0, parity_ = 0;
};

// One row: what it is worth, and what its gradient is made of.
struct Row {
  const CrossEntropyParameters& p;
  i64 index, target;
  float factor = 1.0f;  // `grad`
  RowGradient gradient{};
  float at_target = 0.0f, gradient_at_target = 0.0f;

  // Column of the target here; of another shard it is outside.
  __device__ __forceinline__ i64 column() const { return target - static_cast<i64>(p.settings.first); }
  __device__ __forceinline__ bool here() const { return column() >= 0 && column() < p.columns; }
  __device__ __forceinline__ const u8* logits() const { return p.logits + index * p.logits_pitch; }
  __device__ __forceinline__ u8* dlogits() const { return p.dlogits + index * p.dlogits_pitch; }

  // Asks for what is needed beside the logits, before they come. The target's logit as it is stored, by the thread that
  // writes the results: later a gradient in place may lie there.
  __device__ __forceinline__ void read(bool writes) {
    if (kGradient && p.grad != nullptr) factor = p.grad[index];
    if (writes && here()) at_target = load_number<kTypeX>(logits(), column());
  }
  __device__ __forceinline__ void write(float loss, float lse, float shard_target) const {
    if (p.loss != nullptr) p.loss[index] = loss;
    if (p.lse != nullptr) p.lse[index] = lse;
    if (p.shard_target != nullptr) p.shard_target[index] = shard_target;
  }
  __device__ __forceinline__ void write_all(float value) const {
    write(value, value, value);
    if (p.shard_max == nullptr) return;
    p.shard_max[index] = p.shard_sum[index] = p.shard_logits[index] = value;
  }
  // `writes`: this is the thread that does. Everything beside the largest logit, as the row model has it.
  __device__ __forceinline__ void conclude(Found found, const Logit& logit, bool writes) {
    const LossSettings& s = p.settings;
    float slope;
    const float picked = logit(at_target, slope);
    if (p.shard_max != nullptr) {
      if (!writes) return;
      p.shard_max[index] = found.sum == found.sum ? found.most : not_a_number();
      p.shard_sum[index] = found.sum;
      p.shard_logits[index] = found.logits;
      return write(0.0f, 0.0f, picked);
    }
    if (!(fabsf(found.most) <= -kLeastFloat)) found.most = found.sum = not_a_number();
    const float log_sum = logf(found.sum), lse = found.most + log_sum;
    if (writes) {
      float loss = log_sum - (1.0f - s.smoothing) * (picked - found.most);
      if (s.smoothing > 0.0f) loss -= s.smoothing * (found.logits / static_cast<float>(p.columns) - found.most);
      if (s.z_loss > 0.0f) loss += s.z_loss * lse * lse;
      write(loss, lse, 0.0f);
    }
    if constexpr (kGradient) {
      const float scale = s.scale * factor;
      const float share = (1.0f + 2.0f * s.z_loss * lse) / found.sum;
      const float spread = static_cast<float>(s.smoothing / static_cast<double>(p.columns));
      gradient = {found.most, share, spread, scale};
      gradient_at_target =
          scale * (share * exact_power_beside(picked, found.most) - (spread + (1.0f - s.smoothing))) * slope;
    }
  }
};

// The ring of a warp: pieces of its part of one row after the other, of rows that count alone.
class PieceRing {
 public:
  // `ring`, `full`: its stages in shared memory, and their barriers. Rows `row`, row + step, ..., of which the warp has
  // chunks first .. first + part.
  __device__ __forceinline__ PieceRing(const CrossEntropyParameters& p, const AllTargets& targets, u32 ring, u32 full,
                                       u32 row, u32 step, u32 first, u32 part)
      : p_(p), targets_(targets), row_(row), step_(step), full_(full), first_(first), part_(part) {
    own_ = ring + threadIdx.x % kWarpThreads * 16;
    stage_bytes_ = min(p.part, kPieceChunks) * 16;
    if (row_ < p_.rows) ahead_ = targets_[row_];
    seek();
    for (u32 stage = 0; stage < p.stages; ++stage) fill(stage);
  }

  __device__ __forceinline__ void wait() const { barrier_wait(full_ + stage_ * kBarrierBytes, parity_); }
  // Of this thread's first chunk of the piece; the others are kWarpThreads chunks apart.
  __device__ __forceinline__ u32 address() const { return own_ + stage_ * stage_bytes_; }
  // The warp has read the piece.
  __device__ __forceinline__ void release() {
    __syncwarp();
    fill(stage_);
    if (++stage_ == p_.stages) {
      stage_ = 0;
      parity_ ^= 1;
    }
  }

 private:
  // The next row that counts, from row_ on. Its target was asked for a row ago.
  __device__ __forceinline__ void seek() {
    for (; row_ < p_.rows; row_ += step_) {
      const i64 target = ahead_;
      if (row_ + step_ < p_.rows) ahead_ = targets_[row_ + step_];
      if (targets_.kind(target) != RowKind::kCounts) continue;
      left_ = part_;
      from_ = p_.logits + static_cast<i64>(row_) * p_.logits_pitch + static_cast<u64>(first_) * 16;
      return;
    }
    left_ = 0;
  }
  __device__ __forceinline__ void fill(u32 stage) {
    if (left_ == 0) return;
    const u32 chunks = min(kPieceChunks, left_);
    if (elect_one()) {
      const u32 barrier = full_ + stage * kBarrierBytes;
      barrier_arrive_expect_bytes(barrier, chunks * 16);
      load_bytes(own_ - threadIdx.x % kWarpThreads * 16 + stage * stage_bytes_, from_, chunks * 16, barrier);
    }
    from_ += chunks * 16;
    left_ -= chunks;
    if (left_ == 0) next_pass();
  }
  __device__ __forceinline__ void next_pass() {
    if (kTwice && !again_) {
      again_ = true;
      left_ = part_;
      from_ -= static_cast<u64>(part_) * 16;
      return;
    }
    again_ = false;
    row_ += step_;
    seek();
  }

  const CrossEntropyParameters& p_;
  const AllTargets& targets_;
  const u8* from_ = nullptr;  // of the next piece
  i64 ahead_ = 0;
  u32 row_, step_, full_, first_, part_;
  u32 own_, stage_bytes_, stage_ = 0, parity_ = 0;
  u32 left_ = 0;  // chunks of the row's part that no piece has; 0: no row is left, or the warp has none of them
  bool again_ = false;
};

// A warp's part of a row: chunks first .. first + count of it.
class Part {
 public:
  __device__ __forceinline__ explicit Part(const CrossEntropyParameters& p) {
    const u32 block = min(rank_in_row() * p.slice, p.chunks), length = min(p.slice, p.chunks - block);
    const u32 begin = min(threadIdx.x / kWarpThreads * p.part, length);
    first = block + begin;
    count = min(p.part, length - begin);
  }
  __device__ __forceinline__ static u32 chunk(u32 k) { return k * kWarpThreads + threadIdx.x % kWarpThreads; }
  __device__ __forceinline__ u8* address(u8* row, u32 chunk) const {
    return row + static_cast<u64>(first + chunk) * 16;
  }

  // Writes over the target's gradient, by the thread that wrote its chunk.
  __device__ __forceinline__ void correct(const Row& row) const {
    const i64 at = row.column();
    const u32 chunk = static_cast<u32>(at / kCount) - first;
    if (chunk < count && chunk % kWarpThreads == threadIdx.x % kWarpThreads) {
      store_number<kTypeX>(row.dlogits(), at, row.gradient_at_target);
    }
  }
  __device__ __forceinline__ void fill(u8* row, float value) const {
    const Words words = filled_chunk<Words>(value);
    for (u32 c = chunk(0); c < count; c += kWarpThreads) words.store_global(address(row, c));
  }

  u32 first, count;
};

// Reads this thread's chunks of a piece into those from `at` on; one that is not there becomes -infinity. `left`:
// chunks of the warp's part from this piece on.
template <u32 kSize>
__device__ __forceinline__ void take_piece(PieceRing& ring, Words (&chunks)[kSize], u32 at, u32 left) {
  ring.wait();
  const u32 from = ring.address();
  if (left >= kPieceChunks) {
#pragma unroll
    for (u32 j = 0; j < kPiece; ++j) {
      if (at + j < kSize) chunks[at + j].load_shared(from + j * kWarpThreads * 16);
    }
  } else {
#pragma unroll
    for (u32 j = 0; j < kPiece; ++j) {
      if (at + j >= kSize) continue;
      chunks[at + j] = filled_chunk<Words>(minus_infinity());
      if (Part::chunk(j) < left) chunks[at + j].load_shared(from + j * kWarpThreads * 16);
    }
  }
  ring.release();
}

// A row whose chunks stay in registers.
template <u32 kSize>
__device__ __forceinline__ void read_kept(PieceRing& ring, const Part& part, const Logit& logit, bool with_logits,
                                          u32 order, Words (&chunks)[kSize], Found& found) {
#pragma unroll
  for (u32 at = 0; at < kSize; at += kPiece) {
    const u32 first = at * kWarpThreads;
    if (first < part.count) {
      take_piece(ring, chunks, at, part.count - first);
    } else {
#pragma unroll
      for (u32 k = at; k < kSize && k < at + kPiece; ++k) chunks[k] = filled_chunk<Words>(minus_infinity());
    }
    add_chunks(found, chunks, at, at + kPiece, logit, with_logits, order,
               [&](u32 k) { return Part::chunk(k) < part.count; });
  }
}
template <u32 kSize>
__device__ __forceinline__ void write_kept(const Row& row, const Part& part, const Logit& logit, u32 order,
                                           Words (&chunks)[kSize]) {
  u8* const to = row.dlogits();
#pragma unroll
  for (u32 k = 0; k < kSize; ++k) {
    if (kCapped && Part::chunk(k) >= part.count) continue;
    chunks[k].stay_packed(order);
    row.gradient(chunks[k], logit);
    if (Part::chunk(k) < part.count) chunks[k].store_global(part.address(to, Part::chunk(k)));
  }
}

// A row that streams by.
__device__ __forceinline__ void read_streamed(PieceRing& ring, const Part& part, const Logit& logit, bool with_logits,
                                              u32 order, Found& found) {
  for (u32 first = 0; first < part.count; first += kPieceChunks) {
    Words chunks[kPiece];
    take_piece(ring, chunks, 0, part.count - first);
    add_chunks(found, chunks, 0, kPiece, logit, with_logits, order,
               [&](u32 j) { return first + Part::chunk(j) < part.count; });
  }
}
__device__ __forceinline__ void write_streamed(PieceRing& ring, const Row& row, const Part& part, const Logit& logit) {
  u8* const to = row.dlogits();
  for (u32 first = 0; first < part.count; first += kPieceChunks) {
    Words chunks[kPiece];
    take_piece(ring, chunks, 0, part.count - first);
#pragma unroll
    for (u32 j = 0; j < kPiece; ++j) {
      const u32 c = first + Part::chunk(j);
      row.gradient(chunks[j], logit);
      if (c < part.count) chunks[j].store_global(part.address(to, c));
    }
  }
}

__device__ __forceinline__ bool wants_logits(const CrossEntropyParameters& p) {
  return p.settings.smoothing > 0.0f || p.shard_logits != nullptr;
}

__device__ __forceinline__ void by_chunks(const CrossEntropyParameters& p, u8* memory) {
  const u32 shared = shared_address(memory), warp = threadIdx.x / kWarpThreads, blocks = blocks_of_row();
  const u32 full = shared + 16, table = full + kWarps * kMostStages * kBarrierBytes;
  const u32 rings = shared + (table - shared + 2 * kWarps * blocks * 16 + 127) / 128 * 128;
  if (threadIdx.x == 0) Meeting::prepare(shared);
  for (u32 i = threadIdx.x; i < kWarps * kMostStages; i += blockDim.x) barrier_init(full + i * kBarrierBytes, 1);
  barrier_init_fence();
  fence_proxy_async_shared();
  if constexpr (kCluster) {
    cluster_arrive();
    cluster_wait();
  } else {
    __syncthreads();
  }
  const Part part(p);
  const Logit logit(p.settings.cap);
  const AllTargets targets(p.targets, p.settings);
  const u32 step = gridDim.x / blocks;
  u32 index = blockIdx.x / blocks;
  PieceRing ring(p, targets, rings + warp * p.stages * min(p.part, kPieceChunks) * 16,
                 full + warp * kMostStages * kBarrierBytes, index, step, part.first, part.count);
  Meeting meet(shared, table);
  const bool writes = rank_in_row() == 0 && threadIdx.x == 0, with_logits = wants_logits(p);
  i64 ahead = index < p.rows ? targets[index] : 0;
  for (; index < p.rows; index += step) {
    Row row{p, static_cast<i64>(index), ahead};
    if (index + step < p.rows) ahead = targets[index + step];
    const RowKind kind = targets.kind(row.target);
    if (kind != RowKind::kCounts) {
      const float value = kind == RowKind::kIgnored ? 0.0f : not_a_number();
      if (writes) row.write_all(value);
      if constexpr (kGradient) part.fill(row.dlogits(), value);
      continue;
    }
    row.read(writes);
    Found found;
    Words chunks[kKept == 0 ? 1 : kKept];
    if constexpr (kKept > 0) {
      read_kept(ring, part, logit, with_logits, p.order, chunks, found);
    } else {
      read_streamed(ring, part, logit, with_logits, p.order, found);
    }
    found.over_warp();
    meet(found, row.at_target);
    row.conclude(found, logit, writes);
    if constexpr (kGradient) {
      if constexpr (kKept > 0) {
        write_kept(row, part, logit, p.order, chunks);
      } else {
        write_streamed(ring, row, part, logit);
      }
      part.correct(row);
    }
  }
  if constexpr (kCluster) {  // no block leaves while another may still write to it
    cluster_arrive();
    cluster_wait();
  }
}

// A block takes a row that starts anywhere; the second read comes from a cache.
__device__ __forceinline__ void by_elements(const CrossEntropyParameters& p) {
  constexpr u32 kSide = 4;  // chunks that a thread loads at once
  __shared__ __align__(16) float table[2][kWarps][4];
  __shared__ u64 barriers[2];
  if (threadIdx.x == 0) Meeting::prepare(shared_address(barriers));
  barrier_init_fence();
  __syncthreads();
  const Logit logit(p.settings.cap);
  const AllTargets targets(p.targets, p.settings);
  Meeting meet(shared_address(barriers), shared_address(table));
  const bool with_logits = wants_logits(p);
  for (u32 index = blockIdx.x; index < p.rows; index += gridDim.x) {
    Row row{p, static_cast<i64>(index), targets[index]};
    const RowKind kind = targets.kind(row.target);
    if (kind != RowKind::kCounts) {
      const float value = kind == RowKind::kIgnored ? 0.0f : not_a_number();
      if (threadIdx.x == 0) row.write_all(value);
      for (i64 j = threadIdx.x; kGradient && j < p.columns; j += blockDim.x) {
        store_number<kTypeX>(row.dlogits(), j, value);
      }
      continue;
    }
    row.read(threadIdx.x == 0);
    const u8* const from = row.logits();
    const Span<Words> span(from, kGradient ? row.dlogits() : nullptr, p.columns);
    const auto load = [&](Words(&chunks)[kSide], i64 first) {
#pragma unroll
      for (u32 j = 0; j < kSide; ++j) {
        const i64 c = first + j * static_cast<i64>(blockDim.x);
        chunks[j] = filled_chunk<Words>(minus_infinity());
        if (c >= span.chunks) continue;
        const uint4 raw = *reinterpret_cast<const uint4*>(from + span.chunk_at(c) * Words::kBytes);
        chunks[j].words[0] = raw.x, chunks[j].words[1] = raw.y, chunks[j].words[2] = raw.z, chunks[j].words[3] = raw.w;
      }
    };
    Found found;
    for (i64 first = threadIdx.x; first < span.chunks; first += kSide * static_cast<i64>(blockDim.x)) {
      Words chunks[kSide];
      load(chunks, first);
      add_chunks(found, chunks, 0, kSide, logit, with_logits, p.order,
                 [&](u32 j) { return first + j * static_cast<i64>(blockDim.x) < span.chunks; });
    }
    for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
      found.add(logit(load_number<kTypeX>(from, span.one(i))), with_logits);
    }
    found.over_warp();
    meet(found, row.at_target);
    row.conclude(found, logit, threadIdx.x == 0);
    if constexpr (kGradient) {
      u8* const to = row.dlogits();
      const i64 target = row.column();
      for (i64 first = threadIdx.x; first < span.chunks; first += kSide * static_cast<i64>(blockDim.x)) {
        Words chunks[kSide];
        load(chunks, first);
#pragma unroll
        for (u32 j = 0; j < kSide; ++j) {
          const i64 c = first + j * static_cast<i64>(blockDim.x), begin = span.chunk_at(c);
          row.gradient(chunks[j], logit);
          if (c >= span.chunks) continue;
          chunks[j].store_global(to + begin * Words::kBytes);
          if (target >= begin && target < begin + kCount) {
            store_number<kTypeX>(to, target, row.gradient_at_target);
          }
        }
      }
      for (i64 i = threadIdx.x; i < span.ones(); i += blockDim.x) {
        const i64 at = span.one(i);
        const float found_there = row.gradient(load_number<kTypeX>(from, at), logit);
        store_number<kTypeX>(to, at, at == target ? row.gradient_at_target : found_there);
      }
    }
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(RIDGE_THREADS, RIDGE_BLOCKS)
    ridge_cross_entropy(const ridge::cuda::CrossEntropyParameters p) {
  using namespace ridge::cuda;
  if constexpr (RIDGE_VECTORS != 0) {
    extern __shared__ __align__(128) u8 memory[];
    by_chunks(p, memory);
  } else {
    by_elements(p);
  }
}
