// What row models are written with (ops/row_check.h), for the host and for a GPU alike: numbers that carry their fp32
// error along, sums of them, and what an element may be once it is stored. On a GPU this stands behind
// check_numbers.cuh; on the host behind <cmath>. It has no include guard and includes nothing.
#ifdef __CUDACC__
#define RIDGE_ROWS __device__ __forceinline__
#else
#define RIDGE_ROWS inline
#endif

namespace ridge::ops::rows {

using i64 = long long;

// A number as a right fp32 kernel may have it: at most `error` off, by about the root of `variance`.
struct Number {
  double value = 0, error = 0, variance = 0;

  RIDGE_ROWS Number() {}
  RIDGE_ROWS Number(double exact) : value(exact) {}  // NOLINT: a constant of a model
  RIDGE_ROWS Number(double v, double e, double s) : value(v), error(e), variance(s) {}
};
// An element of an input, as it is stored: a Number without an error, which is cheaper to multiply.
struct Exact {
  double value;
  RIDGE_ROWS explicit Exact(double x) : value(x) {}
  RIDGE_ROWS operator Number() const { return {value, 0, 0}; }  // NOLINT
};

constexpr double kUnit = 0x1p-24;  // the largest relative error of one rounding in fp32

RIDGE_ROWS double least_of(double a, double b) { return a < b ? a : b; }
RIDGE_ROWS double most_of(double a, double b) { return a > b ? a : b; }

// Quotients and roots in fp64. On a GPU without its subroutines, for which a kernel would have to spill: within a few
// steps of fp64 of the right result.
#ifdef __CUDACC__
RIDGE_ROWS double reciprocal(double x) {
  double first;
  asm("rcp.approx.ftz.f64 %0, %1;" : "=d"(first) : "d"(x));
  double y = first;
  for (int i = 0; i < 2; ++i) y = fma(y, fma(-x, y, 1.0), y);
  return y == y ? y : first;  // of zero and of infinities the first is right
}
RIDGE_ROWS double inverse_root(double x) {
  double first;
  asm("rsqrt.approx.ftz.f64 %0, %1;" : "=d"(first) : "d"(x));
  double y = first;
  for (int i = 0; i < 2; ++i) y = fma(0.5 * y, fma(-x * y, y, 1.0), y);
  return y == y ? y : first;
}
RIDGE_ROWS double quotient(double a, double b) { return a * reciprocal(b); }
RIDGE_ROWS double root(double x) {
  const double y = x * inverse_root(x);
  return y == y || x != x || x < 0 ? y : x;  // of zero and infinity
}
#else
RIDGE_ROWS double reciprocal(double x) { return 1 / x; }
RIDGE_ROWS double inverse_root(double x) { return 1 / ::sqrt(x); }
RIDGE_ROWS double quotient(double a, double b) { return a / b; }
RIDGE_ROWS double root(double x) { return ::sqrt(x); }
#endif

// One operation more: a rounding to fp32, or `steps` of them. Below the normal numbers it is half of the smallest one,
// however small x is.
RIDGE_ROWS Number rounded(const Number& x, double steps = 1) {
  const double slip = steps * (kUnit * ::fabs(x.value)), deviation = slip * slip;
  return {x.value, x.error + (slip + steps * 0x1p-150),
          x.variance + deviation * (1.0 / 6) + steps * steps * (0x1p-300 / 3)};
}
RIDGE_ROWS Number operator+(const Number& a, const Number& b) {
  return rounded({a.value + b.value, a.error + b.error, a.variance + b.variance});
}
RIDGE_ROWS Number operator-(const Number& a, const Number& b) {
  return rounded({a.value - b.value, a.error + b.error, a.variance + b.variance});
}
RIDGE_ROWS Number operator-(const Number& a) { return {-a.value, a.error, a.variance}; }
// Below the normal numbers the product of three depends on their order: a few of the smallest numbers more.
RIDGE_ROWS double least_error(double size_a, double size_b) { return 0x1p-148 * (1 + size_a + size_b); }
RIDGE_ROWS Number operator*(const Number& a, const Number& b) {
  const double size_a = ::fabs(a.value), size_b = ::fabs(b.value);
  return rounded({a.value * b.value,
                  size_a * b.error + size_b * a.error + a.error * b.error + least_error(size_a, size_b),
                  a.value * a.value * b.variance + b.value * b.value * a.variance});
}
RIDGE_ROWS Number operator*(const Number& a, const Exact& b) {
  const double size_a = ::fabs(a.value), size_b = ::fabs(b.value);
  return rounded({a.value * b.value, size_b * a.error + least_error(size_a, size_b), b.value * b.value * a.variance});
}
RIDGE_ROWS Number operator*(const Exact& a, const Number& b) { return b * a; }
RIDGE_ROWS Number operator*(const Exact& a, const Exact& b) {
  return rounded({a.value * b.value, least_error(::fabs(a.value), ::fabs(b.value)), 0});
}
RIDGE_ROWS Number operator*(double a, const Exact& b) { return Exact(a) * b; }
RIDGE_ROWS Number operator*(const Exact& a, double b) { return a * Exact(b); }
RIDGE_ROWS Number operator*(double a, const Number& b) { return b * Exact(a); }
RIDGE_ROWS Number operator*(const Number& a, double b) { return a * Exact(b); }
// A function of fp32 that is off by so many steps of its own: `value` and `slope` are those of f at x.
RIDGE_ROWS Number function(const Number& x, double value, double slope, double steps = 4) {
  return rounded({value, ::fabs(slope) * x.error, slope * slope * x.variance}, steps);
}
RIDGE_ROWS Number operator/(const Number& a, const Number& b) {
  const double inverse = reciprocal(b.value);
  return a * function(b, inverse, inverse * inverse, 1);
}
// Near zero, where its slope has no limit, the root moves by no more than the root of the error.
RIDGE_ROWS Number sqrt(const Number& x) {
  const double value = root(x.value), slope = 0.5 * reciprocal(value);
  return rounded(
      {value, least_of(slope * x.error, root(x.error)), least_of(slope * slope * x.variance, root(x.variance))}, 2);
}
RIDGE_ROWS Number rsqrt(const Number& x) {
  const double inverse = inverse_root(x.value);
  return function(x, inverse, 0.5 * inverse * reciprocal(x.value), 2);
}
RIDGE_ROWS Number exp(const Number& x) {
  const double power = ::exp(x.value);
  return function(x, power, power);
}
RIDGE_ROWS Number log(const Number& x) { return function(x, ::log(x.value), reciprocal(x.value)); }
// A kernel may have 0 for what is below the normal numbers.
RIDGE_ROWS double flushed(double x) { return x; }
RIDGE_ROWS Number flushed(const Number& x) { return {x.value, x.error + 0x1p-126, x.variance + 0x1p-252}; }
// 1 / (1 + e^-x), where e^-|x| may be flushed.
RIDGE_ROWS double sigmoid(double x) {
  const double power = ::exp(-::fabs(x)), share = quotient(1.0, 1.0 + power);
  return x < 0 ? power * share : share;
}
RIDGE_ROWS Number sigmoid(const Number& x) {
  const double value = sigmoid(x.value);
  // Where e^-x is lost beside 1, the sum in fp32 and its reciprocal are exactly 1.
  if (x.value - x.error > 20) return {value, sigmoid(-x.value), 0};
  return flushed(function(x, value, value * sigmoid(-x.value), 6));
}
// The normal distribution up to x, which fp32 has as 1 + erf(x / sqrt(2)), and its density.
RIDGE_ROWS double normal_density(double x) { return 0.3989422804014327 * ::exp(-0.5 * x * x); }
RIDGE_ROWS double normal(double x) { return 0.5 * ::erfc(x * -0.7071067811865476); }
RIDGE_ROWS Number normal(const Number& x) {
  Number found = function(x, normal(x.value), normal_density(x.value), 0);
  found.error += 0x1p-22;
  found.variance += 0x1p-48 / 3;
  return found;
}
RIDGE_ROWS Number normal_density(const Number& x) {
  const double value = normal_density(x.value), slope = x.value * value;
  return flushed(function(x, value, slope, 6 + 0.5 * x.value * x.value));
}
RIDGE_ROWS double sqrt(double x) { return root(x); }
RIDGE_ROWS double rsqrt(double x) { return inverse_root(x); }
RIDGE_ROWS double exp(double x) { return ::exp(x); }
RIDGE_ROWS double log(double x) { return ::log(x); }

// What is added up of the terms of a sum.
struct Sum {
  double value = 0, magnitude = 0, squares = 0, error = 0, variance = 0;

