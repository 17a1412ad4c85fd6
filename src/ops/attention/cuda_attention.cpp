// The library's own attention for Hopper: cuda_attention.cu, built for the head dimension, type and mask of the call.
// Wins from about a thousand keys; docs/operators/attention.md has the figures. Other dimensions, and rows that do not
// start on 16 bytes, are refused.
#include <algorithm>

#include "base/error.h"
#include "device/cuda/stream.h"
#include "device/cuda/tensor_map.h"
#include "ops/attention/attention.h"
#include "ops/cuda/device.h"
#include "ops/cuda/kernels.h"
#include "ops/cuda/prepared_calls.h"

namespace ridge::ops::attention {
namespace {

namespace gpu = device::cuda;

constexpr const char* kSource = "ops/attention/cuda_attention.cu";
constexpr std::int64_t kKeyBlock = 128, kStages = 2, kSlots = 2, kPanel = 64, kBarrierBytes = 256;
// Heads whose K and V share the L2 at one time, and with a causal mask enough of them that the last tiles are short.
constexpr std::int64_t kCachedBytes = std::int64_t{32} << 20, kRoundsPerSection = 8;

// As cuda_attention.cu declares it.
struct View {
  float* log_sum_exp = nullptr;
  std::int64_t batch_stride = 0, head_stride = 0;
  std::uint32_t q_len = 0, k_len = 0, heads = 0, heads_total = 0, group = 0, q_tiles = 0, section = 0;
  float scale_log2 = 0;
};

std::int64_t consumers(const Shape& s) { return s.dim == 64 ? 3 : 2; }

std::vector<std::string> defines(const Shape& s) {
  const bool narrow = consumers(s) == 3;
  return {std::string("RIDGE_TYPE=") + (s.dtype == DType::kBf16 ? "kBf16" : "kF16"),
          fmt::format("RIDGE_HEAD_DIM={}", s.dim),
          fmt::format("RIDGE_CONSUMERS={}", consumers(s)),
          fmt::format("RIDGE_CAUSAL={}", s.causal ? 1 : 0),
          fmt::format("RIDGE_QUERY_IN_REGISTERS={}", narrow ? 0 : 1),
          fmt::format("RIDGE_PRODUCER_REGISTERS={}", narrow ? 32 : 24),
          fmt::format("RIDGE_CONSUMER_REGISTERS={}", narrow ? 160 : 240)};
}

std::uint32_t shared_bytes(const Shape& s) {
  return static_cast<std::uint32_t>(2 * s.dim * (kSlots * 64 * consumers(s) + 2 * kStages * kKeyBlock) + kBarrierBytes);
}

// Boxes of 64 columns and `rows` rows of one head of one sequence.
Status encode_rows(const TensorView& view, std::int64_t rows, gpu::TensorMap& map) {
  gpu::TensorMapRequest request;
  request.dtype = view.dtype;
  request.rank = 4;
  constexpr std::size_t kOrder[] = {3, 1, 2, 0};  // dim, length, heads, batch
  std::uint64_t dense = 1;
  for (std::size_t d = 0; d < 4; ++d) {
    const std::size_t axis = kOrder[d];
    request.sizes[d] = static_cast<std::uint64_t>(view.shape[axis]);
    // The stride of a dimension of one element is never used, but it is checked.
    const std::uint64_t stride = view.shape[axis] == 1 ? dense : static_cast<std::uint64_t>(view.stride[axis]);
    request.strides_bytes[d] = 2 * stride;
    dense = static_cast<std::uint64_t>(view.shape[axis]) * stride;
    request.box[d] = 1;
  }
  request.box[0] = kPanel;
  request.box[1] = static_cast<std::uint32_t>(rows);
  return gpu::encode(request, view.data, map);
}

struct Call {
  const gpu::Device* device = nullptr;
  gpu::Kernel kernel;

  static Result<Call> prepare(const Shape& s, const gpu::Device& device) {
    RIDGE_TRY(kernel, device_kernel(device, {kSource, defines(s), "ridge_attention", shared_bytes(s), false}));
    return Call{&device, std::move(kernel)};
  }

