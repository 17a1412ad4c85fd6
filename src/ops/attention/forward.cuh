// The kernel of attention, forward, for 16-bit operands (cuda_attention.cu) and for 8-bit codes with scales
// (fp8/cuda_attention_fp8.cu), which set the macros that `Config` reads.
//
// With RIDGE_CODES Q, K and V are e4m3. The matrix unit takes 8-bit operands only with the sum's direction contiguous,
// so V comes transposed, [v_dim, keys], with its keys in the order in which a thread holds weights (`key_at` of
// fp8/key_order.cuh). Weights are 2^kOneLog2 times as large as in the 16-bit builds and rounded to e4m3; their sum is
// of those before. A product with V starts at zero for every block of keys and is added to O in fp32, because the
// matrix unit keeps about 14 bits of what it adds up.
#pragma once
#include "../../device/cuda/kernel/fp8.cuh"
#include "../../device/cuda/kernel/pipeline.cuh"
#include "../../device/cuda/kernel/tma.cuh"
#include "../../device/cuda/kernel/wgmma.cuh"
#include "documents.cuh"
#include "softcap.cuh"
#include "spans.cuh"

namespace ridge::cuda {
namespace {

struct Config {
  static constexpr MatrixType kType = MatrixType::RIDGE_TYPE;
  static constexpr MatrixType kOutputType = MatrixType::RIDGE_OUTPUT_TYPE;
  static constexpr bool kCodes = RIDGE_CODES != 0;
  static constexpr u32 kHeadDim = RIDGE_HEAD_DIM;    // of q and k, the columns that are multiplied
  static constexpr u32 kValueDim = RIDGE_VALUE_DIM;  // and of v and o
  static constexpr u32 kBlockN = RIDGE_BLOCK_N;
  static constexpr u32 kConsumers = RIDGE_CONSUMERS;
  static constexpr u32 kStages = RIDGE_STAGES;
  static constexpr bool kCausal = RIDGE_CAUSAL != 0;
  static constexpr bool kWindow = RIDGE_WINDOW != 0;
  static constexpr bool kPacked = RIDGE_PACKED != 0;
  static constexpr bool kSinks = RIDGE_SINKS != 0;
  static constexpr bool kSoftcap = RIDGE_SOFTCAP != 0;
  static constexpr bool kAlibi = RIDGE_ALIBI != 0;
  static constexpr bool kBothSides = RIDGE_ALIBI == 2;  // queries see keys before and behind their places
  static constexpr bool kTakeTurns = RIDGE_TAKE_TURNS != 0;
  static constexpr bool kQueryInRegisters = RIDGE_QUERY_IN_REGISTERS != 0;

  static constexpr u32 kBlockM = 64 * kConsumers;
  static constexpr u32 kThreads = (kConsumers + 1) * kWarpgroupThreads;
  static constexpr u32 kConsumerWarps = 4 * kConsumers;
  // A tile is panels of columns, one swizzle row wide: 64 of 16 bits, 128 codes. Columns behind those of the tensor are
  // zeros that the copy engine fills in, and are not stored.
  static constexpr u32 kElementBytes = kTypeBytes<kType>;
  static constexpr u32 kPanelColumns = kRowBytes / kElementBytes;
  static constexpr u32 kPanels = (kHeadDim + kPanelColumns - 1) / kPanelColumns;
  static constexpr u32 kOutputPanels = (kValueDim + 63) / 64;
  // Instructions of Q K^T, which take 32 bytes of columns each, and of P V, which take as many keys.
  static constexpr u32 kHeadSteps = kHeadDim * kElementBytes / kWgmmaStepBytes;
  static constexpr u32 kKeySteps = kBlockN * kElementBytes / kWgmmaStepBytes;
  static constexpr u32 kQueryPanelBytes = kBlockM * kRowBytes;
  static constexpr u32 kKeyPanelBytes = kBlockN * kRowBytes;
  static constexpr u32 kQueryBytes = kPanels * kQueryPanelBytes;
  static constexpr u32 kKeyBytes = kPanels * kKeyPanelBytes;
  // Of V panels of columns, each of all keys; of V transposed panels of keys, each of all columns.
  static constexpr u32 kValuePanels = kCodes ? kBlockN / kPanelColumns : kOutputPanels;
  static constexpr u32 kValuePanelBytes = (kCodes ? kValueDim : kBlockN) * kRowBytes;
  static constexpr u32 kValueBytes = kValuePanels * kValuePanelBytes;
  // Tiles of Q, and of the finished O, which leaves through the place of its own Q. With two and more the next Q is
  // there when a tile ends. With one the pipeline drains between tiles, or, where Q is in registers, its place is free
  // when it was read: the next Q comes at once, and O leaves through that one's place when it was read, too.
  static constexpr u32 kSlots = RIDGE_SLOTS;
  static constexpr bool kOneAhead = kSlots == 1 && kQueryInRegisters;
  static constexpr bool kDrained = kSlots == 1 && !kQueryInRegisters;
  static constexpr u32 kSlotBytes = (kPanels > kOutputPanels ? kPanels : kOutputPanels) * kQueryPanelBytes;

