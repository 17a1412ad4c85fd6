#include <hip/hip_runtime.h>

// The kernel: the only file that a campaign may change. Row-major, a [m, k], b [k, n]; one thread for every element.

// out[i][j] = sum over p of x(i, p) y(p, j), with strides for either operand
__global__ void product(const float* x, long x_row, long x_column, const float* y, long y_row, long y_column, float* out,
                        int rows, int columns, int depth) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x, j = blockIdx.y * blockDim.y + threadIdx.y;
  if (i >= rows || j >= columns) return;
  float sum = 0;
  for (int p = 0; p < depth; ++p) sum += x[i * x_row + p * x_column] * y[p * y_row + j * y_column];
  out[static_cast<long>(i) * columns + j] = sum;
}

static dim3 blocks_for(int rows, int columns) { return dim3((rows + 15) / 16, (columns + 15) / 16); }

void matmul(const float* a, const float* b, float* out, int m, int n, int k, hipStream_t stream) {
  product<<<blocks_for(m, n), dim3(16, 16), 0, stream>>>(a, k, 1, b, n, 1, out, m, n, k);
}

// d_a = d_out b^T, d_b = a^T d_out
void matmul_backward(const float* d_out, const float* a, const float* b, float* d_a, float* d_b, int m, int n, int k,
                     hipStream_t stream) {
  product<<<blocks_for(m, k), dim3(16, 16), 0, stream>>>(d_out, n, 1, b, 1, n, d_a, m, k, n);
  product<<<blocks_for(k, n), dim3(16, 16), 0, stream>>>(a, 1, k, d_out, n, 1, d_b, k, n, m);
}
