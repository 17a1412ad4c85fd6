// What grouped_quantize codes, for the reference and for the check on a GPU: what is made of the rows of x where groups
// have them, and zeros elsewhere. Offsets are taken as the contract says that a GPU does. Behind gating/definition.cuh.
namespace ridge::ops::grouped_quantize {

// Goes from group to group of `length` rows in all: rows begin .. end of m are rows first .. last of y, padding
// included.
struct GroupStep {
  rows::i64 begin, end, first, last;

  RIDGE_ROWS static rows::i64 within(double offset, rows::i64 most) {
    return offset < 0 ? 0 : offset > static_cast<double>(most) ? most : static_cast<rows::i64>(offset);
  }
  // A group without rows before the first one.
  RIDGE_ROWS static GroupStep before(double offset, rows::i64 length) {
    const rows::i64 begin = within(offset, length);
    return {begin, begin, 0, 0};
  }
  // The next one, which ends at that offset; align is a power of two.
  RIDGE_ROWS void next(double offset, rows::i64 length, rows::i64 align) {
    const rows::i64 to = within(offset, length);
    begin = end, first = last;
    end = to > begin ? to : begin;
    last = first + ((end - begin + align - 1) & -align);
  }
};

struct RowModel {
  rows::i64 x, offsets, index, dy, probs;  // operands; -1: none
  rows::i64 sources;                       // rows of x
  rows::i64 count, length, cols, align;    // groups; rows of m, columns of y
  rows::i64 of, own_rows;                  // GroupedQuantizeOf; 1: the rows are those of m
  rows::Format kept;                       // what is made is rounded to

  enum Of : rows::i64 { kRows, kSwiglu, kSwigluBackward };

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    const rows::i64 from = own_rows != 0 ? own_row(row) : padded_row(row);
    return from < 0 ? T(0.0) : made<T>(row, from, column);
  }
  // The group of a row of y; rows behind all of them go with the last one, whose scales zeros do not change.
  template <class Row>
  RIDGE_ROWS rows::i64 segment_of(const Row& row) const {
    GroupStep group;
    const rows::i64 found = find(row, group);
    return found < count ? found : count - 1;
  }

  // Element `column` of row `from` of m.
  template <class T, class Row>
  RIDGE_ROWS T made(const Row& row, rows::i64 from, rows::i64 column) const {
    if (of == kRows) {
      const rows::i64 source = source_of(row, from);
      return source < 0 ? T(0.0) : T(row(x, source * cols + column));
    }
    const activation::Definition silu{activation::Definition::kSilu, 0, 0};
    const rows::i64 half = of == kSwiglu ? cols : cols / 2, at = column < half ? column : column - half;
    const T a = row(x, from * 2 * half + at), b = row(x, from * 2 * half + half + at);
    if (of == kSwiglu) {
      const T y = silu.value(a) * b;
      return rounded(probs < 0 ? y : y * T(row(probs, from)));
    }
    const T given = row(dy, from * half + at), scaled = probs < 0 ? given : given * T(row(probs, from));
    return rounded(column < half ? scaled * silu.slope(a) * b : scaled * silu.value(a));
  }

  // Element `column` of a row of dy in the gradient of the row's factor; `row` is read along dy.
  template <class T, class Row>
  RIDGE_ROWS T factor_term(const Row& row, rows::i64 column) const {
    const activation::Definition silu{activation::Definition::kSilu, 0, 0};
    const rows::i64 half = cols / 2, first = row.index() * cols + column;
    return T(row(dy, column)) * silu.value(T(row(x, first))) * T(row(x, first + half));
  }
  // The row where it is of a group; -1: it is of none.
  template <class Row>
  RIDGE_ROWS rows::i64 own_row(const Row& row) const {
    GroupStep group = GroupStep::before(offset(row, 0), length);
    if (row.index() < group.begin) return -1;
    for (rows::i64 g = 0; g < count; ++g) group.next(offset(row, g + 1), length, align);
    return row.index() < group.end ? row.index() : -1;
  }

 private:
  // The row of m; -1: none.
  template <class Row>
  RIDGE_ROWS rows::i64 padded_row(const Row& row) const {
    GroupStep group;
    if (find(row, group) == count) return -1;
    const rows::i64 from = group.begin + row.index() - group.first;
    return from < group.end ? from : -1;
  }

  // The row of x that row `from` of m is; -1: none, a row of zeros.
  template <class Row>
  RIDGE_ROWS rows::i64 source_of(const Row& row, rows::i64 from) const {
    if (index < 0) return from;
    const double named = rows::Number(row(index, from)).value;
    return named < 0 || named >= static_cast<double>(sources) ? -1 : static_cast<rows::i64>(named);
  }
  RIDGE_ROWS double rounded(double y) const { return kept.is_f32 != 0 ? y : kept.round(y); }
  // One number or, next to the middle of two, either of them.
  RIDGE_ROWS rows::Number rounded(const rows::Number& y) const {
    if (kept.is_f32 != 0 || !rows::is_finite(y.value)) return y;
    const double low = kept.round(y.value - y.error), high = kept.round(y.value + y.error);
    if (low == high) return rows::Number(low);
    if (!rows::is_finite(high - low)) return {y.value, y.error + kept.step(::fabs(y.value)), y.variance};
    // Not quite the middle, which may be zero: a zero has no error (right_codes::in_fp32).
    const double half = (high - low) / 2, middle = low + half, off = half * 0x1p-30;
    return {middle == 0 ? off : middle, half + off, half * half};
  }

  // The number of the group that a row of y lies in; `count`: in none.
  template <class Row>
  RIDGE_ROWS rows::i64 find(const Row& row, GroupStep& group) const {
    group = GroupStep::before(offset(row, 0), length);
    for (rows::i64 g = 0; g < count; ++g) {
      group.next(offset(row, g + 1), length, align);
      if (row.index() < group.last) return g;
    }
    return count;
  }
  template <class Row>
  RIDGE_ROWS double offset(const Row& row, rows::i64 at) const {
    return rows::Number(row(offsets, at)).value;
  }
};

}  // namespace ridge::ops::grouped_quantize