  static_assert(kHeadSteps * kWgmmaStepBytes == kHeadDim * kElementBytes && kValueDim % 16 == 0,
                "Q K^T takes 32 bytes of columns per instruction, a store of O 16 columns");
  static_assert(kKeySteps * kWgmmaStepBytes == kBlockN * kElementBytes && kBlockN <= 256,
                "P V takes 32 bytes of keys per instruction, a box at most 256 rows");
  static_assert(!kCodes || kBlockN % kPanelColumns == 0, "V transposed comes in panels of keys");
  static_assert(!kCodes || !(kPacked || kSinks || kSoftcap || kAlibi), "codes have masks, and nothing else");
  static_assert(kConsumers >= 2, "warpgroups hide each other's softmax");
  static_assert(kWindow || !kPacked, "documents have the masks of a window");
};

struct SharedLayout {
  static constexpr u32 kQuery = 0;
  static constexpr u32 kKeys = kQuery + Config::kSlots * Config::kSlotBytes;
  static constexpr u32 kValues = kKeys + Config::kStages * Config::kKeyBytes;
  static constexpr u32 kKeyRing = kValues + Config::kStages * Config::kValueBytes;
  static constexpr u32 kValueRing = kKeyRing + Ring<Config::kStages>::kBytes;
  static constexpr u32 kQueryRing = kValueRing + Ring<Config::kStages>::kBytes;
  static constexpr u32 kOutputFull = kQueryRing + Ring<Config::kSlots>::kBytes;
  static constexpr u32 kTileIndex = kOutputFull + Config::kSlots * kBarrierBytes;
  static constexpr u32 kTiles = (kTileIndex + Config::kSlots * 4 + 15) / 16 * 16;  // with RIDGE_PACKED
  static constexpr u32 kTileBytes = 32;
  static constexpr u32 kBytes = kTiles + (Config::kPacked ? Config::kSlots * kTileBytes : 0);
  static_assert(kBytes <= 232448, "more shared memory than a block can have");
};

inline constexpr u32 kTurnBarrier = 1;  // and the following kConsumers - 1
inline constexpr u32 kTurnThreads = 2 * kWarpgroupThreads;
inline constexpr u32 kNoTile = 0xFFFFFFFFu;
// A maximum is replaced only by one that is larger by more than this, so exponentials reach 2^8: nothing is lost in
// fp32 sums or in a 16-bit P, and O is hardly ever rescaled. The maximum has the weight 2^kOneLog2: codes reach 448,
// and the smaller weights are the more bits they keep the closer to it they start.
#if RIDGE_CODES
inline constexpr float kLazyLog2 = RIDGE_LAZY, kOneLog2 = 8.0f - kLazyLog2;
#else
inline constexpr float kLazyLog2 = 8.0f, kOneLog2 = 0.0f;
#endif
inline constexpr float kLn2 = 0.693147181f, kLog2E = 1.44269504f;
inline constexpr float kInfinity = __builtin_bit_cast(float, 0x7f800000u);

}  // namespace

// A tile of queries of a document, as `ridge_attention_documents` finds them; in front of all how many there are.
struct DocumentTile {
  u32 first;                 // query of the document
  u32 first_query, queries;  // of the document, among all
  u32 first_key, keys;
  u32 head;  // in the copy of a work in progress
  u32 unused[2];
};

// What a launch computes, beside the four tensor maps.
struct AttentionView {
  float* log_sum_exp;             // [batch, heads, q_len], or null
  i64 batch_stride, head_stride;  // of log_sum_exp, elements
  u32 q_len, k_len;
  u32 heads, heads_total;  // per batch element, and in the whole batch
  u32 group;               // query heads per head of K and V
  u32 q_tiles;             // tiles per head
  u32 section;             // heads whose K and V share the L2 at one time
  float scale_log2;        // of the scores, times log2(e)
  u32 left, right;         // keys before and behind its place that a query sees, with RIDGE_WINDOW
  DocumentTile* tiles;     // with RIDGE_PACKED: how many there are, and the tiles
  u16* o;                  // and the result, for rows that are stored one by one
  i64 o_row_stride, o_head_stride;
  const float* sinks;              // [heads], with RIDGE_SINKS
  float power_of_score, cap_log2;  // with RIDGE_SOFTCAP: 2 log2(e) times the scale over the cap; the cap times log2(e)
  const float* alibi_slopes;       // [heads], with RIDGE_ALIBI
#if RIDGE_CODES
  const float *q_scale, *k_scale, *v_scale;            // [batch, heads], and twice [batch, kv_heads]
  i64 q_scale_stride, k_scale_stride, v_scale_stride;  // of the batch
#endif

  // What a score that went through the softcap, or none, is multiplied with to be a power of two.
  [[nodiscard]] __device__ __forceinline__ float to_power() const { return RIDGE_SOFTCAP != 0 ? cap_log2 : scale_log2; }
};

namespace {

// One tile of work: the queries of a tile of one head, against the blocks of keys below `blocks`. Blocks from
// `first_masked` on hold keys that some query of the tile does not see. Worked off from the last block down to
// `lowest_block()`. In a window those below `masked_below` hold such keys, too.
struct Work {
  u32 first_query, head, batch;
  u32 blocks, first_masked;
  u32 lowest, masked_below;  // with RIDGE_WINDOW
  // With RIDGE_PACKED rows are counted from those of the document, which are these of all.
  u32 query_base, queries, key_base, keys;

  // Of the sequence, or of the document.
  [[nodiscard]] __device__ __forceinline__ u32 q_len(const AttentionView& view) const {
    return Config::kPacked ? queries : view.q_len;
  }
  [[nodiscard]] __device__ __forceinline__ u32 k_len(const AttentionView& view) const {
    return Config::kPacked ? keys : view.k_len;
  }
  // A query, and a key, among those of all.
  [[nodiscard]] __device__ __forceinline__ u32 query_row(u32 query) const {
    return Config::kPacked ? query_base + query : query;
  }
  [[nodiscard]] __device__ __forceinline__ u32 key_row(u32 key) const { return Config::kPacked ? key_base + key : key; }
  [[nodiscard]] __device__ __forceinline__ u32 lowest_block() const { return Config::kWindow ? lowest : 0u; }
};

// The blocks of a tile in a window.
__device__ __forceinline__ void set_window(const AttentionView& view, Work& work) {
  const WindowMask mask{static_cast<i32>(work.q_len(view)), static_cast<i32>(work.k_len(view)),
                        static_cast<i32>(view.left), static_cast<i32>(view.right)};
  const KeyBlocks blocks = key_blocks<Config::kBlockM, Config::kBlockN>(mask, static_cast<i32>(work.first_query));
  work.lowest = blocks.lowest;
  work.blocks = blocks.end;
  work.first_masked = blocks.first_masked;
  work.masked_below = blocks.masked_below;
}

// A tile of a document.
__device__ __forceinline__ Work work_of(const AttentionView& view, const DocumentTile& tile) {
  Work work;
  work.batch = 0;
  work.head = tile.head;
  work.first_query = tile.first;
  work.query_base = tile.first_query;
  work.queries = tile.queries;
  work.key_base = tile.first_key;
  work.keys = tile.keys;
  set_window(view, work);
  return work;
}

// The place of a tile in the order of work: sections of heads; in a section the longest tiles of all heads come first,
// and a head's K and V stay in the L2.
struct TilePlace {
  u32 rank, flat_head;
};
__device__ __forceinline__ TilePlace place_of(const AttentionView& view, u32 q_tiles, u32 index) {
  const u32 per_section = view.section * q_tiles;
  const u32 section_index = index / per_section;
  const u32 within = index - section_index * per_section;
  const u32 first = section_index * view.section;
  const u32 size = min(view.section, view.heads_total - first);
  const u32 rank = within / size;
  return {rank, first + (within - rank * size)};
}

__device__ __forceinline__ Work work_at(const AttentionView& view, u32 index) {
  using C = Config;
  const auto [rank, flat_head] = place_of(view, view.q_tiles, index);
  const u32 q_tile = C::kCausal ? view.q_tiles - 1 - rank : rank;

  Work work;
  work.batch = flat_head / view.heads;
  work.head = flat_head - work.batch * view.heads;
  work.first_query = q_tile * C::kBlockM;
  if constexpr (C::kWindow) {
    set_window(view, work);
    return work;
  }
  u32 seen_by_last = view.k_len, seen_by_first = view.k_len;
  if constexpr (C::kCausal) {
    const i32 ahead = static_cast<i32>(view.k_len) - static_cast<i32>(view.q_len) + 1;
    const i32 first_row = static_cast<i32>(work.first_query) + ahead;
    seen_by_first = static_cast<u32>(min(max(first_row, 0), static_cast<i32>(view.k_len)));
    seen_by_last =
        static_cast<u32>(min(max(first_row + static_cast<i32>(C::kBlockM) - 1, 0), static_cast<i32>(view.k_len)));
  }
  // A tile whose queries see nothing works one block, all masked, which makes O zero.
  work.blocks = max((seen_by_last + C::kBlockN - 1) / C::kBlockN, 1u);
  work.first_masked = seen_by_first / C::kBlockN;
  return work;
}

// The tile of a block in a round: back and forth, so that a block that had a long one in this round gets a short one in
// the next. As fast as handing tiles out by a counter, and it needs no memory that launches could share by mistake.
__device__ __forceinline__ u32 tile_of_round(u32 round) {
  const u32 place = (round & 1u) ? gridDim.x - 1 - blockIdx.x : blockIdx.x;
  return round * gridDim.x + place;
}

// ---- Producer: one thread fills the rings
// -----------------------------------------------------------------------------

struct Producer {
  const TensorMap& map_q;
  const TensorMap& map_k;
  const TensorMap& map_v;
  const AttentionView& view;
  u32 base;
  RingPosition<Config::kSlots> query;
  RingPosition<Config::kStages> key, value;

