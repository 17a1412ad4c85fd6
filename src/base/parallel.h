// Independent work on several threads.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <thread>
#include <vector>

namespace ridge {

// work(i) for every i below `count`, each once, on up to `threads` threads of which the caller's is one. Returns when
// all is done; `work` must not throw.
template <class Work>
void in_parallel(std::size_t count, std::size_t threads, const Work& work) {
  std::atomic<std::size_t> next{0};
  const auto take = [&] {
    for (std::size_t i = next++; i < count; i = next++) work(i);
  };
  std::vector<std::jthread> others;  // joined when this scope ends
  for (std::size_t t = 1; t < std::min(count, threads); ++t) others.emplace_back(take);
  take();
}

}  // namespace ridge
