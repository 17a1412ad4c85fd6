// "No shape became slower by 5 % or more", shown shape by shape with a bound on saying so wrongly.
//
// For shape s with session log ratios S_s (log of incumbent time / candidate time) and margin r the null hypothesis is
// a regression: median(S_s) <= -ln(1 + r). It is refuted by the same sign betting as the suite's test (decide.h): a
// session wins if S_s > -ln(1 + r), and p = 1 / max_t E_t.
//
// Why betting and not a t-test: the number of sessions is chosen by the suite's sequential test, on data that correlate
// with the shape's, so p-values for a fixed number of sessions would not hold; 1 / max E_t does, whenever one stops.
// And a shape's log ratios are skewed and heavy-tailed where a t-test at 13 values wants a normal distribution. It
// costs little: at a true ratio of 1 and sigma 1 %, -4.9 % is 4.9 sigma away, every session wins, and 13 sessions give
// p = 1/3612, enough for Holm's first step over 180 shapes at level 0.05. Sigma may be 3 % with 13 to 16 sessions.
//
// A session with a slack must win by more than it, in either direction: it then says less, and never something false.
//
// Holm's correction over the shapes keeps the chance of one or more wrong statements at `level`, whatever the
// dependence: the k-th smallest p (k from 0) is compared with level / (shapes - k), stopping at the first failure.
#pragma once

#include <span>
#include <string>
#include <vector>

namespace ridge::stats {

struct ShapeSeries {
  std::string label;
  std::vector<double> log_ratios;   // one per confirmation session, in order
  bool exempt = false;              // a targeted round named it beforehand: reported, not required, not in the family
  std::vector<double> slacks = {};  // of the sessions (stats/session.h), in the same order; empty: none
};

enum class ShapeVerdict {
  kNotWorse,      // a regression of the margin or more is refuted
  kWorse,         // such a regression is shown: the mirrored bet reached the same level
  kInconclusive,  // neither: more sessions are needed
  kExempt
};
const char* to_string(ShapeVerdict verdict);

struct ShapeResult {
  std::string label;
  ShapeVerdict verdict = ShapeVerdict::kInconclusive;
  double p_value = 1;           // of the regression hypothesis, before correction
  double adjusted_p_value = 1;  // Holm: compare with the level
  double ratio = 1;             // exp of the Hodges-Lehmann estimate; above 1 the candidate is faster
  int sessions = 0, wins = 0;
};

struct NonInferiority {
  bool passed = false;              // every shape that is not exempt is kNotWorse
  std::vector<ShapeResult> shapes;  // in the order given
  std::string reason;               // one sentence with the values of the worst shape
};

// `margin` as a fraction (0.05); `level` is the family-wise error. No shape to judge passes.
NonInferiority test_noninferiority(std::span<const ShapeSeries> shapes, double margin = 0.05, double level = 0.05);

// p-values in the order given, adjusted by Holm's step-down method.
std::vector<double> holm_adjust(std::span<const double> p_values);

}  // namespace ridge::stats
