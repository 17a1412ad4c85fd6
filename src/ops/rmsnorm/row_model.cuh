// rmsnorm for the checks on the host and on a GPU: operands x, [residual], [weight], y, [sum], [rstd].
namespace ridge::ops::rmsnorm {

struct RowModel {
  rows::Format stored;  // of the sum
  double eps;
  rows::i64 residual, weight;  // operands; -1: none
  rows::i64 zero_centred;
  rows::i64 sum, rstd;  // outputs; -1: not wanted

  static constexpr int kStatistics = 1;

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
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    const rows::Number squares = rows::sum(row, [&](rows::i64 j) { return input(row, j) * input(row, j); });
    found[0] = rows::rsqrt(squares / static_cast<double>(row.columns()) + eps);
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* statistics, int output, rows::i64 column) const {
    if (output == rstd) return statistics[0];
    if (output == sum) return input(row, column);
    const T normal = input(row, column) * statistics[0];
    if (weight < 0) return normal;
    if (zero_centred != 0) return normal * (T(1.0) + T(row(weight, column)));
    return normal * row(weight, column);
  }
};

}  // namespace ridge::ops::rmsnorm
