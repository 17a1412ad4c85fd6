// What the backward kernels of attention for Hopper share: the view of a call, the walk of a block of keys, its masks,
// and the launches before and after. Included behind `Config`, whose blocks, masks and sizes it takes.
#pragma once
#include "rows.cuh"

namespace ridge::cuda {

// A block of keys of a document; in front of all how many there are.
struct DocumentKeys {
  u32 first;                 // key of the document
  u32 first_key, keys;       // of the document, among all
  u32 first_query, queries;  // 0 of them see keys of no document
  u32 first_block;           // of the document's queries
  u32 unused[2];
};
// A block of queries: rows first .. end of all; in front of all how many there are.
struct DocumentQueries {
  u32 first, end;
};

// What the launches share.
struct AttentionBackwardView {
  AttentionRows o, d_o, d_q;
  const float* log_sum_exp;  // [batch, heads, q_len]
  i64 sum_batch_stride, sum_head_stride;
  // Workspace; heads are those of the whole batch. Where rows are counted they are padded to whole blocks of queries.
  float* scaled_log_sum;  // [heads, q_blocks, kBlockM], in the order in which threads read it; times log2(e)
  float* delta;           // the same
  float* grad_query;      // [heads, q_blocks, kParts, 64 x 64]: sums of dQ, in the order of the accumulators
  u32* turns;             // [heads, q_blocks, kTurns] with RIDGE_ORDERED
  u32 q_len, k_len;
  u32 heads, kv_heads, batch;
  u32 group;     // query heads per head of K and V
  u32 q_blocks;  // blocks of queries per head
  u32 tiles;     // blocks of keys per head
  u32 section;   // heads of K and V that are worked on at one time
  float scale;   // of the scores
  float scale_log2;
  u32 left, right;         // keys before and behind its place that a query sees, with RIDGE_WINDOW
  AttentionRows d_k, d_v;  // with RIDGE_PACKED, as what follows
  DocumentKeys* key_tiles;
  DocumentQueries* query_blocks;
  u32 dim, value_dim;  // columns of Q and K, and of V and O, with RIDGE_CLIPPED
  const float* sinks;  // [heads] and their gradients, with RIDGE_SINKS, as what follows
  float* d_sinks;
  float* sink_sums;                // [heads, q_blocks], workspace: what the rows of a block have for the gradient
  float power_of_score, cap_log2;  // with RIDGE_SOFTCAP: 2 log2(e) times the scale over the cap; the cap times log2(e)
  const float* alibi_slopes;       // [heads], with RIDGE_ALIBI
};

namespace {

// The block of keys, and the head of K and V, that a thread block works on. Tiles of low keys first: with a causal mask
// they are the long ones. Heads in sections: what a section reads and adds to stays in the L2 while its tiles are
// worked off.
struct KeyPlace {
  u32 tile, flat_head;
};
__device__ __forceinline__ KeyPlace place_of(const AttentionBackwardView& view) {
  const u32 kv_heads_total = view.kv_heads * view.batch;
  const u32 section = blockIdx.x / (view.section * view.tiles);
  const u32 within = blockIdx.x - section * view.section * view.tiles;
  const u32 size = min(view.section, kv_heads_total - section * view.section);
  const u32 tile = within / size;
  return {tile, section * view.section + within - tile * size};
}

// The walk of a block: the blocks of queries that see some of its keys, and in each of them every query head of the
// group. Blocks of keys that run side by side are then at the same queries, whose Q, dO and sums of dQ stay in the L2
// although walks are of different lengths. With a causal mask the lower half of eight blocks and more walks down from
// the last queries and the upper half up from the first that see it: where a long walk ends and its multiprocessor
// begins a short one, that one is at the queries which the other short ones are at. Blocks begin with different heads,
// so that they do not add to the same sums at one time. With turns all walk down and begin with the first head: a block
// of keys then meets every block of queries after those of lower keys, which work on more of them. In a window blocks
// side by side are at different queries, and come to each other's sooner if they walk a head at a time, downwards.
struct Walk {
  static constexpr bool kHeadsInside = !Config::kWindow || Config::kPacked;
  // Masks that depend on more than the number of a step, or slopes, need the block of queries in every step.
  static constexpr bool kFollowsBlocks = Config::kWindow || Config::kSoftcap || Config::kAlibi;
  static constexpr bool kRotates = kHeadsInside && !Config::kOrdered;

