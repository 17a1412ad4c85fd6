// The gradient of cross_entropy for the checks on the host and on a GPU: operands dloss, logits, targets, lse, dlogits.
namespace ridge::ops::cross_entropy_backward {

struct RowModel {
  cross_entropy::Definition f;
  double scale;

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    const double target = cross_entropy::Definition::value_of(T(row(2)));
    if (target == f.ignored) return T(0.0);
    const T lse = row(3), x = T(row(1, column));
    const T power = cross_entropy::Definition::power(f.logit(x), lse);
    const T found = f.gradient(power, lse, target, column) * T(scale) * T(row(0));
    return f.cap > 0 ? found * f.slope(x) : found;
  }
};

}  // namespace ridge::ops::cross_entropy_backward
