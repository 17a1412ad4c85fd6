// The gradients of layernorm for the checks on the host and on a GPU: operands dy, x, mean, rstd, [weight], [dsum],
// [dx], [dweight], [dbias].
namespace ridge::ops::layernorm_backward {

struct RowModel {
  rows::i64 weight, dsum;  // operands; -1: none
  rows::i64 zero_centred;
  rows::i64 dweight, dbias;  // outputs; -1: not wanted

  // The means of dy w and of dy w (x - mean) rstd^2.
  static constexpr int kStatistics = 2;

  template <class T, class Row>
  RIDGE_ROWS T weighted(const Row& row, rows::i64 column) const {
    if (weight < 0) return row(0, column);
    if (zero_centred != 0) return row(0, column) * (T(1.0) + T(row(weight, column)));
    return row(0, column) * row(weight, column);
  }
  template <class T, class Row>
  RIDGE_ROWS T centred(const Row& row, rows::i64 column) const {
    return T(row(1, column)) - T(row(2));
  }
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    using rows::Number;
    const auto length = static_cast<double>(row.columns());
    const Number rstd = row(3);
    found[0] = rows::sum(row, [&](rows::i64 j) { return weighted<Number>(row, j); }) / length;
    found[1] = rows::sum(row, [&](rows::i64 j) { return weighted<Number>(row, j) * centred<Number>(row, j); }) /
               length * rstd * rstd;
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* mean, int output, rows::i64 column) const {
    if (output == dbias) return row(0, column);
    if (output == dweight) return T(row(0, column)) * (centred<T>(row, column) * T(row(3)));
    const T dx = (weighted<T>(row, column) - mean[0] - mean[1] * centred<T>(row, column)) * T(row(3));
    return dsum < 0 ? dx : dx + T(row(dsum, column));
  }
};

}  // namespace ridge::ops::layernorm_backward
