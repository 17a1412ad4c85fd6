// Launches our matrix products as their descriptions say, on addresses of this process.
#pragma once
#include <cstring>
#include <memory>

#include "gemm_shape.h"

namespace ridge::gpu {

inline constexpr const char* kHarness = "bench/gpu/harness.cu";

inline const ops::DescribedKernel& wgmma() { return ops::described_kernel(cuda::kWgmmaSource); }
inline const ops::DescribedKernel& simt() { return ops::described_kernel("ops/matmul/cuda_simt.cu"); }

// What a product reads besides A and B.
struct Extras {
  CUdeviceptr scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};

inline CUtensorMap encode(const record::ResolvedTensorMap& spec, GemmType type, CUdeviceptr base) {
  CUtensorMap map;
  CUtensorMapDataType element = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (type == GemmType::kBf16) element = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (type == GemmType::kF16) element = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (type == GemmType::kF32 || type == GemmType::kTf32) element = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const cuuint64_t sizes[2] = {spec.sizes[0], spec.sizes[1]}, strides[1] = {spec.strides_bytes[0]};
  const cuuint32_t box[2] = {spec.box[0], spec.box[1]}, element_strides[2] = {1, 1};
  RIDGE_CU(cuTensorMapEncodeTiled(
      &map, element, 2, reinterpret_cast<void*>(base), sizes, strides, box, element_strides,
      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B,
      spec.l2_promotion_bytes == 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// A launch with its kernel, its arguments and its encoded maps, so that timing measures the launch alone.
struct ReadyGemm {
  record::ResolvedKernel shape;
  CUfunction function{};
  std::shared_ptr<std::byte[]> storage;
  std::vector<void*> arguments;  // into `storage`

  void launch(CUstream stream, bool overlap_previous = false) const {
    CUlaunchAttribute attributes[2];
    unsigned count = 0;
    if (shape.cluster[0] > 1) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
      attributes[count++].value.clusterDim = {shape.cluster[0], 1, 1};
    }
    if (overlap_previous) {
      attributes[count].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
      attributes[count++].value.programmaticStreamSerializationAllowed = 1;
    }
    CUlaunchConfig config{};
    config.gridDimX = shape.grid[0];
    config.gridDimY = shape.grid[1];
    config.gridDimZ = shape.grid[2];
    config.blockDimX = shape.block[0];
    config.blockDimY = shape.block[1];
    config.blockDimZ = shape.block[2];
    config.sharedMemBytes = shape.shared_bytes;
    config.hStream = stream;
    config.attrs = attributes;
    config.numAttrs = count;
    RIDGE_CU(cuLaunchKernelEx(&config, function, const_cast<void**>(arguments.data()), nullptr));
  }
};

// What the cost model asks of this device.
inline cuda::DeviceFacts device_facts() {
  return {device().multiprocessors, device().l2_bytes, device().memory_bandwidth, device().clock};
}

// What the descriptions may say of a case: its scales are dense.
inline record::PlanFacts facts_of(GemmCase g) {
  if (g.scaling != GemmScaling::kNone) {
    g.scale_stride_a = g.m;
    g.scale_stride_b = g.scaling == GemmScaling::kBlock ? cuda::ceil_div(g.k, 128) : g.n;
  }
  record::PlanFacts facts;
  ops::matmul::add_values(g, facts.values);
  facts.values["sm_count"] = device().multiprocessors;
  for (const char* name : {"a", "b", "scale_a", "scale_b", "bias", "residual", "c"}) {
    facts.operands.push_back({name, DType::kBf16, {1, 1}, {1, 1}});
  }
  return facts;
}

inline std::optional<std::string> wgmma_refuses(const GemmCase& g) {
  if (auto why = cuda::gemm_refuses(g)) return why;
  return wgmma().refuses(facts_of(g));
}
inline bool config_fits(int config, const GemmCase& g) {
  return !cuda::gemm_refuses(g) && wgmma().fits(config, facts_of(g));
}
// What the cost model chooses; -1 where nothing fits.
inline int choose_wgmma(const GemmCase& g) {
  if (cuda::gemm_refuses(g)) return -1;
  const auto ranked = cuda::rank_wgmma(g, wgmma().fitting(facts_of(g)), cuda::wgmma_configs(), device_facts());
  return ranked.empty() ? -1 : ranked[0];
}
inline const WgmmaConfig& config_at(int index) { return cuda::wgmma_configs()[static_cast<std::size_t>(index)]; }

// A build for Kernels: the source in the tree and its macros.
using Build = std::pair<std::string, std::vector<std::string>>;
inline Build build_of(const ops::DescribedKernel& kernel, int config, const GemmCase& g) {
  ops::KernelBuild build = kernel.build(config, facts_of(g)).value();
  return {"src/" + build.source, std::move(build.defines)};
}

inline ReadyGemm ready(Kernels& kernels, const ops::DescribedKernel& kernel, int config, const GemmCase& g,
                       CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, const Extras& extras = {}) {
  using Kind = record::ResolvedArgument::Kind;
  const CUdeviceptr addresses[] = {a, b, extras.scale_a, extras.scale_b, extras.bias, extras.residual, c};
  const record::ResolvedPlan plan = kernel.resolve(config, facts_of(g)).value();
  ReadyGemm r;
  r.shape = plan.kernels.at(0);
  const Build build = build_of(kernel, config, g);
  r.function = kernels.get(build.first, build.second, r.shape.symbol);
  RIDGE_CU(cuFuncSetAttribute(r.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              static_cast<int>(r.shape.shared_bytes)));
  constexpr std::size_t kAlignment = 128;  // of a tensor map
  r.storage.reset(new std::byte[(r.shape.parameters.size() + 1) * kAlignment]());
  auto* next = r.storage.get();
  next += (kAlignment - reinterpret_cast<std::uintptr_t>(next) % kAlignment) % kAlignment;
  for (const record::ResolvedParameter& parameter : r.shape.parameters) {
    for (const record::ResolvedArgument& part : parameter.parts) {
      if (part.kind == Kind::kOperand) std::memcpy(next + part.offset, &addresses[part.index], sizeof(CUdeviceptr));
      if (part.kind == Kind::kValue) std::memcpy(next + part.offset, &part.bits, part.bytes);
      if (part.kind == Kind::kTensorMap) {
        const record::ResolvedTensorMap& spec = plan.tensor_maps[part.index];
        const GemmType type = spec.index == 0 ? g.type_a : spec.index == 1 ? g.type_b : g.type_c;
        const CUtensorMap map = encode(spec, type, addresses[spec.index]);
        std::memcpy(next + part.offset, &map, sizeof map);
      }
    }
    r.arguments.push_back(next);
    next += kAlignment;
  }
  return r;
}

}  // namespace ridge::gpu
