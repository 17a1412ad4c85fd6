// A GPU's facts as a record of another hardware store, null and explained where unknown.
#pragma once

#include <cstddef>
#include <string>

#include "record/command_table.h"
#include "record/hardware_exchange.h"
#include "ridge/result.h"
#include "service/context.h"

namespace ridge::service {

inline constexpr const char* kExchangeFormat = "hw-1.0";

Status check_exchange_format(const std::string& format);
Result<record::ExchangedSheet> exchanged_product(const Context& context, const std::string& product);
// Every GPU into a folder, where that store looks: spec-sheet/<vendor>/<arch>/<product>.json. How many there are.
Result<std::size_t> export_products(const Context& context, const std::string& folder);

}  // namespace ridge::service
