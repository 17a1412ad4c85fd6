// A piece of a tensor in fp32. Compiled once per instruction set; best_step() picks.
#pragma once

#include <cstdint>

namespace ridge::ops::adamw {

inline constexpr std::int64_t kPiece = 1024;  // numbers of each kind that stay in the first-level cache together

// The numbers of a step (Constants) in fp32; `factor` of the gradient.
struct Factors {
  float factor, decay, first, kept, second, step, root, eps;
};

// Changes w, m and v in place.
using Step = void (*)(const Factors& factors, const float* g, float* w, float* m, float* v, std::int64_t count);

void step_portable(const Factors& factors, const float* g, float* w, float* m, float* v, std::int64_t count);
void step_avx2(const Factors& factors, const float* g, float* w, float* m, float* v, std::int64_t count);
void step_avx512(const Factors& factors, const float* g, float* w, float* m, float* v, std::int64_t count);
Step best_step();

}  // namespace ridge::ops::adamw
