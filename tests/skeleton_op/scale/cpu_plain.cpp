// One loop; the compiler vectorises it. Memory-bound, so nothing cleverer pays.
#include <cmath>

#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

Status run(const Problem& problem, const Arguments& arguments, const Stream&) {
  const Vectors v = vectors_of(problem, arguments);
  std::int64_t top = -1;
  for (std::int64_t i = 0; v.top != nullptr && i < v.n; ++i) {
    if (!std::isnan(v.x[i]) && (top < 0 || std::fabs(v.x[i]) > std::fabs(v.x[top]))) top = i;
  }
  if (v.top != nullptr) *v.top = top;  // before y, which may be x
  for (std::int64_t i = 0; i < v.n; ++i) {
    v.y[i] = v.alpha * (v.gain != nullptr ? v.gain[i] * v.x[i] : v.x[i]) + v.beta;
  }
  return ok_status();
}

}  // namespace

Implementation cpu_plain() {
  Implementation plain;
  plain.name = "cpu_plain";
  plain.summary = "one loop";
  plain.deterministic = true;
  plain.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  plain.run = run;
  return plain;
}

}  // namespace ridge::ops::scale
