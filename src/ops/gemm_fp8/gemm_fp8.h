// What the files of this folder share: the parameters as numbers, and the sizes of a bound problem.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/gemm_fp8/contract.h"
#include "ops/matmul/coded_product.h"
#include "ops/op.h"

namespace ridge::ops::gemm_fp8 {

// Positions in Problem::values and in the operator's parameter list, and of the operands that are always there.
enum Param : std::size_t { kM, kN, kK, kDtype, kOut, kLayout, kAccumulate, kScaling, kSums, kBias, kParamCount };
enum Operand : std::size_t { kA, kB, kScaleA, kScaleB };

inline Granularities granularities(Fp8Scaling scaling) {
  switch (scaling) {
    case Fp8Scaling::kTensor: return {Granularity::kTensor, Granularity::kTensor};
    case Fp8Scaling::kRow: return {Granularity::kRow, Granularity::kRow};
    case Fp8Scaling::kBlock: return {Granularity::kVector, Granularity::kBlock};
    case Fp8Scaling::kVector: return {Granularity::kVector, Granularity::kVector};
    case Fp8Scaling::kMx: return {Granularity::kMx, Granularity::kMx};
  }
  return {};
}

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  Formats formats;
  DType out = DType::kBf16;
  bool trans_a = false, trans_b = false, accumulate = false;
  Fp8Scaling scaling = Fp8Scaling::kTensor;
  Fp8Sums sums = Fp8Sums::kPromoted;
  bool bias = false;

  // Positions among the operands: after the scales a bias, if there is one, then c, then for checks the old c.
  [[nodiscard]] std::size_t bias_at() const { return 4; }
  [[nodiscard]] std::size_t c_at() const { return bias ? 5 : 4; }
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  return Shape{v[kM],
               v[kN],
               v[kK],
               kFormats[static_cast<std::size_t>(v[kDtype])],
               kOuts[static_cast<std::size_t>(v[kOut])],
               v[kLayout] >= 2,
               v[kLayout] % 2 == 1,
               v[kAccumulate] == 1,
               static_cast<Fp8Scaling>(v[kScaling]),
               static_cast<Fp8Sums>(v[kSums]),
               v[kBias] == 1};
}

// Scales in host memory: NaN and infinities are refused with their place.
Status check_scales(const Problem& problem, std::span<const TensorView> operands);

CodedProduct product_of(const Shape& shape, std::span<const TensorView> operands);
// How wrong sums of this kind may be.
ProductModel model_of(const Shape& shape);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::gemm_fp8
