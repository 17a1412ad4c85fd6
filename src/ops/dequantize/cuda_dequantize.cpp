// Codes times scales, 16 of a row at a time (cuda_dequantize.cu). Any stride and alignment.
#include <algorithm>

#include "base/error.h"
#include "device/cuda/stream.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/dequantize/dequantize.h"
#include "record/architecture.h"

namespace ridge::ops::dequantize {
namespace {

namespace gpu = device::cuda;

constexpr std::int64_t kChunk = 16, kThreads = 256, kBlocksPerMultiprocessor = 32;

// As cuda_dequantize.cu declares it.
struct Parameters {
  const void *q = nullptr, *scale = nullptr, *y = nullptr;
  std::int64_t q_stride = 0, scale_stride = 0, y_stride = 0, rows = 0, cols = 0, chunks = 0;
  std::uint32_t aligned = 0;
};

constexpr const char* kSource = "ops/dequantize/cuda_dequantize.cu";

std::vector<std::string> defines(const Shape& s) {
  constexpr const char* kGranularity[] = {"kTensor", "kRow", "kVector", "kBlock", "kMx"};
  const char* const type = s.dtype == DType::kF32 ? "kF32" : s.dtype == DType::kBf16 ? "kBf16" : "kF16";
  return {std::string("RIDGE_TYPE_Y=") + type,
          std::string("RIDGE_FORMAT=") + (s.format == DType::kE4m3fn ? "kE4m3" : "kE5m2"),
          std::string("RIDGE_GRANULARITY=") + kGranularity[static_cast<std::size_t>(s.granularity)]};
}

struct Call {
  const gpu::Device* device = nullptr;
  gpu::Kernel kernel;

  static Result<Call> prepare(const Shape& s, const gpu::Device& device) {
    RIDGE_TRY(kernel, device_kernel(device, {kSource, defines(s), "ridge_dequantize", 0, false}));
    return Call{&device, std::move(kernel)};
  }

  Status launch(const Shape& s, std::span<const TensorView> operands, gpu::StreamHandle stream) {
    RIDGE_CHECK_OK(device->make_current());
    const TensorView &q = operands[0], &scale = operands[1], &y = operands[2];
    Parameters p{q.data, scale.data, y.data, q.stride[0], scale.rank > 1 ? scale.stride[0] : 0, y.stride[0]};
    p.rows = s.rows;
    p.cols = s.cols;
    p.chunks = (s.cols + kChunk - 1) / kChunk;
    p.aligned = std::min(view_alignment(q), view_alignment(y)) >= 16;
    gpu::LaunchShape shape;
    shape.block.x = static_cast<std::uint32_t>(kThreads);
    shape.grid.x = static_cast<std::uint32_t>(std::min((p.rows * p.chunks + kThreads - 1) / kThreads,
                                                       kBlocksPerMultiprocessor * device->info().multiprocessors));
    const std::array<void*, 1> arguments = {&p};
    return kernel.launch(shape, arguments, stream);
  }
};

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<Call> calls;
  const Shape s = shape_of(problem);
  if (s.rows == 0 || s.cols == 0) return ok_status();
  RIDGE_TRY(ready,
            calls.get(problem, operands, stream, [&](const gpu::Device& device) { return Call::prepare(s, device); }));
  return ready->launch(s, operands, gpu::handle_of(stream));
}

}  // namespace

Implementation cuda_dequantize() {
  Implementation own;
  own.name = "cuda_dequantize";
  own.summary = "16 codes at a time, times their scale";
  own.backend = Backend::kCuda;
  own.deterministic = true;
  own.supports = [](const Problem&, const DeviceInfo& device) -> Refusal {
    if (!record::at_least(device.arch, "sm_89"))
      return fmt::format("{} ({}) has no 8-bit floats", device.name, device.arch);
    return std::nullopt;
  };
  own.run = run;
  own.kernels = [](const Problem& problem, const DeviceInfo&) {
    return std::vector<KernelBuild>{{kSource, defines(shape_of(problem))}};
  };
  return own;
}

}  // namespace ridge::ops::dequantize