  Status launch(const Shape& s, std::span<const TensorView> operands, gpu::StreamHandle stream) {
    RIDGE_CHECK_OK(device->make_current());
    const std::int64_t rows = 64 * consumers(s), q_tiles = (s.q_len + rows - 1) / rows, heads = s.batch * s.heads;
    const std::int64_t multiprocessors = device->info().multiprocessors;
    std::int64_t section = std::max<std::int64_t>(kCachedBytes / (s.k_len * s.dim * 4), 1) * (s.heads / s.kv_heads);
    if (s.causal) section = std::max(section, kRoundsPerSection * multiprocessors / q_tiles);
    gpu::TensorMap maps[4];
    RIDGE_CHECK_OK(encode_rows(operands[kQ], rows, maps[0]));
    RIDGE_CHECK_OK(encode_rows(operands[kK], kKeyBlock, maps[1]));
    RIDGE_CHECK_OK(encode_rows(operands[kV], kKeyBlock, maps[2]));
    RIDGE_CHECK_OK(encode_rows(operands[kO], rows, maps[3]));
    const TensorView& sums = operands[kLogSumExp];
    const auto narrow = [](std::int64_t x) { return static_cast<std::uint32_t>(x); };
    View view{static_cast<float*>(sums.data),
              sums.stride[0],
              sums.stride[1],
              narrow(s.q_len),
              narrow(s.k_len),
              narrow(s.heads),
              narrow(heads),
              narrow(s.heads / s.kv_heads),
              narrow(q_tiles),
              narrow(std::min(section, heads)),
              scale_log2(s.scale)};
    gpu::LaunchShape shape;
    shape.block.x = narrow((consumers(s) + 1) * 128);
    shape.grid.x = narrow(std::min(multiprocessors, q_tiles * heads));
    shape.shared_bytes = shared_bytes(s);
    const std::array<void*, 5> arguments = {&maps[0], &maps[1], &maps[2], &maps[3], &view};
    return kernel.launch(shape, arguments, stream);
  }
};

Status run(const Problem& problem, const Arguments& operands, const Stream& stream) {
  static thread_local PreparedCalls<Call> calls;
  const Shape s = shape_of(problem, operands);
  if (s.batch == 0 || s.heads == 0 || s.q_len == 0) return ok_status();
  RIDGE_TRY(ready,
            calls.get(problem, operands, stream, [&](const gpu::Device& device) { return Call::prepare(s, device); }));
  return ready->launch(s, operands, gpu::handle_of(stream));
}

Refusal supports(const Problem& problem, const DeviceInfo& device) {
  constexpr std::int64_t kMost = std::int64_t{1} << 30;  // queries, keys and tiles are counted in 32 bits
  const Shape s = shape_of(problem);
  if (!device.has("wgmma")) return fmt::format("{} ({}) has no wgmma", device.name, device.arch);
  if (s.dim != 64 && s.dim != 128) return fmt::format("dim={}: the kernel has builds for 64 and 128", s.dim);
  if (s.k_len == 0) return "k_len=0: there is nothing to multiply";
  if (s.q_len > kMost || s.k_len > kMost || s.batch * s.heads > kMost / std::max<std::int64_t>(s.q_len / 64, 1)) {
    return fmt::format("batch={} heads={} q_len={} k_len={}: the kernel counts in 32 bits", s.batch, s.heads, s.q_len,
                       s.k_len);
  }
  for (const std::size_t operand : {kQ, kK, kV, kO}) {
    if (const int alignment = operand_alignment(problem, operand); alignment < 16) {
      return fmt::format("rows of {} start on {} bytes; the copy engine needs 16", problem.operands[operand].name,
                         alignment);
    }
  }
  return std::nullopt;
}

}  // namespace

Implementation cuda_attention() {
  Implementation own;
  own.name = "cuda_attention";
  own.summary = "own kernel on Hopper's matrix units, fed by its copy engine; compiled at run time";
  own.backend = Backend::kCuda;
  own.deterministic = true;
  own.supports = supports;
  own.run = run;
  own.kernels = [](const Problem& problem, const DeviceInfo&) {
    return std::vector<KernelBuild>{{kSource, defines(shape_of(problem))}};
  };
  return own;
}

}  // namespace ridge::ops::attention
