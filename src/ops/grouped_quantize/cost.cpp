#include "ops/grouped_quantize/grouped_quantize.h"

namespace ridge::ops::grouped_quantize {

// Of offsets that leave no row out; codes and scales up to the capacity, which are written whatever the offsets.
record::Cost cost(const Problem& problem) { return coding::cost_of(problem, coding_of(problem)); }

}  // namespace ridge::ops::grouped_quantize
