// The check kernels of codes and scales (src/ops/coding/code_check.cu), run on the host, by name; of one operator.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "ops/device_check.h"

namespace ridge::testing {

using Kernels = std::map<std::string, std::function<void(const ops::CheckLaunch&)>>;
Kernels code_check_kernels(const std::string& op);

}  // namespace ridge::testing
