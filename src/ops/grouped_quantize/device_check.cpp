#include "ops/coding/device_check.h"

#include "ops/grouped_quantize/grouped_quantize.h"
#include "ops/grouped_quantize/model.h"

namespace ridge::ops::grouped_quantize {
namespace {

constexpr std::uint32_t kThreads = 256;

CheckLaunch launch(const char* kernel, std::vector<CheckLaunch::Argument> arguments) {
  return {kernel, 1, 1, kThreads, std::move(arguments)};
}

// Of where groups begin in y: by one block.
std::shared_ptr<const DeviceCheck> check_of_padded() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/row_numbers.cuh", "ops/row_operands.cuh", "ops/gating/definition.cuh",
                                "ops/grouped_quantize/row_model.cuh", "ops/grouped_quantize/device_check.cu"});
  check->scratch_bytes = [](const Problem&) { return std::size_t{0}; };
  check->projection = [](const DeviceCheck::ProjectionRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    return {launch("grouped_padded", {device_matrix(operand(request.problem, request.operands, "padded")),
                                      device_matrix(request.operands[kOffsetsOperand]), CheckLaunch::number(s.rows),
                                      CheckLaunch::number(s.align), CheckLaunch::pointer(request.result)})};
  };
  check->reference = [](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    return {launch("grouped_padded_reference",
                   {device_matrix(request.operands[kOffsetsOperand]), CheckLaunch::number(s.rows),
                    CheckLaunch::number(s.align), request.arrays()})};
  };
  return check;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  constexpr std::string_view kModel = "grouped_quantize::RowModel";
  const auto one = coding::device_check<padded_model, coding_of>({}, kModel, check_of_padded());
  const auto own = coding::device_check<own_model, own_coding_of>({}, kModel, check_of_padded());
  const auto two = coding::device_check<padded_model, transposed_coding_of>({}, kModel, own);
  auto check = std::make_shared<DeviceCheck>();
  check->source = one->source;
  const auto of = [one, two](const Problem& problem) { return shape_of(problem).own_rows ? two : one; };
  check->scratch_bytes = [of](const Problem& problem) { return of(problem)->scratch_bytes(problem); };
  check->projection = [of](const DeviceCheck::ProjectionRequest& request) {
    return of(request.problem)->projection(request);
  };
  check->reference = [of](const DeviceCheck::ReferenceRequest& request) {
    return of(request.problem)->reference(request);
  };
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    if (problem.operands[kX].element_count() < std::int64_t{1} << 32) return std::nullopt;
    return fmt::format("x has {} elements; they are counted in 32 bits", problem.operands[kX].element_count());
  };
  return check;
}

}  // namespace ridge::ops::grouped_quantize
