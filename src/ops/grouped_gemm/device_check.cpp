#include "ops/device_check.h"

#include <algorithm>

#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/product_check.h"

namespace ridge::ops::grouped_gemm {
namespace {

// GroupedCall of device_check.cu.
struct DeviceCall {
  DeviceMatrix a, b, c, old, offsets;
  std::int64_t groups, rows, m, k;
  std::int64_t along_sums, trans_b, cuts_off;
};

DeviceCall device_call(const Shape& s, std::span<const TensorView> operands) {
  const auto matrix = [&](std::size_t operand) { return device_matrix(operands[operand]); };
  return {matrix(kA),
          matrix(kB),
          matrix(kC),
          s.accumulate ? matrix(kC + 1) : DeviceMatrix(),
          matrix(kOffsetsOperand),
          s.groups,
          s.rows,
          s.m,
          s.k,
          s.along_sums ? 1 : 0,
          s.trans_b ? 1 : 0,
          s.dtype == DType::kF32 ? 0 : 1};
}

// Where the vectors of a projection lie in its scratch memory, in doubles.
struct Vectors {
  explicit Vectors(const Shape& s)
      : products(kProjectionVectors * s.n),
        expected(products + kProjectionVectors * (s.along_sums ? s.rows : s.groups * s.k)),
        end(expected + kProjectionVectors * (s.along_sums ? s.groups * s.m : s.rows)) {}
  std::int64_t products, expected, end;  // signs come first
};

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const Shape s = shape_of(request.problem);
  const DeviceCall call = device_call(s, request.operands);
  if (call.c.rows == 0 || s.n == 0) return {};
  auto* const signs = static_cast<double*>(request.scratch);
  const Vectors place(s);
  double *const products = signs + place.products, *const expected = signs + place.expected;
  std::vector<CheckLaunch> launches = {sign_vectors(signs, s.n, request.seed)};
  if (s.along_sums) {
    launches.push_back(times_vectors(call.b, false, signs, products));
  } else if (s.k > 0) {
    for (std::int64_t g = 0; g < s.groups; ++g) {
      launches.push_back(times_vectors(device_matrix(matrix_of(request.operands[kB], g)), s.trans_b, signs,
                                       products + g * kProjectionVectors * s.k));
    }
  }
  const auto warps = static_cast<std::uint32_t>(std::clamp<std::int64_t>(call.c.rows / 8 + 1, 1, 1 << 16));
  launches.push_back({"grouped_expected",
                      warps,
                      1,
                      256,
                      {CheckLaunch::words(call), CheckLaunch::pointer(products), CheckLaunch::pointer(expected)}});
  launches.push_back({"grouped_judge",
                      warps,
                      1,
                      256,
                      {CheckLaunch::words(call), CheckLaunch::pointer(signs), CheckLaunch::pointer(expected),
                       CheckLaunch::pointer(request.result)}});
  return launches;
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const Shape s = shape_of(request.problem);
  if (request.count == 0 || s.n == 0) return {};
  CheckLaunch one{"grouped_reference",
                  static_cast<std::uint32_t>((s.n + 63) / 64),
                  static_cast<std::uint32_t>((request.count + 63) / 64),
                  256,
                  {CheckLaunch::words(device_call(s, request.operands)), CheckLaunch::number(request.first),
                   CheckLaunch::number(request.count)}};
  one.arguments.push_back(request.arrays());
  return {std::move(one)};
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/matmul/product_check.cu", "ops/grouped_gemm/device_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    return static_cast<std::size_t>(Vectors(shape_of(problem)).end) * sizeof(double);
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::grouped_gemm
