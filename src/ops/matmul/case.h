// A matrix product as the CUDA kernels know it: types, layouts, scales and epilogue. Host code with nothing but the
// standard library.
#pragma once
#include <cstdint>
#include <optional>
#include <string>

namespace ridge::cuda {

inline std::int64_t ceil_div(std::int64_t value, std::int64_t by) { return (value + by - 1) / by; }

// kTf32: fp32 in memory, multiplied with the 10 mantissa bits that the matrix unit reads; never chosen silently.
enum class GemmType { kBf16, kF16, kF32, kE4m3, kE5m2, kTf32 };
inline std::int64_t bytes_of(GemmType type) {
  switch (type) {
    case GemmType::kF32:
    case GemmType::kTf32: return 4;
    case GemmType::kBf16:
    case GemmType::kF16: return 2;
    default: return 1;
  }
}
inline const char* name_of(GemmType type) {
  constexpr const char* kNames[] = {"kBf16", "kF16", "kF32", "kE4m3", "kE5m2", "kTf32"};
  return kNames[static_cast<int>(type)];
}

// Scales of 8-bit operands, on the device. Tensor: fp32, one of A and one of B. Row: fp32, [m] and [n]. Block: fp32,
// A's per 1 x 128, [ceil(k/128)][m], and B's per 128 x 128, [ceil(n/128)][ceil(k/128)]. Vector: fp32, both per 1 x 128,
// [ceil(k/128)][m] and [ceil(k/128)][n]. Mx: E8M0 bytes, both per 1 x 32, [ceil(k/32)][m] and [ceil(k/32)][n].
enum class GemmScaling { kNone, kTensor, kRow, kBlock, kVector, kMx };
inline const char* name_of(GemmScaling scaling) {
  constexpr const char* kNames[] = {"kNone", "kTensor", "kRow", "kBlock", "kVector", "kMx"};
  return kNames[static_cast<int>(scaling)];
}

enum class GemmActivation { kIdentity, kGelu, kGeluTanh, kSilu };
inline const char* name_of(GemmActivation activation) {
  constexpr const char* kNames[] = {"kIdentity", "kGelu", "kGeluTanh", "kSilu"};
  return kNames[static_cast<int>(activation)];
}

// C[m, n] = activation(scales * sum over k of A(m, k) * B(n, k) + bias[n]) + residual[m, n], or C += the sum. A is
// stored [m, k] row-major, or [k, m] when a_mn_major; B is stored [n, k], or [k, n] when b_mn_major; C and the residual
// are [m, n] row-major in the same type, as is the bias. In BLAS letters for C = op(A) op(B): NT is (no, no), NN is
// (no, yes), TN is (yes, yes), TT is (yes, no). Leading dimensions are in elements.
struct GemmCase {
  std::int64_t m = 0, n = 0, k = 0;
  bool a_mn_major = false, b_mn_major = false;
  GemmType type_a = GemmType::kBf16, type_b = GemmType::kBf16, type_c = GemmType::kBf16;
  bool accumulate = false;
  GemmScaling scaling = GemmScaling::kNone;
  bool promote = false;  // 8-bit: sums of 128 products each are added in fp32; Block, Vector and Mx always do
  bool bias = false, residual = false;
  GemmActivation activation = GemmActivation::kIdentity;
  std::int64_t lda = 0, ldb = 0, ldc = 0, ld_residual = 0;  // 0: dense
  int base_alignment_ab = 16, base_alignment_c = 16;        // bytes, of the pointers
  int base_alignment_extra = 16;                            // of bias and residual
  std::int64_t scale_stride_a = 0, scale_stride_b = 0;      // elements between rows of the scales; 0: they have none
  int alignment_scale_a = 16, alignment_scale_b = 16;       // bytes, of the rows of the scales

  std::int64_t row_a() const { return lda ? lda : (a_mn_major ? m : k); }
  std::int64_t row_b() const { return ldb ? ldb : (b_mn_major ? n : k); }
  std::int64_t row_c() const { return ldc ? ldc : n; }
  std::int64_t row_residual() const { return ld_residual ? ld_residual : n; }
  bool eight_bit() const { return bytes_of(type_a) == 1; }
  bool promotes() const { return promote || scaling == GemmScaling::kBlock || scaling == GemmScaling::kVector; }
  // A 16-bit C that is added to is read like a residual and rounded once: the copy engine would round the sum first.
  bool residual_is_c() const { return accumulate && type_c != GemmType::kF32; }
};

// Types, scales and epilogues that no kernel takes, or nothing. What is refused here is a caller's mistake.
inline std::optional<std::string> gemm_refuses(const GemmCase& g) {
  const bool eight_bit_b = bytes_of(g.type_b) == 1;
  if (g.eight_bit() != eight_bit_b || (!g.eight_bit() && g.type_a != g.type_b)) {
    return std::string("gemm: A is ") + name_of(g.type_a) + " and B is " + name_of(g.type_b) +
           "; give both the same type, or both 8-bit ones";
  }
  if (g.eight_bit() != (g.scaling != GemmScaling::kNone)) {
    return std::string("gemm: scaling ") + name_of(g.scaling) + " with A of type " + name_of(g.type_a) +
           "; scales belong to 8-bit operands, which must have them";
  }
  if (g.promote && !g.eight_bit()) return "gemm: promotion is for 8-bit operands; others are summed in fp32 anyway";
  if (g.type_c != GemmType::kBf16 && g.type_c != GemmType::kF16 && g.type_c != GemmType::kF32)
    return std::string("gemm: C cannot be ") + name_of(g.type_c) + "; give it bf16, f16 or f32";
  if (g.accumulate && (g.bias || g.residual || g.activation != GemmActivation::kIdentity))
    return "gemm: accumulating adds the product alone; drop the bias, activation and residual, or the accumulation";
  return std::nullopt;
}

}  // namespace ridge::cuda
