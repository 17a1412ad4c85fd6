// The gradients of the factors of rows for the checks on the host and on a GPU, along the rows of dy. Behind
// row_model.cuh.
namespace ridge::ops::grouped_quantize {

struct FactorModel {
  RowModel made;
  rows::i64 dprobs;  // output

  static constexpr int kStatistics = 1;

  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    found[0] = rows::Number(0.0);
    if (made.own_row(row) < 0) return;
    found[0] = rows::sum(row, [&](rows::i64 j) { return made.factor_term<rows::Number>(row, j); });
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row&, const T* sum, int, rows::i64) const {
    return sum[0];
  }
};

}  // namespace ridge::ops::grouped_quantize
