// Both gradients of activation side by side, as one matrix, in the order of operations that
// activation/backward/row_model.cuh has for each. Operands dy, x, [up], [probs], [mask].
namespace ridge::ops::activation_quantize_backward {

struct RowModel {
  activation::Definition f;
  rows::i64 up, probs, mask;  // operands; -1: none
  rows::i64 cols;             // of x; what lies behind is the gradient of up

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    if (mask >= 0 && activation::Definition::value_of(rows::Number(row(mask))) == 0) return T(0.0);
    const bool of_up = column >= cols;
    const rows::i64 at = of_up ? column - cols : column;
    const T x = row(1, at), dy = row(0, at), scaled = probs < 0 ? dy : dy * T(row(probs));
    const T made = scaled * (of_up ? f.value(x) : f.slope(x));
    if (up < 0) return made;
    const T gate = row(up, at);
    return made * (of_up ? f.gate_slope(gate) : f.gate(gate));
  }
};

}  // namespace ridge::ops::activation_quantize_backward