  u32 tile, kv_head, batch;
  u32 lowest, steps;
  u32 masked_below;          // blocks of queries below this one do not see all keys
  u32 highest, masked_from;  // with RIDGE_WINDOW: the last block, and the first of those that have moved beyond a key
  DocumentKeys document;  // with RIDGE_PACKED, as the place of the first key among the queries, and the keys from it on
  i32 own_place, own_keys;
  u32 block, flat_head;
  bool up;
  u32 last_head, heads_left;            // of the group, and of it at this block
  u32 first_masked_step, masked_steps;  // unless kFollowsBlocks

  __device__ __forceinline__ explicit Walk(const AttentionBackwardView& view) {
    using C = Config;
    const KeyPlace place = place_of(view);
    const u32 flat = place.flat_head;
    tile = place.tile;
    batch = flat / view.kv_heads;
    kv_head = flat - batch * view.kv_heads;
    up = C::kCausal && kRotates && tile >= max(view.tiles / 2, 4u);
    heads_left = view.group;
    flat_head = flat * view.group;
    last_head = flat_head + view.group - 1;
    if constexpr (kRotates) flat_head += tile % view.group;
    lowest = masked_below = 0;
    if constexpr (C::kCausal) {
      const i32 ahead = static_cast<i32>(view.k_len) - static_cast<i32>(view.q_len);
      const i32 first_key = static_cast<i32>(tile * C::kBlockN) - ahead;  // as the query that just sees it
      lowest = static_cast<u32>(max(first_key, 0)) / C::kBlockM;
      masked_below = static_cast<u32>(max(first_key + static_cast<i32>(C::kBlockN + C::kBlockM) - 2, 0)) / C::kBlockM;
    }
    if constexpr (C::kPacked) {
      document = view.key_tiles[1 + tile];
      own_place = static_cast<i32>(document.first + document.queries) - static_cast<i32>(document.keys);
      own_keys = static_cast<i32>(document.keys - document.first);
    }
    if constexpr (C::kWindow) set_window(view);
    if (first_key() + C::kBlockN > k_len(view)) masked_below = 0xFFFFFFFFu;  // some of the keys are past the end
    if constexpr (!C::kWindow) steps = view.q_blocks > lowest ? (view.q_blocks - lowest) * view.group : 0u;
    block = up ? lowest : last_block(view);
    if constexpr (!kFollowsBlocks) {
      masked_steps = masked_below > lowest ? min(masked_below - lowest, view.q_blocks) * view.group : 0u;
      masked_steps = min(masked_steps, steps);
      first_masked_step = up ? 0 : steps - masked_steps;
    }
  }

  [[nodiscard]] __device__ __forceinline__ u32 last_block(const AttentionBackwardView& view) const {
    return Config::kWindow ? highest : view.q_blocks - 1;
  }

  // Of the sequence, or of the document, from whose rows queries, keys and blocks are counted.
  [[nodiscard]] __device__ __forceinline__ u32 q_len(const AttentionBackwardView& view) const {
    return Config::kPacked ? document.queries : view.q_len;
  }
  [[nodiscard]] __device__ __forceinline__ u32 k_len(const AttentionBackwardView& view) const {
    return Config::kPacked ? document.keys : view.k_len;
  }
  [[nodiscard]] __device__ __forceinline__ u32 first_key() const {
    return Config::kPacked ? document.first : tile * Config::kBlockN;
  }
  // Among those of all: the first key, the first query of the step, and its block.
  [[nodiscard]] __device__ __forceinline__ u32 key_row() const {
    return Config::kPacked ? document.first_key + document.first : tile * Config::kBlockN;
  }
  [[nodiscard]] __device__ __forceinline__ u32 query_row() const {
    return (Config::kPacked ? document.first_query : 0u) + block * Config::kBlockM;
  }
  [[nodiscard]] __device__ __forceinline__ u32 query_block() const {
    return (Config::kPacked ? document.first_block : 0u) + block;
  }

