#pragma once

#include <string>

namespace ridge::cli {

// ridge spec probe: what the worker reads from this machine, beside the spec of `product` (empty: the device's own
// name).
int probe(const std::string& product);

}  // namespace ridge::cli
