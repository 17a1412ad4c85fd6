#include "ops/device_check.h"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ops/grouped_gemm/grouped_gemm.h"
#include "ops/matmul/grouped_check.h"
#include "ops/row_check.h"

namespace ridge::ops::grouped_gemm {
namespace {

CheckedGroups describe_groups(const Problem& problem, std::span<const TensorView> operands) {
  const Shape s = shape_of(problem);
  CheckedGroups call;
  call.groups = s.groups, call.rows = s.rows;
  call.m = s.m, call.k = s.k;
  call.along_sums = call.a_by_terms = s.along_sums ? 1 : 0;
  call.b_by_terms = s.trans_b ? 0 : 1;
  call.gather = s.gather, call.sources = s.sources;
  call.cuts_off = s.dtype == DType::kF32 ? 0 : 1;
  call.c.rows = s.along_sums ? s.groups * s.m : s.rows;
  call.c.columns = s.n;
  if (operands.empty()) return call;
  call.a = device_matrix(operands[kA]);
  call.b = device_matrix(operands[kB]);
  call.c = device_matrix(operands[s.c()]);
  call.offsets = device_matrix(operands[kOffsetsOperand]);
  if (s.gather != kNone) call.index = device_matrix(operands[s.index()]);
  if (s.accumulate) call.old = device_matrix(operands[s.c() + 1]);
  return call;
}

// SwigluCall of swiglu_check.cu.
struct CheckedSwiglu {
  DeviceMatrix c, y, probs, offsets;
  std::int64_t groups = 1;
  rows::Format format;
};

CheckedSwiglu describe_swiglu(const Shape& s, std::span<const TensorView> operands) {
  CheckedSwiglu call;
  call.c = device_matrix(operands[s.c()]), call.y = device_matrix(operands[s.y()]);
  if (s.probs) call.probs = device_matrix(operands[s.probs_at()]);
  call.offsets = device_matrix(operands[kOffsetsOperand]);
  call.groups = s.groups;
  call.format = rows::format_of(s.dtype);
  return call;
}

std::uint32_t blocks(std::int64_t count, std::int64_t each) {
  return static_cast<std::uint32_t>(std::clamp<std::int64_t>((count + each - 1) / each, 1, 1 << 14));
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  const auto sums = grouped_device_check(describe_groups);
  auto check = std::make_shared<DeviceCheck>(*sums);
  for (const char* file : {"ops/row_numbers.cuh", "ops/gating/definition.cuh", "ops/grouped_gemm/swiglu_check.cu"}) {
    check->source += source_of(file);
  }
  check->refuses = [](const Problem& problem) -> std::optional<std::string> {
    if (shape_of(problem).epilogue != kSwigluBackward) return std::nullopt;
    return problem.problem_case.text() + ": gradients of SwiGLU are not checked on a GPU, but on the host";
  };
  check->projection = [sums](const DeviceCheck::ProjectionRequest& request) {
    std::vector<CheckLaunch> launches = sums->projection(request);
    const Shape s = shape_of(request.problem);
    if (s.epilogue == kSwiglu && s.rows * s.inner() > 0) {
      launches.push_back(
          {"swiglu_judge",
           blocks(s.rows, 8),
           1,
           256,
           {CheckLaunch::words(describe_swiglu(s, request.operands)), CheckLaunch::pointer(request.result)}});
    }
    return launches;
  };
  check->reference = [sums](const DeviceCheck::ReferenceRequest& request) {
    const Shape s = shape_of(request.problem);
    if (s.epilogue != kSwiglu || request.output != s.y()) return sums->reference(request);
    if (request.count * s.inner() == 0) return std::vector<CheckLaunch>();
    return std::vector<CheckLaunch>{
        {"swiglu_reference",
         blocks(request.count * s.inner(), 256),
         1,
         256,
         {CheckLaunch::words(describe_swiglu(s, request.operands)), CheckLaunch::number(request.first),
          CheckLaunch::number(request.count), request.arrays()}}};
  };
  return check;
}

}  // namespace ridge::ops::grouped_gemm