  [[nodiscard]] __device__ __forceinline__ WindowMask window(const AttentionBackwardView& view) const {
    return {static_cast<i32>(q_len(view)), static_cast<i32>(k_len(view)), static_cast<i32>(view.left),
            static_cast<i32>(view.right)};
  }
  // The blocks of queries that see some of the keys, and those that see all.
  __device__ __forceinline__ void set_window(const AttentionBackwardView& view) {
    const QueryBlocks blocks =
        query_blocks<Config::kBlockM, Config::kBlockN>(window(view), static_cast<i32>(first_key()));
    lowest = blocks.lowest;
    highest = blocks.highest;
    masked_below = blocks.masked_below;
    masked_from = blocks.masked_from;
    steps = blocks.count * view.group;
  }

  // How many blocks of lower keys add to the sums of this block of queries.
  [[nodiscard]] __device__ __forceinline__ u32 turn(const AttentionBackwardView& view) const {
    using C = Config;
    if constexpr (!C::kWindow) return tile;
    return first_key() / C::kBlockN - first_block_with<C::kBlockM, C::kBlockN>(window(view), block);
  }

  __device__ __forceinline__ void advance(const AttentionBackwardView& view) {
    if constexpr (!kHeadsInside) {
      if (block != lowest) {
        --block;
      } else {
        block = last_block(view);
        ++flat_head;
      }
      return;
    }
    flat_head = flat_head == last_head ? last_head - (view.group - 1) : flat_head + 1;
    if (--heads_left != 0) return;
    heads_left = view.group;
    block = up ? block + 1 : block - 1;
  }
  // To the block of queries of a step, for those that do not advance from one to the next.
  __device__ __forceinline__ void find_block(const AttentionBackwardView& view, u32 step) {
    if constexpr (!kFollowsBlocks) block = up ? lowest + step / view.group : view.q_blocks - 1 - step / view.group;
  }
  // With a softcap a block is masked in which the queries end, too: behind them are zeros, whose score with an infinite
  // key is no number, where its scores with queries have become numbers.
  [[nodiscard]] __device__ __forceinline__ bool masked(const AttentionBackwardView& view, u32 step) const {
    if constexpr (!kFollowsBlocks) return step - first_masked_step < masked_steps;
    return block < masked_below || (Config::kWindow && block >= masked_from) ||
           (Config::kSoftcap && (block + 1) * Config::kBlockM > q_len(view));
  }
};

// The first key of a thread, of which a warpgroup has 64 of the block's. A packed block counts its keys from its own
// first one, which takes fewer registers.
__device__ __forceinline__ i32 own_key(const Walk& walk, u32 warpgroup, u32 warp_in_group, u32 lane) {
  const u32 first = Config::kPacked ? 0 : walk.tile * Config::kBlockN;
  return static_cast<i32>(first + warpgroup * 64 + warp_in_group * 16 + lane / 4);
}
// From a key to the query that has it at its place.
__device__ __forceinline__ i32 ahead_of(const AttentionBackwardView& view, const Walk& walk) {
  return Config::kPacked ? walk.own_place : static_cast<i32>(view.q_len) - static_cast<i32>(view.k_len);
}

// Scores S^T of pairs that do not see each other become -infinity. A thread has what an accumulator has of its
// warpgroup's keys.
template <int kScores>
__device__ __forceinline__ void mask_scores(float (&s)[kScores], const AttentionBackwardView& view, const Walk& walk,
                                            u32 warpgroup, u32 warp_in_group, u32 lane) {
  using C = Config;
  const i32 row = own_key(walk, warpgroup, warp_in_group, lane), ahead = ahead_of(view, walk);
  const i32 keys = C::kPacked ? walk.own_keys : static_cast<i32>(view.k_len);
  const i32 column = static_cast<i32>(walk.block * C::kBlockM + 2 * (lane % 4));
#pragma unroll
  for (int h = 0; h < 2; ++h) {
    // Queries of this index and above see key row + 8 h, in a window up to another.
    const i32 place = row + 8 * h + ahead;
    i32 from = C::kCausal ? place : C::kWindow ? place - static_cast<i32>(view.right) : -0x40000000;
    if (row + 8 * h >= keys) from = 0x40000000;
    from -= column;
    i32 to = C::kWindow ? place + static_cast<i32>(view.left) : 0x40000000;
    if constexpr (C::kSoftcap) to = min(to, static_cast<i32>(walk.q_len(view)) - 1);
    to -= column;
#pragma unroll
    for (int j = 0; j < kScores / 4; ++j) {
#pragma unroll
      for (int i = 0; i < 2; ++i) {
        if (8 * j + i < from || ((C::kWindow || C::kSoftcap) && 8 * j + i > to)) s[4 * j + 2 * h + i] = -kInfinity;
      }
    }
  }
}

// With a softcap scores become tangents, which are scores over the cap.
template <int kScores>
__device__ __forceinline__ void cap_scores(float (&s)[kScores], const AttentionBackwardView& view) {
  if constexpr (Config::kSoftcap) {
#pragma unroll
    for (int i = 0; i < kScores; ++i) s[i] = tangent_of_power(s[i] * view.power_of_score);
  }
}

// The slope of a head, as powers of two have it.
__device__ __forceinline__ float slope_of_head(const AttentionBackwardView& view, u32 head) {
  return __ldg(view.alibi_slopes + head) * kLog2E;
}

// What slope x distance takes off the powers of a thread's scores, whose keys are key and key + 8, with RIDGE_ALIBI.
// Where no query sees a key behind its place, the log-sum-exp of a query has the part of the query already, counted
// from the middle of its block, and what is left is the same for all queries of a key.
struct Distances {
  float slope;
  float of_keys[2];  // that part, or the distance from the thread's first query to the key

