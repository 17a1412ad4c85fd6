#include "ops/gemm/cuda/matrix_calls.h"

#include <array>

#include "base/error.h"
#include "base/hash.h"
#include "ops/cuda/device.h"
#include "record/architecture.h"

namespace ridge::ops::gemm {
namespace {

constexpr std::uint32_t kTile = 128, kThreads = 256;
constexpr std::int64_t kMostRowTiles = 65535;
constexpr const char *kWgmmaSource = "ops/gemm/cuda_wgmma.cu", *kSimtSource = "ops/gemm/cuda_simt.cu";

DType map_type(ridge::cuda::GemmType type) {
  using ridge::cuda::GemmType;
  switch (type) {
    case GemmType::kBf16: return DType::kBf16;
    case GemmType::kF16: return DType::kF16;
    case GemmType::kE4m3: return DType::kE4m3fn;  // bytes, to the copy engine
    case GemmType::kE5m2: return DType::kE5m2;
    default: return DType::kF32;
  }
}

gpu::TensorMapRequest request_of(const ridge::cuda::TensorMapSpec& spec) {
  gpu::TensorMapRequest request;
  request.dtype = map_type(spec.type);
  request.sizes = {static_cast<std::uint64_t>(spec.inner), static_cast<std::uint64_t>(spec.outer)};
  request.strides_bytes = {0, static_cast<std::uint64_t>(spec.row_bytes)};
  request.box = {static_cast<std::uint32_t>(spec.box_inner), static_cast<std::uint32_t>(spec.box_outer)};
  request.l2_promotion_bytes = spec.l2_promotion_bytes();
  return request;
}

std::vector<std::string> defines(const ridge::cuda::GemmCase& g) {
  using ridge::cuda::name_of;
  return {std::string("RIDGE_TYPE_A=") + name_of(g.type_a),
          std::string("RIDGE_TYPE_B=") + name_of(g.type_b),
          std::string("RIDGE_TYPE_C=") + name_of(g.type_c),
          std::string("RIDGE_MAJOR_A=") + (g.a_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_MAJOR_B=") + (g.b_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_STORE=") + (g.accumulate && !g.residual_is_c() ? "kAdd" : "kOverwrite"),
          std::string("RIDGE_SCALING=") + name_of(g.scaling),
          std::string("RIDGE_BIAS=") + (g.bias ? "1" : "0"),
          std::string("RIDGE_ACTIVATION=") + name_of(g.activation),
          std::string("RIDGE_RESIDUAL=") + (g.residual || g.residual_is_c() ? "1" : "0")};
}

// What the driver does not say is taken to be an H100's.
ridge::cuda::DeviceFacts facts_of(const DeviceInfo& device) {
  ridge::cuda::DeviceFacts facts;
  if (device.multiprocessors > 0) facts.multiprocessors = device.multiprocessors;
  if (device.l2_bytes > 0) facts.l2_bytes = device.l2_bytes;
  if (device.memory_bandwidth > 0) facts.memory_bandwidth = device.memory_bandwidth;
  if (device.clock > 0) facts.clock = device.clock;
  return facts;
}

// With the rows and starts that the alignments of the problem allow.
ridge::cuda::GemmCase with_alignment(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c) {
  g.lda = padded_row(g.row_a(), problem.operands[0].dtype, operand_alignment(problem, 0));
  g.ldb = padded_row(g.row_b(), problem.operands[1].dtype, operand_alignment(problem, 1));
  g.ldc = padded_row(g.row_c(), problem.operands[c].dtype, operand_alignment(problem, c));
  g.base_alignment_c = operand_alignment(problem, c);
  return g;
}

}  // namespace

std::string no_wgmma(const DeviceInfo& device) {
  return fmt::format("{} ({}) has no wgmma: these kernels are Hopper's (sm_90a); {}", device.name, device.arch,
                     record::at_least(device.arch, "sm_89") ? "cuBLASLt runs its products" : "allow cuBLASLt");
}

Refusal wgmma_refuses(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c) {
  const int a = operand_alignment(problem, 0), b = operand_alignment(problem, 1);
  if (g.m == 0 || g.n == 0 || g.k == 0) return std::nullopt;
  if (std::min(a, b) < 16) {
    return fmt::format("rows of {} start on multiples of {} bytes; the copy engine needs 16 (pad them)",
                       a <= b ? "A" : "B", std::min(a, b));
  }
  g = with_alignment(g, problem, c);
  if (auto why = ridge::cuda::wgmma_refuses(g)) return why;
  for (int i = 0; i < ridge::cuda::kConfigCount; ++i) {
    if (ridge::cuda::config_fits(ridge::cuda::config_at(i), g)) return std::nullopt;
  }
  return fmt::format("no configuration of the kernel fits m={} n={} k={}", g.m, g.n, g.k);
}

std::vector<std::string> wgmma_configurations() {
  std::vector<std::string> names;
  for (int i = 0; i < ridge::cuda::kConfigCount; ++i) names.emplace_back(ridge::cuda::config_at(i).name);
  return names;
}

std::vector<int> wgmma_promising(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c,
                                 const DeviceInfo& device) {
  g = with_alignment(g, problem, c);
  return ridge::cuda::rank_wgmma(g, facts_of(device));
}

double wgmma_expected_seconds(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c, int configuration,
                              const DeviceInfo& device) {
  return ridge::cuda::estimate_seconds(with_alignment(g, problem, c), configuration, facts_of(device));
}

std::vector<KernelBuild> wgmma_kernels(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c,
                                       const DeviceInfo& device) {
  g = with_alignment(g, problem, c);
  const int named = problem.configuration;
  const bool fits = named >= 0 && ridge::cuda::config_fits(ridge::cuda::config_at(named), g);
  const ridge::cuda::WgmmaConfig* config =
      fits ? &ridge::cuda::config_at(named) : ridge::cuda::choose_wgmma(g, facts_of(device));
  if (config == nullptr || g.m == 0 || g.n == 0 || g.k == 0) return {};
  return {{kWgmmaSource, ridge::cuda::plan_wgmma(g, *config, facts_of(device).multiprocessors).defines}};
}

KernelBuild simt_kernel(const ridge::cuda::GemmCase& g) { return {kSimtSource, defines(g)}; }

std::string wgmma_version() {
  std::string builds;
  for (int i = 0; i < ridge::cuda::kConfigCount; ++i) {
    const ridge::cuda::WgmmaConfig& c = ridge::cuda::config_at(i);
    builds += fmt::format("{} {} {} {} {} {} {} {} {} {} {} {}\n", c.name, c.block_m, c.block_n, c.stages, c.cluster_m,
                          c.cluster_n, c.consumers, c.pingpong, c.slab_buffers, c.split_k, c.instruction_n, c.parts);
  }
  return "configurations " + sha256(builds).substr(0, 8);
}

Result<WgmmaCall> WgmmaCall::prepare(const ridge::cuda::GemmCase& g, const std::string& label,
                                     const gpu::Device& device, int configuration) {
  const int multiprocessors = device.info().multiprocessors;
  const auto refusal = ridge::cuda::wgmma_refuses(g);
  const bool fits = !refusal && configuration >= 0 && configuration < ridge::cuda::kConfigCount &&
                    ridge::cuda::config_fits(ridge::cuda::config_at(configuration), g);
  const ridge::cuda::WgmmaConfig* config = refusal ? nullptr
                                           : fits
                                               ? &ridge::cuda::config_at(configuration)
                                               : ridge::cuda::choose_wgmma(g, facts_of(device_info_of(device.info())));
  if (config == nullptr) {
    return with_hint(
        make_error(ErrorCode::kUnsupported, "{}: {}", label, refusal.value_or("no configuration of the kernel fits")),
        "allow the plain kernel or cuBLASLt");
  }
  WgmmaCall ready;
  ready.device_ = &device;
  ready.plan_ = ridge::cuda::plan_wgmma(g, *config, multiprocessors);
  ready.shape_.grid.x = ready.plan_.grid;
  ready.shape_.block.x = ready.plan_.block;
  ready.shape_.cluster.x = ready.plan_.cluster;
  ready.shape_.shared_bytes = ready.plan_.shared_bytes;
  RIDGE_TRY(kernel, device_kernel(device, {kWgmmaSource, ready.plan_.defines, "ridge_gemm", ready.plan_.shared_bytes,
                                           ready.plan_.cluster > 8}));
  ready.kernel_ = std::move(kernel);
  ready.a_ = request_of(ready.plan_.a);
  ready.b_ = request_of(ready.plan_.b);
  ready.c_ = request_of(ready.plan_.c);
  return ready;
}

Status WgmmaCall::launch(const TensorView& a_view, const TensorView& b_view, const TensorView& c_view,
                         ScaleParameter scales, EpilogueParameter extra, gpu::StreamHandle stream) {
  RIDGE_CHECK_OK(device_->make_current());
  gpu::TensorMap a, b, c;
  RIDGE_CHECK_OK(gpu::encode(a_, a_view.data, a));
  RIDGE_CHECK_OK(gpu::encode(b_, b_view.data, b));
  if (!plan_.direct_store) RIDGE_CHECK_OK(gpu::encode(c_, c_view.data, c));
  OutputParameter output{c_view.data, c_view.stride[0], static_cast<std::uint32_t>(c_view.shape[0]),
                         static_cast<std::uint32_t>(c_view.shape[1])};
  if (plan_.residual_is_c) extra = {nullptr, c_view.data, c_view.stride[0]};
  struct Tiles {
    std::uint32_t rows, cols, group, group_along;
  } tiles{plan_.tile_rows, plan_.tile_cols, plan_.group, plan_.group_along};
  const std::array<void*, 8> arguments = {&a, &b, &c, &output, &tiles, &plan_.k_blocks, &scales, &extra};
  return kernel_.launch(shape_, arguments, stream);
}

Refusal simt_refuses(std::int64_t m, std::int64_t n, const DeviceInfo& device) {
  if (!record::at_least(device.arch, "sm_90")) {
    return fmt::format("{} ({}): built for Hopper and newer", device.name, device.arch);
  }
  if (ridge::cuda::ceil_div(m, kTile) > kMostRowTiles || n > INT32_MAX) {
    return fmt::format("m={} n={}: at most {} rows and {} columns", m, n, kMostRowTiles * kTile, INT32_MAX);
  }
  return std::nullopt;
}

Result<SimtCall> SimtCall::prepare(const ridge::cuda::GemmCase& g, const gpu::Device& device) {
  RIDGE_TRY(kernel, device_kernel(device, {kSimtSource, defines(g), "ridge_gemm_simt", 0, false}));
  SimtCall ready;
  ready.device_ = &device;
  ready.kernel_ = std::move(kernel);
  ready.residual_is_c_ = g.residual_is_c();
  ready.shape_.grid = {static_cast<std::uint32_t>(ridge::cuda::ceil_div(g.n, kTile)),
                       static_cast<std::uint32_t>(ridge::cuda::ceil_div(g.m, kTile)), 1};
  ready.shape_.block.x = kThreads;
  return ready;
}

Status SimtCall::launch(const TensorView& a_view, const TensorView& b_view, const TensorView& c_view, std::int64_t k,
                        ScaleParameter scales, EpilogueParameter extra, gpu::StreamHandle stream) {
  RIDGE_CHECK_OK(device_->make_current());
  void *a = a_view.data, *b = b_view.data;
  std::int64_t row_a = a_view.stride[0], row_b = b_view.stride[0];
  OutputParameter output{c_view.data, c_view.stride[0], static_cast<std::uint32_t>(c_view.shape[0]),
                         static_cast<std::uint32_t>(c_view.shape[1])};
  if (residual_is_c_) extra = {nullptr, c_view.data, c_view.stride[0]};
  const std::array<void*, 8> arguments = {&a, &b, &row_a, &row_b, &k, &output, &scales, &extra};
  return kernel_.launch(shape_, arguments, stream);
}

}  // namespace ridge::ops::gemm
