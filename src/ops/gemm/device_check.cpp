#include "ops/device_check.h"

#include <algorithm>

#include "ops/gemm/gemm.h"
#include "ops/matmul/product_check.h"

namespace ridge::ops::gemm {

namespace {

// A tensor core cuts off what sticks out when it aligns the 16 products of a step with the running sum; fp32 units
// round to nearest.
double truncation(const Shape& s) {
  if (s.dtype == DType::kF32) return 0;
  return (static_cast<double>(s.k + (s.accumulate ? 1 : 0)) / 16 + 2) * 0x1p-24;
}

CheckedProduct product_of(const Shape& s, std::span<const TensorView> operands, std::int64_t index) {
  const auto matrix = [&](std::size_t operand) { return device_matrix(matrix_of(operands[operand], index)); };
  CheckedProduct p;
  p.model = {s.m, s.n, s.k, s.out, s.accumulate};
  p.truncated = truncation(s);
  p.trans_a = s.trans_a;
  p.trans_b = s.trans_b;
  p.activation = static_cast<std::int64_t>(s.activation);
  p.a = matrix(0);
  p.b = matrix(1);
  p.c = matrix(s.c_at());
  if (s.bias) p.bias = matrix(s.bias_at());
  if (s.residual) p.residual = matrix(s.residual_at());
  if (s.accumulate) p.old = matrix(s.c_at() + 1);
  return p;
}

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const Shape s = shape_of(request.problem);
  const std::size_t bytes = product_scratch_bytes(s.m, s.n, s.k);
  std::vector<CheckLaunch> launches;
  for (std::int64_t i = 0; i < s.batch; ++i) {
    auto* const scratch = static_cast<unsigned char*>(request.scratch) + static_cast<std::size_t>(i) * bytes;
    std::vector<CheckLaunch> one = product_projection(
        product_of(s, request.operands, i), request.seed + static_cast<std::uint64_t>(i), scratch, request.result);
    launches.insert(launches.end(), std::move_iterator(one.begin()), std::move_iterator(one.end()));
  }
  return launches;
}

// Rows of all matrices of a batch are counted through.
std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const Shape s = shape_of(request.problem);
  std::vector<CheckLaunch> launches;
  for (std::int64_t row = request.first; row < request.first + request.count;) {
    const std::int64_t index = row / s.m, first = row % s.m;
    const std::int64_t count = std::min(s.m - first, request.first + request.count - row);
    const std::int64_t offset = (row - request.first) * s.n;
    std::vector<CheckLaunch> one = product_rows_of_reference(
        product_of(s, request.operands, index), {first, count, request.value + offset, request.allowed + offset,
                                                 request.variance + offset, request.shift + offset});
    launches.insert(launches.end(), std::move_iterator(one.begin()), std::move_iterator(one.end()));
    row += count;
  }
  return launches;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/matmul/product_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    const Shape s = shape_of(problem);
    return static_cast<std::size_t>(s.batch) * product_scratch_bytes(s.m, s.n, s.k);
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::gemm
