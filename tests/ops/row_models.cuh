// Row models of the tests, for the host and, behind row_numbers.cuh, for a GPU.
namespace ridge::ops::row_models {

using rows::i64;

// y = x / sqrt(mean(x^2) + eps) * weight, with the statistic saved. Operands x, weight, y, rstd.
struct Norm {
  double eps;
  static constexpr int kStatistics = 1;
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    const rows::Number squares = rows::sum(row, [&](i64 j) { return row(0, j) * row(0, j); });
    found[0] = rows::rsqrt(squares / static_cast<double>(row.columns()) + eps);
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* rstd, int output, i64 column) const {
    return output == 1 ? rstd[0] : row(0, column) * rstd[0] * row(1, column);
  }
};

// Its gradients: dx = loss_scale rstd (dy w - x rstd^2 mean(dy w x)), dweight = sum over rows of dy x rstd. Operands
// dy, x, weight, rstd, dx, dweight.
struct NormBackward {
  double loss_scale;
  static constexpr int kStatistics = 1;
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    const rows::Number products = rows::sum(row, [&](i64 j) { return row(0, j) * row(2, j) * row(1, j); });
    const rows::Number rstd = row(3);
    found[0] = products / static_cast<double>(row.columns()) * rstd * rstd;
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* mean, int output, i64 column) const {
    if (output == 1) return row(0, column) * row(1, column) * row(3);
    return loss_scale * ((row(0, column) * row(2, column) - mean[0] * row(1, column)) * row(3));
  }
};

// A softmax over rows: y = exp(x - max) / sum of exp(x - max). Operands x, y.
struct Softmax {
  double scale;
  static constexpr int kStatistics = 2;
  template <class Row>
  RIDGE_ROWS void statistics(const Row& row, rows::Number* found) const {
    const rows::Number most = rows::largest(row, [&](i64 j) { return scale * row(0, j); });
    found[0] = most;
    found[1] = rows::sum(row, [&](i64 j) { return rows::exp(scale * row(0, j) - most); });
  }
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T* statistics, int, i64 column) const {
    return rows::exp(scale * row(0, column) - statistics[0]) / statistics[1];
  }
};

// y = alpha x + y. Operands x, y.
struct Axpy {
  double alpha;
  static constexpr int kStatistics = 0;
  template <class Row, class T>
  RIDGE_ROWS T element(const Row& row, const T*, int, i64 column) const {
    return alpha * row(0, column) + row(1, column);
  }
};

}  // namespace ridge::ops::row_models
