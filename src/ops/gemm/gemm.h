// What the files of this folder share: the parameters as numbers, and the sizes of a bound problem.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/gemm/contract.h"
#include "ops/op.h"

namespace ridge::ops::gemm {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t {
  kM,
  kN,
  kK,
  kDtype,
  kOut,
  kLayout,
  kAccumulate,
  kBatch,
  kBias,
  kActivation,
  kResidual,
  kParamCount
};

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum Out : std::int64_t { kOutSame, kOutF32 };

struct Shape {
  std::int64_t m = 0, n = 0, k = 0;
  DType dtype = DType::kF32, out = DType::kF32;
  bool trans_a = false, trans_b = false, accumulate = false;
  std::int64_t batch = 1;  // of 1: matrices; else a dimension more
  bool bias = false, residual = false;
  Activation activation = Activation::kNone;

  [[nodiscard]] bool epilogue() const { return bias || residual || activation != Activation::kNone; }
  // Positions among the operands: a, b, then what there is of bias and residual, then c.
  [[nodiscard]] std::size_t bias_at() const { return 2; }
  [[nodiscard]] std::size_t residual_at() const { return bias ? 3 : 2; }
  [[nodiscard]] std::size_t c_at() const { return 2u + (bias ? 1u : 0u) + (residual ? 1u : 0u); }
};

inline Shape shape_of(const Problem& problem) {
  const std::vector<std::int64_t>& v = problem.values;
  const DType dtype = kDtypes[v[kDtype]];
  return Shape{v[kM],
               v[kN],
               v[kK],
               dtype,
               v[kOut] == kOutF32 ? DType::kF32 : dtype,
               v[kLayout] >= 2,
               v[kLayout] % 2 == 1,
               v[kAccumulate] == 1,
               v[kBatch],
               v[kBias] == 1,
               v[kResidual] == 1,
               static_cast<Activation>(v[kActivation])};
}

// Matrix `index` of an operand of a batch; a bias is the same for all.
TensorView matrix_of(const TensorView& view, std::int64_t index);
// An implementation of single matrices, called once for each of a batch.
using Run = decltype(Implementation::run);
Run per_matrix(Run run);
// Why an implementation that only multiplies cannot run a case with an epilogue.
Refusal refuse_epilogue(const Shape& shape, std::string_view whose);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::gemm
