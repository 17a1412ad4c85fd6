#include "record/device_limits.h"

#include <fmt/format.h>

namespace ridge::record {

std::string device_limits(const Environment& environment) {
  std::string limits;
  for (const auto& [name, form] : {std::pair("gpu.power_limit_watts", "{} W"),
                                   {"gpu.max_sm_clock_mhz", "{} MHz"},
                                   {"gpu.max_memory_clock_mhz", "memory {} MHz"}}) {
    const std::string value = environment.fact(name);
    if (value.empty()) continue;
    limits += (limits.empty() ? "" : ", ") + fmt::format(fmt::runtime(form), value);
  }
  return limits;
}

}  // namespace ridge::record
