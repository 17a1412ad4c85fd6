#include "hardware/occupancy.h"

#include <algorithm>

#include "base/error.h"

namespace ridge::hardware {
namespace {

std::int64_t divide_up(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }
std::int64_t round_up(std::int64_t a, std::int64_t step) { return divide_up(a, step) * step; }

struct Limits {
  std::int64_t warp_size = 0, max_warps = 0, max_threads_per_block = 0, max_blocks = 0, max_blocks_one_warp = 0;
  std::int64_t registers = 0, register_step = 0, max_registers = 0, schedulers = 0;
  std::int64_t shared = 0, shared_block = 0, shared_reserved = 0, shared_step = 0;
};

Result<Limits> limits_of(const Spec& spec) {
  Limits l;
  const std::pair<const char*, std::int64_t*> needed[] = {{"warp_size", &l.warp_size},
                                                          {"max_warps_per_unit", &l.max_warps},
                                                          {"max_threads_per_block", &l.max_threads_per_block},
                                                          {"max_blocks_per_unit", &l.max_blocks},
                                                          {"registers_per_unit", &l.registers},
                                                          {"register_granularity", &l.register_step},
                                                          {"max_registers_per_thread", &l.max_registers},
                                                          {"schedulers_per_unit", &l.schedulers},
                                                          {"shared_memory_per_unit", &l.shared},
                                                          {"shared_memory_per_block", &l.shared_block},
                                                          {"shared_memory_granularity", &l.shared_step}};
  for (const auto& [metric, member] : needed) {
    RIDGE_TRY(value, spec.value(metric));
    *member = static_cast<std::int64_t>(value);
  }
  l.shared_reserved = static_cast<std::int64_t>(spec.value_or("shared_memory_reserved", 0));
  l.max_blocks_one_warp =
      static_cast<std::int64_t>(spec.value_or("max_blocks_per_unit_one_warp", static_cast<double>(l.max_blocks)));
  return l;
}

Status check_launch(const Spec& spec, const Limits& l, const KernelUse& use) {
  if (use.threads_per_block < 1 || use.threads_per_block > l.max_threads_per_block) {
    return invalid("{} threads per block; {} allows 1 to {}", use.threads_per_block, spec.name,
                   l.max_threads_per_block);
  }
  if (use.registers_per_thread < 0 || use.registers_per_thread > l.max_registers) {
    return invalid("{} registers per thread; {} allows up to {}", use.registers_per_thread, spec.name, l.max_registers);
  }
  if (use.shared_bytes < 0 || use.shared_bytes > l.shared_block) {
    return invalid("{} bytes of shared memory per block; {} allows up to {}", use.shared_bytes, spec.name,
                   l.shared_block);
  }
  return ok_status();
}

std::int64_t blocks_by_registers(const Limits& l, std::int64_t registers, std::int64_t warps) {
  if (registers == 0) return l.max_blocks;
  const std::int64_t of_warp = round_up(registers * l.warp_size, l.register_step);
  // The launch check of the hardware counts a block's warps in whole rows of schedulers.
  if (of_warp * round_up(warps, l.schedulers) > l.registers) return 0;
  return l.registers / l.schedulers / of_warp * l.schedulers / warps;
}

std::int64_t blocks_by_shared(const Limits& l, std::int64_t bytes) {
  const std::int64_t of_block = round_up(bytes + l.shared_reserved, l.shared_step);
  return of_block == 0 ? l.max_blocks_one_warp : l.shared / of_block;
}

// The largest use of the limiting resource with which one more block fits.
std::string what_lifts(const Limits& l, const KernelUse& use, std::int64_t warps, const Occupancy& o) {
  const std::int64_t wanted = o.blocks_per_unit + 1;
  const auto binds = [&](const char* resource) {
    return std::any_of(o.limits.begin(), o.limits.end(),
                       [&](const OccupancyLimit& x) { return x.resource == resource && x.blocks < wanted; });
  };
  if (binds("warps") || binds("blocks")) return {};
  std::string text;
  if (binds("registers")) {
    std::int64_t registers = use.registers_per_thread;
    while (registers > 0 && blocks_by_registers(l, registers, warps) < wanted) --registers;
    if (registers == 0) return {};
    text = fmt::format("at most {} registers per thread (now {})", registers, use.registers_per_thread);
  }
  if (binds("shared memory")) {
    const std::int64_t bytes = l.shared / wanted / l.shared_step * l.shared_step - l.shared_reserved;
    if (bytes < 0) return {};
    text += fmt::format("{}at most {} B of shared memory per block (now {})", text.empty() ? "" : " and ", bytes,
                        use.shared_bytes);
  }
  return fmt::format("{} blocks per unit need {}", wanted, text);
}

}  // namespace

Result<Occupancy> occupancy(const Spec& spec, const KernelUse& use) {
  RIDGE_TRY(l, limits_of(spec));
  RIDGE_CHECK_OK(check_launch(spec, l, use));
  const std::int64_t warps = divide_up(use.threads_per_block, l.warp_size);
  Occupancy result;
  result.max_warps_per_unit = l.max_warps;
  result.limits = {{"warps", l.max_warps / warps},
                   {"blocks", warps == 1 ? l.max_blocks_one_warp : l.max_blocks},
                   {"registers", blocks_by_registers(l, use.registers_per_thread, warps)},
                   {"shared memory", blocks_by_shared(l, use.shared_bytes)}};
  if (use.registers_per_thread == 0) result.limits.erase(result.limits.begin() + 2);
  result.blocks_per_unit =
      std::min_element(result.limits.begin(), result.limits.end(), [](const auto& a, const auto& b) {
        return a.blocks < b.blocks;
      })->blocks;
  for (const OccupancyLimit& limit : result.limits) {
    if (limit.blocks == result.blocks_per_unit) result.limiter += (result.limiter.empty() ? "" : ", ") + limit.resource;
  }
  result.warps_per_unit = result.blocks_per_unit * warps;
  result.fraction = static_cast<double>(result.warps_per_unit) / static_cast<double>(l.max_warps);
  result.lift = what_lifts(l, use, warps, result);
  return result;
}

}  // namespace ridge::hardware
