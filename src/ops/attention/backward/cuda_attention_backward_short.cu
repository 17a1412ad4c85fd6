// Attention, backward, of short sequences on Hopper's matrix units: up to 256 queries and 256 keys a head, each with
// keys of its own, of up to 64 columns; definitions and numerics as cuda_attention_backward.cu.
//
// One launch, a block per head. Everything that a head reads lies in shared memory before it is needed, once, and every
// gradient leaves as it is: nothing is added up in memory, so that there is no workspace, no launch before or behind,
// and equal bits over runs and over numbers of multiprocessors. delta = rowsum(dO * O) is computed on the way.
//
// Two warpgroups of 64 keys walk over the queries of a block of 128 keys, 128 at a time, as in the other kernel: S^T
// and dP^T from shared memory, P^T and dS^T from registers, dQ = dS K of 64 queries each one step behind. Sums of dQ
// wait in shared memory for the second block of keys, thread by thread: those of the first queries where O was, those
// of the last where the first keys and values were.
//
// Entry point: `ridge_attention_backward_short`.

// clang-format off
/* ridge-kernel
op = "attention_backward"
# Two warpgroups share 65536 registers.
max_registers = 255
[define]
RIDGE_TYPE = { value = "dtype", names = ["kBf16", "kF16"] }
RIDGE_CAUSAL = { value = "mask" }
[configs]
default = { }
[variants]
bf16_causal = { case = "attention_backward heads=32 kv_heads=32 q_len=256 k_len=256 dim=64 dtype=bf16 mask=causal" }
bf16_full = { case = "attention_backward heads=32 kv_heads=32 q_len=256 k_len=256 dim=64 dtype=bf16 mask=full" }
f16_causal = { case = "attention_backward heads=32 kv_heads=32 q_len=256 k_len=256 dim=64 dtype=f16 mask=causal" }
f16_full = { case = "attention_backward heads=32 kv_heads=32 q_len=256 k_len=256 dim=64 dtype=f16 mask=full" }
*/
/* ridge-launch
[[value]]
name = "heads_total"
expression = "batch * heads"

[[needs]]
expression = "dim % 8 == 0 && v_dim % 8 == 0 && max(dim, v_dim) <= 64"
reason = "the kernel takes heads of multiples of 8 up to 64"
[[needs]]
expression = "heads == kv_heads"
reason = "heads share no keys here"
[[needs]]
expression = "min(q_len, k_len) > 0"
reason = "there is nothing to multiply"
[[needs]]
expression = "max(q_len, k_len) <= 256"
reason = "a block holds up to 256 queries and keys"
[[needs]]
expression = "max(keys_left, keys_right, documents, sinks, softcap, alibi) == 0"
reason = "windows, documents, sinks, softcaps and slopes are not for this kernel"
[[needs]]
expression = "heads_total <= 1073741824"
reason = "heads are counted in 32 bits"
[[needs]]
expression = "min(q_align, k_align, v_align, o_align, d_o_align, d_q_align, d_k_align, d_v_align) >= 16"
reason = "the copy engine needs rows that start on 16 bytes"
[[tensor_map]]
name = "map_q"
operand = "q"
sizes = ["dim", "q_len", "heads", "batch"]
strides = ["2 * q_stride1", "2 * q_stride2", "2 * q_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_k"
operand = "k"
sizes = ["dim", "k_len", "heads", "batch"]
strides = ["2 * k_stride1", "2 * k_stride2", "2 * k_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_v"
operand = "v"
sizes = ["v_dim", "k_len", "heads", "batch"]
strides = ["2 * v_stride1", "2 * v_stride2", "2 * v_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_o"
operand = "o"
sizes = ["v_dim", "q_len", "heads", "batch"]
strides = ["2 * o_stride1", "2 * o_stride2", "2 * o_stride0"]
box = [64, 64, 1, 1]
[[tensor_map]]
name = "map_d_o"
operand = "d_o"
sizes = ["v_dim", "q_len", "heads", "batch"]
strides = ["2 * d_o_stride1", "2 * d_o_stride2", "2 * d_o_stride0"]
box = [64, 64, 1, 1]
[[kernel]]
symbol = "ridge_attention_backward_short"
grid = ["heads_total"]
block = [256]
# K, V, Q, dO and O of 256 rows, two stages of dS, the rows' factors, and the barriers.
shared = "231552"
args = [
  { tensor_map = "map_q" }, { tensor_map = "map_k" }, { tensor_map = "map_v" }, { tensor_map = "map_o" },
  { tensor_map = "map_d_o" },
  { struct = [
    { operand = "d_q" }, { i64 = "d_q_stride0" }, { i64 = "d_q_stride2" }, { i64 = "d_q_stride1" },
    { operand = "d_k" }, { i64 = "d_k_stride0" }, { i64 = "d_k_stride2" }, { i64 = "d_k_stride1" },
    { operand = "d_v" }, { i64 = "d_v_stride0" }, { i64 = "d_v_stride2" }, { i64 = "d_v_stride1" },
    { operand = "log_sum_exp" }, { i64 = "log_sum_exp_stride0" }, { i64 = "log_sum_exp_stride1" },
    { u32 = "q_len" }, { u32 = "k_len" }, { u32 = "heads" }, { u32 = "dim" }, { u32 = "v_dim" },
    { f32 = "scale" }, { f32 = "1.4426950408889634 * scale" },
  ] },
]
*/
// clang-format on

