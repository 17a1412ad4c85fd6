// What rmsnorm_quantize codes, for the check on a GPU: the products of the composition, from h and rstd as they are
// stored.
namespace ridge::ops::rmsnorm_quantize {

struct RowModel {
  rows::i64 input, rstd, weight;  // operands; -1: none
  rows::i64 zero_centred;

  static constexpr int kStatistics = 0;

  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, rows::i64 column) const {
    const T normal = row(input, column) * row(rstd);
    if (weight < 0) return normal;
    if (zero_centred != 0) return normal * (T(1.0) + T(row(weight, column)));
    return normal * row(weight, column);
  }
};

}  // namespace ridge::ops::rmsnorm_quantize
