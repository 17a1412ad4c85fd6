// One element per thread, neighbours in a warp beside each other. Memory-bound: wins wherever the vector fills the GPU.
// Where the largest element is needs two launches and a workspace; a processor finds it.

// clang-format off
/* ridge-kernel
op = ["scale"]
max_registers = 32
[configs]
plain = { }
[variants]
gain = { case = "scale n=4096 alpha=3 gain=1" }
*/
/* ridge-launch
[[needs]]
expression = "top == 0"
reason = "where the largest element is, is found by a processor"
[[needs]]
expression = "ceil_div(n, 256) <= 2147483647"
reason = "a grid has at most 2147483647 blocks of 256 elements"
[[kernel]]
symbol = "scale_vector"
grid = ["ceil_div(n, 256)"]
block = [256]
args = [
  { operand = "x" }, { operand = "gain", when = "gain" }, { operand = "y" },
  { f32 = "alpha" }, { f32 = "beta" }, { i64 = "n" },
]
*/
// clang-format on

extern "C" __global__ void __launch_bounds__(256)
    scale_vector(const float* x, const float* gain, float* y, float alpha, float beta, long long n) {
  const long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i < n) y[i] = alpha * (gain != nullptr ? gain[i] * x[i] : x[i]) + beta;
}