  template <u32 kPanels>
  __device__ __forceinline__ void load_tile(u32 destination, const TensorMap& map, u32 full, u32 panel_bytes,
                                            BoxCorner at) const {
#pragma unroll
    for (u32 panel = 0; panel < kPanels; ++panel) {
      at.x = static_cast<i32>(panel * Config::kPanelColumns);
      load_box(destination + panel * panel_bytes, map, full, at);
    }
  }

  template <u32 kPanels>
  __device__ __forceinline__ void load_block(u32 ring_offset, u32 tiles_offset, RingPosition<Config::kStages>& position,
                                             const TensorMap& map, const Work& work, u32 block) const {
    using C = Config;
    constexpr u32 kStageBytes = kPanels * C::kKeyPanelBytes;
    const Ring<C::kStages> ring{base + ring_offset};
    const u32 full = ring.full(position.stage);
    barrier_wait(ring.empty(position.stage), position.parity ^ 1u);
    barrier_arrive_expect_bytes(full, kStageBytes);
    load_tile<kPanels>(base + tiles_offset + position.stage * kStageBytes, map, full, C::kKeyPanelBytes,
                       {0, static_cast<i32>(work.key_row(block * C::kBlockN)), static_cast<i32>(work.head / view.group),
                        static_cast<i32>(work.batch)});
    position.advance();
  }
  __device__ __forceinline__ void load_keys(const Work& work, u32 block) {
    load_block<Config::kPanels>(SharedLayout::kKeyRing, SharedLayout::kKeys, key, map_k, work, block);
  }
  __device__ __forceinline__ void load_values(const Work& work, u32 block) {
    if constexpr (Config::kCodes) {
      load_turned_values(work, block);
    } else {
      load_block<Config::kValuePanels>(SharedLayout::kValueRing, SharedLayout::kValues, value, map_v, work, block);
    }
  }
  // Panels of 128 keys of V transposed, which the launch before may still be at.
  __device__ __forceinline__ void load_turned_values(const Work& work, u32 block) {
    using C = Config;
    const Ring<C::kStages> ring{base + SharedLayout::kValueRing};
    const u32 full = ring.full(value.stage);
    wait_for_prior_grid();
    barrier_wait(ring.empty(value.stage), value.parity ^ 1u);
    barrier_arrive_expect_bytes(full, C::kValueBytes);
#pragma unroll
    for (u32 panel = 0; panel < C::kValuePanels; ++panel) {
      load_box(base + SharedLayout::kValues + value.stage * C::kValueBytes + panel * C::kValuePanelBytes, map_v, full,
               {static_cast<i32>(block * C::kBlockN + panel * C::kPanelColumns), 0,
                static_cast<i32>(work.head / view.group), static_cast<i32>(work.batch)});
    }
    value.advance();
  }

  // The work of a tile. What the others cannot know of a document's goes to them through `slot` of shared memory, once
  // that is empty.
  __device__ __forceinline__ DocumentTile document_tile(u32 q_tiles, u32 index) const {
    const TilePlace place = place_of(view, q_tiles, index);
    DocumentTile tile = view.tiles[1 + place.rank];
    tile.head = place.flat_head;
    return tile;
  }
  __device__ __forceinline__ void give_away(u32 slot, const DocumentTile& tile) const {
    const u32 at = base + SharedLayout::kTiles + slot * SharedLayout::kTileBytes;
    const u32 words[] = {tile.first, tile.first_query, tile.queries, tile.first_key, tile.keys, tile.head};
#pragma unroll
    for (u32 i = 0; i < 6; ++i) store_shared_u32(at + 4 * i, words[i]);
  }

  // Q of a tile, and which tile it is.
  __device__ __forceinline__ void load_queries(const Work& work, u32 tile, const DocumentTile& of_document) {
    using C = Config;
    const Ring<C::kSlots> ring{base + SharedLayout::kQueryRing};
    const u32 full = ring.full(query.stage);
    barrier_wait(ring.empty(query.stage), query.parity ^ 1u);
    store_shared_u32(base + SharedLayout::kTileIndex + query.stage * 4, tile);
    if constexpr (C::kPacked) give_away(query.stage, of_document);
    barrier_arrive_expect_bytes(full, C::kQueryBytes);
    load_tile<C::kPanels>(base + SharedLayout::kQuery + query.stage * C::kSlotBytes, map_q, full, C::kQueryPanelBytes,
                          {0, static_cast<i32>(work.query_row(work.first_query)), static_cast<i32>(work.head),
                           static_cast<i32>(work.batch)});
    query.advance();
  }

