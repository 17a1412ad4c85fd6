// The power of a logit as the references of both operators have it.
#pragma once

#include <cmath>

#include "ops/row_check.h"

namespace ridge::ops::route {

// e^(x - most). Of -infinity beside a number it is 0; a kernel may have 0 for what is below the normal numbers, too.
inline rows::Number power(const rows::Number& x, const rows::Number& most) {
  if (std::isinf(x.value) && x.value < 0 && std::isfinite(most.value)) return 0.0;
  const rows::Number found = rows::exp(x - most);
  return {found.value, found.error + 0x1p-126, found.variance + 0x1p-252};
}

}  // namespace ridge::ops::route
