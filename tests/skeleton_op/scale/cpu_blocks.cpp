// A block of the elements for every thread, in vectors that the compiler makes. What each finds goes through a
// workspace, so that equal calls give equal bits whatever the number of threads. Wins where the vector is larger than a
// cache.
#include <algorithm>
#include <cmath>

#include "device/cpu/thread_pool.h"
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

int blocks_of(const Problem& problem, const Stream& stream) {
  constexpr std::int64_t kLeast = 256;  // elements, below which another thread costs more than it does
  return static_cast<int>(std::clamp<std::int64_t>(problem.values[kN] / kLeast, 1, std::max(stream.threads, 1)));
}

std::size_t workspace_bytes(const Problem& problem, const Stream& stream) {
  return static_cast<std::size_t>(blocks_of(problem, stream)) * sizeof(std::int64_t);
}

bool larger(const float* x, std::int64_t i, std::int64_t than) {
  return !std::isnan(x[i]) && (than < 0 || std::fabs(x[i]) > std::fabs(x[than]));
}

Status run(const Problem& problem, const Arguments& arguments, const Stream& stream) {
  const Vectors v = vectors_of(problem, arguments);
  const int blocks = blocks_of(problem, stream);
  auto* const tops = reinterpret_cast<std::int64_t*>(arguments.workspace.data());
  device::cpu::thread_pool().run(blocks, [&](int block) {
    const std::int64_t first = v.n * block / blocks, last = v.n * (block + 1) / blocks;
    std::int64_t top = -1;
    for (std::int64_t i = first; i < last; ++i) top = larger(v.x, i, top) ? i : top;
    tops[block] = top;
  });
  std::int64_t top = -1;
  for (int block = 0; block < blocks; ++block) {
    if (tops[block] >= 0 && larger(v.x, tops[block], top)) top = tops[block];
  }
  *v.top = top;
  device::cpu::thread_pool().run(blocks, [&](int block) {  // only now: y may be x
    const std::int64_t first = v.n * block / blocks, last = v.n * (block + 1) / blocks;
    for (std::int64_t i = first; i < last; ++i) {
      v.y[i] = v.alpha * (v.gain != nullptr ? v.gain[i] * v.x[i] : v.x[i]) + v.beta;
    }
  });
  return ok_status();
}

}  // namespace

Implementation cpu_blocks() {
  Implementation blocks;
  blocks.name = "cpu_blocks";
  blocks.summary = "a block for every thread";
  blocks.deterministic = true;
  blocks.supports = [](const Problem& problem, const DeviceInfo&) -> Refusal {
    if (problem.values[kTop] == 1) return std::nullopt;
    return "top=0: there is nothing to collect from blocks";
  };
  blocks.run = run;
  blocks.workspace_bytes = workspace_bytes;
  return blocks;
}

}  // namespace ridge::ops::scale