  // V runs one block behind K, in the order in which the consumers ask.
  __device__ __forceinline__ void run() {
    using C = Config;
    const Ring<C::kSlots> ring{base + SharedLayout::kQueryRing};
    const u32 q_tiles = C::kPacked ? view.tiles[0].first : view.q_tiles, tile_count = q_tiles * view.heads_total;
    for (u32 round = 0, tile = blockIdx.x; tile < tile_count; tile = tile_of_round(++round)) {
      DocumentTile of_document;
      if constexpr (C::kPacked) of_document = document_tile(q_tiles, tile);
      const Work work = C::kPacked ? work_of(view, of_document) : work_at(view, tile);
      if constexpr (!C::kDrained) load_queries(work, tile, of_document);
      for (u32 block = work.blocks; block-- > work.lowest_block();) {
        load_keys(work, block);
        if (block + 1 < work.blocks) {
          load_values(work, block + 1);
        } else if constexpr (C::kDrained) {
          load_queries(work, tile, of_document);  // behind the first keys, whose place comes free before that of Q
        }
      }
      // Before the next Q: its buffer comes free only when the consumers have this V.
      load_values(work, work.lowest_block());
    }
    barrier_wait(ring.empty(query.stage), query.parity ^ 1u);
    store_shared_u32(base + SharedLayout::kTileIndex + query.stage * 4, kNoTile);
    barrier_arrive(ring.full(query.stage));
  }
};

// The document's tile that lies in `slot`, for one lane.
__device__ __forceinline__ DocumentTile tile_in_slot(u32 base, u32 slot) {
  const u32 at = base + SharedLayout::kTiles + slot * SharedLayout::kTileBytes;
  DocumentTile tile;
  u32* const words[] = {&tile.first, &tile.first_query, &tile.queries, &tile.first_key, &tile.keys, &tile.head};
#pragma unroll
  for (u32 i = 0; i < 6; ++i) *words[i] = load_shared_u32(at + 4 * i);
  return tile;
}

// ---- Store warp: one thread sends finished tiles away and gives their buffers back
// ------------------------------------

__device__ __forceinline__ void store_tiles(const TensorMap& map_o, const AttentionView& view, u32 base) {
  using C = Config;
  const Ring<C::kSlots> ring{base + SharedLayout::kQueryRing};
  RingPosition<C::kSlots> position;
  u32 before = kNoTile;  // with kOneAhead: the tile whose O comes where the next one's Q was
  while (true) {
    barrier_wait(ring.full(position.stage), position.parity);
    const u32 in_slot = load_shared_u32(base + SharedLayout::kTileIndex + position.stage * 4);
    const u32 tile = C::kOneAhead ? before : in_slot;
    if (in_slot == kNoTile && tile == kNoTile) break;
    Work work;
    if (!C::kOneAhead || tile != kNoTile) work = work_at(view, tile);
    barrier_wait(base + SharedLayout::kOutputFull + position.stage * kBarrierBytes, position.parity);
    if (!C::kOneAhead || tile != kNoTile) {
#pragma unroll
      for (u32 panel = 0; panel < C::kOutputPanels; ++panel) {
        store_box(map_o, base + SharedLayout::kQuery + position.stage * C::kSlotBytes + panel * C::kQueryPanelBytes,
                  {static_cast<i32>(panel * 64), static_cast<i32>(work.first_query), static_cast<i32>(work.head),
                   static_cast<i32>(work.batch)});
      }
      commit_stores();
      wait_stores_read<0>();
    }
    if (C::kOneAhead && in_slot == kNoTile) break;
    before = in_slot;
    barrier_arrive(ring.empty(position.stage));
    position.advance();
  }
  wait_stores_done();
}

// The first `rows` rows of a tile, by the warp: behind them is another document.
__device__ __forceinline__ void store_rows(const AttentionView& view, const Work& work, u32 tile, u32 rows, u32 lane) {
  using C = Config;
  constexpr u32 kChunks = RIDGE_OUTPUT_COLUMNS / 8;  // of 16 bytes
  u16* const first = view.o + static_cast<i64>(work.head) * view.o_head_stride +
                     static_cast<i64>(work.query_row(work.first_query)) * view.o_row_stride;
  for (u32 at = lane; at < rows * kChunks; at += kWarpThreads) {
    const u32 row = at / kChunks, chunk = at % kChunks;
    float x[4];
    load_shared_v4(tile + chunk / 8 * C::kQueryPanelBytes + swizzled_chunk(row, chunk % 8), x);
    *reinterpret_cast<uint4*>(first + row * view.o_row_stride + chunk * 8) =
        make_uint4(__float_as_uint(x[0]), __float_as_uint(x[1]), __float_as_uint(x[2]), __float_as_uint(x[3]));
  }
}

// The same for documents, by a whole warp, which stores the last tile of a document row by row.
__device__ __forceinline__ void store_document_tiles(const TensorMap& map_o, const AttentionView& view, u32 base,
                                                     u32 lane) {
  using C = Config;
  const Ring<C::kSlots> ring{base + SharedLayout::kQueryRing};
  RingPosition<C::kSlots> position;
  DocumentTile before{};  // with kOneAhead: the tile whose O comes where the next one's Q was
  while (true) {
    barrier_wait(ring.full(position.stage), position.parity);
    const u32 index = load_shared_u32(base + SharedLayout::kTileIndex + position.stage * 4);
    if (index == kNoTile && (!C::kOneAhead || before.queries == 0)) break;
    const DocumentTile in_slot = tile_in_slot(base, position.stage);
    const Work work = work_of(view, C::kOneAhead ? before : in_slot);
    barrier_wait(base + SharedLayout::kOutputFull + position.stage * kBarrierBytes, position.parity);
    const u32 tile = base + SharedLayout::kQuery + position.stage * C::kSlotBytes;
    const u32 rows = work.queries - work.first_query;
    if (C::kOneAhead && before.queries == 0) {
      // There is no O yet.
    } else if (rows < C::kBlockM) {
      store_rows(view, work, tile, rows, lane);
    } else if (elect_one()) {
#pragma unroll
      for (u32 panel = 0; panel < C::kOutputPanels; ++panel) {
        store_box(map_o, tile + panel * C::kQueryPanelBytes,
                  {static_cast<i32>(panel * 64), static_cast<i32>(work.query_row(work.first_query)),
                   static_cast<i32>(work.head), 0});
      }
      commit_stores();
      wait_stores_read<0>();
    }
    __syncwarp();
    if (C::kOneAhead && index == kNoTile) break;
    before = in_slot;
    if (elect_one()) barrier_arrive(ring.empty(position.stage));
    position.advance();
  }
  wait_stores_done();
}

#if RIDGE_CODES
// What codes of a head are multiplied with: scores of them, to be powers of two, and O behind the softmax. Where a
// scale is not finite, or scores would be turned around or be infinite, results of the head are not numbers.
struct HeadScales {
  float power, values, log_sum;  // the last is added to a log-sum-exp: 0, or no number
};
__device__ __forceinline__ HeadScales scales_of(const AttentionView& view, const Work& work) {
  constexpr float kMostPower = 0x1p99f * kLog2E, kNoNumber = __builtin_bit_cast(float, 0x7fffffffu);
  const i64 batch = work.batch;
  const u32 kv_head = work.head / view.group;
  const float power = view.scale_log2 * (__ldg(view.q_scale + batch * view.q_scale_stride + work.head) *
                                         __ldg(view.k_scale + batch * view.k_scale_stride + kv_head));
  const float values = __ldg(view.v_scale + batch * view.v_scale_stride + kv_head);
  const bool usable = power >= 0.0f && power <= kMostPower;
  // Not zero: a score of -infinity that is masked stays one.
  return {usable ? fmaxf(power, 1 / kMostPower) : 1.0f, usable && fabsf(values) < kInfinity ? values : kNoNumber,
          usable ? 0.0f : kNoNumber};
}
#endif

// ---- Consumers
// --------------------------------------------------------------------------------------------------------

// Softmax of two rows per thread (l/4 and 8 below it), block after block. Four neighbouring lanes share the rows: the
// maximum is exchanged between them in every block, the sum only at the end.
struct OnlineSoftmax {
  float maximum[2];  // of the scores
  float sum[2];      // this thread's part

