#include "ops/coding/device_check.h"

#include "ops/grouped_quantize/grouped_quantize.h"
#include "ops/grouped_quantize/model.h"

namespace ridge::ops::grouped_quantize {
namespace {

constexpr std::uint32_t kThreads = 256;

CheckLaunch launch(const char* kernel, std::vector<CheckLaunch::Argument> arguments) {
  return {kernel, 1, 1, kThreads, std::move(arguments)};
}

// Of what stands in front of the codes: where groups begin in y, by one block, and the gradient of the factors.
std::shared_ptr<const DeviceCheck> check_of_others() {
  const auto factors = rows::device_check<factor_model>(
      {"ops/gating/definition.cuh", "ops/grouped_quantize/row_model.cuh", "ops/grouped_quantize/factor_model.cuh"},
      "grouped_quantize::FactorModel");
  auto check = std::make_shared<DeviceCheck>();
  check->source = factors->source;
  check->source += source_of("ops/grouped_quantize/device_check.cu");
  check->scratch_bytes = [factors](const Problem& problem) {
    return shape_of(problem).dprobs ? factors->scratch_bytes(problem) : std::size_t{0};
  };
  check->projection = [factors](const DeviceCheck::ProjectionRequest& request) {
    const Shape s = shape_of(request.problem);
    std::vector<CheckLaunch> launches;
    if (s.dprobs) launches = factors->projection(request);
    launches.push_back(
        launch("grouped_padded", {device_matrix(operand(request.problem, request.operands, "padded")),
                                  device_matrix(request.operands[kOffsetsOperand]), CheckLaunch::number(s.rows),
                                  CheckLaunch::number(s.align), CheckLaunch::pointer(request.result)}));
    return launches;
  };
  check->reference = [factors](const DeviceCheck::ReferenceRequest& request) -> std::vector<CheckLaunch> {
    const Shape s = shape_of(request.problem);
    if (request.problem.operands[request.output].name == "dprobs") return factors->reference(request);
    return {launch("grouped_padded_reference",
                   {device_matrix(request.operands[kOffsetsOperand]), CheckLaunch::number(s.rows),
                    CheckLaunch::number(s.align), request.arrays()})};
  };
  return check;
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  constexpr std::string_view kModel = "grouped_quantize::RowModel";
  const auto one = coding::device_check<padded_model, coding_of>({}, kModel, check_of_others());
  const auto own = coding::device_check<own_model, own_coding_of>({}, kModel, check_of_others());
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
    const Shape s = shape_of(problem);
    if (s.dprobs && s.cols == 0) return "dprobs of rows without columns";
    if (problem.operands[kX].element_count() < std::int64_t{1} << 32) return std::nullopt;
    return fmt::format("x has {} elements; they are counted in 32 bits", problem.operands[kX].element_count());
  };
  return check;
}

}  // namespace ridge::ops::grouped_quantize
