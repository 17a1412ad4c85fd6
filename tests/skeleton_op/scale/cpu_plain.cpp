// One loop; the compiler vectorises it. Memory-bound, so nothing cleverer pays.
#include "scale/scale.h"

namespace ridge::ops::scale {
namespace {

Status run(const Problem& problem, const Arguments& operands, const Stream&) {
  const auto alpha = static_cast<float>(problem.real(kAlpha));
  const auto beta = static_cast<float>(operands.scalar(problem, kBeta).real());
  const float* x = static_cast<const float*>(operands[0].data);
  float* y = static_cast<float*>(operands[1].data);
  for (std::int64_t i = 0; i < problem.values[kN]; ++i) y[i] = alpha * x[i] + beta;
  return ok_status();
}

}  // namespace

Implementation cpu_plain() {
  Implementation plain;
  plain.name = "cpu_plain";
  plain.summary = "one loop";
  plain.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  plain.run = run;
  return plain;
}

}  // namespace ridge::ops::scale
