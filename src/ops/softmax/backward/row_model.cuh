// The gradient of softmax for the checks on the host and on a GPU: operands dy, y, dx; of logsumexp dy, x, lse, dx.
namespace ridge::ops::softmax_backward {

struct RowModel {
  softmax::Definition f;
  rows::i64 form;  // SoftmaxForm

  static constexpr int kStatistics = 1;  // of softmax the sum of dy y, of log_softmax that of dy

  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    using rows::Number;
    if (form == 0) found[0] = rows::sum(row, [&](rows::i64 j) -> Number { return row(0, j) * row(1, j); });
    if (form == 1) found[0] = rows::sum(row, [&](rows::i64 j) -> Number { return Number(row(0, j)); });
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* s, int, rows::i64 column) const {
    if (form == 0) return T(row(1, column)) * (T(row(0, column)) - s[0]) * T(f.scale);
    if (form == 1) return (T(row(0, column)) - share(T(row(1, column))) * s[0]) * T(f.scale);
    const T lse = row(2), z = f.scaled(T(row(1, column)));
    return share(z - lse) * (T(f.scale) * T(row(0)));
  }

 private:
  template <class T>
  static RIDGE_ROWS T share(const T& log) {
    return rows::flushed(rows::exp(log));
  }
};

}  // namespace ridge::ops::softmax_backward
