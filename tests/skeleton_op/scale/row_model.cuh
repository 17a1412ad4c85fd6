// y = alpha * gain * x + beta, for the checks on the host and on a GPU. Where the largest x is, is no number of a row.
namespace ridge::ops::scale {

struct RowModel {
  double alpha, beta;
  rows::i64 gain;  // an operand; -1: 1

  static constexpr int kStatistics = 0;
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    const T scaled = alpha * row(0, column);
    return (gain < 0 ? scaled : scaled * row(gain, column)) + beta;
  }
};

}  // namespace ridge::ops::scale
