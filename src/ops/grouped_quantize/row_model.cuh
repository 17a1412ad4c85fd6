// What grouped_quantize codes, for the check on a GPU: rows of x where groups have them and zeros elsewhere, all of it
// exact. Offsets are taken as the contract says that a GPU does.
namespace ridge::ops::grouped_quantize {

// Goes from group to group of `length` rows in all: rows begin .. end of x are rows first .. last of y, padding
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
  rows::i64 x, offsets;                  // operands
  rows::i64 count, length, cols, align;  // groups; rows and columns of x

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    GroupStep group;
    if (find(row, group) == count) return T(0.0);
    const rows::i64 from = group.begin + row.index() - group.first;
    return from < group.end ? T(row(x, from * cols + column)) : T(0.0);
  }
  // The group of a row of y; rows behind all of them go with the last one, whose scales zeros do not change.
  template <class Row>
  RIDGE_ROWS rows::i64 segment_of(const Row& row) const {
    GroupStep group;
    const rows::i64 found = find(row, group);
    return found < count ? found : count - 1;
  }

 private:
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
