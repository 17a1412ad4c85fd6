// What the files of this folder share: the parameters as numbers, the sizes of a bound problem, the scalars of a call.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "ops/op.h"
#include "ops/symmetric_product/contract.h"

namespace ridge::ops::symmetric_product {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t { kN, kK, kDtype, kOut, kLayout, kBatch, kResidual, kParamCount };
enum Scalar : std::size_t { kAlpha, kBeta, kShift };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum Out : std::int64_t { kOutSame, kOutF32 };
enum Layout : std::int64_t { kAsIs, kTransposed };

// Every operand has a batch as its first dimension, if it is 1.
struct Shape {
  std::int64_t n = 0, k = 0, batch = 1;
  DType dtype = DType::kBf16, out = DType::kBf16;
  bool trans_a = false, residual = false;

  // Positions among the operands: a, the residual if there is one, c.
  [[nodiscard]] std::size_t residual_at() const { return 1; }
  [[nodiscard]] std::size_t c_at() const { return residual ? 2 : 1; }
};
Shape shape_of(const Problem& problem);
// What a tensor core is expected to cut off when it aligns the 16 products of a step with the running sum, relative to
// the sum of terms of one sign; it may be twice as much. 0: fp32 units round to nearest.
double expected_truncation(const Shape& s);

struct Factors {
  float alpha = 1, beta = 1, shift = 0;
};
Factors factors_of(const Problem& problem, const Arguments& arguments);

// Matrix `index` of an operand.
TensorView matrix_of(const TensorView& stack, std::int64_t index);

// The operator's parts, one per file.
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, const Arguments& arguments);
Result<SpotCheck> spot_check(const Problem& problem, const Arguments& arguments, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::symmetric_product
