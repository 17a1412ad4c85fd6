#include "ops/matmul/grouped_check.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "ops/matmul/case.h"
#include "ops/matmul/product_check.h"

namespace ridge::ops {
namespace {

using cuda::ceil_div;

std::uint32_t blocks(std::int64_t count, std::int64_t per_block) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>(ceil_div(count, per_block), 1, 1 << 16));
}

// Where the vectors of a projection lie in its scratch memory, in doubles.
struct Vectors {
  explicit Vectors(const CheckedGroups& s)
      : products(kProjectionVectors * s.c.columns),
        expected(products + kProjectionVectors * terms(s)),
        end(expected + kProjectionVectors * s.c.rows) {}
  // Of all groups, along sums of the rows that they are of.
  static std::int64_t terms(const CheckedGroups& s) { return s.along_sums != 0 ? s.rows : s.groups * s.k; }
  std::int64_t products, expected, end;  // signs come first
};

CheckLaunch times(const CheckedGroups& s, const double* signs, double* products) {
  const std::int64_t n = s.c.columns, lines = blocks(Vectors::terms(s), s.b_by_terms != 0 ? 8 : 256);
  const std::int64_t per_block = terms_per_block(lines, n);
  return {"grouped_times",
          static_cast<std::uint32_t>(lines),
          static_cast<std::uint32_t>(ceil_div(n, per_block)),
          256,
          {CheckLaunch::words(s), CheckLaunch::pointer(signs), CheckLaunch::number(per_block),
           CheckLaunch::pointer(products)}};
}

std::vector<CheckLaunch> project(const CheckedGroups& s, const DeviceCheck::ProjectionRequest& request) {
  if (s.c.rows == 0 || s.c.columns == 0) return {};
  auto* const signs = static_cast<double*>(request.scratch);
  const Vectors place(s);
  double *const products = signs + place.products, *const expected = signs + place.expected;
  std::vector<CheckLaunch> launches = {sign_vectors(signs, s.c.columns, request.seed)};
  if (Vectors::terms(s) > 0) launches.push_back(times(s, signs, products));
  const std::uint32_t warps = blocks(s.c.rows, 8);
  launches.push_back({"grouped_expected",
                      warps,
                      1,
                      256,
                      {CheckLaunch::words(s), CheckLaunch::pointer(products), CheckLaunch::pointer(expected)}});
  launches.push_back({"grouped_judge",
                      warps,
                      1,
                      256,
                      {CheckLaunch::words(s), CheckLaunch::pointer(signs), CheckLaunch::pointer(expected),
                       CheckLaunch::pointer(request.result)}});
  return launches;
}

std::vector<CheckLaunch> rows_of_reference(const CheckedGroups& s, const DeviceCheck::ReferenceRequest& request) {
  if (request.count == 0 || s.c.columns == 0) return {};
  std::vector<CheckLaunch> launches;
  const auto launch = [&](const char* kernel) {
    launches.push_back({kernel,
                        static_cast<std::uint32_t>(ceil_div(s.c.columns, 64)),
                        static_cast<std::uint32_t>(ceil_div(request.count, 64)),
                        256,
                        {CheckLaunch::words(s), CheckLaunch::number(request.first), CheckLaunch::number(request.count),
                         request.arrays()}});
  };
  if (s.granularity_a >= 0) launch("grouped_truncation");
  launch("grouped_reference");
  return launches;
}

}  // namespace

std::shared_ptr<const DeviceCheck> grouped_device_check(DescribeGroups describe) {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/matmul/product_check.cu", "ops/matmul/grouped_check.cu"});
  check->scratch_bytes = [describe](const Problem& problem) {
    return static_cast<std::size_t>(Vectors(describe(problem, {})).end) * sizeof(double);
  };
  check->projection = [describe](const DeviceCheck::ProjectionRequest& request) {
    return project(describe(request.problem, request.operands), request);
  };
  check->reference = [describe](const DeviceCheck::ReferenceRequest& request) {
    return rows_of_reference(describe(request.problem, request.operands), request);
  };
  return check;
}

}  // namespace ridge::ops
