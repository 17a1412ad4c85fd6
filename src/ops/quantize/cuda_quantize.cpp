// Both copies from one read of the matrix, in tiles of 128 x 128 (cuda_quantize.cu); for scales of a row or a tensor
// two reads. Any stride and alignment; rows that start on 16 bytes are read and written in vectors.
#include "base/error.h"
#include "device/cuda/stream.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/prepared_calls.h"
#include "ops/quantize/quantize.h"
#include "record/architecture.h"

namespace ridge::ops::quantize {
namespace {

namespace gpu = device::cuda;

constexpr std::int64_t kTile = 128, kThreads = 256, kMostTiles = INT32_MAX;

std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// As cuda_quantize.cu declares it.
struct Parameters {
  const void *x = nullptr, *q = nullptr, *scale = nullptr, *q_t = nullptr, *scale_t = nullptr, *random = nullptr;
  std::int64_t x_stride = 0, q_stride = 0, scale_stride = 0, q_t_stride = 0, scale_t_stride = 0;
  std::int64_t rows = 0, cols = 0;
  std::uint32_t tile_cols = 0, rule = 0, aligned_x = 0, aligned_q = 0, aligned_q_t = 0;
};

bool known_at_the_end(const Shape& s) {
  return s.granularity == Granularity::kTensor || s.granularity == Granularity::kRow;
}

constexpr const char* kSource = "ops/quantize/cuda_quantize.cu";

std::vector<std::string> defines(const Shape& s) {
  constexpr const char* kGranularity[] = {"kTensor", "kRow", "kVector", "kBlock", "kMx"};
  constexpr const char* kCopies[] = {"kAsIs", "kTransposed", "kBoth"};
  const char* const type = s.dtype == DType::kF32 ? "kF32" : s.dtype == DType::kBf16 ? "kBf16" : "kF16";
  return {std::string("RIDGE_TYPE_X=") + type,
          std::string("RIDGE_FORMAT=") + (s.format == DType::kE4m3fn ? "kE4m3" : "kE5m2"),
          std::string("RIDGE_GRANULARITY=") + kGranularity[static_cast<std::size_t>(s.granularity)],
          std::string("RIDGE_COPIES=") + kCopies[s.copies],
          std::string("RIDGE_STOCHASTIC=") + (s.stochastic ? "1" : "0")};
}

std::int64_t row_stride(const TensorView& view) { return view.rank > 1 ? view.stride[0] : 0; }

Parameters parameters_of(const Shape& s, std::span<const TensorView> operands) {
  Parameters p;
  p.x = operands[0].data;
  p.x_stride = operands[0].stride[0];
  p.rows = s.rows;
  p.cols = s.cols;
  p.tile_cols = static_cast<std::uint32_t>(ceil_div(s.cols, kTile));
  p.rule = static_cast<std::uint32_t>(s.rule);
  p.aligned_x = view_alignment(operands[0]) >= 16;
  if (s.stochastic) p.random = operands[1].data;
  for (const Copy& copy : copies_of(s)) {
    const TensorView &q = operands[copy.q], &scale = operands[copy.q + 1];
    (copy.transposed ? p.q_t : p.q) = q.data;
    (copy.transposed ? p.q_t_stride : p.q_stride) = q.stride[0];
    (copy.transposed ? p.scale_t : p.scale) = scale.data;
    (copy.transposed ? p.scale_t_stride : p.scale_stride) = row_stride(scale);
    (copy.transposed ? p.aligned_q_t : p.aligned_q) = view_alignment(q) >= (copy.transposed ? 16 : 8);
  }
  return p;
}

class Call {
 public:
  static Result<Call> prepare(const Shape& s, const gpu::Device& device) {
    Call ready;
    ready.device_ = &device;
    const auto kernel = [&](const char* symbol) {
      return device_kernel(device, {kSource, defines(s), symbol, 0, false});
    };
    RIDGE_TRY(whole, kernel("ridge_quantize"));
    ready.whole_ = std::move(whole);
    if (!known_at_the_end(s)) return ready;
    RIDGE_TRY(amax, kernel("ridge_quantize_amax"));
    RIDGE_TRY(scales, kernel("ridge_quantize_scales"));
    ready.amax_ = std::move(amax);
    ready.scales_ = std::move(scales);
    return ready;
  }

  Status launch(const Shape& s, std::span<const TensorView> operands, gpu::StreamHandle stream) {
    RIDGE_CHECK_OK(device_->make_current());
    Parameters p = parameters_of(s, operands);
    const std::array<void*, 1> arguments = {&p};
    gpu::LaunchShape tiles;
    tiles.grid.x = static_cast<std::uint32_t>(ceil_div(s.rows, kTile) * p.tile_cols);
    tiles.block.x = static_cast<std::uint32_t>(kThreads);
    if (known_at_the_end(s)) RIDGE_CHECK_OK(find_scales(s, operands, tiles, arguments, stream));
    return whole_.launch(tiles, arguments, stream);
  }

 private:
  // The memory of the scales holds zeros, then largest magnitudes, then scales. That of a tensor is one for both
  // copies, so its magnitude is collected once, with the first.
  Status find_scales(const Shape& s, std::span<const TensorView> operands, const gpu::LaunchShape& tiles,
                     std::span<void* const> arguments, gpu::StreamHandle stream) {
    std::int64_t count = 0;
    for (const Copy& copy : copies_of(s)) {
      const TensorView& scale = operands[copy.q + 1];
      if (s.granularity == Granularity::kTensor && count > 0) break;
      RIDGE_CHECK_OK(gpu::fill_bytes(scale.data, 0, size_bytes(scale.dtype, scale.shape[0]), stream));
      count += scale.shape[0];
    }
    RIDGE_CHECK_OK(amax_.launch(tiles, arguments, stream));
    gpu::LaunchShape scales;
    scales.grid.x = static_cast<std::uint32_t>(ceil_div(count, kThreads));
    scales.block.x = static_cast<std::uint32_t>(kThreads);
    return scales_.launch(scales, arguments, stream);
  }

  const gpu::Device* device_ = nullptr;
  gpu::Kernel whole_, amax_, scales_;
};

Status run(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  static thread_local PreparedCalls<Call> calls;
  const Shape s = shape_of(problem);
  RIDGE_TRY(ready,
            calls.get(problem, operands, stream, [&](const gpu::Device& device) { return Call::prepare(s, device); }));
  return ready->launch(s, operands, gpu::handle_of(stream));
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  // Conversions to 8-bit floats came with Ada.
  if (!record::at_least(device.arch, "sm_89"))
    return fmt::format("{} ({}) has no 8-bit floats", device.name, device.arch);
  const Shape s = shape_of(problem);
  const std::int64_t rows = ceil_div(s.rows, kTile), cols = ceil_div(s.cols, kTile);
  if (cols == 0 || rows <= kMostTiles / cols) return std::nullopt;
  return fmt::format("rows={} cols={}: at most {} tiles of {} x {}", s.rows, s.cols, kMostTiles, kTile, kTile);
}

}  // namespace

Implementation cuda_quantize() {
  Implementation own;
  own.name = "cuda_quantize";
  own.summary = "both copies from one read, in tiles of 128 x 128; scales of rows and tensors from a read before";
  own.backend = Backend::kCuda;
  own.deterministic = true;
  own.supports = supports;
  own.run = run;
  own.kernels = [](const Problem& problem, const DeviceInfo&) {
    return std::vector<KernelBuild>{{kSource, defines(shape_of(problem))}};
  };
  return own;
}

}  // namespace ridge::ops::quantize
