// The gradients of rmsnorm for the checks on the host and on a GPU: operands dy, x, rstd, [weight], [dsum], [dx],
// [dweight].
namespace ridge::ops::rmsnorm_backward {

struct RowModel {
  rows::i64 weight, dsum;  // operands; -1: none
  rows::i64 zero_centred;
  rows::i64 dweight;  // output; -1: not wanted

  static constexpr int kStatistics = 1;

  template <class T, class Row>
  RIDGE_ROWS T weighted(const Row& row, rows::i64 column) const {
    if (weight < 0) return row(0, column);
    if (zero_centred != 0) return row(0, column) * (T(1.0) + T(row(weight, column)));
    return row(0, column) * row(weight, column);
  }
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    const rows::Number products =
        rows::sum(row, [&](rows::i64 j) { return weighted<rows::Number>(row, j) * row(1, j); });
    const rows::Number rstd = row(2);
    found[0] = products / static_cast<double>(row.columns()) * rstd * rstd;
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* mean, int output, rows::i64 column) const {
    if (output == dweight) return row(0, column) * row(1, column) * row(2);
    const T dx = (weighted<T>(row, column) - mean[0] * row(1, column)) * row(2);
    return dsum < 0 ? dx : dx + T(row(dsum, column));
  }
};

}  // namespace ridge::ops::rmsnorm_backward