  __device__ __forceinline__ void load(const AttentionBackwardView& view, const Walk& walk) {
    if constexpr (Config::kAlibi) slope = slope_of_head(view, walk.flat_head - walk.batch * view.heads);
  }
  __device__ __forceinline__ void set(const AttentionBackwardView& view, const Walk& walk, u32 warpgroup,
                                      u32 warp_in_group, u32 lane) {
    if constexpr (Config::kAlibi) {
      // Opaque, so that nothing made of it is held from step to step.
      asm volatile("" : "+r"(lane));
      const i32 within = static_cast<i32>(Config::kBothSides ? 2 * (lane % 4) : Config::kBlockM / 2);
      const i32 query = static_cast<i32>(walk.block * Config::kBlockM) + within;
      const i32 place = own_key(walk, warpgroup, warp_in_group, lane) + ahead_of(view, walk);
#pragma unroll
      for (int h = 0; h < 2; ++h) {
        const float distance = static_cast<float>(query - place - 8 * h);
        of_keys[h] = Config::kBothSides ? distance : -slope * distance;
      }
    }
  }
  // The power of a weight: of number `at` of the thread's scores, over the log-sum-exp of its query.
  [[nodiscard]] __device__ __forceinline__ float power(float score, float to_power, float log_sum, int at) const {
    const int h = at / 2 % 2, query = at / 4 * 8 + at % 2;
    if constexpr (!Config::kAlibi) return fmaf(score, to_power, -log_sum);
    if constexpr (!Config::kBothSides) return fmaf(score, to_power, of_keys[h]) - log_sum;
    return fmaf(score, to_power, -slope * fabsf(of_keys[h] + static_cast<float>(query))) - log_sum;
  }
};

// Tangents of 16 queries become their weights times the slope of the softcap, which dS is made of; P is rounded before.
template <int kScores>
__device__ __forceinline__ void weigh_chunk(float (&s)[kScores], int chunk, const float (&log_sums)[4],
                                            const AttentionBackwardView& view, const Distances& distances,
                                            u32 (&p)[4]) {
#pragma unroll
  for (int i = 0; i < 4; ++i) {
    float weights[2];
#pragma unroll
    for (int j = 0; j < 2; ++j) {
      const int at = 8 * chunk + 2 * i + j;
      float& x = s[at];
      weights[j] = exp2_approx(distances.power(x, view.cap_log2, log_sums[i / 2 * 2 + j], at));
      x = weights[j] * slope_at(x);
    }
    p[i] = pack(weights[0], weights[1]);
  }
}

// A finished gradient of the 64 keys of a warpgroup, over their rows of the tile, which nothing needs any more.
template <int kGrads>
__device__ __forceinline__ void store_gradient(const float (&d)[kGrads], float factor, u32 tile_address, u32 warpgroup,
                                               u32 warp_in_group, u32 lane) {
  using C = Config;
  const u32 tile = tile_address + (warpgroup * 64 + warp_in_group * 16) * kRowBytes;
#pragma unroll
  for (u32 panel = 0; panel < (kGrads + 31) / 32; ++panel) {
#pragma unroll
    for (u32 pair = 0; pair < 4; ++pair) {
      if (panel * 32 + pair * 8 >= kGrads) continue;
      const u32 first = panel * 32 + pair * 8;
      u32 packed[4];
#pragma unroll
      for (u32 i = 0; i < 4; ++i) packed[i] = pack(d[first + 2 * i] * factor, d[first + 2 * i + 1] * factor);
      store_matrix_x4(tile + panel * C::kKeyPanelBytes + swizzled_chunk(lane & 15u, 2 * pair + (lane >> 4)), packed[0],
                      packed[1], packed[2], packed[3]);
    }
  }
}

// The first `rows` of these rows, from the tile to memory: behind them is another document.
template <u32 kDim>
__device__ __forceinline__ void store_rows(const AttentionRows& to, u32 columns, u32 tile_address, const Walk& walk,
                                           u32 warpgroup, u32 thread, u32 rows) {
  using C = Config;
  constexpr u32 kLanes = kDim / 8;  // of 16 bytes
  const u32 tile = tile_address + warpgroup * 64 * kRowBytes;
  u16* const first = to.data + static_cast<i64>(walk.kv_head) * to.head_stride +
                     static_cast<i64>(walk.key_row() + warpgroup * 64) * to.row_stride;
  for (u32 at = thread; at < rows * kLanes; at += kWarpgroupThreads) {
    const u32 row = at / kLanes, chunk = at % kLanes;
    if (C::kClipped && chunk * 8 >= columns) continue;
    float x[4];
    load_shared_v4(tile + chunk / 8 * C::kKeyPanelBytes + swizzled_chunk(row, chunk % 8), x);
    *reinterpret_cast<uint4*>(first + row * to.row_stride + chunk * 8) =
        make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
  }
}

// Rows first .. end of a block of queries.
__device__ __forceinline__ DocumentQueries queries_of(const AttentionBackwardView& view, u32 block) {
  if constexpr (Config::kPacked) return view.query_blocks[1 + block];
  return {block * Config::kBlockM, view.q_len};
}

// ---- Before and after
// --------------------------------------------------------------------------------------------------------

inline constexpr u32 kSideThreads = 256;
inline constexpr u32 kFinishThreads = Config::kParts * kWarpgroupThreads;

__device__ __forceinline__ float over_warp_sum(float x) {
#pragma unroll
  for (u32 step = 16; step > 0; step /= 2) x += __shfl_xor_sync(0xffffffffu, x, step);
  return x;
}

// What the threads of a block of `ridge_attention_backward_prepare` have for the gradient of their head's sink.
__device__ __forceinline__ void add_up_sink(const AttentionBackwardView& view, u64 at, float x) {
  __shared__ float of_warps[kSideThreads / kWarpThreads];
  x = over_warp_sum(x);
  if (threadIdx.x % kWarpThreads == 0) of_warps[threadIdx.x / kWarpThreads] = x;
  __syncthreads();
  if (threadIdx.x != 0) return;
  float sum = of_warps[0];
#pragma unroll
  for (u32 warp = 1; warp < kSideThreads / kWarpThreads; ++warp) sum += of_warps[warp];
  view.sink_sums[at] = sum;
}

// The gradient of a head's sink, by a warp: always in the same order.
__device__ __forceinline__ void finish_sink(const AttentionBackwardView& view, u32 head, u32 lane) {
  const u32 blocks = Config::kPacked ? view.query_blocks[0].first : view.q_blocks;
  float sum = 0.0f;
  for (u32 batch = 0; batch < view.batch; ++batch) {
    const float* const sums = view.sink_sums + (static_cast<u64>(batch) * view.heads + head) * view.q_blocks;
    for (u32 block = lane; block < blocks; block += kWarpThreads) sum += sums[block];
  }
  sum = over_warp_sum(sum);
  if (lane == 0) view.d_sinks[head] = -sum;
}

}  // namespace
}  // namespace ridge::cuda

