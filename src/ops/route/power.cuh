// What both references are made of, for the host and for a GPU: the power of a logit, and what is beside the sum that
// weights are divided by. Stands behind row_numbers.cuh; it has no include guard and includes nothing.
namespace ridge::ops::route {

constexpr double kBesideSum = 1e-20;

// e^(x - most). Of -infinity beside a number it is 0; a kernel may have 0 for what is below the normal numbers, too.
RIDGE_ROWS double power(double x, double most) {
  return x < 0 && !rows::is_finite(x) && rows::is_finite(most) ? 0.0 : ::exp(x - most);
}
RIDGE_ROWS rows::Number power(const rows::Number& x, const rows::Number& most) {
  if (x.value < 0 && !rows::is_finite(x.value) && rows::is_finite(most.value)) return 0.0;
  return rows::flushed(rows::exp(x - most));
}

}  // namespace ridge::ops::route
