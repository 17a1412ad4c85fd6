// Launches our matrix products through their plan.
#pragma once
#include "gemm_shape.h"

namespace ridge::gpu {

inline constexpr const char* kHarness = "bench/gpu/harness.cu";
inline constexpr const char* kWgmmaSource = "src/ops/gemm/cuda_wgmma.cu";
inline constexpr const char* kSimtSource = "src/ops/gemm/cuda_simt.cu";

inline CUtensorMap encode(const cuda::TensorMapSpec& spec, CUdeviceptr base) {
  CUtensorMap map;
  CUtensorMapDataType type = CU_TENSOR_MAP_DATA_TYPE_UINT8;
  if (spec.type == GemmType::kBf16) type = CU_TENSOR_MAP_DATA_TYPE_BFLOAT16;
  if (spec.type == GemmType::kF16) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT16;
  if (spec.type == GemmType::kF32 || spec.type == GemmType::kTf32) type = CU_TENSOR_MAP_DATA_TYPE_FLOAT32;
  const cuuint64_t sizes[2] = {static_cast<cuuint64_t>(spec.inner), static_cast<cuuint64_t>(spec.outer)};
  const cuuint64_t strides[1] = {static_cast<cuuint64_t>(spec.row_bytes)};
  const cuuint32_t box[2] = {static_cast<cuuint32_t>(spec.box_inner), static_cast<cuuint32_t>(spec.box_outer)};
  const cuuint32_t element_strides[2] = {1, 1};
  RIDGE_CU(cuTensorMapEncodeTiled(
      &map, type, 2, reinterpret_cast<void*>(base), sizes, strides, box, element_strides, CU_TENSOR_MAP_INTERLEAVE_NONE,
      CU_TENSOR_MAP_SWIZZLE_128B,

      spec.l2_promotion_bytes() == 256 ? CU_TENSOR_MAP_L2_PROMOTION_L2_256B : CU_TENSOR_MAP_L2_PROMOTION_L2_128B,
      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  return map;
}

// What a product reads besides A and B.
struct Extras {
  CUdeviceptr scale_a = 0, scale_b = 0, bias = 0, residual = 0;
};
struct ScaleView {
  CUdeviceptr a = 0, b = 0;
  long long stride_a = 0, stride_b = 0;
};
struct EpilogueView {
  CUdeviceptr bias = 0, residual = 0;
  long long residual_stride = 0;
};
struct OutputView {
  CUdeviceptr data;
  long long row_stride;
  unsigned rows, cols;
};

// A plan with its kernel and its encoded maps: everything a launch needs, so that timing measures the launch alone.
struct ReadyGemm {
  WgmmaPlan plan;
  CUfunction function{};
  CUtensorMap a, b, c{};
  OutputView output{};
  ScaleView scales;
  EpilogueView extra;

  void launch(CUstream stream, bool overlap_previous = false) const {
    gpu::launch(function, plan.grid, plan.block, plan.cluster, plan.shared_bytes, stream,
                {&a, &b, &c, &output, &plan.tile_rows, &plan.k_blocks, &scales, &extra}, 1, overlap_previous);
  }
};

// What the cost model asks of this device.
inline cuda::DeviceFacts device_facts() {
  return {device().multiprocessors, device().l2_bytes, device().memory_bandwidth, device().clock};
}

inline ReadyGemm ready(Kernels& kernels, const GemmCase& g, const WgmmaConfig& config, CUdeviceptr a, CUdeviceptr b,
                       CUdeviceptr c, const Extras& extras = {}) {
  ReadyGemm r;
  r.plan = cuda::plan_wgmma(g, config, device().multiprocessors);
  r.function = kernels.get(kWgmmaSource, r.plan.defines, "ridge_gemm");
  RIDGE_CU(cuFuncSetAttribute(r.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              static_cast<int>(r.plan.shared_bytes)));
  r.a = encode(r.plan.a, a);
  r.b = encode(r.plan.b, b);
  if (!r.plan.direct_store) r.c = encode(r.plan.c, c);
  r.output = {c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  r.scales = {extras.scale_a, extras.scale_b, r.plan.scale_stride_a, r.plan.scale_stride_b};
  r.extra = {extras.bias, extras.residual, g.row_residual()};
  if (r.plan.residual_is_c) r.extra = {0, c, g.row_c()};
  return r;
}

// The path for operands that the copy engine cannot address.
inline std::vector<std::string> simt_defines(const GemmCase& g) {
  return {std::string("RIDGE_TYPE_A=") + cuda::name_of(g.type_a),
          std::string("RIDGE_TYPE_B=") + cuda::name_of(g.type_b),
          std::string("RIDGE_TYPE_C=") + cuda::name_of(g.type_c),
          std::string("RIDGE_MAJOR_A=") + (g.a_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_MAJOR_B=") + (g.b_mn_major ? "kMn" : "kK"),
          std::string("RIDGE_STORE=") + (g.accumulate && !g.residual_is_c() ? "kAdd" : "kOverwrite"),
          std::string("RIDGE_SCALING=") + cuda::name_of(g.scaling),
          std::string("RIDGE_BIAS=") + (g.bias ? "1" : "0"),
          std::string("RIDGE_ACTIVATION=") + cuda::name_of(g.activation),
          std::string("RIDGE_RESIDUAL=") + (g.residual || g.residual_is_c() ? "1" : "0")};
}
inline void launch_simt(Kernels& kernels, const GemmCase& g, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c,
                        CUstream stream, const Extras& extras = {}) {
  const OutputView output{c, g.row_c(), static_cast<unsigned>(g.m), static_cast<unsigned>(g.n)};
  const ScaleView scales{extras.scale_a, extras.scale_b, g.m,
                         g.scaling == GemmScaling::kBlock ? cuda::ceil_div(g.k, 128) : g.n};
  const EpilogueView extra{extras.bias, g.residual_is_c() ? c : extras.residual,
                           g.residual_is_c() ? g.row_c() : g.row_residual()};
  const long long row_a = g.row_a(), row_b = g.row_b(), k = g.k;
  launch(kernels.get(kSimtSource, simt_defines(g), "ridge_gemm_simt"), static_cast<unsigned>(cuda::ceil_div(g.n, 128)),
         256, 1, 0, stream, {&a, &b, &row_a, &row_b, &k, &output, &scales, &extra},
         static_cast<unsigned>(cuda::ceil_div(g.m, 128)));
}

}  // namespace ridge::gpu
