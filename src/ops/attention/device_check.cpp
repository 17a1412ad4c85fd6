#include "ops/device_check.h"

#include <algorithm>
#include <cstring>

#include "ops/attention/attention.h"

namespace ridge::ops::attention {
namespace {

using Argument = CheckLaunch::Argument;

constexpr std::int64_t kThreads = 256, kTile = 64, kLanes = 4;  // of check_pairs.cuh
constexpr std::int64_t kSamples = 256;                          // rows of a projection that are checked in fp64
constexpr std::int64_t kMostBlocks = 1 << 20;

// Call of check_pairs.cuh.
struct DeviceCall {
  DeviceMatrix q, k, v, o, log_sum_exp;
  const void *q_offsets = nullptr, *k_offsets = nullptr;
  std::int64_t documents = 0;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0;
  std::int64_t left = 0, right = 0;
  double scale = 0;
};

CheckLaunch launch(const char* kernel, std::int64_t blocks, const DeviceCall& call) {
  std::vector<std::uint64_t> words(sizeof(call) / 8);
  std::memcpy(words.data(), &call, sizeof(call));
  return {kernel,
          static_cast<std::uint32_t>(std::clamp<std::int64_t>(blocks, 1, kMostBlocks)),
          1,
          static_cast<std::uint32_t>(kThreads),
          {std::move(words)}};
}

DeviceCall call_of(const Problem& problem, const Arguments& arguments) {
  const Shape s = shape_of(problem, arguments);
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
  call.scale = s.scale;
  return call;
}

std::int64_t key_rows(const Shape& s) { return s.batch * s.k_len * s.kv_heads; }

std::vector<CheckLaunch> project(const DeviceCheck::ProjectionRequest& request) {
  const DeviceCall call = call_of(request.problem, {request.operands, request.scalars});
  const std::int64_t rows = call.batch * call.q_len * call.heads, keys = call.k.rows;
  if (rows == 0) return {};
  auto* const products = static_cast<double*>(request.scratch);
  const double *const square = products + kLanes * keys, *const most = square + keys;
  const Argument facts =
      std::vector<std::uint64_t>{reinterpret_cast<std::uint64_t>(products), reinterpret_cast<std::uint64_t>(square),
                                 reinterpret_cast<std::uint64_t>(most)};
  const Argument result = CheckLaunch::pointer(request.result);
  std::vector<CheckLaunch> launches;
  if (keys > 0) {
    launches.push_back(launch("attention_keys", (keys + 7) / 8, call));
    launches.back().arguments.insert(launches.back().arguments.end(), {facts, Argument{request.seed}});
  }
  const std::int64_t tiles = (call.q_len + kTile - 1) / kTile * call.batch * call.heads;
  launches.push_back(launch("attention_project", tiles, call));
  launches.back().arguments.insert(launches.back().arguments.end(), {facts, Argument{request.seed}, result});
  launches.push_back(launch("attention_samples", std::min(kSamples, rows), call));
  launches.back().arguments.insert(launches.back().arguments.end(),
                                   {CheckLaunch::number(std::min(kSamples, rows)), Argument{request.seed}, result});
  return launches;
}

std::vector<CheckLaunch> rows_of_reference(const DeviceCheck::ReferenceRequest& request) {
  const DeviceCall call = call_of(request.problem, {request.operands, request.scalars});
  if (request.count == 0) return {};
  const bool sums = request.problem.operands[request.output].name == "log_sum_exp";
  CheckLaunch one = launch(sums ? "attention_sums" : "attention_rows", request.count * (sums ? call.q_len : 1), call);
  one.arguments.push_back(CheckLaunch::number(request.first));
  one.arguments.push_back(CheckLaunch::number(request.count));
  std::vector<std::uint64_t> arrays;
  for (const double* array : {request.value, request.allowed, request.variance, request.shift}) {
    arrays.push_back(reinterpret_cast<std::uint64_t>(array));
  }
  one.arguments.emplace_back(std::move(arrays));
  return {std::move(one)};
}

}  // namespace

std::shared_ptr<const DeviceCheck> device_check() {
  auto check = std::make_shared<DeviceCheck>();
  check->source = check_source({"ops/attention/check_pairs.cuh", "ops/attention/device_check.cu"});
  check->scratch_bytes = [](const Problem& problem) {
    return static_cast<std::size_t>((kLanes + 2) * key_rows(shape_of(problem))) * sizeof(double);
  };
  check->projection = project;
  check->reference = rows_of_reference;
  return check;
}

}  // namespace ridge::ops::attention
