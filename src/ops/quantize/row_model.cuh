// What quantize codes, for the checks on the host and on a GPU: x itself, which is exact.
namespace ridge::ops::quantize {

struct RowModel {
  rows::i64 x;

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    return T(row(x, column));
  }
};

}  // namespace ridge::ops::quantize
