#include "ops/route/backward/backward.h"

namespace ridge::ops::route_backward {

record::Cost cost(const Problem& problem) { return route::cost(problem); }

}  // namespace ridge::ops::route_backward
