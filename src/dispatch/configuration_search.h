// Which of an implementation's configurations is measured next on a case: the engine of campaigns (search/tuner.h) over
// the configurations that fit. Its cost model and what was measured before are expectations that measurements overrule.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "ops/op.h"
#include "search/past.h"
#include "search/tuner.h"

namespace ridge::dispatch {

class ConfigurationSearch {
 public:
  // `fitting` as Implementation::promising gives them, not empty.
  ConfigurationSearch(const ops::Implementation& implementation, const ops::Problem& problem,
                      const ops::DeviceInfo& device, const std::vector<int>& fitting,
                      std::vector<search::PastSource> past, std::uint64_t seed);
  // One that was not proposed before; nothing when none is left, or when by the cost model, or by what was measured
  // elsewhere, none is likely to be worth its measurement.
  std::optional<int> propose();
  // Nothing: it failed, or its numbers are wrong.
  void observe(int configuration, std::optional<double> seconds);

 private:
  [[nodiscard]] std::optional<search::Prior> model(const ops::Implementation& implementation,
                                                   const ops::Problem& problem, const ops::DeviceInfo& device) const;

  std::vector<search::PastSource> past_;
  std::vector<int> configurations_;  // by number in the space
  std::unique_ptr<search::Space> space_;
  std::unique_ptr<search::Tuner> tuner_;
  std::optional<double> best_;  // the logarithm of the fastest time
  std::size_t ran_ = 0;
  double least_chance_;
};

}  // namespace ridge::dispatch
