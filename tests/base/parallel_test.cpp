#include "base/parallel.h"

#include <gtest/gtest.h>

#include <array>

namespace ridge {
namespace {

TEST(InParallel, DoesEachOnceWithAnyNumberOfThreads) {
  for (const std::size_t count : {0, 1, 7, 100}) {
    for (const std::size_t threads : {0, 1, 3, 200}) {
      std::array<std::atomic<int>, 100> done{};
      in_parallel(count, threads, [&](std::size_t i) { ++done[i]; });
      for (std::size_t i = 0; i < done.size(); ++i) EXPECT_EQ(done[i], i < count ? 1 : 0) << i << " of " << count;
    }
  }
}

}  // namespace
}  // namespace ridge