  static __device__ __forceinline__ float over_quad_max(float x) {
    x = fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 1));
    return fmaxf(x, __shfl_xor_sync(0xffffffffu, x, 2));
  }
  static __device__ __forceinline__ float over_quad_sum(float x) {
    x += __shfl_xor_sync(0xffffffffu, x, 1);
    return x + __shfl_xor_sync(0xffffffffu, x, 2);
  }

  // Scores become exp(score - maximum) times 2^kOneLog2; `rescale` is what earlier results have to be multiplied with.
  // A row that has seen no key yet has the maximum -infinity and contributes nothing. One row after the other: the
  // second one's maximum is found while the special-function unit works on the first. With RIDGE_ALIBI this thread's
  // scores of a row lack `of_rows`, which is added to what there is one of in a row.
  template <bool kFirst, int kCount>
  __device__ __forceinline__ void apply(float (&s)[kCount], float scale_log2, const float (&of_rows)[2],
                                        float (&rescale)[2]) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      float even = s[2 * h], odd = s[2 * h + 1];
#pragma unroll
      for (int i = 4; i < kCount; i += 4) {
        even = fmaxf(even, s[i + 2 * h]);
        odd = fmaxf(odd, s[i + 2 * h + 1]);
      }
      float highest = fmaxf(even, odd);
      if (Config::kAlibi && highest != -kInfinity) highest += of_rows[h];
      highest = over_quad_max(highest);
      bool keep = false;
      if constexpr (!kFirst) {
        highest = fmaxf(highest, maximum[h]);
        keep = (highest - maximum[h]) * scale_log2 <= kLazyLog2;
        if (keep) highest = maximum[h];
      }
      float offset = highest == -kInfinity ? 0.0f : -highest * scale_log2;
      // Exactly 1 where the maximum stays: the power of a difference that is only rounding may be 1 + 2^-23.
      rescale[h] = kFirst ? 0.0f : keep ? 1.0f : exp2_approx(fmaf(maximum[h], scale_log2, offset));
      if (Config::kAlibi && highest != -kInfinity) offset += of_rows[h];
      if constexpr (Config::kCodes) offset += kOneLog2;
      maximum[h] = highest;
      even = odd = 0.0f;
#pragma unroll
      for (int i = 0; i < kCount; i += 4) {
        float& left = s[i + 2 * h];
        float& right = s[i + 2 * h + 1];
        left = exp2_approx(fmaf(left, scale_log2, offset));
        right = exp2_approx(fmaf(right, scale_log2, offset));
        even += left;
        odd += right;
      }
      sum[h] = kFirst ? even + odd : fmaf(sum[h], rescale[h], even + odd);
    }
  }
};

struct Consumer {
  using C = Config;
  using ScoreMma = Wgmma<C::kBlockN, C::kType, C::kType, Major::kK, Major::kK>;
  static constexpr Major kValueMajor = C::kCodes ? Major::kK : Major::kMn;
  using ValueMma = Wgmma<C::kValueDim, C::kType, C::kType, Major::kK, kValueMajor>;
  static constexpr int kScores = C::kBlockN / 2;
  static constexpr int kOutputs = C::kValueDim / 2;

  const AttentionView& view;
  u32 base, warpgroup, warp_in_group, lane;
  Ring<C::kStages> key_ring, value_ring;
  Ring<C::kSlots> query_ring;
  RingPosition<C::kStages> key{}, value{};
  RingPosition<C::kSlots> query{};

  float s[kScores];
  float o[kOutputs];
  u32 p[C::kKeySteps][4];
  u32 query_registers[C::kQueryInRegisters ? C::kHeadSteps : 1][4];
  OnlineSoftmax softmax;
  float rescale[2];       // of O, before the next product with V is added
  float slope;            // of the tile's head, times log2(e), with RIDGE_ALIBI
  float of_rows[2];       // what the scores of this thread's rows lack, with RIDGE_ALIBI
  u32 values_in_use = 0;  // the stage of V that the product in flight reads
  u32 has_output = 0;     // 0: the next product with V starts O anew
#if RIDGE_CODES
  float part[kOutputs];  // P V of a block of keys
  float power;           // of scores of the tile's head

  __device__ __forceinline__ float (&products())[kOutputs] { return part; }
#else
  __device__ __forceinline__ float (&products())[kOutputs] { return o; }
#endif

  __device__ __forceinline__ void take_turn() const {
    if constexpr (C::kTakeTurns) named_barrier(kTurnBarrier + warpgroup, kTurnThreads);
  }
  __device__ __forceinline__ void pass_turn() const {
    if constexpr (C::kTakeTurns) {
      const u32 next = warpgroup + 1 == C::kConsumers ? 0 : warpgroup + 1;
      named_barrier_arrive(kTurnBarrier + next, kTurnThreads);
    }
  }

