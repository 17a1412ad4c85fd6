// Which blocks of keys a tile of queries sees in a window, and which blocks of queries see a block of keys: what the
// kernels work off, and where they mask. Stands behind the names of whole numbers; it includes nothing, so that a test
// holds it against the definition on the host.
#pragma once

namespace ridge::cuda {
namespace {

// Queries and keys that see each other: query i is at place i + k_len - q_len of the keys, and sees those from `left`
// before it to `right` behind it.
struct WindowMask {
  i32 q_len, k_len;
  i32 left, right;

  [[nodiscard]] __device__ __forceinline__ i32 place(i32 query) const { return query + k_len - q_len; }
};

// Blocks of keys from `lowest` up to `end` hold every key that the tile sees; in those from `first_masked` on, and in
// those below `masked_below`, some query does not see all keys. One block at least: a tile that sees nothing works it
// off masked.
struct KeyBlocks {
  u32 lowest, end, first_masked, masked_below;
};

// Of the queries first .. first + kRows - 1, of which some may be behind the last one.
template <i32 kRows, i32 kKeys>
__device__ __forceinline__ KeyBlocks key_blocks(const WindowMask& mask, i32 first) {
  const auto within = [&](i32 end) { return min(max(end, 0), mask.k_len); };
  const i32 place = mask.place(first), last = place + kRows - 1;
  const i32 end = within(last + mask.right + 1);
  KeyBlocks blocks;
  blocks.end = static_cast<u32>(max((end + kKeys - 1) / kKeys, 1));
  blocks.lowest = static_cast<u32>(min(within(place - mask.left), max(end - 1, 0)) / kKeys);
  blocks.first_masked = max(static_cast<u32>(within(place + mask.right + 1) / kKeys), blocks.lowest);
  blocks.masked_below = max(static_cast<u32>((within(last - mask.left) + kKeys - 1) / kKeys), blocks.lowest);
  return blocks;
}

// Blocks of queries from `lowest` to `highest`, `count` of them, hold every query that sees one of the keys; in those
// below `masked_below` and from `masked_from` on some query does not see all of them.
struct QueryBlocks {
  u32 lowest, highest, count, masked_below, masked_from;
};

// Of the keys first .. first + kKeys - 1, of which some may be behind the last one.
template <i32 kRows, i32 kKeys>
__device__ __forceinline__ QueryBlocks query_blocks(const WindowMask& mask, i32 first) {
  const i32 own = first + mask.q_len - mask.k_len, last = own + kKeys - 1;  // the queries whose places the keys are
  const i32 newest = min(last + mask.left, mask.q_len - 1);
  QueryBlocks blocks;
  blocks.lowest = static_cast<u32>(max(own - mask.right, 0) / kRows);
  blocks.highest = static_cast<u32>(max(newest, 0) / kRows);
  blocks.count = newest >= 0 && blocks.highest >= blocks.lowest ? blocks.highest - blocks.lowest + 1 : 0u;
  blocks.masked_below = static_cast<u32>(max(last - mask.right + kRows - 1, 0) / kRows);
  blocks.masked_from = static_cast<u32>(max(own + mask.left + 1, 0) / kRows);
  return blocks;
}

// The first block of kKeys keys whose query_blocks() have the block of queries `block`; those behind it have it too, up
// to the last one that does.
template <i32 kRows, i32 kKeys>
__device__ __forceinline__ u32 first_block_with(const WindowMask& mask, u32 block) {
  return static_cast<u32>(max(mask.place(static_cast<i32>(block) * kRows) - mask.left, 0) / kKeys);
}

}  // namespace
}  // namespace ridge::cuda
