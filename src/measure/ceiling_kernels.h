// Kernels that do one thing as fast as the processor can, for measure_ceilings().
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>

namespace ridge::measure {

// One way of doing arithmetic: `run(steps)` does `flop_per_step * steps` operations and returns a value that depends on
// all of them.
struct ArithmeticKernel {
  double (*run)(std::int64_t steps) = nullptr;
  double flop_per_step = 0;
  std::string method;
};
ArithmeticKernel best_fma_f32();
ArithmeticKernel best_fma_f64();
ArithmeticKernel best_dot_bf16();    // run == nullptr where bf16 is not multiplied natively
ArithmeticKernel best_tiles_bf16();  // run == nullptr where there is no matrix unit

// Stores into memory are fastest past the caches, since each would first read the line it overwrites; stores into a
// cache are not.
enum class Stores { kPastCaches, kIntoCaches };

// Sum of `count` doubles; y = s; y = x; y = x + s * z. Sizes are multiples of 64 elements, memory aligned to 64 bytes.
double stream_read(const double* x, std::size_t count);
void stream_write(double* y, std::size_t count, Stores stores);
void stream_copy(const double* x, double* y, std::size_t count, Stores stores);
void stream_triad(const double* x, const double* z, double* y, std::size_t count, Stores stores);

}  // namespace ridge::measure