#if RIDGE_PACKED
extern "C" __global__ void __launch_bounds__(ridge::cuda::kDocumentThreads)
    ridge_attention_backward_documents(const ridge::cuda::DocumentOffsets offsets,
                                       const ridge::cuda::AttentionBackwardView view) {
  using namespace ridge::cuda;
  using C = Config;
  const auto write_queries = [&](u32 tile, const Document& of, u32 first) {
    view.query_blocks[1 + tile] = {of.first_query + first, of.first_query + of.queries};
  };
  const auto write_keys = [&](u32 tile, const Document& of, u32 first) {
    DocumentKeys one{};
    one.first = first;
    one.first_key = of.first_key;
    one.keys = of.keys;
    one.first_query = of.first_query;
    one.queries = of.outside ? 0 : of.queries;
    one.first_block = of.first_tile;
    view.key_tiles[1 + tile] = one;
  };
  const uint2 count = cut_documents<C::kBlockM, C::kBlockN>(offsets, write_queries, write_keys);
  if (threadIdx.x != 0) return;
  view.query_blocks[0].first = count.x;
  view.key_tiles[0].first = count.y;
}
#endif

// A block per block of queries and head: the rows' factors, zeros for dQ and its turns.
extern "C" __global__ void __launch_bounds__(ridge::cuda::kSideThreads)
    ridge_attention_backward_prepare(const ridge::cuda::AttentionBackwardView view) {
  using namespace ridge::cuda;
  using C = Config;
  constexpr u32 kLanes = C::kValueDim <= 64 ? 8 : C::kValueDim <= 128 ? 16 : 32;  // per row
  const u32 block = blockIdx.x, flat_head = blockIdx.y;
  const u32 batch = flat_head / view.heads, head = flat_head - batch * view.heads;
  const u64 at = static_cast<u64>(flat_head) * view.q_blocks + block;
  if (C::kPacked && block >= view.query_blocks[0].first) return;
  const DocumentQueries queries = queries_of(view, block);

  float4* const zeros = reinterpret_cast<float4*>(view.grad_query + at * C::kParts * C::kPartFloats);
#pragma unroll
  for (u32 i = 0; i < C::kParts * C::kPartFloats / 4 / kSideThreads; ++i) {
    zeros[i * kSideThreads + threadIdx.x] = make_float4(0.0f, 0.0f, 0.0f, 0.0f);
  }
  if (C::kOrdered && threadIdx.x < C::kTurns) view.turns[at * C::kTurns + threadIdx.x] = 0;

  const u32 lane = threadIdx.x % kLanes;
  float of_sink = 0.0f;
#pragma unroll
  for (u32 row = threadIdx.x / kLanes; row < C::kBlockM; row += kSideThreads / kLanes) {
    const u32 query = queries.first + row;
    float sum = 0.0f;
    if (query < queries.end && (!C::kClipped || lane * 8 < view.value_dim)) {
      sum = dot(reinterpret_cast<const uint4*>(row_of(view.o, batch, head, query))[lane],
                reinterpret_cast<const uint4*>(row_of(view.d_o, batch, head, query))[lane]);
    }
#pragma unroll
    for (u32 step = kLanes / 2; step > 0; step /= 2) sum += __shfl_xor_sync(0xffffffffu, sum, step);
    if (lane == 0) {
      float log_sum = -kInfinity;
      if (query < queries.end) {
        log_sum = view.log_sum_exp[batch * view.sum_batch_stride + head * view.sum_head_stride + query];
      }
      // A row that sees no key, and one past the end, weighs every key with zero.
      float scaled = log_sum == -kInfinity ? kInfinity : log_sum * kLog2E;
      if constexpr (C::kAlibi && !C::kBothSides) {
        const float of_query = static_cast<float>(row) - C::kBlockM / 2;
        if (log_sum != -kInfinity) scaled = fmaf(slope_of_head(view, head), of_query, scaled);
      }
      view.scaled_log_sum[at * C::kBlockM + factor_place(row)] = scaled;
      view.delta[at * C::kBlockM + factor_place(row)] = sum;
      if constexpr (C::kSinks) {
        if (log_sum != -kInfinity) of_sink = fmaf(exp2_approx((view.sinks[head] - log_sum) * kLog2E), sum, of_sink);
      }
    }
  }
  if constexpr (C::kSinks) add_up_sink(view, at, of_sink);
}

