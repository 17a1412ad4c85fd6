#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "record/hardware.h"
#include "ridge/result.h"

namespace ridge::cli {

// Where cases of an operator stand on a product, or with an empty name on this processor.
Result<std::vector<record::RooflineReport>> rooflines(const std::string& op, const std::vector<std::string>& words,
                                                      const std::string& on, std::int64_t threads);

}  // namespace ridge::cli
