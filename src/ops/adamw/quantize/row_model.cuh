// What adamw_quantize codes, for the check on a GPU: the new weight as it is stored, which is exact.
namespace ridge::ops::adamw_quantize {

struct RowModel {
  rows::i64 weights;  // an operand

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    return T(row(weights, column));
  }
};

}  // namespace ridge::ops::adamw_quantize