// A block per block of queries and head: dQ from the order of the accumulators to rows, scaled and rounded.
extern "C" __global__ void __launch_bounds__(ridge::cuda::kFinishThreads)
    ridge_attention_backward_finish(const ridge::cuda::AttentionBackwardView view) {
  using namespace ridge::cuda;
  using C = Config;
  const u32 block = blockIdx.x, flat_head = blockIdx.y;
  const u32 batch = flat_head / view.heads, head = flat_head - batch * view.heads;
  if (C::kPacked && block >= view.query_blocks[0].first) return;
  if (C::kSinks && block == 0 && batch == 0 && threadIdx.x < kWarpThreads) finish_sink(view, head, threadIdx.x);
  const DocumentQueries queries = queries_of(view, block);
  const u32 part = threadIdx.x / kWarpgroupThreads, thread = threadIdx.x % kWarpgroupThreads, lane = threadIdx.x % 32;
  const u64 at = (static_cast<u64>(flat_head) * view.q_blocks + block) * C::kParts + part;
  const float4* const sums = reinterpret_cast<const float4*>(view.grad_query + at * C::kPartFloats) + thread;
  float d[32];
#pragma unroll
  for (u32 i = 0; i < 8; ++i) {
    const float4 x = sums[i * kWarpgroupThreads];
    d[4 * i] = x.x, d[4 * i + 1] = x.y, d[4 * i + 2] = x.z, d[4 * i + 3] = x.w;
  }
  write_rows(d, view.d_q, batch, head, queries.first + (C::kQueryPanels == 2 ? part * 64 : 0) + thread / 32 * 16,
             queries.end, C::kQueryPanels == 2 ? 0 : part * 64, C::kClipped ? view.dim : 0xFFFFFFFFu, view.scale, lane);
}
