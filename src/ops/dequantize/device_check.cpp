#include "ops/device_check.h"

#include <algorithm>

#include "ops/dequantize/dequantize.h"

namespace ridge::ops::dequantize {
namespace {

CheckLaunch launch(const char* kernel, std::int64_t elements, const Shape& s, std::span<const TensorView> operands) {
  CheckLaunch made;
  made.kernel = kernel;
  made.grid_x = static_cast<std::uint32_t>(std::clamp<std::int64_t>((elements + 255) / 256, 1, 132 * 32));
  made.arguments = {device_matrix(operands[0]), device_matrix(operands[1]),
                    CheckLaunch::number(static_cast<std::int64_t>(s.granularity))};
  return made;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/dequantize/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    if (s.rows == 0 || s.cols == 0) return {};
    CheckLaunch one = launch("dequantize_elements", s.rows * s.cols, s, request.operands);
    one.arguments.push_back(device_matrix(request.operands[2]));
    one.arguments.push_back(CheckLaunch::pointer(request.result));
    return {std::move(one)};
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    CheckLaunch one = launch("dequantize_reference", request.count * s.cols, s, request.operands);
    for (const std::int64_t number : {static_cast<std::int64_t>(s.dtype), request.first, request.count}) {
      one.arguments.push_back(CheckLaunch::number(number));
    }
    one.arguments.push_back(request.arrays());
    return {std::move(one)};
  };
  return check;
}

}  // namespace ridge::ops::dequantize