  RIDGE_ROWS void add(const Number& term) {
    value += term.value;
    magnitude += ::fabs(term.value);
    squares += term.value * term.value;
    error += term.error;
    variance += term.variance;
  }
};
// Of an fp32 sum of `length` terms in any order. Its rounding errors are those of numerics/error_model.h; what the
// terms have in common, the sum itself, may round the same way again and again (squares of numbers of few bits measure
// nine times the root of that model), so it counts for eighteen times as much.
RIDGE_ROWS double sum_error(double length) { return 8 * kUnit * root(length); }                // of each magnitude
RIDGE_ROWS double sum_variance(double length) { return kUnit * kUnit * length * (1.0 / 12); }  // of each square
RIDGE_ROWS Number finished_sum(double length, double value, double error, double variance) {
  return {value, error + length * 0x1p-150,
          variance + kUnit * kUnit * length * value * value + length * (0x1p-300 / 3)};
}
RIDGE_ROWS Number total(double length, const Sum& sum) {
  return finished_sum(length, sum.value, sum.error + sum_error(length) * sum.magnitude,
                      sum.variance + sum_variance(length) * sum.squares);
}

// The fp32 sum over a row of term(column), a Number; and the largest term.
template <class Row, class Term>
RIDGE_ROWS Number sum(const Row& row, const Term& term) {
  return total(static_cast<double>(row.columns()), row.add_up(term));
}
template <class Row, class Term>
RIDGE_ROWS Number largest(const Row& row, const Term& term) {
  return row.largest(term);
}
// Of two numbers, as part of a larger comparison.
RIDGE_ROWS Number larger(const Number& a, const Number& b) {
  const Number& more = a.value > b.value || a.value != a.value ? a : b;
  return {more.value, most_of(a.error, b.error), most_of(a.variance, b.variance)};
}

// How an operand meets the rows.
enum Reads : i64 {
  kRow,     // [..., columns]: row i goes with row i
  kScalar,  // one element per row: a label, a saved statistic, a loss
  kShared,  // the whole of an input goes with every row: a weight
  kSum,     // an output of [columns] that adds up one term per row: the gradient of a weight
  kApart    // an output that the model says nothing about: its operator checks it by itself
};

// The steps of a type of numbers, and where they end.
struct Format {
  double spacing = 0;       // of the numbers from 1 to 2
  double least_normal = 0;  // below it the steps stay the same
  double most = 0;          // the largest number
  double beyond = 0;        // what is stored of a larger one
  double is_f32 = 0;        // 1: what was computed in fp32 is stored without another rounding

