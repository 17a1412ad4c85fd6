// Interleaving of two arms: quads of blocks in the order ABBA or BAAB, each order by a secret coin.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/coin.h"
#include "record/measurement.h"
#include "ridge/result.h"

namespace ridge::measure {

enum class Arm { kIncumbent, kCandidate };

// One cold, verified launch of an arm; its latency in seconds.
using Launch = std::function<Result<double>(Arm)>;

using ridge::Coin;

// `quads` quads with blocks of `launches` launches. The first failing launch ends it.
Result<std::vector<record::Quad>> run_quads(const Launch& launch, std::int64_t quads, std::int64_t launches,
                                            Coin& coin);

}  // namespace ridge::measure