#include "../../../device/cuda/kernel/pipeline.cuh"
#include "../../../device/cuda/kernel/tma.cuh"
#include "../../../device/cuda/kernel/wgmma.cuh"

namespace ridge::cuda {
namespace {

struct Config {
  static constexpr MatrixType kType = MatrixType::RIDGE_TYPE;
  static constexpr bool kCausal = RIDGE_CAUSAL != 0;
  static constexpr u32 kRows = 128;  // queries and keys of a step
  static constexpr u32 kConsumers = 2;
  static constexpr u32 kThreads = kConsumers * kWarpgroupThreads;
  static constexpr u32 kTileBytes = kRows * kRowBytes;  // of K, V, Q, dO or O
  static constexpr u32 kScoreBytes = 2 * kTileBytes;    // dS of a step: panels of 64 queries
};

// Two tiles of each.
struct SharedLayout {
  using C = Config;
  static constexpr u32 kKeys = 0;                             // of tile 0, its values behind it, then tile 1's
  static constexpr u32 kValues = kKeys + C::kTileBytes;       // likewise
  static constexpr u32 kQueries = kKeys + 4 * C::kTileBytes;  // a block of Q behind the other
  static constexpr u32 kGrads = kQueries + 2 * C::kTileBytes;
  static constexpr u32 kOutputs = kGrads + 2 * C::kTileBytes;
  static constexpr u32 kScores = kOutputs + 2 * C::kTileBytes;
  static constexpr u32 kLogSums = kScores + 2 * C::kScoreBytes;
  static constexpr u32 kDeltas = kLogSums + 2 * C::kRows * 4;
  static constexpr u32 kKeysFull = kDeltas + 2 * C::kRows * 4;  // two of each barrier
  static constexpr u32 kValuesFull = kKeysFull + 2 * kBarrierBytes;
  static constexpr u32 kQueriesFull = kValuesFull + 2 * kBarrierBytes;
  static constexpr u32 kGradsFull = kQueriesFull + 2 * kBarrierBytes;  // dO and O
  static constexpr u32 kScoreRing = kGradsFull + 2 * kBarrierBytes;
  static constexpr u32 kBytes = kScoreRing + Ring<2>::kBytes;
  static constexpr u32 kHeldFirst = kOutputs, kHeldLast = kKeys;  // sums of dQ that wait for the second tile
  static_assert(kBytes <= 231552, "more shared memory than the launch gives");
};

inline constexpr u32 kAllBarrier = 1;  // both warpgroups

}  // namespace
}  // namespace ridge::cuda

#include "rows.cuh"

namespace ridge::cuda {
namespace {

struct View {
  AttentionRows d_q, d_k, d_v;
  const float* log_sum_exp;
  i64 sum_batch_stride, sum_head_stride;
  u32 q_len, k_len, heads, dim, value_dim;
  float scale, scale_log2;
};

struct Consumer {
  using C = Config;
  using ScoreMma = Wgmma<C::kRows, C::kType, C::kType, Major::kK, Major::kK>;  // S^T = K Q^T, dP^T = V dO^T
  using KeyGradMma = Wgmma<64, C::kType, C::kType, Major::kK, Major::kMn>;     // dV += P^T dO, dK += dS^T Q
  using QueryGradMma = Wgmma<64, C::kType, C::kType, Major::kMn, Major::kMn>;  // dQ = dS K
  static constexpr int kScores = C::kRows / 2, kGrads = 32, kChunks = C::kRows / 16;

