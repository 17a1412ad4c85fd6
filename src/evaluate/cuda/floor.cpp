#include "evaluate/cuda/floor.h"

#include <algorithm>

namespace ridge::evaluate::cuda {
namespace {

// FLOP per cycle and multiprocessor of compute capability 9.0, dense (Hopper tuning guide; hardware.md): tensor cores,
// and for f32 the vector units, because TF32 is not an f32 product.
double flop_per_cycle(DType dtype) {
  switch (dtype) {
    case DType::kF64: return 256;
    case DType::kF32: return 256;
    case DType::kF16:
    case DType::kBf16: return 4096;
    default: return 8192;
  }
}

}  // namespace

double floor_seconds(const ops::Problem& problem, const record::Cost& cost, const device::cuda::GpuInfo& gpu,
                     double clock, bool cold) {
  double inputs = 0, outputs = 0;
  DType dtype = DType::kF64;
  for (const ops::OperandSpec& spec : problem.operands) {
    const auto bytes = static_cast<double>(size_bytes(spec.dtype, spec.element_count()));
    if (spec.output) outputs += bytes;
    if (!spec.output || spec.read_write) inputs += bytes;
    if (!spec.output && size_bits(spec.dtype) < size_bits(dtype)) dtype = spec.dtype;
  }
  // Two transfers per clock of the memory's interface.
  const double bandwidth = 2e3 * gpu.memory_clock_khz * gpu.memory_bus_bits / 8;
  const double moved = inputs + std::max(0.0, outputs - static_cast<double>(gpu.l2_bytes));
  const double memory = cold && bandwidth > 0 ? moved / bandwidth : 0;
  const bool known = gpu.compute_major == 9 && gpu.compute_minor == 0;
  const double rate = known ? flop_per_cycle(dtype) * gpu.multiprocessors * clock : 0;
  return std::max(memory, rate > 0 ? cost.flop / rate : 0);
}

}  // namespace ridge::evaluate::cuda
