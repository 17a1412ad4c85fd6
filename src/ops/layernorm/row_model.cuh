// layernorm for the checks on the host and on a GPU: operands x, [residual], [weight], [bias], y, [sum], [mean],
// [rstd].
namespace ridge::ops::layernorm {

struct RowModel {
  rows::Format stored;  // of the sum
  double eps;
  rows::i64 residual, weight, bias;  // operands; -1: none
  rows::i64 zero_centred;
  rows::i64 sum, mean, rstd;  // outputs; -1: not wanted

  // The mean of the distances from the first element, and the factor.
  static constexpr int kStatistics = 2;

  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Exact& x) { return x.value; }
  // What is normalised, as it is stored: there is one right number.
  template <class Row>
  RIDGE_ROWS auto input(const Row& row, rows::i64 column) const {
    const auto x = row(0, column);
    using Element = decltype(row(0, column));
    if (residual < 0) return x;
    return Element(stored.round(value_of(x) + value_of(row(residual, column))));
  }
  // How far an element is from the first one: fp32 has that of near numbers without an error.
  template <class T, class Row>
  RIDGE_ROWS T away(const Row& row, rows::i64 column) const {
    return T(input(row, column)) - T(input(row, 0));
  }
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    using rows::Number;
    const auto length = static_cast<double>(row.columns());
    found[0] = rows::sum(row, [&](rows::i64 j) { return away<Number>(row, j); }) / length;
    const Number middle = found[0];
    const Number squares = rows::sum(row, [&](rows::i64 j) {
      const Number distance = away<Number>(row, j) - middle;
      return distance * distance;
    });
    found[1] = rows::rsqrt(squares / length + eps);
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* statistics, int output, rows::i64 column) const {
    if (output == rstd) return statistics[1];
    if (output == mean) return T(input(row, 0)) + statistics[0];
    if (output == sum) return input(row, column);
    T normal = (away<T>(row, column) - statistics[0]) * statistics[1];
    if (weight >= 0) normal = normal * (zero_centred != 0 ? T(1.0) + T(row(weight, column)) : T(row(weight, column)));
    return bias < 0 ? normal : normal + T(row(bias, column));
  }
};

}  // namespace ridge::ops::layernorm