  // S = Q K^T of the block that lies in the current stage.
  __device__ __forceinline__ void issue_scores(u32 slot) {
    const u64 q = matrix_descriptor<Major::kK>(
        base + SharedLayout::kQuery + slot * C::kSlotBytes + warpgroup * 64 * kRowBytes, 0);
    const u64 k = matrix_descriptor<Major::kK>(base + SharedLayout::kKeys + key.stage * C::kKeyBytes, 0);
    keep_in_registers(s);
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < C::kHeadSteps; ++chunk) {
      const u32 panel = chunk / 4, step = chunk % 4;
      const u64 k_step = k + panel * (C::kKeyPanelBytes >> 4) + step * kDescriptorStep<Major::kK>;
      if constexpr (C::kQueryInRegisters) {
        ScoreMma::mma_register_a(s, query_registers[chunk], k_step, chunk != 0);
      } else {
        ScoreMma::mma(s, q + panel * (C::kQueryPanelBytes >> 4) + step * kDescriptorStep<Major::kK>, k_step,
                      chunk != 0);
      }
    }
    wgmma_commit();
  }

  // O to the scale of the newest maximum, while the scores just issued are computed. Without effect on a new tile's O.
  // Mostly there is nothing to do; the branch also keeps these products from being scheduled between the instructions
  // of the scores, where they hold up the matrix unit.
  __device__ __forceinline__ void rescale_output() {
    if (__all_sync(0xffffffffu, rescale[0] == 1.0f && rescale[1] == 1.0f)) return;
#pragma unroll
    for (int i = 0; i < kOutputs; ++i) o[i] *= rescale[(i / 2) % 2];
  }

  // O += P V of the block whose scores were turned into P last; of codes `part` is P V.
  __device__ __forceinline__ void issue_values() {
    const u64 v =
        matrix_descriptor<kValueMajor>(base + SharedLayout::kValues + value.stage * C::kValueBytes, C::kKeyPanelBytes);
    keep_in_registers(products());
    wgmma_fence();
#pragma unroll
    for (u32 chunk = 0; chunk < C::kKeySteps; ++chunk) {
      if constexpr (C::kCodes) {
        const u64 v_step = v + chunk / 4 * (C::kValuePanelBytes >> 4) + chunk % 4 * kDescriptorStep<Major::kK>;
        ValueMma::mma_register_a(products(), p[chunk], v_step, chunk != 0);
      } else {
        ValueMma::mma_register_a(products(), p[chunk], v + chunk * kDescriptorStep<Major::kMn>,
                                 chunk != 0 ? 1u : has_output);
      }
    }
    wgmma_commit();
    pass_turn();
    values_in_use = value.stage;
    value.advance();
  }

  // Waits for the last product with V.
  __device__ __forceinline__ void finish_values() {
    wgmma_wait<0>();
    keep_in_registers(products());
    if constexpr (C::kCodes) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) o[i] += products()[i];
    }
  }
  // O of a new tile. Products of 16 bits start it anew by themselves.
  __device__ __forceinline__ void start_output() {
    has_output = 0;
    if constexpr (C::kCodes) {
#pragma unroll
      for (int i = 0; i < kOutputs; ++i) o[i] = 0.0f;
    }
  }

  // Waits for the V that goes with the scores just worked on. Its place is behind the softmax and in front of the wait
  // for the last product: the branch in it keeps the compiler from moving the exponentials behind that wait, where they
  // would no longer run under the product.
  __device__ __forceinline__ void await_values() {
    keep_in_registers(s);
    barrier_wait(value_ring.full(value.stage), value.parity);
  }

  __device__ __forceinline__ void release_keys() {
    if (lane == 0) barrier_arrive(key_ring.empty(key.stage));
    key.advance();
  }
  __device__ __forceinline__ void release_values() {
    if (lane == 0) barrier_arrive(value_ring.empty(values_in_use));
  }

  // Scores become tangents, which count as scores over the cap from here on.
  __device__ __forceinline__ void cap_scores() {
    if constexpr (C::kSoftcap) {
#pragma unroll
      for (int i = 0; i < kScores; ++i) s[i] = tangent_of_power(s[i] * view.power_of_score);
    }
  }

  // What the softmax multiplies scores with to make powers of two of them.
  [[nodiscard]] __device__ __forceinline__ float to_power() const {
#if RIDGE_CODES
    return power;
#else
    return C::kAlibi ? 1.0f : view.to_power();
#endif
  }

  // With slopes scores become powers of two, slope x distance off. Of a distance only the part of the key is taken off
  // them, counted from the middle of the block, which one multiplication makes for both rows; the part of the row is
  // left to `of_rows`. Where keys of the block are on both sides of places of the warp, distances are taken off whole.
  __device__ __forceinline__ void take_off_distances(const Work& work, u32 block) {
    if constexpr (C::kAlibi) {
      constexpr i32 kMiddle = C::kBlockN / 2;
      const i32 first_key = static_cast<i32>(block * C::kBlockN);
      const i32 first_place = static_cast<i32>(work.first_query + warpgroup * 64 + warp_in_group * 16 +
                                               work.k_len(view) - work.q_len(view));
      // Found again here: what is made of it would be kept from block to block.
      u32 own_lane = lane;
      asm volatile("" : "+r"(own_lane));
      const i32 behind =
          first_place + static_cast<i32>(own_lane / 4) - first_key - kMiddle - static_cast<i32>(2 * (own_lane % 4));
      // Opaque, or its products with the columns would be kept from block to block.
      float step = slope;
      asm volatile("" : "+f"(step));
      if constexpr (C::kBothSides) {
        if (first_key + static_cast<i32>(C::kBlockN) - 1 > first_place && first_key < first_place + 15) {
          take_off_whole_distances<kMiddle>(behind, step);
          return;
        }
        if (first_key > first_place) step = -step;
      }
#pragma unroll
      for (int h = 0; h < 2; ++h) of_rows[h] = -step * static_cast<float>(behind + 8 * h);
#pragma unroll
      for (int i = 0; i < kScores; ++i) {
        s[i] = fmaf(s[i], view.to_power(), step * static_cast<float>(i / 4 * 8 + i % 2 - kMiddle));
      }
    }
  }
  template <i32 kMiddle>
  __device__ __forceinline__ void take_off_whole_distances(i32 behind, float step) {
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float of_row = static_cast<float>(behind + 8 * h);
      of_rows[h] = 0.0f;
#pragma unroll
      for (int i = 0; i < kScores / 2; ++i) {
        float& score = s[i / 2 * 4 + 2 * h + i % 2];
        const float distance = fabsf(of_row - static_cast<float>(i / 2 * 8 + i % 2 - kMiddle));
        score = fmaf(score, view.to_power(), -step * distance);
      }
    }
  }

  // Scores of keys that a row does not see become -infinity.
  __device__ __forceinline__ void mask(const Work& work, u32 block) {
    const u32 row = work.first_query + warpgroup * 64 + warp_in_group * 16 + lane / 4;
    const i32 before = static_cast<i32>(block * C::kBlockN + 2 * (lane % 4));
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      i32 seen = static_cast<i32>(work.k_len(view)), from = 0;
      const i32 place = static_cast<i32>(row) + 8 * h + seen - static_cast<i32>(work.q_len(view));
      if constexpr (C::kCausal) seen = min(seen, place + 1);
      if constexpr (C::kWindow) {
        seen = min(seen, place + static_cast<i32>(view.right) + 1);
        from = place - static_cast<i32>(view.left) - before;
      }
      seen -= before;
#pragma unroll
      for (int i = 0; i < kScores / 4; ++i) {
#pragma unroll
        for (int j = 0; j < 2; ++j) {
          if (8 * i + j >= seen || (C::kWindow && 8 * i + j < from)) s[4 * i + 2 * h + j] = -kInfinity;
        }
      }
    }
  }

  __device__ __forceinline__ void scores_to_p() {
#pragma unroll
    for (u32 chunk = 0; chunk < C::kKeySteps; ++chunk) {
#pragma unroll
      for (u32 i = 0; i < 4; ++i) {
        if constexpr (C::kCodes) {
          const u32 first = 16 * chunk + 8 * (i / 2) + 2 * (i % 2);
          p[chunk][i] = encode_pair<Fp8::kE4m3>(s[first], s[first + 1]) |
                        encode_pair<Fp8::kE4m3>(s[first + 4], s[first + 5]) << 16;
        } else {
          const float low = s[8 * chunk + 2 * i], high = s[8 * chunk + 2 * i + 1];
          p[chunk][i] = C::kType == MatrixType::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
        }
      }
    }
  }

  // One block inside a tile.
  template <bool kMasked>
  __device__ __forceinline__ void step(const Work& work, u32 block) {
    barrier_wait(key_ring.full(key.stage), key.parity);
    take_turn();
    issue_scores(query.stage);
    rescale_output();
    issue_values();
    wgmma_wait<1>();
    keep_in_registers(s);
    release_keys();
    cap_scores();
    take_off_distances(work, block);
    if constexpr (kMasked) mask(work, block);
    softmax.template apply<false>(s, to_power(), of_rows, rescale);
    await_values();
    finish_values();
    release_values();
    scores_to_p();
    has_output = 1;
  }

  // The queries of a new tile, as operands of the instruction. Every warp reads its own 16 rows. From registers they
  // leave shared memory's bandwidth to K, V and the copy engine.
  __device__ __forceinline__ void read_queries() {
    if constexpr (C::kQueryInRegisters) {
      const u32 tile =
          base + SharedLayout::kQuery + query.stage * C::kSlotBytes + (warpgroup * 64 + warp_in_group * 16) * kRowBytes;
#pragma unroll
      for (u32 chunk = 0; chunk < C::kHeadSteps; ++chunk) {
        load_matrix_x4(
            tile + chunk / 4 * C::kQueryPanelBytes + swizzled_chunk(lane & 15u, 2 * (chunk % 4) + (lane >> 4)),
            query_registers[chunk][0], query_registers[chunk][1], query_registers[chunk][2], query_registers[chunk][3]);
      }
    }
  }

  // The factor of a row's O, and its log-sum-exp, where its sink is one more score. The larger of sink and maximum is
  // taken off both, or a sink far above all scores would leave the numbers of fp32.
  [[nodiscard]] __device__ __forceinline__ float with_sink(float maximum, float sum, float sink, float& log_sum) const {
    const float power = maximum * to_power(), top = fmaxf(power, sink * kLog2E);
    const float of_scores = exp2_approx(power - top);
    const float total = fmaf(sum, of_scores, exp2_approx(fmaf(sink, kLog2E, -top)));
    const bool sees_nothing = sum == 0.0f;
    log_sum = sees_nothing ? sink : (top + log2_approx(total)) * kLn2;
    return sees_nothing ? 0.0f : of_scores / total;
  }

  // Normalises O, writes it over this warp's rows of Q and tells the store warp; stores the log-sum-exp.
  __device__ __forceinline__ void finish_tile(const Work& work, u32 slot, const OnlineSoftmax& of) {
    float factor[2];
    u32 row = warpgroup * 64 + warp_in_group * 16;
    // Addresses are made here: kept from tile to tile they would take registers that there are not.
    if constexpr (C::kSoftcap || C::kAlibi) asm volatile("" : "+r"(row));
    float sink = -kInfinity;
#if RIDGE_CODES
    const HeadScales scales = scales_of(view, work);  // the next tile's are in use already
#endif
    if constexpr (C::kSinks) sink = __ldg(view.sinks + work.head);
#pragma unroll
    for (int h = 0; h < 2; ++h) {
      const float sum = OnlineSoftmax::over_quad_sum(of.sum[h]);
      float log_sum;
      if constexpr (C::kSinks) {
        factor[h] = with_sink(of.maximum[h], sum, sink, log_sum);
      } else {
        factor[h] = sum == 0.0f ? 0.0f : 1.0f / sum;
#if RIDGE_CODES
        if (sum != 0.0f) factor[h] *= scales.values;
#endif
      }
      const u32 query_row = work.first_query + row + lane / 4 + 8 * h;
      if (view.log_sum_exp != nullptr && lane % 4 == 0 && query_row < work.q_len(view)) {
#if RIDGE_CODES
        const float value =
            sum == 0.0f ? -kInfinity
                        : fmaf(of.maximum[h] * scales.power + (log2_approx(sum) - kOneLog2), kLn2, scales.log_sum);
#else
        const float value = C::kSinks     ? log_sum
                            : sum == 0.0f ? -kInfinity
                                          : (of.maximum[h] * to_power() + log2_approx(sum)) * kLn2;
#endif
        view.log_sum_exp[work.batch * view.batch_stride + work.head * view.head_stride + work.query_row(query_row)] =
            value;
      }
    }
    // Without turns, and with Q in shared memory, another warp's instruction might still read this buffer.
    if constexpr (!C::kTakeTurns && !C::kQueryInRegisters) named_barrier(kTurnBarrier + warpgroup, kWarpgroupThreads);
    const u32 tile = base + SharedLayout::kQuery + slot * C::kSlotBytes + row * kRowBytes;
#pragma unroll
    for (u32 panel = 0; panel < C::kOutputPanels; ++panel) {
      constexpr u32 kPairs = C::kValueDim / 16;
#pragma unroll
      for (u32 pair = 0; pair < 4 && panel * 4 + pair < kPairs; ++pair) {
        const u32 first = panel * 32 + pair * 8;
        u32 packed[4];
#pragma unroll
        for (u32 i = 0; i < 4; ++i) {
          const float low = o[first + 2 * i] * factor[i % 2], high = o[first + 2 * i + 1] * factor[i % 2];
          packed[i] = C::kOutputType == MatrixType::kBf16 ? pack_bf16(low, high) : pack_f16(low, high);
        }
        store_matrix_x4(tile + panel * C::kQueryPanelBytes + swizzled_chunk(lane & 15u, 2 * pair + (lane >> 4)),
                        packed[0], packed[1], packed[2], packed[3]);
      }
    }
    give_slot(slot);
  }

  // To the store warp, when this warp is done with its rows of a slot.
  __device__ __forceinline__ void give_slot(u32 slot) const {
    fence_proxy_async_shared();
    __syncwarp();
    if (lane == 0) barrier_arrive(base + SharedLayout::kOutputFull + slot * kBarrierBytes);
  }

  // Waits for the next tile; false when there is none.
  __device__ __forceinline__ bool next_tile(Work& work) {
    barrier_wait(query_ring.full(query.stage), query.parity);
    // By the lane that will give the buffer back, so that its read is ordered before the next write.
    u32 tile = 0;
    if (lane == 0) tile = load_shared_u32(base + SharedLayout::kTileIndex + query.stage * 4);
    tile = warp_uniform(tile);
    if (tile == kNoTile) return false;
    if constexpr (C::kPacked) {
      DocumentTile own{};
      if (lane == 0) own = tile_in_slot(base, query.stage);
      u32* const words[] = {&own.first, &own.first_query, &own.queries, &own.first_key, &own.keys, &own.head};
#pragma unroll
      for (u32 i = 0; i < 6; ++i) *words[i] = warp_uniform(*words[i]);
      work = work_of(view, own);
    } else {
      work = work_at(view, tile);
    }
    if constexpr (C::kAlibi) slope = __ldg(view.alibi_slopes + work.head) * kLog2E;
#if RIDGE_CODES
    power = scales_of(view, work).power;
#endif
    read_queries();
    return true;
  }

  // The first block of a tile, when no product is in flight.
  __device__ __forceinline__ void first_step(const Work& work) {
    barrier_wait(key_ring.full(key.stage), key.parity);
    take_turn();
    issue_scores(query.stage);
    pass_turn();
    wgmma_wait<0>();
    keep_in_registers(s);
    release_keys();
    cap_scores();
    take_off_distances(work, work.blocks - 1);
    mask(work, work.blocks - 1);
    softmax.template apply<true>(s, to_power(), of_rows, rescale);
    await_values();
    scores_to_p();
  }
  // The others, but for the last product with V.
  __device__ __forceinline__ void further_steps(const Work& work) {
    u32 block = work.blocks - 1;
    for (; block > work.first_masked; --block) step<true>(work, block - 1);
    if constexpr (C::kWindow) {
      for (; block > work.masked_below; --block) step<false>(work, block - 1);
      for (; block > work.lowest; --block) step<true>(work, block - 1);
    } else {
      for (; block > 0; --block) step<false>(work, block - 1);
    }
  }
  // The last product with V, with nothing behind it.
  __device__ __forceinline__ void last_values() {
    take_turn();
    rescale_output();
    issue_values();
    finish_values();
  }

  // O has to leave before the next Q comes.
  __device__ __forceinline__ void run_drained() {
    Work work;
    while (next_tile(work)) {
      start_output();
      first_step(work);
      further_steps(work);
      last_values();
      release_values();
      finish_tile(work, query.stage, softmax);
      query.advance();
    }
  }

  __device__ __forceinline__ void run() {
    if (C::kTakeTurns && warpgroup + 1 == C::kConsumers) named_barrier_arrive(kTurnBarrier, kTurnThreads);
    if constexpr (C::kDrained) {
      run_drained();
      return;
    }
    Work work;
    if (!next_tile(work)) return;
    if constexpr (C::kOneAhead) give_slot(query.stage);
    start_output();
    first_step(work);
    while (true) {
      further_steps(work);
      const Work finished = work;
      const u32 slot = query.stage;
      query.advance();
      if (!next_tile(work)) {
        last_values();
        finish_tile(finished, slot, softmax);
        return;
      }
      // The first scores of the next tile go with the last values of this one.
      barrier_wait(key_ring.full(key.stage), key.parity);
      take_turn();
      issue_scores(query.stage);
      rescale_output();
      issue_values();
      wgmma_wait<1>();
      keep_in_registers(s);
      release_keys();
      cap_scores();
      take_off_distances(work, work.blocks - 1);
      mask(work, work.blocks - 1);
      const OnlineSoftmax of_finished = softmax;
      softmax.template apply<true>(s, to_power(), of_rows, rescale);
      await_values();
      finish_values();
      release_values();
      finish_tile(finished, slot, of_finished);
      scores_to_p();
      start_output();
    }
  }
};

}  // namespace
}  // namespace ridge::cuda

