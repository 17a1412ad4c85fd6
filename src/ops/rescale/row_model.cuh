// rescale for the checks on the host and on a GPU: operands factor, x.
namespace ridge::ops::rescale {

struct RowModel {
  rows::i64 factor, x;  // operands

  static constexpr int kStatistics = 0;

  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Number& x) { return x.value; }

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    const T by = row(factor), old = row(x, column);
    return value_of(by) == 1 ? old : old * by;
  }
};

}  // namespace ridge::ops::rescale
