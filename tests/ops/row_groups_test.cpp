// How warps of a GPU find the rows of groups (src/ops/grouped_quantize/row_groups.cuh), run on the host: right offsets
// of few and of many groups, and wrong ones, which a GPU takes for the nearest that is possible.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "ops/cuda_on_host.h"

#define __forceinline__ inline

namespace ridge::cuda {
using u32 = unsigned;
using i64 = long long;
}  // namespace ridge::cuda

#include "ops/grouped_quantize/row_groups.cuh"

namespace ridge::testing {
namespace {

using cuda::i64;
using cuda::u32;

// Row of x of every row of y (-1: none), where groups begin in y, and the group of every 16 rows.
struct Found {
  std::vector<i64> source, padded, group;
  bool operator==(const Found&) const = default;
};

// By the definition, of offsets brought within 0 .. rows that never fall.
Found right(const std::vector<i64>& offsets, i64 rows, i64 align, i64 capacity) {
  Found found;
  found.padded.push_back(0);
  i64 begin = std::clamp<i64>(offsets[0], 0, rows);
  for (std::size_t g = 1; g < offsets.size(); ++g) {
    const i64 end = std::max(begin, std::clamp<i64>(offsets[g], 0, rows));
    for (i64 row = begin; row < end; ++row) found.source.push_back(row);
    while (static_cast<i64>(found.source.size()) % align != 0) found.source.push_back(-1);
    found.padded.push_back(static_cast<i64>(found.source.size()));
    begin = end;
  }
  EXPECT_LE(static_cast<i64>(found.source.size()), capacity);
  found.source.resize(static_cast<std::size_t>(capacity), -1);
  for (i64 row = 0; row < capacity; row += 16) {
    const i64 group = std::ranges::upper_bound(found.padded, row) - found.padded.begin() - 1;
    found.group.push_back(std::min(group, static_cast<i64>(offsets.size()) - 2));
  }
  return found;
}

// What warps find whose lanes ask for 16 rows each, as tiles do: 8 rows for 16 lanes.
template <bool kWide, class T>
Found by_warps(const std::vector<i64>& given, i64 rows, i64 align, i64 capacity) {
  const std::vector<T> offsets(given.begin(), given.end());
  std::vector<T> padded(given.size() + 1, -9);
  const cuda::RowGroups<kWide> groups{offsets.data(), padded.data(), static_cast<u32>(rows),
                                      static_cast<u32>(given.size() - 1), align};
  Found found;
  found.source.resize(static_cast<std::size_t>(capacity), -2);
  found.group.resize(static_cast<std::size_t>((capacity + 15) / 16), -2);
  HostBlock block(32);
  for (i64 first = 0; first < capacity; first += 16) {
    block.run([&] {
      const i64 row = first + threadIdx.x / 16 * 8;
      const auto from = groups.rows_of(static_cast<u32>(row));
      found.group[static_cast<std::size_t>(first / 16)] = groups.group_of(static_cast<u32>(first));
      for (u32 i = 0; i < 8; ++i) {
        found.source[static_cast<std::size_t>(row + i)] = from.first + i < from.end ? i64{from.first + i} : -1;
      }
    });
  }
  block.run([&] { groups.write_padded(); });
  EXPECT_EQ(padded.back(), -9) << "behind the last";
  found.padded.assign(padded.begin(), padded.end() - 1);
  return found;
}

void expect_right(const std::vector<i64>& offsets, i64 rows, i64 align) {
  const i64 groups = static_cast<i64>(offsets.size()) - 1, capacity = (rows + groups * (align - 1)) / align * align;
  const Found expected = right(offsets, rows, align, capacity);
  const Found narrow = by_warps<false, int>(offsets, rows, align, capacity),
              wide = by_warps<true, i64>(offsets, rows, align, capacity);
  EXPECT_EQ(narrow.source, expected.source) << ::testing::PrintToString(offsets) << " align " << align;
  EXPECT_EQ(narrow.padded, expected.padded) << ::testing::PrintToString(offsets) << " align " << align;
  EXPECT_EQ(narrow.group, expected.group) << ::testing::PrintToString(offsets) << " align " << align;
  EXPECT_TRUE(wide == expected) << ::testing::PrintToString(offsets) << " align " << align;
}

class RowGroups : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kFibersRun) GTEST_SKIP() << "not under a sanitizer";
  }
};

TEST_F(RowGroups, AreFoundWhateverTheirSizes) {
  for (const i64 align : {16, 32, 128}) {
    expect_right({0, 300}, 300, align);
    expect_right({3, 3, 131, 132, 132, 260}, 300, align);
    expect_right({0, 0, 0, 0}, 0, align);
    expect_right({0, 16, 16, 48, 49}, 64, align);
    std::mt19937 draw(static_cast<unsigned>(align));
    for (const std::size_t groups : {31u, 32u, 33u, 64u, 70u, 129u}) {
      std::vector<i64> offsets(groups + 1);
      for (i64& offset : offsets) offset = draw() % 400;
      std::sort(offsets.begin(), offsets.end());
      expect_right(offsets, 400, align);
    }
  }
}

TEST_F(RowGroups, OfWrongOffsetsAreThoseOfTheNearestPossible) {
  expect_right({-5, 40, 20, 90, 1000, 60}, 100, 16);
  expect_right({200, 0, 50, 100}, 100, 16);
  expect_right({0, 2147483647, -2147483647, 7}, 100, 32);
  std::mt19937 draw(5);
  for (const std::size_t groups : {3u, 32u, 40u, 100u}) {
    for (int round = 0; round < 4; ++round) {
      std::vector<i64> offsets(groups + 1);
      for (i64& offset : offsets) offset = static_cast<i64>(draw() % 1000) - 300;
      expect_right(offsets, 400, 16);
    }
  }
}

}  // namespace
}  // namespace ridge::testing
