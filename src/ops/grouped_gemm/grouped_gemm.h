// Files of this folder share the parameters as numbers, the sizes of a bound problem, and its groups.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/grouped_gemm/contract.h"
#include "ops/matmul/grouped_product.h"

namespace ridge::ops::grouped_gemm {

// Positions in Problem::values and in the operator's parameter list.
enum Param : std::size_t {
  kRows,
  kGroups,
  kM,
  kN,
  kK,
  kDtype,
  kOut,
  kLayout,
  kAccumulate,
  kOffsets,
  kLoad,
  kGather,
  kSources,
  kEpilogue,
  kProbs,
  kParamCount
};
// Then come, as far as a call has them, the index, gate_up, probs, C, y and dprobs: Shape says where.
enum Operand : std::size_t { kA, kB, kOffsetsOperand };

inline constexpr DType kDtypes[] = {DType::kF32, DType::kBf16, DType::kF16};  // by the value of `dtype`
enum Out : std::int64_t { kOutSame, kOutF32 };
enum Layout : std::int64_t { kNn, kNt, kTn };
enum Gather : std::int64_t { kNone, kOfA, kOfB };  // whose rows are found by index
enum Epilogue : std::int64_t { kSums, kSwiglu, kSwigluBackward };

struct Shape {
  std::int64_t rows = 0, groups = 1;
  std::int64_t m = 0, n = 0, k = 0;  // m along sums only, k along rows only
  DType dtype = DType::kBf16, out = DType::kBf16, offsets = DType::kI32;
  bool along_sums = false, trans_b = false, accumulate = false;
  std::int64_t gather = kNone, sources = 0;
  std::int64_t epilogue = kSums;
  bool probs = false;

  // Places of operands.
  [[nodiscard]] std::size_t index() const { return kOffsetsOperand + 1; }
  [[nodiscard]] std::size_t gate_up() const { return index() + (gather != kNone ? 1 : 0); }
  [[nodiscard]] std::size_t probs_at() const { return gate_up() + (epilogue == kSwigluBackward ? 1 : 0); }
  [[nodiscard]] std::size_t c() const { return probs_at() + (probs ? 1 : 0); }
  [[nodiscard]] std::size_t y() const { return c() + 1; }
  [[nodiscard]] std::size_t dprobs() const { return c() + 2; }
  // Columns of gate, and of up.
  [[nodiscard]] std::int64_t inner() const { return epilogue == kSwiglu ? n / 2 : n; }
  [[nodiscard]] std::int64_t c_columns() const { return epilogue == kSwigluBackward ? 2 * n : n; }
};
Shape shape_of(const Problem& problem);

// Where groups begin, and where the last ends.
std::vector<std::int64_t> offsets_of(std::span<const TensorView> operands);
// An error where they fall or leave 0 .. rows, or where an index is too large.
Status check_numbers(const Problem& problem, std::span<const TensorView> operands,
                     std::span<const std::int64_t> offsets);

GroupedOutput output_of(const Shape& shape, std::span<const TensorView> operands,
                        std::span<const std::int64_t> offsets);
// One product of the call; of an operand that rows are gathered of, `a` or `b` is the whole source, and these are the
// numbers of its rows.
struct GroupProduct {
  TensorView a, b, c;
  bool trans_a = false, trans_b = false;
  std::int64_t m = 0, n = 0, k = 0;
  std::span<const std::int32_t> index;
};
GroupProduct product_of(const Shape& shape, std::span<const TensorView> operands, std::span<const std::int64_t> offsets,
                        std::int64_t group);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed);
std::shared_ptr<const DeviceCheck> device_check();
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);

}  // namespace ridge::ops::grouped_gemm
