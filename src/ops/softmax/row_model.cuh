// softmax for the checks on the host and on a GPU: operands x, and then y or lse.
namespace ridge::ops::softmax {

// What both directions are made of; x is a double or a Number.
struct Definition {
  double scale;

  static RIDGE_ROWS double value_of(double x) { return x; }
  static RIDGE_ROWS double value_of(const rows::Number& x) { return x.value; }

  // z of x. Infinities carry no error along, which would be one of the whole row.
  template <class T>
  RIDGE_ROWS T scaled(const T& x) const {
    if (scale == 1) return x;
    if (!rows::is_finite(value_of(x))) return T(scale * value_of(x));
    return x * T(scale);
  }
  // exp(z - most) where most is finite; -infinity has none.
  template <class T>
  static RIDGE_ROWS T power(const T& z, const T& most) {
    if (value_of(z) < 0 && !rows::is_finite(value_of(z))) return T(0.0);
    return rows::flushed(rows::exp(z - most));
  }
};

struct RowModel {
  Definition f;
  rows::i64 form;  // SoftmaxForm

  // The largest z, which is infinite or NaN of a row that is no distribution; the sum of the powers beside it; and the
  // logarithm of that.
  static constexpr int kStatistics = 3;

  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    using rows::Number;
    const auto z = [&](rows::i64 j) -> Number { return f.scaled(Number(row(0, j))); };
    const Number most = rows::largest(row, z);
    found[0] = most;
    found[1] = found[2] = Number(0.0);
    if (!rows::is_finite(most.value)) return;
    found[1] = rows::sum(row, [&](rows::i64 j) { return Definition::power(z(j), most); });
    found[2] = rows::log(found[1]);
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* s, int, rows::i64 column) const {
    const double most = Definition::value_of(s[0]);
    if (!rows::is_finite(most)) return form == 2 ? T(most) : T(most - most);
    if (form == 2) return s[0] + s[2];
    const T z = f.scaled(T(row(0, column)));
    if (form == 0) return Definition::power(z, s[0]) / s[1];
    return rows::is_finite(Definition::value_of(z)) ? (z - s[0]) - s[2] : z;
  }
};

}  // namespace ridge::ops::softmax
