#include "ops/device_check.h"

#include <algorithm>

#include "ops/expert_order/expert_order.h"

namespace ridge::ops::expert_order {
namespace {

constexpr std::int64_t kThreads = 256, kMostBlocks = 1024;

CheckLaunch launch(const char* kernel, std::int64_t count) {
  CheckLaunch made;
  made.kernel = kernel;
  made.block = kThreads;
  made.grid_x = static_cast<std::uint32_t>(std::clamp<std::int64_t>((count + kThreads - 1) / kThreads, 1, kMostBlocks));
  return made;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/expert_order/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    CheckLaunch one = launch("expert_order_all", std::max({s.count(), s.places(), s.experts}));
    for (const TensorView& view : request.operands) one.arguments.push_back(device_matrix(view));
    one.arguments.push_back(CheckLaunch::number(s.align));
    one.arguments.push_back(CheckLaunch::pointer(request.result));
    return {std::move(one)};
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    const std::int64_t columns = device_matrix(request.operands[request.output]).columns;
    CheckLaunch one = launch("expert_order_reference", request.count * columns);
    one.arguments.push_back(device_matrix(request.operands[kChosen]));
    for (const std::int64_t number : {s.experts, s.align, static_cast<std::int64_t>(request.output - kOffsets), columns,
                                      request.first, request.count}) {
      one.arguments.push_back(CheckLaunch::number(number));
    }
    one.arguments.push_back(request.arrays());
    return {std::move(one)};
  };
  return check;
}

}  // namespace ridge::ops::expert_order
