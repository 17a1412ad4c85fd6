// The gradients of scale, for the checks on the host and on a GPU.
namespace ridge::ops::scale_backward {

struct RowModel {
  double alpha;
  rows::i64 first, second;  // the operand by which alpha dy is multiplied for either output; -1: none

  static constexpr int kStatistics = 0;
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int output, rows::i64 column) const {
    const rows::i64 factor = output == 0 ? first : second;
    const T scaled = alpha * row(0, column);
    return factor < 0 ? scaled : scaled * row(factor, column);
  }
};

}  // namespace ridge::ops::scale_backward
