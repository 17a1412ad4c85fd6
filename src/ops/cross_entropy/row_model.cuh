// cross_entropy for the checks on the host and on a GPU: operands logits, targets, [grad], then loss, [lse], [dlogits],
// or the four statistics of a shard.
namespace ridge::ops::cross_entropy {

// What both directions are made of; x is a double or a Number.
struct Definition {
  double smoothing, z_loss, cap, ignored;
  double first, whole;  // of a shard: its first column, and how many there are in all

  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Number& x) { return x.value; }

  static RIDGE_ROWS bool infinite(double x) { return x == x && !rows::is_finite(x); }

  // Whether |given| / cap is below 1/2, where a right kernel keeps the digits of logits, however large the cap is. From
  // there on it may take the difference of a sigmoid and its rest, and by its roundings a little earlier.
  RIDGE_ROWS bool near(double given) const { return ::fabs(given) < (0.5 - 0x1p-20) * cap; }
  RIDGE_ROWS double logit(double given) const {
    if (cap <= 0) return given;
    if (infinite(given)) return given > 0 ? cap : -cap;
    const double part = rows::quotient(given, cap), square = part * part;
    if (!near(given)) return cap * (2.0 * rows::sigmoid(2.0 * part) - 1.0);
    // tanh(t) / t: its continued fraction down to 11, which is 2e-13 off at 1/2.
    return given * rows::quotient(10395.0 + square * (1260.0 + square * 21.0),
                                  10395.0 + square * (4725.0 + square * (210.0 + square)));
  }
  // Of a logit as it is stored. Near 0 seven steps are those of tanh (4), of the cap, by which is divided and
  // multiplied, and of the product; further on the sigmoid has six of its own and doubles them, which the cap scales.
  RIDGE_ROWS rows::Number logit(const rows::Number& given) const {
    if (cap <= 0) return given;
    const double value = logit(given.value), size = ::fabs(value);
    if (infinite(given.value)) return value;
    double scaled = size, rest = 0;
    if (!near(given.value)) scaled = cap + value, rest = 2.0 * size + 3.0 * (::fabs(given.value) * slope(given.value));
    return {value, rows::kUnit * (7.0 * scaled + rest) + 0x1p-147,
            rows::kUnit * rows::kUnit / 6 * (37.0 * scaled * scaled + rest * rest) + 0x1p-294};
  }
  // The derivative, 1 - tanh^2.
  template <class T>
  RIDGE_ROWS T slope(const T& given) const {
    if (infinite(value_of(given))) return T(0.0);
    const T twice = T(2.0) * given / T(cap);
    return T(4.0) * rows::sigmoid(twice) * rows::sigmoid(-twice);
  }
  // exp(x - most); -infinity has none, whatever it is compared with, but NaN and the infinities themselves.
  template <class T>
  static RIDGE_ROWS T power(const T& x, const T& most) {
    if (rows::is_finite(value_of(most)) && value_of(x) < 0 && infinite(value_of(x))) return T(0.0);
    return rows::flushed(rows::exp(x - most));
  }
  // What the gradient of a column is before it is scaled, of its share of the sum. fp32 rounds smoothing / whole and
  // 1 - smoothing, too.
  template <class T>
  RIDGE_ROWS T gradient(const T& share, const T& lse, double target, rows::i64 column) const {
    T found = z_loss > 0 ? share * (T(1.0) + T(2.0 * z_loss) * lse) : share;
    if (smoothing > 0) found = found - T(smoothing) / T(whole);
    return target == first + static_cast<double>(column) ? found - (T(1.0) - T(smoothing)) : found;
  }
};

struct RowModel {
  Definition f;
  double scale;
  rows::i64 grad;                 // operand; -1: none
  rows::i64 shard, lse, dlogits;  // 1: statistics are written; outputs; -1: not wanted

  // The largest logit, the sum of the powers beside it, their logarithm, and the sum of the logits.
  static constexpr int kStatistics = 4;

  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    using rows::Number;
    const auto x = [&](rows::i64 j) -> Number { return f.logit(Number(row(0, j))); };
    const Number most = rows::largest(row, x);
    const bool nothing = shard != 0 && most.value < 0 && !rows::is_finite(most.value);
    found[0] = most.value > 0 && !rows::is_finite(most.value) ? most - most : most;  // of +infinity NaN
    found[1] = nothing ? Number(0.0) : rows::sum(row, [&](rows::i64 j) { return Definition::power(x(j), most); });
    found[2] = most + rows::log(found[1]);
    found[3] = rows::sum(row, x);
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* s, int output, rows::i64 column) const {
    const double target = Definition::value_of(T(row(1)));
    if (target == f.ignored) return T(0.0);
    const auto at = static_cast<rows::i64>(target - f.first);
    const bool here = at >= 0 && at < row.columns();
    if (shard != 0) {
      if (output == 0) return s[0];
      if (output == 1) return s[1];
      if (output == 2) return here ? f.logit(T(row(0, at))) : T(0.0);
      return s[3];
    }
    if (output == lse) return s[2];
    if (output == dlogits) {
      const T x = T(row(0, column));
      T found = f.gradient(Definition::power(f.logit(x), s[0]) / s[1], s[2], target, column) * T(scale);
      if (grad >= 0) found = found * T(row(grad));
      return f.cap > 0 ? found * f.slope(x) : found;
    }
    T loss = rows::log(s[1]) - (f.logit(T(row(0, at))) - s[0]) * T(1.0 - f.smoothing);
    if (f.smoothing > 0) loss = loss - T(f.smoothing) * (s[3] / T(f.whole) - s[0]);
    return f.z_loss > 0 ? loss + T(f.z_loss) * s[2] * s[2] : loss;
  }
};

}  // namespace ridge::ops::cross_entropy
