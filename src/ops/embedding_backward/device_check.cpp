#include "ops/device_check.h"

#include <algorithm>

#include "ops/embedding_backward/embedding_backward.h"
#include "ops/row_check.h"

namespace ridge::ops::embedding_backward {
namespace {

// A block for 256 columns of a row of dw, of which there are `count`.
CheckLaunch launch(const char* kernel, std::int64_t count, const Problem& problem, std::span<const TensorView> operands,
                   std::span<const record::Scalar> scalars) {
  const std::int64_t padding = Arguments(operands, scalars).scalar(problem, kPadding).whole();
  CheckLaunch made;
  made.kernel = kernel;
  made.grid_x = static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 1, 1 << 20));
  made.grid_y = static_cast<std::uint32_t>((shape_of(problem).cols + 255) / 256);
  made.arguments = {device_matrix(operands[kDy]), device_matrix(operands[kIds]), CheckLaunch::number(padding)};
  return made;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source(
      {"ops/row_numbers.cuh", "ops/embedding_backward/element.cuh", "ops/embedding_backward/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    if (shape_of(problem).cols <= 65535 * 256) return std::nullopt;
    return "the check on the GPU takes up to 16776960 columns";
  };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    CheckLaunch one = launch("embedding_elements", s.vocabulary, request.problem, request.operands, request.scalars);
    one.arguments.push_back(device_matrix(request.operands[kDw]));
    one.arguments.push_back(s.accumulate ? device_matrix(request.operands.back()) : DeviceMatrix());
    one.arguments.push_back(CheckLaunch::words(rows::format_of(s.out)));
    one.arguments.push_back(CheckLaunch::pointer(request.result));
    return {std::move(one)};
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    CheckLaunch one = launch("embedding_reference", request.count, request.problem, request.operands, request.scalars);
    one.arguments.push_back(s.accumulate ? device_matrix(request.operands.back()) : DeviceMatrix());
    one.arguments.push_back(CheckLaunch::words(rows::format_of(s.out)));
    one.arguments.push_back(CheckLaunch::number(request.first));
    one.arguments.push_back(CheckLaunch::number(request.count));
    one.arguments.push_back(request.arrays());
    return {std::move(one)};
  };
  return check;
}

}  // namespace ridge::ops::embedding_backward