#if RIDGE_PACKED
// Tiles of the queries of documents. With `sorted` the longest come first; without, in the order of documents, each
// one's last first: with a causal mask it is the longest.
extern "C" __global__ void __launch_bounds__(ridge::cuda::kDocumentThreads)
    ridge_attention_documents(const ridge::cuda::DocumentOffsets offsets, ridge::cuda::DocumentTile* const tiles,
                              const ridge::cuda::u32 left, const ridge::cuda::u32 right,
                              const ridge::cuda::u32 sorted) {
  using namespace ridge::cuda;
  constexpr u32 kRows = Config::kBlockM;
  const auto tile_of = [](const Document& of, u32 first) {
    DocumentTile one{};
    one.first = (of.queries - 1) / kRows * kRows - first;
    one.first_query = of.first_query;
    one.queries = of.queries;
    one.first_key = of.first_key;
    one.keys = of.outside ? 0 : of.keys;
    return one;
  };
  const auto write = [&](u32 tile, const Document& of, u32 first) { tiles[1 + tile] = tile_of(of, first); };
  const auto length = [&](const Document& of, u32 first) {
    const DocumentTile tile = tile_of(of, first);
    const KeyBlocks blocks = key_blocks<kRows, Config::kBlockN>(
        {static_cast<i32>(tile.queries), static_cast<i32>(tile.keys), static_cast<i32>(left), static_cast<i32>(right)},
        static_cast<i32>(tile.first));
    return blocks.end - blocks.lowest;
  };
  const u32 count = sort_documents<kRows>(offsets, sorted != 0, length, write);
  if (threadIdx.x == 0) tiles[0].first = count;
}
#endif