  // The distance of neighbours at |x|: an infinity and NaN have more than any number.
  RIDGE_ROWS double step(double size) const {
    const double power = __builtin_bit_cast(double, __builtin_bit_cast(i64, size) & 0x7ff0000000000000ll);
    return most_of(power, least_normal) * spacing;
  }
  // To nearest even.
  RIDGE_ROWS double round(double x) const {
    const double size = ::fabs(x);
    if (!(size <= 1.7976931348623157e308)) return x;
    const double unit = step(least_of(size, most)), nearest = ::rint(quotient(x, unit)) * unit;
    if (::fabs(nearest) <= most) return nearest;
    return x < 0 ? -beyond : beyond;
  }
};

// What an element may be once it is stored: numerics::RoundedOnce.
struct Stored {
  double value = 0, allowed = 0, ideal_square = 0, shift = 0;
};

// Below this share of a step, what an element rounds to is mostly certain, and only then is it asked exactly.
constexpr double kSharp = 1.0 / 16;

RIDGE_ROWS bool is_finite(double x) { return ::fabs(x) <= 1.7976931348623157e308; }
// A thousandth of a step, so that no other number passes.
RIDGE_ROWS Stored known(const Format& format, double value) {
  if (!is_finite(value)) return {value, 1, 1, 0};
  const double allowed = format.step(least_of(::fabs(value), format.most)) * 0x1p-10;
  return {value, allowed, allowed * allowed / 4, 0};
}
RIDGE_ROWS Stored stored(const Format& format, const Number& x) {
  if (!is_finite(x.value)) return known(format, x.value);
  const double step = format.step(least_of(::fabs(x.value) + x.error, format.most));
  const bool sharp = x.error < kSharp * step;
  const double low = format.round(x.value - x.error), high = format.round(x.value + x.error);
  if (sharp && low == high) return known(format, low);
  // The part that elements of one row share, through its statistics, may lean to one side.
  const double deviation = root(x.variance);
  if (format.is_f32 != 0 && x.error > 0) {
    return {x.value, most_of(x.error, step / 2), most_of(x.variance, step * step * (1.0 / 48)), 2 * deviation};
  }
  return {x.value, x.error + step / 2, x.variance + step * step * (1.0 / 12), sharp ? step : 2 * deviation};
}

// A bound that stored() is nowhere below, with the step at the exact value or below it.
RIDGE_ROWS double surely_allowed(bool is_f32, double step, double error) {
  if (is_f32) return most_of(step / 2, error);
  return step / 2 + (error < kSharp * step ? 0.0 : error);
}
// Whether an element is the nearest number to its exact value, or off by less than a relative `slack` that others of
// its row may surely have.
RIDGE_ROWS bool surely_right(const Format& format, bool is_f32, double found, double exact, double slack) {
  const double size = ::fabs(exact), allowed = surely_allowed(is_f32, format.step(size), slack * size);
  return static_cast<int>(::fabs(found - exact) <= allowed) & static_cast<int>(size < format.most);
}
// The error in units of what is allowed; NaN where only one of both is.
RIDGE_ROWS double error_ratio(const Format& format, double found, const Number& expected, Stored& right) {
  right = stored(format, expected);
  const bool same = found == right.value || (found != found && right.value != right.value);
  return same ? 0.0 : quotient(::fabs(found - right.value), right.allowed);
}
// The squared error in units of the ideal kernel's, of finite numbers.
RIDGE_ROWS double normal_square(const Format& format, double found, const Number& expected) {
  const double step = format.step(::fabs(expected.value) + expected.error), distance = found - expected.value;
  const bool again = format.is_f32 == 0 || expected.error == 0;  // rounded once more by the store
  const double twelfth = step * step * (1.0 / 12);
  return quotient(distance * distance, again ? expected.variance + twelfth : most_of(expected.variance, twelfth / 4));
}

constexpr i64 kPiece = 512;  // columns that are worked on at a time

}  // namespace ridge::ops::rows
