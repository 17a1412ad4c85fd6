#include "ops/coding/device_check.h"

#include "ops/grouped_quantize/grouped_quantize.h"
// clang-format off
#include "ops/grouped_quantize/row_model.cuh"
// clang-format on

namespace ridge::ops::grouped_quantize {
namespace {

constexpr std::uint32_t kThreads = 256;

auto row_model(const Problem& problem, const Arguments&) {
  const Shape s = shape_of(problem);
  rows::Places place(problem, rows::kApart);
  const rows::i64 x = place("x", rows::kShared), offsets = place("offsets", rows::kShared);
  return rows::model(std::move(place.reads), RowModel{x, offsets, s.groups, s.rows, s.cols, s.align});
}

CheckLaunch launch(const char* kernel, std::vector<CheckLaunch::Argument> arguments) {
  return {kernel, 1, 1, kThreads, std::move(arguments)};
}

// Of where groups begin in y: by one block.
std::shared_ptr<const DeviceCheck> check_of_padded() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/row_numbers.cuh", "ops/row_operands.cuh", "ops/grouped_quantize/row_model.cuh",
                                "ops/grouped_quantize/device_check.cu"});
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
  auto check = std::make_shared<DeviceCheck>(
      *coding::device_check<row_model, coding_of>({}, "grouped_quantize::RowModel", check_of_padded()));
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    if (problem.operands[kX].element_count() < std::int64_t{1} << 32) return std::nullopt;
    return fmt::format("x has {} elements; they are counted in 32 bits", problem.operands[kX].element_count());
  };
  return check;
}

}  // namespace ridge::ops::grouped_quantize
