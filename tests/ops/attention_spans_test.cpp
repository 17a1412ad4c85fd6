// What tiles and blocks of attention's kernels work off in windows and in packed documents
// (src/ops/attention/{spans,documents}.cuh), run on the host against the definition.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "ops/cuda_on_host.h"

#define __forceinline__ inline
inline int __clz(int bits) { return bits == 0 ? 32 : __builtin_clz(static_cast<unsigned>(bits)); }

namespace ridge::cuda {
using u32 = unsigned;
using i32 = int;
using i64 = long long;
using std::max;
using std::min;
inline constexpr u32 kWarpThreads = 32;
}  // namespace ridge::cuda

struct uint2 {
  unsigned x, y;
};
inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }

#include "ops/attention/documents.cuh"
#include "ops/attention/spans.cuh"

namespace ridge::testing {
namespace {

using cuda::i32;
using cuda::u32;

bool sees(const cuda::WindowMask& m, i32 query, i32 key) {
  const i32 place = query + m.k_len - m.q_len;
  return key >= place - m.left && key <= place + m.right;
}

// Every pair that sees each other is in a block that is worked off, and every pair of a block without a mask sees each
// other.
template <i32 kRows, i32 kKeys>
void expect_right(const cuda::WindowMask& m) {
  const std::string text = fmt::format("{} x {}, window {}, {}", m.q_len, m.k_len, m.left, m.right);
  for (i32 first = 0; first < m.q_len; first += kRows) {
    const cuda::KeyBlocks blocks = cuda::key_blocks<kRows, kKeys>(m, first);
    ASSERT_LT(blocks.lowest, blocks.end) << text;
    ASSERT_LE((blocks.end - 1) * kKeys, static_cast<u32>(std::max(m.k_len - 1, 0))) << text;
    for (i32 i = first; i < std::min(first + kRows, m.q_len); ++i) {
      for (i32 j = 0; j < static_cast<i32>(blocks.end + 2) * kKeys; ++j) {
        const u32 block = static_cast<u32>(j / kKeys);
        const bool pair = j < m.k_len && sees(m, i, j), worked = block >= blocks.lowest && block < blocks.end;
        const bool masked = block == blocks.end - 1 || block >= blocks.first_masked || block < blocks.masked_below;
        ASSERT_TRUE(worked || !pair) << text << ": query " << i << ", key " << j;
        ASSERT_TRUE(!worked || masked || pair) << text << ": query " << i << ", key " << j;
      }
    }
  }
  std::vector<std::vector<u32>> visitors(static_cast<std::size_t>((m.q_len + kRows - 1) / kRows));
  for (i32 first = 0; first < m.k_len; first += kKeys) {
    const cuda::QueryBlocks blocks = cuda::query_blocks<kRows, kKeys>(m, first);
    for (u32 block = 0; block < visitors.size(); ++block) {
      const bool worked = blocks.count != 0 && block >= blocks.lowest && block <= blocks.highest;
      const bool masked = block < blocks.masked_below || block >= blocks.masked_from || first + kKeys > m.k_len;
      if (worked) visitors[block].push_back(static_cast<u32>(first / kKeys));
      for (i32 i = static_cast<i32>(block) * kRows; i < std::min(static_cast<i32>(block + 1) * kRows, m.q_len); ++i) {
        for (i32 j = first; j < std::min(first + kKeys, m.k_len); ++j) {
          ASSERT_TRUE(worked || !sees(m, i, j)) << text << ": query " << i << ", key " << j;
          ASSERT_TRUE(!worked || masked || sees(m, i, j)) << text << ": query " << i << ", key " << j;
        }
      }
    }
    ASSERT_TRUE(blocks.count == 0 || blocks.highest < visitors.size()) << text;
    ASSERT_EQ(blocks.count, blocks.count == 0 ? 0 : blocks.highest - blocks.lowest + 1) << text;
  }
  // Blocks that add to one block of queries in turns are neighbours, from the one that is said to be the first.
  for (u32 block = 0; block < visitors.size(); ++block) {
    for (std::size_t n = 0; n < visitors[block].size(); ++n) {
      const u32 right = cuda::first_block_with<kRows, kKeys>(m, block) + static_cast<u32>(n);
      ASSERT_EQ(visitors[block][n], right) << text << ": " << block;
    }
  }
}

constexpr i32 kAll = 536870912;

TEST(AttentionSpans, BlocksOfAWindowAreThoseThatSeeEachOther) {
  for (const auto& [q_len, k_len] :
       {std::pair{40, 40}, {1, 1}, {7, 50}, {50, 7}, {33, 64}, {64, 33}, {16, 16}, {5, 0}, {100, 90}}) {
    for (const i32 left : {0, 1, 7, 8, 15, 16, 17, 40, kAll}) {
      for (const i32 right : {0, 1, 7, 8, 9, 16, 31, kAll}) {
        expect_right<8, 16>({q_len, k_len, left, right});
        expect_right<24, 16>({q_len, k_len, left, right});
        expect_right<16, 8>({q_len, k_len, left, right});
      }
    }
  }
}

// A row of queries, or of keys, with its document and its place there; of a tile that counts from `first`.
struct Row {
  u32 tile = ~0u, document_first = 0, other_first = 0, other_rows = 0;
  bool outside = false;
};

// By the definition, of offsets brought within 0 .. rows that never fall.
std::vector<u32> nearest(const std::vector<int>& offsets, u32 rows) {
  std::vector<u32> ends;
  for (const int offset : offsets) {
    const u32 end = static_cast<u32>(std::clamp(offset, 0, static_cast<int>(rows)));
    ends.push_back(ends.empty() ? end : std::max(ends.back(), end));
  }
  ends.push_back(rows);
  return ends;
}

struct Cut {
  std::vector<std::vector<u32>> queries, keys;  // by tile: first row of all, rows, and the rows of the other side
  u32 query_tiles = 0, key_tiles = 0;
  bool operator==(const Cut&) const = default;
};

template <u32 kQueryRows, u32 kKeyRows>
Cut by_definition(const std::vector<int>& q_offsets, const std::vector<int>& k_offsets, u32 q_rows, u32 k_rows) {
  const std::vector<u32> q = nearest(q_offsets, q_rows), k = nearest(k_offsets, k_rows);
  Cut cut;
  for (std::size_t n = 0; n < q.size(); ++n) {
    const u32 first_query = n == 0 ? 0 : q[n - 1], first_key = n == 0 ? 0 : k[n - 1];
    const u32 queries = q[n] - first_query, keys = k[n] - first_key;
    const u32 outside = n == 0 || n + 1 == q.size() ? 1 : 0, block = static_cast<u32>(cut.queries.size());
    for (u32 first = 0; first < queries; first += kQueryRows) {
      cut.queries.push_back({first_query, queries, first_key, keys, outside, first, block});
    }
    for (u32 first = 0; kKeyRows != 0 && first < keys; first += kKeyRows) {
      cut.keys.push_back({first_query, queries, first_key, keys, outside, first, block});
    }
  }
  cut.query_tiles = static_cast<u32>(cut.queries.size());
  cut.key_tiles = static_cast<u32>(cut.keys.size());
  return cut;
}

template <u32 kQueryRows, u32 kKeyRows>
Cut by_block(const std::vector<int>& q_offsets, const std::vector<int>& k_offsets, u32 q_rows, u32 k_rows) {
  const cuda::DocumentOffsets offsets{q_offsets.data(), k_offsets.data(), static_cast<u32>(q_offsets.size() - 1),
                                      q_rows, k_rows};
  Cut cut;
  cut.queries.resize(q_rows / kQueryRows + q_offsets.size() + 1);
  cut.keys.resize(kKeyRows == 0 ? 0 : k_rows / kKeyRows + k_offsets.size() + 1);
  const auto into = [](std::vector<std::vector<u32>>& tiles) {
    return [&tiles](u32 tile, const cuda::Document& of, u32 first) {
      EXPECT_LT(tile, tiles.size()) << "more tiles than memory";
      EXPECT_TRUE(tiles.at(tile).empty()) << "twice";
      tiles.at(tile) = {of.first_query, of.queries, of.first_key, of.keys, of.outside ? 1u : 0u, first, of.first_tile};
    };
  };
  static HostBlock block(cuda::kDocumentThreads);
  block.run([&] {
    const uint2 tiles = cuda::cut_documents<kQueryRows, kKeyRows>(offsets, into(cut.queries), into(cut.keys));
    cut.query_tiles = tiles.x, cut.key_tiles = tiles.y;
  });
  cut.queries.resize(cut.query_tiles);
  cut.keys.resize(cut.key_tiles);
  return cut;
}

void expect_cut(const std::vector<int>& q_offsets, const std::vector<int>& k_offsets, u32 q_rows, u32 k_rows) {
  const auto text = ::testing::PrintToString(q_offsets) + " " + ::testing::PrintToString(k_offsets);
  const bool cut_16 = by_definition<16, 0>(q_offsets, k_offsets, q_rows, k_rows) ==
                      by_block<16, 0>(q_offsets, k_offsets, q_rows, k_rows);
  EXPECT_TRUE(cut_16) << text;
  const bool cut_8 = by_definition<8, 16>(q_offsets, k_offsets, q_rows, k_rows) ==
                     by_block<8, 16>(q_offsets, k_offsets, q_rows, k_rows);
  EXPECT_TRUE(cut_8) << text;
}

TEST(AttentionDocuments, TilesAreThoseOfTheOffsetsOrOfTheNearestThatArePossible) {
  if (!kFibersRun) GTEST_SKIP() << "fibers and sanitizers do not go together";
  expect_cut({0, 40, 40, 41, 100}, {0, 10, 90, 90, 120}, 100, 120);
  expect_cut({0, 0}, {0, 0}, 30, 20);
  expect_cut({3, 20, 70}, {5, 6, 60}, 100, 64);
  expect_cut({0, 16, 32}, {0, 16, 32}, 32, 32);
  expect_cut({0, 0, 0}, {0, 0, 0}, 0, 0);
  expect_cut({-5, 40, 20, 90, 1000, 60}, {500, 0, 50, 100, 100, 100}, 300, 80);
  expect_cut({0, 2147483647, -2147483647, 7}, {-1, -2, -3, -4}, 300, 80);
  std::mt19937 generator(5);
  for (const std::size_t documents : {1000, 1022, 1023, 1500, 3000}) {  // around what one step looks at
    std::vector<int> q{0}, k{0};
    for (std::size_t n = 0; n < documents; ++n) {
      q.push_back(q.back() + static_cast<int>(generator() % 40));
      k.push_back(k.back() + static_cast<int>(generator() % 3));
    }
    expect_cut(q, k, static_cast<u32>(q.back()) + 9, static_cast<u32>(k.back()));
  }
}

// The tiles of the definition, each at a place of its own, the longest first but for 3 %.
TEST(AttentionDocuments, TheLongestTilesComeFirst) {
  if (!kFibersRun) GTEST_SKIP() << "fibers and sanitizers do not go together";
  constexpr u32 kRows = 16;
  std::mt19937 generator(7);
  for (const std::size_t documents : {std::size_t{1}, std::size_t{40}, std::size_t{2100}}) {
    std::vector<int> q{3}, k{5};
    for (std::size_t n = 0; n < documents; ++n) {
      q.push_back(q.back() + static_cast<int>(generator() % 90));
      k.push_back(k.back() + static_cast<int>(n % 7 == 0 ? generator() % 100000 : generator() % 60));
    }
    const u32 q_rows = static_cast<u32>(q.back()) + 40, k_rows = static_cast<u32>(k.back()) + 9;
    const cuda::DocumentOffsets offsets{q.data(), k.data(), static_cast<u32>(documents), q_rows, k_rows};
    Cut expected = by_definition<kRows, 0>(q, k, q_rows, k_rows);
    std::vector<std::vector<u32>> found(expected.queries.size());
    u32 count = 0;
    const auto length = [](const cuda::Document& of, u32 first) { return of.keys + first; };
    const auto write = [&](u32 tile, const cuda::Document& of, u32 first) {
      ASSERT_LT(tile, found.size());
      EXPECT_TRUE(found[tile].empty()) << "twice";
      found[tile] = {of.first_query, of.queries, of.first_key, of.keys, of.outside ? 1u : 0u, first, of.first_tile};
    };
    static HostBlock block(cuda::kDocumentThreads);
    block.run([&] { count = cuda::sort_documents<kRows>(offsets, true, length, write); });
    ASSERT_EQ(count, expected.query_tiles);
    const auto length_at = [&](std::size_t tile) { return found[tile][3] + found[tile][5]; };
    for (std::size_t tile = 1; tile < found.size(); ++tile) {
      ASSERT_LE(length_at(tile), length_at(tile - 1) + length_at(tile - 1) / 32) << tile;
      if (length_at(tile - 1) < 64) {
        ASSERT_LE(length_at(tile), length_at(tile - 1)) << tile;
      }
    }
    std::ranges::sort(found);
    std::ranges::sort(expected.queries);
    EXPECT_EQ(found, expected.queries);
  }
}

}  // namespace
}  // namespace ridge::testing
