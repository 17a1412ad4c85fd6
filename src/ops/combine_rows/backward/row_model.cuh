// combine_rows_backward for the checks on the host and on a GPU: operands x, from, dy, dweights. The
// columns of a row are its weights. Behind combine_rows's model.
namespace ridge::ops::combine_rows_backward {

struct RowModel {
  rows::i64 x, from, dy;  // operands
  rows::i64 sources, cols, top;

  static constexpr int kStatistics = 0;

  static RIDGE_ROWS rows::Exact exact(double x) { return rows::Exact(x); }
  static RIDGE_ROWS rows::Exact exact(const rows::Exact& x) { return x; }
  static RIDGE_ROWS void take(double& to, const rows::Number& from) { to = from.value; }
  static RIDGE_ROWS void take(rows::Number& to, const rows::Number& from) { to = from; }

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    T result(0.0);
    const rows::i64 place = row.index() * top + column, source = combine_rows::source_of(row, from, place, sources);
    if (source < 0) return result;
    rows::Sum sum;
    for (rows::i64 j = 0; j < cols; ++j) {
      sum.add(exact(row(dy, row.index() * cols + j)) * exact(row(x, source * cols + j)));
    }
    take(result, rows::total(static_cast<double>(cols), sum));
    return result;
  }
};

}  // namespace ridge::ops::combine_rows_backward
