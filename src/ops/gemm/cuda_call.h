// What the CUDA implementations of gemm share: the case in the kernels' words, the parameters they take, the products
// that need no kernel, and a table of prepared launches.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <unordered_map>

#include "base/error.h"
#include "device/cuda/buffer.h"
#include "device/cuda/device.h"
#include "device/cuda/stream.h"
#include "ops/gemm/cuda_wgmma_plan.h"
#include "ops/gemm/gemm.h"

namespace ridge::ops::gemm {

namespace gpu = device::cuda;

inline ridge::cuda::GemmType cuda_type(DType dtype) {
  using ridge::cuda::GemmType;
  return dtype == DType::kBf16 ? GemmType::kBf16 : dtype == DType::kF16 ? GemmType::kF16 : GemmType::kF32;
}

// The kernels take B as [n, k]: op(B) transposed. Strides are dense until a call gives them.
inline ridge::cuda::GemmCase cuda_case(const Problem& problem) {
  const Shape s = shape_of(problem);
  ridge::cuda::GemmCase g;
  g.m = s.m;
  g.n = s.n;
  g.k = s.k;
  g.a_mn_major = s.trans_a;
  g.b_mn_major = !s.trans_b;
  g.type_a = g.type_b = cuda_type(s.dtype);
  g.type_c = cuda_type(s.out);
  g.accumulate = s.accumulate;
  return g;
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

inline ridge::cuda::GemmCase cuda_case(const Problem& problem, std::span<const TensorView> operands) {
  ridge::cuda::GemmCase g = cuda_case(problem);
  g.lda = row_stride(operands[0]);
  g.ldb = row_stride(operands[1]);
  g.ldc = row_stride(operands[2]);
  g.base_alignment_ab = std::min(view_alignment(operands[0]), view_alignment(operands[1]));
  g.base_alignment_c = view_alignment(operands[2]);
  return g;
}

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

// Done without a kernel: nothing to compute, or zeros to write. False: a kernel is needed.
inline Result<bool> finish_empty(const Shape& s, std::span<const TensorView> operands, gpu::StreamHandle stream) {
  if (s.m == 0 || s.n == 0) return true;
  if (s.k != 0) return false;
  if (s.accumulate) return true;
  const gpu::Rows rows{operands[2].data, size_bytes(s.out, operands[2].stride[0])};
  RIDGE_CHECK_OK(gpu::fill_rows(rows, 0, size_bytes(s.out, s.n), static_cast<std::size_t>(s.m), stream));
  return true;
}

// Everything a prepared launch depends on but the addresses.
struct CallKey {
  std::array<std::int64_t, kParamCount + 5> words{};
  friend bool operator==(const CallKey&, const CallKey&) = default;
};
inline CallKey call_key(const Problem& problem, std::span<const TensorView> operands, const Stream& stream) {
  CallKey key;
  for (std::size_t i = 0; i < kParamCount; ++i) key.words[i] = problem.values[i];
  for (std::size_t i = 0; i < 3; ++i) key.words[kParamCount + i] = operands[i].stride[0];
  key.words[kParamCount + 3] = stream.device;
  for (const TensorView& view : operands.first(3)) {
    key.words[kParamCount + 4] = key.words[kParamCount + 4] * 32 + view_alignment(view);
  }
  return key;
}
struct CallKeyHash {
  std::size_t operator()(const CallKey& key) const {
    std::uint64_t hash = 0;
    for (const std::int64_t word : key.words) {
      hash = (hash ^ static_cast<std::uint64_t>(word)) * 0x9e3779b97f4a7c15u;
      hash ^= hash >> 29;
    }
    return hash;
  }
};

// Launches prepared by this thread, so that a warm call takes no lock and allocates nothing. Preparing compiles, loads
// and may allocate on the device, which no graph can record: the first call of a case must not be captured.
template <class Prepared>
class PreparedCalls {
 public:
  template <class Make>  // Result<Prepared>(const gpu::Device&)
  Result<Prepared*> get(const Problem& problem, std::span<const TensorView> operands, const Stream& stream,
                        Make&& make) {
    const CallKey key = call_key(problem, operands, stream);
    if (const auto found = known_.find(key); found != known_.end()) return found->second.get();
    RIDGE_TRY(device, gpu::Device::open(stream.device));
    RIDGE_CHECK_OK(device->make_current());
    RIDGE_TRY(capturing, gpu::is_capturing(gpu::handle_of(stream)));
    if (capturing) {
      return with_hint(
          make_error(ErrorCode::kConflict, "{}: its first call compiles and loads a kernel, which no graph can record",
                     problem.problem_case.text()),
          "call it once with the same shapes and strides before the capture");
    }
    for (std::size_t i = 0; i < problem.operands.size(); ++i) {
      if (Status reachable = gpu::check_reachable(operands[i].data, *device); !reachable) {
        return in_context("gemm: operand " + problem.operands[i].name, reachable.error());
      }
    }
    RIDGE_TRY(made, make(*device));
    if (known_.size() >= kMost) known_.clear();  // a program that never repeats a shape must not grow without end
    return (known_[key] = std::make_unique<Prepared>(std::move(made))).get();
  }

 private:
  static constexpr std::size_t kMost = 4096;
  std::unordered_map<CallKey, std::unique_ptr<Prepared>, CallKeyHash> known_;
};

}  // namespace ridge::ops::gemm
