// activation for the checks on the host and on a GPU: operands x, [up], [probs], [mask], y. Behind
// gating/definition.cuh.
namespace ridge::ops::activation {

struct RowModel {
  Definition f;
  rows::i64 up, probs, mask;  // operands; -1: none

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    if (mask >= 0 && Definition::value_of(T(row(mask))) == 0) return T(0.0);
    T y = f.value(T(row(0, column)));
    if (up >= 0) y = y * f.gate(T(row(up, column)));
    return probs < 0 ? y : y * T(row(probs));
  }
};

}  // namespace ridge::ops::activation
