// Both gradients from one read of dy, in vectors of four. Memory-bound: no wider instructions are asked for.
#include <cstring>

#include "scale/backward/backward.h"

namespace ridge::ops::scale_backward {
namespace {

constexpr std::int64_t kLanes = 4;
typedef float Floats __attribute__((vector_size(kLanes * sizeof(float))));

struct Vectors {
  const float *dy = nullptr, *x = nullptr, *gain = nullptr;
  float *dx = nullptr, *dgain = nullptr;
};

// Elements `first` to `first + count`, at most four.
void step(const Vectors& v, float alpha, std::int64_t first, std::int64_t count) {
  const auto bytes = static_cast<std::size_t>(count) * sizeof(float);
  const auto load = [&](const float* from, float otherwise) {
    Floats values = Floats{} + otherwise;
    if (from != nullptr) std::memcpy(&values, from + first, bytes);
    return values;
  };
  const Floats dy = load(v.dy, 0) * alpha;
  const Floats dx = load(v.gain, 1) * dy, dgain = load(v.x, 1) * dy;
  if (v.dx != nullptr) std::memcpy(v.dx + first, &dx, bytes);
  if (v.dgain != nullptr) std::memcpy(v.dgain + first, &dgain, bytes);
}

Status run(const Problem& problem, const Arguments& arguments, const Stream&) {
  const auto address = [&](const char* name) -> float* {
    const auto at = problem.position(name);
    return at ? static_cast<float*>(arguments[*at].data) : nullptr;
  };
  const Vectors v{address("dy"), address("x"), address("gain"), address("dx"), address("dgain")};
  const auto alpha = static_cast<float>(problem.real(kAlpha));
  const std::int64_t n = problem.values[kN];
  std::int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes) step(v, alpha, i, kLanes);
  if (i < n) step(v, alpha, i, n - i);
  return ok_status();
}

}  // namespace

Implementation cpu_simd() {
  Implementation simd;
  simd.name = "cpu_simd";
  simd.summary = "both gradients from one read of dy, in vectors of four";
  simd.deterministic = true;
  simd.supports = [](const Problem&, const DeviceInfo&) -> Refusal { return std::nullopt; };
  simd.run = run;
  return simd;
}

}  // namespace ridge::ops::scale_backward
