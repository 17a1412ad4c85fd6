#include "ops/device_check.h"

#include <algorithm>

#include "ops/attention/device_call.h"

namespace ridge::ops::attention {
namespace {

using Argument = CheckLaunch::Argument;

constexpr std::int64_t kSamples = 256;  // rows of a projection that are checked in fp64

// KeyFacts of device_check.cu.
struct KeyFacts {
  double *products, *square, *most;
};

std::int64_t key_rows(const Problem& problem) {
  const Shape s = shape_of(problem);
  return s.batch * s.k_len * s.kv_heads;
}

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const DeviceCall call = device_call(request.problem, {request.operands, request.scalars});
  const std::int64_t rows = call.batch * call.q_len * call.heads, keys = call.k.rows;
  if (rows == 0) return {};
  auto* const products = static_cast<double*>(request.scratch);
  const Argument operands = CheckLaunch::words(call), result = CheckLaunch::pointer(request.result),
                 seed = request.seed,
                 facts = CheckLaunch::words(
                     KeyFacts{products, products + kCheckLanes * keys, products + (kCheckLanes + 1) * keys});
  const std::int64_t tiles = (call.q_len + kCheckTile - 1) / kCheckTile * call.batch * call.heads;
  const std::int64_t samples = std::min(kSamples, rows);
  return {check_launch("attention_keys", keys / kCheckWarps + 1, {operands, facts, seed}),
          check_launch("attention_project", tiles, {operands, facts, seed, result}),
          check_launch("attention_samples", samples, {operands, CheckLaunch::number(samples), seed, result})};
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const DeviceCall call = device_call(request.problem, {request.operands, request.scalars});
  const bool sums = request.problem.operands[request.output].name == "log_sum_exp";
  const std::vector<Argument> arguments = {CheckLaunch::words(call), CheckLaunch::number(request.first),
                                           CheckLaunch::number(request.count), request.arrays()};
  if (sums) return {check_launch("attention_sums", request.count * call.q_len, arguments)};
  return {check_launch("attention_rows", request.count, arguments)};
}

}  // namespace

DeviceCall device_call(const Problem& problem, const Arguments& arguments) {
  return device_call(problem, arguments, shape_of(problem, arguments));
}

DeviceCall device_call(const Problem& problem, const Arguments& arguments, const Shape& s) {
  const auto view = [&](std::string_view name) { return operand(problem, arguments.operands, name); };
  DeviceCall call;
  call.q = device_matrix(view("q"));
  call.k = device_matrix(view("k"));
  call.v = device_matrix(view("v"));
  call.o = device_matrix(view("o"));
  call.log_sum_exp = device_matrix(view("log_sum_exp"));
  if (s.documents > 0) {
    call.q_offsets = view("q_offsets").data;
    call.k_offsets = view("k_offsets").data;
  }
  call.documents = s.documents;
  call.batch = s.batch, call.heads = s.heads, call.kv_heads = s.kv_heads;
  call.q_len = s.q_len, call.k_len = s.k_len;
  call.left = s.window.left, call.right = s.window.right;
  call.scale = s.scale, call.cap = s.cap;
  if (s.sinks) call.sinks = view("sinks").data;
  if (s.alibi) call.slopes = view("alibi_slopes").data;
  return call;
}

CheckLaunch check_launch(const char* kernel, std::int64_t blocks, std::vector<Argument> arguments) {
  constexpr std::int64_t kMostBlocks = 1 << 20;
  return {kernel, static_cast<std::uint32_t>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks)), 1,
          static_cast<std::uint32_t>(kCheckThreads), std::move(arguments)};
}

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/attention/check_pairs.cuh", "ops/attention/device_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    return static_cast<std::size_t>((kCheckLanes + 2) * key_rows(problem)) * sizeof(double);
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::attention