  const View& view;
  u32 base, warpgroup, warp_in_group, lane;
  u32 batch, head;
  u32 step = 0;

  float s[kScores];  // S^T, then P^T in fp32
  float dp[kScores];
  float dk[kGrads];
  float dv[kGrads];
  float dq[kGrads];
  u32 p[kChunks][4];
  u32 ds[kChunks][4];

  // The stage of dS of step `of`, and the parity of its barriers.
  static __device__ __forceinline__ u32 stage(u32 of) { return of % 2; }
  static __device__ __forceinline__ u32 parity(u32 of) { return of / 2 % 2; }
  [[nodiscard]] __device__ __forceinline__ u32 score_tile(u32 of) const {
    return base + SharedLayout::kScores + stage(of) * C::kScoreBytes;
  }
  __device__ __forceinline__ Ring<2> score_ring() const { return {base + SharedLayout::kScoreRing}; }
  __device__ __forceinline__ void release(u32 barrier) const {
    if (lane == 0) barrier_arrive(barrier);
  }

  // The first block of queries that sees keys of a tile.
  [[nodiscard]] __device__ __forceinline__ u32 lowest(u32 tile) const {
    if constexpr (!C::kCausal) return 0;
    const i32 first = static_cast<i32>(tile * C::kRows) + static_cast<i32>(view.q_len) - static_cast<i32>(view.k_len);
    return static_cast<u32>(max(first, 0)) / C::kRows;
  }

  // The log-sum-exp of every query, a thread each.
  [[nodiscard]] __device__ __forceinline__ float load_log_sum() const {
    const u32 query = threadIdx.x;
    if (query >= view.q_len) return -kInfinity;
    return __ldg(view.log_sum_exp + batch * view.sum_batch_stride + head * view.sum_head_stride + query);
  }
  // The first `make_deltas` makes them visible. A row that sees no key, and one past the end, weighs every key with
  // zero.
  __device__ __forceinline__ void store_log_sum(float x) const {
    const u32 block = threadIdx.x / C::kRows, row = threadIdx.x % C::kRows;
    store_shared(base + SharedLayout::kLogSums + (block * C::kRows + factor_place(row)) * 4,
                 x == -kInfinity ? kInfinity : x * kLog2E);
  }

  // delta = rowsum(dO * O) of a block of queries, two threads a row.
  __device__ __forceinline__ void make_deltas(u32 block) const {
    const u32 row = threadIdx.x / 2, half = threadIdx.x % 2;
    float sum = 0.0f;
#pragma unroll
    for (u32 i = 0; i < 4; ++i) {
      const u32 at = block * C::kTileBytes + swizzled_chunk(row, half * 4 + i);
      sum += dot(load_shared_16(base + SharedLayout::kOutputs + at), load_shared_16(base + SharedLayout::kGrads + at));
    }
    sum += __shfl_xor_sync(0xffffffffu, sum, 1);
    if (half == 0) store_shared(base + SharedLayout::kDeltas + (block * C::kRows + factor_place(row)) * 4, sum);
    named_barrier(kAllBarrier, C::kThreads);
  }

