// Products of matrices of 8-bit floats with scales, for the operators that are made of them: on a processor, and what
// their references share.
#pragma once

#include <cstdint>
#include <string>

#include "ops/matmul/product.h"
#include "ops/scaling.h"

namespace ridge::ops {

struct Formats {
  DType a = DType::kE4m3fn, b = DType::kE4m3fn;
  friend bool operator==(const Formats&, const Formats&) = default;
};
inline constexpr Formats kFormats[] = {{DType::kE4m3fn, DType::kE4m3fn},  // by the value of a parameter `dtype`
                                       {DType::kE5m2, DType::kE5m2},
                                       {DType::kE4m3fn, DType::kE5m2},
                                       {DType::kE5m2, DType::kE4m3fn}};
inline constexpr DType kOuts[] = {DType::kBf16, DType::kF16, DType::kF32};  // of `out`

struct Granularities {
  Granularity a = Granularity::kTensor, b = Granularity::kTensor;
};

// C [m, n] = op(A) [m, k] op(B) [k, n], each element times its scales, with a bias or added to C.
struct CodedProduct {
  std::int64_t m = 0, n = 0, k = 0;
  TensorView a, b;  // as stored
  bool trans_a = false, trans_b = false;
  TensorView scale_a, scale_b;  // of op(A), and of op(B) transposed [n, k]
  Granularities granularities;
  TensorView bias;  // rank 0: none
  TensorView c;
  bool accumulate = false;
};

namespace matmul {
// On a processor. False when there is no memory for the unpacked operands.
bool multiply(const CodedProduct& product, int threads);
// What it is that multiplies.
std::string unit_of_coded_products();
}  // namespace matmul

// How wrong sums may be that Hopper's matrix unit adds up for `matrix_unit_terms` of k at a time; 0: fp32 throughout.
ProductModel coded_model(const CodedProduct& product, std::int64_t matrix_unit_terms);
// In fp64 from codes and scales as stored.
ReferenceOutput coded_reference(ProductModel model, const CodedProduct& product);
// `old`: the content of C before, with `accumulate`.
SpotCheck coded_spot_check(ProductModel model, const CodedProduct& product, const TensorView& old,
                           const std::string& label, std::uint64_t seed);

}  // namespace ridge::ops
