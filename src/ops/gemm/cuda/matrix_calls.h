// Prepared launches of the two matrix product kernels, for the operators that are made of them: from a GemmCase (types,
// layouts, scales, epilogue) and the strides of a call to a kernel in memory.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>

#include "device/cuda/stream.h"
#include "device/cuda/tensor_map.h"
#include "ops/cuda/kernels.h"
#include "ops/gemm/cuda_wgmma_model.h"
#include "ops/op.h"

namespace ridge::ops::gemm {

namespace gpu = device::cuda;

inline ridge::cuda::GemmType cuda_type(DType dtype) {
  using ridge::cuda::GemmType;
  switch (dtype) {
    case DType::kBf16: return GemmType::kBf16;
    case DType::kF16: return GemmType::kF16;
    case DType::kE4m3fn: return GemmType::kE4m3;
    case DType::kE5m2: return GemmType::kE5m2;
    default: return GemmType::kF32;
  }
}

// Rows rounded up to what `alignment` bytes allow.
inline std::int64_t padded_row(std::int64_t row, DType dtype, int alignment) {
  const std::int64_t elements = std::max<std::int64_t>(1, alignment / static_cast<int>(size_bytes(dtype, 1)));
  return (row + elements - 1) / elements * elements;
}

// The stride of a single row is never used, so it may be one that every engine takes.
inline std::int64_t row_stride(const TensorView& view) {
  return view.shape[0] > 1 ? view.stride[0] : padded_row(view.shape[1], view.dtype, 16);
}

// With the strides and alignments of these operands.
inline ridge::cuda::GemmCase with_memory(ridge::cuda::GemmCase g, const TensorView& a, const TensorView& b,
                                         const TensorView& c) {
  g.lda = row_stride(a);
  g.ldb = row_stride(b);
  g.ldc = row_stride(c);
  g.base_alignment_ab = std::min(view_alignment(a), view_alignment(b));
  g.base_alignment_c = view_alignment(c);
  return g;
}

// Why a GPU without wgmma takes none of these products, and what does.
std::string no_wgmma(const DeviceInfo& device);

// Why the matrix unit cannot take a case whose operands 0, 1 and `c` have the alignment that the problem knows; a call
// may pad its rows, so the alignment tells, not the dense stride.
Refusal wgmma_refuses(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c);

// What Implementation::configurations, promising, expected_seconds and version of the kernel's implementations say. The
// version is that of the list: a tuned table that names a build of another list does not count.
std::vector<std::string> wgmma_configurations();
std::vector<int> wgmma_promising(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c,
                                 const DeviceInfo& device);
double wgmma_expected_seconds(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c, int configuration,
                              const DeviceInfo& device);
std::string wgmma_version();
// Implementation::kernels.
std::vector<KernelBuild> wgmma_kernels(ridge::cuda::GemmCase g, const Problem& problem, std::size_t c,
                                       const DeviceInfo& device);
KernelBuild simt_kernel(const ridge::cuda::GemmCase& g);

// Parameters of the kernels, laid out as src/device/cuda/kernel and cuda_*.cu declare them.
struct OutputParameter {
  void* data = nullptr;
  std::int64_t row_stride = 0;
  std::uint32_t rows = 0, cols = 0;
};
struct ScaleParameter {
  const void *a = nullptr, *b = nullptr;
  std::int64_t stride_a = 0, stride_b = 0;
};
struct EpilogueParameter {
  const void *bias = nullptr, *residual = nullptr;
  std::int64_t residual_stride = 0;
};

class WgmmaCall {
 public:
  // `g` with the strides of the call. `label` goes into errors; a configuration of -1, or one that does not fit, leaves
  // it to the cost model.
  static Result<WgmmaCall> prepare(const ridge::cuda::GemmCase& g, const std::string& label, const gpu::Device& device,
                                   int configuration = -1);
  Status launch(const TensorView& a, const TensorView& b, const TensorView& c, ScaleParameter scales,
                EpilogueParameter extra, gpu::StreamHandle stream);

 private:
  const gpu::Device* device_ = nullptr;
  ridge::cuda::WgmmaPlan plan_{};
  gpu::Kernel kernel_;
  gpu::LaunchShape shape_;
  gpu::TensorMapRequest a_, b_, c_;
};

// Why the plain kernel cannot take a product of this size on that device.
Refusal simt_refuses(std::int64_t m, std::int64_t n, const DeviceInfo& device);

class SimtCall {
 public:
  static Result<SimtCall> prepare(const ridge::cuda::GemmCase& g, const gpu::Device& device);
  Status launch(const TensorView& a, const TensorView& b, const TensorView& c, std::int64_t k, ScaleParameter scales,
                EpilogueParameter extra, gpu::StreamHandle stream);

 private:
  const gpu::Device* device_ = nullptr;
  gpu::Kernel kernel_;
  gpu::LaunchShape shape_;
  bool residual_is_c_ = false;
};

}  // namespace ridge::ops::gemm
