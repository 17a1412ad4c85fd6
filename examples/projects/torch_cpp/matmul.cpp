// The kernel: the only file that a campaign may change. Row-major, a [m, k], b [k, n].

// out[i][j] = sum over p of a[i][p] b[p][j]
void matmul(const float* a, const float* b, float* out, long m, long n, long k) {
  for (long i = 0; i < m; ++i) {
    for (long j = 0; j < n; ++j) {
      float sum = 0;
      for (long p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
      out[i * n + j] = sum;
    }
  }
}

// d_a = d_out b^T, d_b = a^T d_out
void matmul_backward(const float* d_out, const float* a, const float* b, float* d_a, float* d_b, long m, long n,
                     long k) {
  for (long i = 0; i < m; ++i) {
    for (long p = 0; p < k; ++p) {
      float sum = 0;
      for (long j = 0; j < n; ++j) sum += d_out[i * n + j] * b[p * n + j];
      d_a[i * k + p] = sum;
    }
  }
  for (long p = 0; p < k; ++p) {
    for (long j = 0; j < n; ++j) {
      float sum = 0;
      for (long i = 0; i < m; ++i) sum += a[i * k + p] * d_out[i * n + j];
      d_b[p * n + j] = sum;
    }
  }
}
