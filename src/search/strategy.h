// What to measure next in a space, and what came of it. One measurement after the other; no configuration twice.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ridge/result.h"
#include "search/past.h"
#include "search/space.h"

namespace ridge::search {

class Strategy {
 public:
  Strategy() = default;
  Strategy(const Strategy&) = delete;
  Strategy& operator=(const Strategy&) = delete;
  virtual ~Strategy() = default;

  // The number of a configuration that was not proposed before; nothing when none is left.
  virtual std::optional<std::uint64_t> propose() = 0;
  // What it took, in seconds; nothing when it failed. For every proposal, before the next one.
  virtual void observe(std::uint64_t configuration, std::optional<double> seconds) = 0;
};

// "ours", "random" or "local"; an error lists them. The space and the past outlive the strategy; only
// "ours" looks at what was measured before.
Result<std::unique_ptr<Strategy>> make_strategy(const std::string& name, const Space& space, std::uint64_t seed,
                                                std::span<const PastSource> past = {});
std::vector<std::string> strategy_names();

}  // namespace ridge::search
