// adamw for the checks on the host and on a GPU: operands grad, [factor], [skip], param, exp_avg, exp_avg_sq, [master].
namespace ridge::ops::adamw {

struct RowModel {
  double decay, first, kept, second, step, root, eps;  // contract.h: numbers of fp32
  rows::i64 factor, skip;                              // operands; -1: none
  rows::i64 param, weights;                            // operands: the first output, and what the step changes
  rows::i64 maximize;

  static constexpr int kStatistics = 0;

  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Number& x) { return x.value; }

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int output, rows::i64 column) const {
    if (skip >= 0 && value_of(T(row(skip))) != 0) return row(param + output, column);
    T g = row(0, column);
    if (maximize != 0) g = -g;
    if (factor >= 0) g = g * T(row(factor));
    const T old = row(param + 1, column), m = old + (g - old) * T(first);
    if (output == 1) return m;
    const T v = T(row(param + 2, column)) * T(kept) + g * g * T(second);
    if (output == 2) return v;
    return T(row(weights, column)) * T(decay) - T(step) * m / (rows::sqrt(v) * T(root) + T(eps));
  }
};

}  // namespace ridge::ops::adamw
