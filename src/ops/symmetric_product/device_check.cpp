#include "ops/device_check.h"

#include <algorithm>

#include "ops/symmetric_product/symmetric_product.h"

namespace ridge::ops::symmetric_product {
namespace {

std::uint32_t blocks(std::int64_t count, std::int64_t each) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((count + each - 1) / each, 1, 1 << 20));
}

void append_operands(const Shape& s, std::span<const TensorView> operands, CheckLaunch& launch) {
  launch.arguments.push_back(device_matrix(operands[0]));
  launch.arguments.push_back(s.residual ? device_matrix(operands[s.residual_at()]) : DeviceMatrix());
}

void append_numbers(const Problem& problem, const Shape& s, std::span<const record::Scalar> scalars,
                    CheckLaunch& launch) {
  const Factors f = factors_of(problem, Arguments({}, scalars));
  for (const std::int64_t number : {s.n, s.k, std::int64_t{s.trans_a}}) {
    launch.arguments.push_back(CheckLaunch::number(number));
  }
  for (const double number : {double{f.alpha}, double{f.beta}, double{f.shift}, expected_truncation(s)}) {
    launch.arguments.push_back(CheckLaunch::real(number));
  }
}

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const Shape s = shape_of(request.problem);
  if (s.n == 0 || s.batch == 0) return {};
  const DeviceMatrix c = device_matrix(request.operands[s.c_at()]);
  const std::int64_t side = (s.n + 63) / 64;
  CheckLaunch pairs{"symmetric_pairs",
                    blocks(s.batch * s.n, 1),
                    1,
                    256,
                    {c, CheckLaunch::number(s.n), CheckLaunch::pointer(request.result)}};
  CheckLaunch samples{"symmetric_samples", blocks(s.batch * side * side, 8), 1, 256, {}};
  append_operands(s, request.operands, samples);
  samples.arguments.push_back(c);
  append_numbers(request.problem, s, request.scalars, samples);
  samples.arguments.push_back(CheckLaunch::Argument{request.seed});
  samples.arguments.push_back(CheckLaunch::pointer(request.result));
  return {std::move(pairs), std::move(samples)};
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const Shape s = shape_of(request.problem);
  if (s.n == 0 || request.count == 0) return {};
  CheckLaunch launch{"symmetric_reference", blocks(request.count * s.n, 256), 1, 256, {}};
  append_operands(s, request.operands, launch);
  append_numbers(request.problem, s, request.scalars, launch);
  for (const std::int64_t number : {static_cast<std::int64_t>(s.out), request.first, request.count}) {
    launch.arguments.push_back(CheckLaunch::number(number));
  }
  launch.arguments.push_back(request.arrays());
  return {std::move(launch)};
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/symmetric_product/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::symmetric_product
