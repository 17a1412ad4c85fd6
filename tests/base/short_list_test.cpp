#include "base/short_list.h"

#include <gtest/gtest.h>

#include <numeric>

namespace ridge {
namespace {

using List = ShortList<int, 4>;

List counted(int count) {
  List list;
  for (int i = 0; i < count; ++i) list.push_back(i);
  return list;
}

bool lies_inside(const List& list) {
  const auto* const first = reinterpret_cast<const std::byte*>(&list);
  const auto* const data = reinterpret_cast<const std::byte*>(list.data());
  return data >= first && data < first + sizeof list;
}

TEST(ShortList, KeepsWhatItHasRoomForInsideItselfAndMovesTheRestToTheHeap) {
  EXPECT_TRUE(lies_inside(counted(4)));
  const List longer = counted(5);
  EXPECT_FALSE(lies_inside(longer));
  for (std::size_t i = 0; i < 5; ++i) EXPECT_EQ(longer[i], static_cast<int>(i));
}

TEST(ShortList, CopiesAndMovesEitherKind) {
  for (const int count : {0, 3, 4, 5, 40}) {
    List list = counted(count);
    List copy = list, assigned = counted(7);
    assigned = list;
    EXPECT_EQ(copy, counted(count));
    EXPECT_EQ(assigned, counted(count));
    copy.push_back(99);
    EXPECT_EQ(list, counted(count)) << "a copy shares nothing";
    const List moved = std::move(list);
    EXPECT_EQ(moved, counted(count));
    assigned = counted(2);
    EXPECT_EQ(assigned, counted(2));
  }
}

TEST(ShortList, AppendsResizesAndTakesAnElementOfItsOwn) {
  List list = {1, 2, 3, 4};
  list.push_back(list[0]);  // grows while the argument lies in the old memory
  EXPECT_EQ(list, (List{1, 2, 3, 4, 1}));
  list.resize(7);
  EXPECT_EQ(list[6], 0);
  list.resize(1);
  const int more[] = {8, 9};
  list.append(more, 2);
  EXPECT_EQ(list, (List{1, 8, 9}));
  EXPECT_EQ(std::accumulate(list.begin(), list.end(), 0), 18);
}

}  // namespace
}  // namespace ridge
