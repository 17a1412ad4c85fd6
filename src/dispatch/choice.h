// What may run a case: an implementation, by its own choice among its configurations or in a named one. Written
// "cuda_wgmma" and "cuda_wgmma/pp_128x192".
#pragma once

#include <string>
#include <string_view>

#include "ops/op.h"

namespace ridge::dispatch {

struct Choice {
  const ops::Implementation* implementation = nullptr;
  int configuration = -1;

  [[nodiscard]] std::string name() const;
  friend bool operator==(const Choice&, const Choice&) = default;
};

// The error lists the operator's implementations, or the implementation's configurations.
Result<Choice> parse_choice(const ops::Operator& op, std::string_view name);

// Why it cannot run a problem there: the implementation's reason, or the configurations that do fit.
ops::Refusal why_not(const Choice& choice, const ops::Problem& problem, const ops::DeviceInfo& device);

// The problem as that choice runs it.
ops::Problem configured(const ops::Problem& problem, const Choice& choice);

}  // namespace ridge::dispatch