extern "C" __global__ void __launch_bounds__(ridge::cuda::Config::kThreads, 1)
    ridge_attention(const __grid_constant__ ridge::cuda::TensorMap map_q,
                    const __grid_constant__ ridge::cuda::TensorMap map_k,
                    const __grid_constant__ ridge::cuda::TensorMap map_v,
                    const __grid_constant__ ridge::cuda::TensorMap map_o, const ridge::cuda::AttentionView view) {
  using namespace ridge::cuda;
  using C = Config;
  extern __shared__ __align__(1024) u8 shared[];
  const u32 base = shared_address(shared);
  const u32 warp = warp_uniform(threadIdx.x / kWarpThreads);
  const u32 lane = threadIdx.x % kWarpThreads;
  const u32 warpgroup = warp / 4;

  if (warp == 0 && elect_one()) {
    prefetch_tensor_map(map_q);
    prefetch_tensor_map(map_k);
    prefetch_tensor_map(map_v);
    prefetch_tensor_map(map_o);
    Ring<C::kStages>{base + SharedLayout::kKeyRing}.init(C::kConsumerWarps);
    Ring<C::kStages>{base + SharedLayout::kValueRing}.init(C::kConsumerWarps);
    Ring<C::kSlots>{base + SharedLayout::kQueryRing}.init(1);
    for (u32 slot = 0; slot < C::kSlots; ++slot) {
      barrier_init(base + SharedLayout::kOutputFull + slot * kBarrierBytes, C::kConsumerWarps);
    }
    barrier_init_fence();
  }
  __syncthreads();

  if (warpgroup == C::kConsumers) {
    decrease_registers<RIDGE_PRODUCER_REGISTERS>();
    if (warp == C::kConsumers * 4) {
      if (elect_one()) Producer{map_q, map_k, map_v, view, base, {}, {}, {}}.run();
    } else if (warp == C::kConsumers * 4 + 1) {
      if constexpr (C::kPacked) {
        store_document_tiles(map_o, view, base, lane);
      } else {
        if (elect_one()) store_tiles(map_o, view, base);
      }
    }
  } else {
    increase_registers<RIDGE_CONSUMER_REGISTERS>();
    // Found again where registers are short, so that it is not held since the entry.
    const u32 own_warpgroup = C::kSoftcap || C::kAlibi ? warp_uniform(threadIdx.x / kWarpgroupThreads) : warpgroup;
    Consumer consumer{view,
                      base,
                      own_warpgroup,
                      warp % 4,
                      lane,
                      {base + SharedLayout::kKeyRing},
                      {base + SharedLayout::kValueRing},
                      {base + SharedLayout::kQueryRing}};
    consumer.run();
  }
}
