#include "ops/quantize/quantize.h"

namespace ridge::ops::quantize {

record::Cost cost(const Problem& problem) { return coding::cost_of(problem, coding_of(problem)); }

}  // namespace ridge::ops::quantize
