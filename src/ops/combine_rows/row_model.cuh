// combine_rows for the checks on the host and on a GPU: operands x, from, [weights], y.
namespace ridge::ops::combine_rows {

// The row of x at a place of `from`; negative: none.
template <class Row>
RIDGE_ROWS rows::i64 source_of(const Row& row, rows::i64 from, rows::i64 place, rows::i64 sources) {
  const rows::i64 source = static_cast<rows::i64>(rows::Number(row(from, place)).value);
  return source < sources ? source : -1;
}

struct RowModel {
  rows::i64 x, from, weights;  // operands; -1: none
  rows::i64 sources, cols, top;

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    T sum(0.0);
    bool any = false;
    for (rows::i64 k = 0; k < top; ++k) {
      const rows::i64 place = row.index() * top + k, source = source_of(row, from, place, sources);
      if (source < 0) continue;
      const auto element = row(x, source * cols + column);
      const T term = weights < 0 ? T(element) : T(element * row(weights, place));
      sum = any ? sum + term : term;
      any = true;
    }
    return sum;
  }
};

}  // namespace ridge::ops::combine_rows
