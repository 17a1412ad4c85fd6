// How wrong a correct kernel may be, and no more.
//
// A reduction s = sum_{i<k} p_i of products is accumulated in a type with unit roundoff u (2^-24 for f32) and stored in
// an output type. With P = sum |p_i| (the matrix |A||B| for a GEMM) and Q = sum p_i^2:
//
//   element  |x - s| <= B + h,    B = c u sqrt(k) P + k t / 2,    h = half an ulp of the output type at |s| + B
//   RMS      rms(x - s) <= 2 sqrt(mean(u^2 k (Q / 12 + s^2 / 18) + ulp_out(s)^2 / 12))
//
// where t is the smallest subnormal of the accumulation type (a product may vanish).
//
// Why. Each addition rounds its partial sum s_i by about a uniform error of half an ulp, whose mean square is u^2 s_i^2
// / 6 over the mantissas. Terms of random sign make s_i^2 ~ Q i / k, whose sum is Q k / 2; terms of one sign make s_i ~
// s i / k, whose sum of squares is s^2 k / 3: together the RMS line. A straight loop over k measures 0.8 of it, blocked
// and pairwise sums far less. The element line has the same form for one sign: 0.24 u sqrt(k) P times the 5 or 6 sigma
// of 10^7 elements, so c = 1.5 would do for inputs of one scale; scales 2^-12..2^12 in a row, where small terms vanish
// beside a large partial sum, measure up to 5.2 over the families of fill.h, and c = 8 leaves a margin.
// The classical bound k u P holds for any data but is sqrt(k) / c weaker: it would let TF32 pass for f32. Data outside
// the model: thousands of equal terms of full mantissa round the same way again and again and can exceed c.
//
// Where Q is known and inputs have no common sign, the sharper line  |x - s| <= z u sqrt(k (Q / 12 + s^2 / 18)) + k t /
// 2 + h with z = 12 is sqrt(k) tighter still: straight loops measure up to 6.4 over the families of fill.h (22 when all
// terms are positive with scales 2^-12..2^12, which is why it is not the default).
//
// What it rejects (error_model_test.cpp, m = n = 24, k = 4096, normal inputs; found over allowed, above 1 is rejected):
//                                     element    with z      RMS
//   f32 out: TF32 inputs                 0.75        68      106
//            bf16 inputs                  6.5       560      830
//            f16 accumulation              45      2350     3400
//            1 % of k dropped             290     27000    36000
//   bf16 out: f16 accumulation             16       720      2.9
//             1 % of k dropped            210      6900       31
//   f16 out: f16 accumulation              25      1300       23
//            1 % of k dropped             280      9500      250
// So the default element line alone does not see TF32 at this k: use it with the RMS line, or use the sharper line.
#pragma once

#include <cstdint>

#include "ridge/dtype.h"

namespace ridge::numerics {

// 2^-(mantissa bits + 1): the largest relative error of one rounding to nearest.
double unit_roundoff(DType dtype);

inline constexpr double kReductionConstant = 8;  // c
inline constexpr double kMixedSignSigmas = 12;   // z
inline constexpr double kRmsFactor = 2;

struct Reduction {
  DType accumulate = DType::kF32;
  DType output = DType::kF32;
  std::int64_t length = 1;  // k; 0 (an empty sum) allows only the output's rounding
};

// B, before the output's rounding. `magnitude` is P.
double accumulation_bound(const Reduction& reduction, double magnitude);
// The largest |x - reference| of a correct element.
double element_bound(const Reduction& reduction, double reference, double magnitude);
// The sharper line for terms of both signs; `square_sum` is Q.
double element_bound_mixed_signs(const Reduction& reduction, double reference, double square_sum);
// The expected squared error of one element of the ideal (straight-loop) kernel; `square_sum` is Q. When only P is
// known, P^2 / k underestimates Q and keeps the test strict: for normal inputs 2.5 times.
double ideal_square_error(const Reduction& reduction, double reference, double square_sum);
// Limit for sqrt(mean((x - s)^2 / ideal_square_error)) over `count` elements: kRmsFactor, and more for few elements,
// whose mean is itself uncertain: 8.7 for one (a single error is a matter of luck), 2.6 for 100, 2.06 for 10^4.
double rms_limit(std::int64_t count);

// A value that is computed in fp32 with a relative error of at most `slack` (0: exactly) and stored once, to nearest
// even: all that a correct implementation may store. Where both ends of the interval round to the same number it is
// known exactly, so `allowed` is next to nothing; where they do not, either neighbour is right. Much sharper than half
// an ulp for short formats, whose rounding errors are neither uniform nor without bias (most elements of a scaled block
// round to zero).
struct RoundedOnce {
  double value = 0, allowed = 0, ideal_square = 0;
  double shift = 0;  // how much of the error right kernels may have in one direction wherever this value occurs
};
RoundedOnce rounded_once(DType dtype, double value, double slack);
// The same for stochastic rounding: both neighbours are right, on average the value itself.
RoundedOnce rounded_stochastically(DType dtype, double value, double slack);

}  // namespace ridge::numerics