  // Keys (or values) of this warpgroup times a block of queries (or of dO), both along the head's dimension.
  __device__ __forceinline__ void issue_scores(float (&d)[kScores], u32 keys, u32 queries) const {
    const u64 a = matrix_descriptor<Major::kK>(keys + warpgroup * 64 * kRowBytes, 0);
    const u64 b = matrix_descriptor<Major::kK>(queries, 0);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 i = 0; i < kRowBytes / kWgmmaStepBytes; ++i) {
      ScoreMma::mma(d, a + i * kDescriptorStep<Major::kK>, b + i * kDescriptorStep<Major::kK>, i != 0);
    }
    wgmma_commit();
  }
  // dV += P^T dO or dK += dS^T Q.
  __device__ __forceinline__ void issue_key_grad(float (&d)[kGrads], u32 (&a)[kChunks][4], u32 queries) const {
    const u64 b = matrix_descriptor<Major::kMn>(queries, C::kTileBytes);
    keep_in_registers(d);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      KeyGradMma::mma_register_a(d, a[chunk], b + chunk * kDescriptorStep<Major::kMn>, 1u);
    }
    wgmma_commit();
  }
  // dQ = dS K of this warpgroup's 64 queries, over all keys of the tile.
  __device__ __forceinline__ void issue_query_grad(u32 of, u32 keys) {
    const u64 a = matrix_descriptor<Major::kMn>(score_tile(of) + warpgroup * C::kTileBytes, C::kTileBytes);
    const u64 b = matrix_descriptor<Major::kMn>(keys, C::kTileBytes);
    keep_in_registers(dq);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      QueryGradMma::mma(dq, a + chunk * kDescriptorStep<Major::kMn>, b + chunk * kDescriptorStep<Major::kMn>,
                        chunk != 0);
    }
    wgmma_commit();
  }

  // Whether some query of the block does not see some key of the tile.
  [[nodiscard]] __device__ __forceinline__ bool masked(u32 tile, u32 block) const {
    const u32 keys = (tile + 1) * C::kRows;
    return keys > view.k_len || (C::kCausal && keys - 1 + view.q_len > block * C::kRows + view.k_len);
  }

  // Scores of pairs that do not see each other become -infinity.
  __device__ __forceinline__ void mask_scores(u32 tile, u32 block) {
    const i32 ahead = static_cast<i32>(view.q_len) - static_cast<i32>(view.k_len);
    const i32 key = static_cast<i32>(tile * C::kRows + warpgroup * 64 + warp_in_group * 16 + lane / 4);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      i32 from = C::kCausal ? key + 8 * h + ahead : -0x40000000;
      if (key + 8 * h >= static_cast<i32>(view.k_len)) from = 0x40000000;
      from -= static_cast<i32>(block * C::kRows + 2 * (lane % 4));
#pragma unroll
      for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
        for (int i = 0; i < 2; ++i) {
          if (8 * j + i < from) s[4 * j + 2 * h + i] = -kInfinity;
        }
      }
    }
  }

  // P^T = exp(S^T - log-sum-exp), in place.
  __device__ __forceinline__ void weights(u32 block) {
    const u32 at = base + SharedLayout::kLogSums + block * C::kRows * 4 + (lane % 4) * 16;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      float log_sums[4];
      load_shared_v4(at + chunk * 64, log_sums);
#pragma unroll
      for (int i = 0; i < 8; ++i) {
        float& score = s[8 * chunk + i];
        score = exp2_approx(fmaf(score, view.scale_log2, -log_sums[i / 4 * 2 + i % 2]));
      }
    }
  }

  // P^T, and dS^T = P^T (dP^T - delta), rounded for the products.
  __device__ __forceinline__ void score_grads(u32 block) {
    const u32 at = base + SharedLayout::kDeltas + block * C::kRows * 4 + (lane % 4) * 16;
#pragma unroll
    for (int chunk = 0; chunk < kChunks; ++chunk) {
      float deltas[4];
      load_shared_v4(at + chunk * 64, deltas);
#pragma unroll
      for (int i = 0; i < 4; ++i) {
        const int low = 8 * chunk + 2 * i;
        p[chunk][i] = pack(s[low], s[low + 1]);
        ds[chunk][i] = pack(s[low] * (dp[low] - deltas[i / 2 * 2]), s[low + 1] * (dp[low + 1] - deltas[i / 2 * 2 + 1]));
      }
    }
  }

  // dS^T into shared memory, for dQ: a row per key, as it is.
  __device__ __forceinline__ void store_score_grads() {
    const u32 tile = score_tile(step) + (warpgroup * 64 + warp_in_group * 16) * kRowBytes;
#pragma unroll
    for (u32 chunk = 0; chunk < kChunks; ++chunk) {
      store_matrix_x4(tile + chunk / 4 * C::kTileBytes + swizzled_chunk(lane & 15u, 2 * (chunk % 4) + (lane >> 4)),
                      ds[chunk][0], ds[chunk][1], ds[chunk][2], ds[chunk][3]);
    }
    fence_proxy_async_shared();
    __syncwarp();
    release(score_ring().full(stage(step)));
  }
  // dS of step `of`, from both warpgroups.
  __device__ __forceinline__ void await_score_grads(u32 of) const {
    barrier_wait(score_ring().full(stage(of)), parity(of));
  }

  // 64 rows of a gradient of which this warpgroup has the sums.
  __device__ __forceinline__ void write(const float (&d)[kGrads], const AttentionRows& to, u32 tile, u32 rows,
                                        u32 columns, float factor) const {
    write_rows(d, to, batch, head, tile * C::kRows + warpgroup * 64 + warp_in_group * 16, rows, 0, columns, factor,
               lane);
  }

  // Sums of dQ of a block of queries and a tile of keys: kept for the second tile, or added to those of the first.
  __device__ __forceinline__ void finish_query_grad(u32 tile, u32 block, bool last_tile) {
    const u32 held = base + (block == 0 ? SharedLayout::kHeldFirst : SharedLayout::kHeldLast) + warpgroup * 16384 +
                     (warp_in_group * kWarpThreads + lane) * 16;
    if (!last_tile && block >= lowest(1)) {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        store_shared_v4(held + i * 2048, dq[4 * i], dq[4 * i + 1], dq[4 * i + 2], dq[4 * i + 3]);
      }
      return;
    }
    if (tile != 0) {
#pragma unroll
      for (u32 i = 0; i < 8; ++i) {
        float before[4];
        load_shared_v4(held + i * 2048, before);
#pragma unroll
        for (u32 j = 0; j < 4; ++j) dq[4 * i + j] += before[j];
      }
    }
    write(dq, view.d_q, block, view.q_len, view.dim, view.scale);
  }

  // dV and dK of a tile of keys, and dQ of its blocks of queries, whose last one is left in registers. At the end of a
  // step nothing is in flight: the compiler follows accumulators through a step, not from one to the next.
  __device__ __forceinline__ void walk_queries(u32 tile, u32 tiles, u32 q_blocks) {
    const u32 keys = base + SharedLayout::kKeys + tile * 2 * C::kTileBytes, values = keys + C::kTileBytes;
    const u32 first = lowest(tile);
    asm volatile("" : "+r"(lane));  // opaque, so that nothing made of it is held from tile to tile
    barrier_wait(base + SharedLayout::kKeysFull + tile * kBarrierBytes, 0);
    barrier_wait(base + SharedLayout::kValuesFull + tile * kBarrierBytes, 0);
    for (u32 block = first; block < q_blocks; ++block) {
      const u32 queries = base + SharedLayout::kQueries + block * C::kTileBytes;
      const u32 grads = base + SharedLayout::kGrads + block * C::kTileBytes;
      barrier_wait(base + SharedLayout::kQueriesFull + block * kBarrierBytes, 0);
      barrier_wait(base + SharedLayout::kGradsFull + block * kBarrierBytes, 0);
      if (tile == 0) make_deltas(block);
      issue_scores(s, keys, queries);
      issue_scores(dp, values, grads);
      wgmma_wait<1>();
      keep_in_registers(s);
      if (masked(tile, block)) mask_scores(tile, block);
      weights(block);
      keep_in_registers(s);
      barrier_wait(score_ring().empty(stage(step)), parity(step) ^ 1u);
      // dQ of the step before; that of a tile's first step is of other keys, and never looked at.
      if (block > first) await_score_grads(step - 1);
      wgmma_wait<0>();
      keep_in_registers(dp);
      score_grads(block);
      store_score_grads();
      issue_key_grad(dv, p, grads);
      issue_key_grad(dk, ds, queries);
      issue_query_grad(step + 1, keys);
      wgmma_wait<0>();
      keep_in_registers(dq);
      if (block > first) {
        release(score_ring().empty(stage(step + 1)));
        finish_query_grad(tile, block - 1, tile + 1 == tiles);
      }
      ++step;
    }
    await_score_grads(step - 1);
    issue_query_grad(step - 1, keys);
    wgmma_wait<0>();
    keep_in_registers(dq);
    release(score_ring().empty(stage(step - 1)));
  }

  __device__ __forceinline__ void run() {
    const u32 tiles = (view.k_len + C::kRows - 1) / C::kRows, q_blocks = (view.q_len + C::kRows - 1) / C::kRows;
    for (u32 tile = 0; tile < tiles; ++tile) {
#pragma unroll
      for (int i = 0; i < kGrads; ++i) dk[i] = dv[i] = 0.0f;
      walk_queries(tile, tiles, q_blocks);
      keep_in_registers(dk);
      keep_in_registers(dv);
      write(dv, view.d_v, tile, view.k_len, view.value_dim, 1.0f);
      write(dk, view.d_k, tile, view.k_len, view.dim, view.scale);
      // Both warpgroups have read the first keys for the last time.
      if (tile == 0) named_barrier(kAllBarrier, C::kThreads);
      finish_query_grad(tile, q_blocks - 1, tile + 1 == tiles);
    }
#pragma unroll
    for (int i = 0; i < kGrads; ++i) dq[i] = 0.0f;
    for (u32 block = 0; block < lowest(0); ++block) {  // queries that see no keys
      write(dq, view.d_q, block, view.q_len, view.dim, 1.0f);
    }
  }
};

