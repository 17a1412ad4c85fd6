// What an element of dw may be, for the checks on the host and on a GPU: from the sum of its terms in fp64. This stands
// behind row_numbers.cuh.
namespace ridge::ops::embedding_backward {

// `added`: to what was there before, `old`.
RIDGE_ROWS rows::Stored element(const rows::Format& format, const rows::Sum& sum, double terms, bool added,
                                double old) {
  if (terms == 0) return rows::known(format, added ? old : 0.0);
  const rows::Number total = terms == 1 ? rows::Number(sum.value) : rows::total(terms, sum);
  return rows::stored(format, added ? rows::Number(old) + total : total);
}

}  // namespace ridge::ops::embedding_backward
