// What the codes and scales of a matrix may be, from elements that are known up to an error, for the checks on the host
// and on a GPU. Stands behind row_numbers.cuh; it has no include guard and includes nothing.
//
// The largest magnitude of a group is known up to the errors of its elements, and so is its scale; where that is a
// power of two, it may be either of two, and a code what either of them gives. An element that is exact has one scale
// and one quotient.
namespace ridge::ops::right_codes {

using rows::Format;
using rows::i64;
using rows::Number;
using rows::Stored;

enum Rule : i64 { kExact, kFloor, kEven, kCeil };  // ridge/scaling.h

// Two roundings of the scale, one each of its reciprocal and of the product, and one to spare.
constexpr double kQuotientSlack = 5 * 0x1p-24;
constexpr double kMoreThanF32 = 3.4028235677973366e38;  // rounds to infinity
constexpr double kInfinity = __builtin_bit_cast(double, 0x7ff0000000000000ll);
constexpr unsigned kMostF32 = 0x7f7fffff, kInfinityF32 = 0x7f800000;  // bits of its largest number, and of infinity

// How a matrix is coded; every member has 8 bytes.
struct Definition {
  i64 granularity, rule, stochastic;
  i64 type;            // of the codes, as DType has it
  Format code, scale;  // of the codes and of the scales as they are stored
};

RIDGE_ROWS int exponent_of(double x) {
  return static_cast<int>(__builtin_bit_cast(i64, x) >> 52 & 0x7ff) - 1023;  // of a normal number
}
RIDGE_ROWS double power_of_two(int exponent) {
  return __builtin_bit_cast(double, static_cast<i64>(exponent + 1023) << 52);
}
RIDGE_ROWS double limited(double x, double most) { return rows::least_of(rows::most_of(x, -most), most); }

// An element as fp32 has it. Zero is what no rounding changes: of its factors one is zero. Whether it is infinite, its
// value alone says: one that may be either because of its error is next to the largest number.
RIDGE_ROWS Number in_fp32(const Number& y) {
  if (!rows::is_finite(y.value) || y.value == 0) return Number(y.value);
  if (::fabs(y.value) < kMoreThanF32) return y;
  return Number(y.value < 0 ? -kInfinity : kInfinity);
}

// What a number lies between.
struct Interval {
  double low, high;
};

// The same of a magnitude in fp32, as bits, which order as the numbers do; what is not finite counts as nothing.
struct Magnitude {
  unsigned low, high;
};
RIDGE_ROWS unsigned bits_of(float x) { return __builtin_bit_cast(unsigned, x); }
RIDGE_ROWS double number_of(unsigned bits) { return __builtin_bit_cast(float, bits); }
RIDGE_ROWS Magnitude magnitude_of(const Number& y) {
  if (!rows::is_finite(y.value)) return {0, 0};
  const double least = rows::most_of(::fabs(y.value) - y.error, 0), most = ::fabs(y.value) + y.error;
  if (most >= number_of(kMostF32))
    return {least >= number_of(kMostF32) ? kMostF32 : bits_of(static_cast<float>(least)), kMostF32};
  const unsigned low = bits_of(static_cast<float>(least)), high = bits_of(static_cast<float>(most));
  return {number_of(low) > least ? low - 1 : low, number_of(high) < most ? high + 1 : high};
}
RIDGE_ROWS Interval interval_of(const Magnitude& group) { return {number_of(group.low), number_of(group.high)}; }

RIDGE_ROWS int least_exponent(const Definition& d) { return d.scale.is_f32 != 0 ? -126 : -127; }

RIDGE_ROWS double scale_of(double amax, const Definition& d) {
  if (amax == 0) return 1;
  if (d.rule == kExact) return rows::most_of(rows::quotient(amax, d.code.most), 0x1p-126);
  const int size = exponent_of(amax);
  const double significand = amax * power_of_two(-size);
  int exponent = size - exponent_of(d.code.most);
  if (d.rule == kEven && significand >= 2 - d.code.spacing / 2) ++exponent;
  if (d.rule == kCeil && significand > 1.75) ++exponent;  // 448 and 57344 are both 1.75 times a power of two
  const int least = least_exponent(d);
  return power_of_two(exponent < least ? least : exponent > 127 ? 127 : exponent);
}
// Of a group whose largest magnitude lies between these. One that may vanish may have the scale of zeros.
RIDGE_ROWS Interval scales_of(const Interval& amax, const Definition& d) {
  const double high = scale_of(amax.high, d);
  if (amax.low == amax.high) return {high, high};
  if (amax.low > 0) return {scale_of(amax.low, d), high};
  return {power_of_two(least_exponent(d)), rows::most_of(high, 1)};
}

RIDGE_ROWS Stored right_scale(const Interval& scale, const Definition& d) {
  const double middle = (scale.low + scale.high) / 2, half = (scale.high - scale.low) / 2;
  if (d.rule != kExact) {
    if (half == 0) return rows::known(d.scale, middle);
    return {middle, half * (1 + 0x1p-20), half * half, half};
  }
  // A division, or a product with a rounded reciprocal that serves every group.
  const double step = d.scale.step(middle), allowed = half + 2 * rows::kUnit * scale.high * (1 + 0x1p-20);
  return {middle, allowed, half * half + step * step * (1.0 / 12), allowed};
}

// A number that is at most `reach` off, stored once to nearest even: numerics::rounded_once.
RIDGE_ROWS Stored rounded_once(const Format& format, double value, double reach) {
  const double low = format.round(value - reach), high = format.round(value + reach);
  if (low == high) return rows::known(format, format.round(value));
  const double step = format.step(::fabs(value));
  // It may round beyond the largest number, which codes are held to.
  const double off = reach + step;
  if (!rows::is_finite(high - low)) return {value, off, off * off, off};
  const double allowed = (high - low) / 2 + 2 * reach;
  return {value, allowed, (high - low) * (high - low) / 4, allowed};
}
RIDGE_ROWS double grid_below(const Format& format, double x) {
  const double step = format.step(::fabs(x));
  return ::floor(rows::quotient(x, step)) * step;
}
RIDGE_ROWS double grid_above(const Format& format, double x) { return -grid_below(format, -x); }
// The same stored by a random rounding: numerics::rounded_stochastically.
RIDGE_ROWS Stored rounded_at_random(const Format& format, double value, double reach) {
  const double below = grid_below(format, limited(value - reach, format.most)),
               above = grid_above(format, limited(value + reach, format.most)), step = format.step(::fabs(value));
  if (below == above) return rows::known(format, below);
  const double variance = (value - below) * (above - value);
  return {value, rows::most_of(value - below, above - value) * (1 + 0x1p-20),
          rows::most_of(variance, step * step * (1.0 / 12)), 0};
}

RIDGE_ROWS Stored right_code(const Number& y, const Interval& scale, const Definition& d) {
  if (y.value != y.value) return rows::known(d.code, y.value);
  if (!rows::is_finite(y.value)) return rows::known(d.code, y.value < 0 ? -d.code.beyond : d.code.beyond);
  const double most = d.code.most;
  if (d.rule != kExact && scale.low != scale.high) {  // both are powers of two
    const double size = ::fabs(y.value), least = size - y.error, sign = y.value < 0 ? -1 : 1;
    const double from = limited(rows::quotient(least, least < 0 ? scale.low : scale.high), most),
                 to = limited(rows::quotient(size + y.error, scale.low), most);
    const double low = d.stochastic != 0 ? grid_below(d.code, from) : d.code.round(from),
                 high = d.stochastic != 0 ? grid_above(d.code, to) : d.code.round(to), half = (high - low) / 2;
    if (low == high) return rows::known(d.code, sign * low);
    return {sign * (low + half), half * (1 + 0x1p-20), half * half, half};
  }
  const double middle = (scale.low + scale.high) / 2, value = limited(rows::quotient(y.value, middle), most);
  double reach = rows::quotient(y.error, scale.low);
  if (d.rule == kExact && value != 0) {
    // Below the normal numbers of fp32 its error is no longer relative: half of its smallest number.
    const double slack = kQuotientSlack + rows::quotient(scale.high - scale.low, scale.low);
    reach += rows::most_of(slack * ::fabs(value), 0x1p-150);
  }
  return d.stochastic != 0 ? rounded_at_random(d.code, value, reach) : rounded_once(d.code, value, reach);
}

// The largest magnitude of all of a matrix, an infinity where it holds what is not finite.
RIDGE_ROWS Stored right_largest(const Interval& amax, const Format& f32) {
  if (amax.low == amax.high) return rows::known(f32, amax.high);
  const double half = (amax.high - amax.low) / 2, allowed = half + f32.step(amax.high) / 2;
  return {amax.low + half, allowed, half * half, allowed};
}

// Which group an element (row, col) of rows x cols belongs to, as their scales lie; `segment`: of its row (ops/coding).
RIDGE_ROWS i64 group_of(i64 granularity, i64 rows, i64 cols, i64 row, i64 col, i64 segment = 0) {
  switch (granularity) {
    case 1: return segment * rows + row;                          // kRow
    case 2: return col / 128 * rows + row;                        // kVector
    case 3: return row / 128 * ((cols + 127) / 128) + col / 128;  // kBlock
    case 4: return col / 32 * rows + row;                         // kMx
    default: return 0;                                            // kTensor
  }
}

}  // namespace ridge::ops::right_codes
