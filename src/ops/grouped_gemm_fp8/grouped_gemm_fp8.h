// Files of this folder share the parameters as numbers, the sizes of a bound problem, and its groups.
#pragma once

#include <cstdint>
#include <vector>

#include "ops/grouped_gemm_fp8/contract.h"
#include "ops/matmul/coded_product.h"
#include "ops/matmul/grouped_product.h"

namespace ridge::ops::grouped_gemm_fp8 {

// Positions in Problem::values and in the operator's parameter list, and of the operands.
enum Param : std::size_t {
  kRows,
  kGroups,
  kM,
  kN,
  kK,
  kDtype,
  kOut,
  kAlong,
  kAccumulate,
  kOffsets,
  kLoad,
  kScaling,
  kGather,
  kSources,
  kParamCount
};
// Then come the index, where there is one, and C: Shape says where.
enum Operand : std::size_t { kA, kB, kScaleA, kScaleB, kOffsetsOperand };

inline constexpr std::int64_t kUnitTerms = 128;  // that the matrix unit adds up before their sum moves to fp32

struct Shape {
  std::int64_t rows = 0, groups = 1;
  std::int64_t m = 0, n = 0, k = 0;  // m along sums only, k along rows only
  Formats formats;
  DType out = DType::kBf16, offsets = DType::kI32;
  bool along_sums = false, accumulate = false;
  GroupedFp8Scaling scaling = GroupedFp8Scaling::kBlock;
  bool gather = false;  // rows of A are found by index
  std::int64_t sources = 0;

  // Places of operands.
  [[nodiscard]] std::size_t index() const { return kOffsetsOperand + 1; }
  [[nodiscard]] std::size_t c_at() const { return index() + (gather ? 1 : 0); }
  // Rows of A.
  [[nodiscard]] std::int64_t rows_of_a() const { return along_sums ? m : gather ? sources : rows; }
  // Of the operands as they are given.
  [[nodiscard]] std::vector<std::int64_t> a() const;
  [[nodiscard]] std::vector<std::int64_t> b() const;
  [[nodiscard]] std::vector<std::int64_t> scale_a() const;
  [[nodiscard]] std::vector<std::int64_t> scale_b() const;
  [[nodiscard]] std::vector<std::int64_t> c() const;
  [[nodiscard]] Granularities granularities() const;
};
Shape shape_of(const Problem& problem);

// Where groups begin, and where the last ends; an error where they may not, or where an index is too large.
Result<std::vector<std::int64_t>> offsets_of(const Problem& problem, std::span<const TensorView> operands);

GroupedOutput output_of(const Shape& shape, std::span<const TensorView> operands,
                        std::span<const std::int64_t> offsets);
// The product of a group, of rows of A that lie where they are.
CodedProduct product_of(const Shape& shape, std::span<const TensorView> operands, std::span<const std::int64_t> offsets,
                        std::int64_t group);

// The operator's parts, one per file.
std::vector<record::ParamInfo> params();
Result<std::vector<ReferenceOutput>> reference(const Problem& problem, std::span<const TensorView> operands);
Result<SpotCheck> spot_check(const Problem& problem, std::span<const TensorView> operands, std::uint64_t seed);
record::Cost cost(const Problem& problem);
record::Case vary(const Problem& problem, Variation variation, std::uint64_t seed);
std::vector<record::Case> cases(CaseSet set, Backend backend);
std::shared_ptr<const DeviceCheck> device_check();

}  // namespace ridge::ops::grouped_gemm_fp8
