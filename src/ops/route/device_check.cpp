#include "ops/device_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "ops/route/route.h"
#include "ops/row_check.h"

namespace ridge::ops::route {
namespace {

constexpr std::int64_t kMostChecked = 1024, kMostBlocks = 132 * 8;

// Of device_check.cu.
struct Setting {
  std::int64_t sigmoid, top_first, renormalize, by_logits, groups, group_top, top, tokens, experts;
  double scale;
};

CheckLaunch::Argument setting_argument(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem);
  return CheckLaunch::words(Setting{s.sigmoid, s.top_first, s.renormalize, s.by_logits(), s.groups, s.group_top, s.top,
                                    s.tokens, s.experts, arguments.scalar(problem, kScale).real()});
}

// A block for a row, of which there are `count`. With logits and bias.
CheckLaunch launch(const char* kernel, std::int64_t count, const Problem& problem,
                   std::span<const TensorView> operands) {
  CheckLaunch made;
  made.kernel = kernel;
  made.grid_x = static_cast<std::uint32_t>(std::clamp<std::int64_t>(count, 1, kMostBlocks));
  const TensorView bias = operand(problem, operands, "bias");
  made.arguments = {device_matrix(operand(problem, operands, "logits")),
                    bias.rank == 0 ? DeviceMatrix() : device_matrix(bias)};
  return made;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source =
      check_source({"ops/row_numbers.cuh", "ops/row_operands.cuh", "ops/route/power.cuh", "ops/route/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    if (shape_of(problem).experts <= kMostChecked) return std::nullopt;
    return fmt::format("the check on the GPU takes up to {} experts", kMostChecked);
  };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) -> std::vector<CheckLaunch> {
    CheckLaunch one = launch("route_rows", shape_of(request.problem).tokens, request.problem, request.operands);
    for (const char* name : {"weights", "experts"}) {
      one.arguments.push_back(device_matrix(operand(request.problem, request.operands, name)));
    }
    one.arguments.push_back(setting_argument(request.problem, {request.operands, request.scalars}));
    one.arguments.push_back(CheckLaunch::words(rows::format_of(DType::kF32)));
    one.arguments.push_back(CheckLaunch::pointer(request.result));
    return {std::move(one)};
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    CheckLaunch one = launch("route_reference", request.count, request.problem, request.operands);
    one.arguments.push_back(setting_argument(request.problem, {request.operands, request.scalars}));
    one.arguments.push_back(CheckLaunch::words(rows::format_of(DType::kF32)));
    one.arguments.push_back(CheckLaunch::number(request.output == *request.problem.position("experts") ? 1 : 0));
    one.arguments.push_back(CheckLaunch::number(request.first));
    one.arguments.push_back(CheckLaunch::number(request.count));
    one.arguments.push_back(request.arrays());
    return {std::move(one)};
  };
  return check;
}

}  // namespace ridge::ops::route
