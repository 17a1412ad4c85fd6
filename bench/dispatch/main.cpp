// What a warm call of a public entry point costs beyond the arithmetic: a product without terms. How fast the products
// themselves are is measured by `ridge bench`.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <vector>

#include "ridge/ops/gemm.h"

int main() {
  using namespace ridge;
  using Clock = std::chrono::steady_clock;
  float c[4] = {};
  GemmArgs args;
  args.a = TensorView::contiguous(c, DType::kF32, {1, 0});
  args.b = TensorView::contiguous(c, DType::kF32, {0, 1});
  args.c = TensorView::contiguous(c, DType::kF32, {1, 1});
  const Stream stream = Stream::cpu();
  std::vector<double> samples;
  for (int block = 0; block < 101; ++block) {
    constexpr int kCalls = 1000;
    const auto start = Clock::now();
    for (int call = 0; call < kCalls; ++call) {
      if (!gemm(args, stream)) return 1;
    }
    samples.push_back(std::chrono::duration<double>(Clock::now() - start).count() / kCalls);
  }
  std::sort(samples.begin(), samples.end());
  fmt::print("warm call: median {:.0f} ns, slowest block {:.0f} ns\n", samples[50] * 1e9, samples.back() * 1e9);
  return 0;
}
