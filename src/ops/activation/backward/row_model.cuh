// The gradients of activation for the checks on the host and on a GPU: operands dy, x, [up], [probs], [mask], [dx],
// [dup], [dprobs].
namespace ridge::ops::activation_backward {

struct RowModel {
  activation::Definition f;
  rows::i64 up, probs, mask;  // operands; -1: none
  rows::i64 dup, dprobs;      // outputs; -1: not wanted

  static constexpr int kStatistics = 1;

  template <class Row>
  RIDGE_ROWS bool masked(const Row& row) const {
    return mask >= 0 && activation::Definition::value_of(rows::Number(row(mask))) == 0;
  }
  // dy f(x) u
  template <class T, class Row>
  RIDGE_ROWS T product(const Row& row, rows::i64 column) const {
    const T y = T(row(0, column)) * f.value(T(row(1, column)));
    return up < 0 ? y : y * f.gate(T(row(up, column)));
  }
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    found[0] = rows::Number(0.0);
    if (dprobs < 0 || masked(row)) return;
    found[0] = rows::sum(row, [&](rows::i64 j) { return product<rows::Number>(row, j); });
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* sum, int output, rows::i64 column) const {
    if (output == dprobs) return sum[0];
    if (masked(row)) return T(0.0);
    const T x = row(1, column), dy = row(0, column), scaled = probs < 0 ? dy : dy * T(row(probs));
    if (output == dup) return scaled * f.value(x) * f.gate_slope(T(row(up, column)));
    const T dx = scaled * f.slope(x);
    return up < 0 ? dx : dx * f.gate(T(row(up, column)));
  }
};

}  // namespace ridge::ops::activation_backward