// A block of 128 rows of one tensor.
__device__ __forceinline__ void load_tile(u32 to, const TensorMap& map, u32 full, u32 tile, const Consumer& of) {
#pragma unroll
  for (u32 half = 0; half < 2; ++half) {
    load_box(
        to + half * 64 * kRowBytes, map, full,
        {0, static_cast<i32>(tile * Config::kRows + half * 64), static_cast<i32>(of.head), static_cast<i32>(of.batch)});
  }
}

}  // namespace
}  // namespace ridge::cuda

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1) ridge_attention_backward_short(
    const __grid_constant__ ridge::cuda::TensorMap map_q, const __grid_constant__ ridge::cuda::TensorMap map_k,
    const __grid_constant__ ridge::cuda::TensorMap map_v, const __grid_constant__ ridge::cuda::TensorMap map_o,
    const __grid_constant__ ridge::cuda::TensorMap map_do, const __grid_constant__ ridge::cuda::View view) {
  using namespace ridge::cuda;
  using C = Config;
  using L = SharedLayout;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 batch = blockIdx.x / view.heads, head = blockIdx.x - batch * view.heads;
  Consumer consumer{view, base, warp / 4, warp % 4, threadIdx.x % kWarpThreads, batch, head};
  const float log_sum = consumer.load_log_sum();

  if (warp == 0 && elect_one()) {
    for (u32 i = 0; i < 8; ++i) barrier_init(base + L::kKeysFull + i * kBarrierBytes, 1);
    const Ring<2> ring{base + L::kScoreRing};
    for (u32 stage = 0; stage < 2; ++stage) {  // filled and emptied by the consumers
      barrier_init(ring.full(stage), C::kThreads / kWarpThreads);
      barrier_init(ring.empty(stage), C::kThreads / kWarpThreads);
    }
    barrier_init_fence();
    for (u32 i = 0; i < 2; ++i) {
      const u32 at = i * C::kTileBytes, barrier = i * kBarrierBytes;
      const bool keys = i * C::kRows < view.k_len, queries = i * C::kRows < view.q_len;
      if (keys) {
        barrier_arrive_expect_bytes(base + L::kKeysFull + barrier, C::kTileBytes);
        load_tile(base + L::kKeys + 2 * at, map_k, base + L::kKeysFull + barrier, i, consumer);
      }
      if (queries) {
        barrier_arrive_expect_bytes(base + L::kQueriesFull + barrier, C::kTileBytes);
        load_tile(base + L::kQueries + at, map_q, base + L::kQueriesFull + barrier, i, consumer);
        barrier_arrive_expect_bytes(base + L::kGradsFull + barrier, 2 * C::kTileBytes);
        load_tile(base + L::kGrads + at, map_do, base + L::kGradsFull + barrier, i, consumer);
        load_tile(base + L::kOutputs + at, map_o, base + L::kGradsFull + barrier, i, consumer);
      }
      if (keys) {
        barrier_arrive_expect_bytes(base + L::kValuesFull + barrier, C::kTileBytes);
        load_tile(base + L::kValues + 2 * at, map_v, base + L::kValuesFull + barrier, i, consumer);
      }
    }
  }
  __syncthreads();
  consumer.store_log_sum(log_sum);
  consumer.run();
}
