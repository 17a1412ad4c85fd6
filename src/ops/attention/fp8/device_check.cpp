#include "ops/device_check.h"

#include <algorithm>

#include "ops/attention/device_call.h"
#include "ops/attention/fp8/fp8.h"

namespace ridge::ops::attention_fp8 {
namespace {

using Argument = CheckLaunch::Argument;
using attention::check_launch, attention::kCheckLanes, attention::kCheckTile, attention::kCheckWarps;

constexpr std::int64_t kSamples = 256;  // rows of a projection that are checked in fp64

// CodesCall of device_check.cu.
struct CodesCall {
  attention::DeviceCall call;
  DeviceMatrix q_scale, k_scale, v_scale;
};

CodesCall call_of(const Problem& problem, const Arguments& arguments) {
  const auto matrix = [&](OperandAt at) { return device_matrix(arguments.operands[at]); };
  return {attention::device_call(problem, arguments, shape_of(problem, arguments)), matrix(kQScale), matrix(kKScale),
          matrix(kVScale)};
}

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const CodesCall codes = call_of(request.problem, {request.operands, request.scalars});
  const attention::DeviceCall& call = codes.call;
  const std::int64_t rows = call.batch * call.q_len * call.heads;
  if (rows == 0) return {};
  const Argument operands = CheckLaunch::words(codes), products = CheckLaunch::pointer(request.scratch),
                 result = CheckLaunch::pointer(request.result), seed = request.seed;
  const std::int64_t tiles = (call.q_len + kCheckTile - 1) / kCheckTile * call.batch * call.heads;
  const std::int64_t samples = std::min(kSamples, rows);
  return {check_launch("attention_fp8_keys", call.v.rows / kCheckWarps + 1, {operands, products, seed}),
          check_launch("attention_fp8_project", tiles, {operands, products, seed, result}),
          check_launch("attention_fp8_samples", samples, {operands, CheckLaunch::number(samples), seed, result})};
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const CodesCall codes = call_of(request.problem, {request.operands, request.scalars});
  const std::vector<Argument> arguments = {CheckLaunch::words(codes), CheckLaunch::number(request.first),
                                           CheckLaunch::number(request.count), request.arrays()};
  if (request.output == kLogSumExp) {
    return {check_launch("attention_fp8_sums", request.count * codes.call.q_len, arguments)};
  }
  return {check_launch("attention_fp8_rows", request.count, arguments)};
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/attention/check_pairs.cuh", "ops/attention/fp8/device_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    const attention::Shape s = shape_of(problem);
    return static_cast<std::size_t>(kCheckLanes * s.batch * s.k_len * s.kv_heads) * sizeof(double);
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::attention_fp8
