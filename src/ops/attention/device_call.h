// The operands of a call as check kernels read them: Call of check_pairs.cuh.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "ops/attention/attention.h"
#include "ops/device_check.h"

namespace ridge::ops::attention {

struct DeviceCall {
  DeviceMatrix q, k, v, o, log_sum_exp;
  const void *q_offsets = nullptr, *k_offsets = nullptr;
  std::int64_t documents = 0;
  std::int64_t batch = 0, heads = 0, kv_heads = 0, q_len = 0, k_len = 0;
  std::int64_t left = 0, right = 0;
  double scale = 0, cap = 0;
  const void *sinks = nullptr, *slopes = nullptr;
};
DeviceCall device_call(const Problem& problem, const Arguments& arguments);
// Of a problem with this shape, also one of codes.
DeviceCall device_call(const Problem& problem, const Arguments& arguments, const Shape& shape);

// Of check_pairs.cuh.
inline constexpr std::int64_t kCheckThreads = 256, kCheckWarps = kCheckThreads / 32, kCheckTile = 64, kCheckLanes = 4;
// A launch of at most so many blocks, which go over the rest in turns.
CheckLaunch check_launch(const char* kernel, std::int64_t blocks, std::vector<CheckLaunch::Argument> arguments);

}  // namespace ridge::ops::attention
