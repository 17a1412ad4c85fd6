// Both gradients from one read of dy: a thread takes elements that are a grid apart, so that neighbours in a warp read
// neighbours. Memory-bound: wins wherever the vector fills the GPU, and has nothing to offer for short ones.

// clang-format off
/* ridge-kernel
op = ["scale_backward"]
max_registers = 32
[configs]
plain = { }
[variants]
dx = { case = "scale_backward n=4096 alpha=3 gain=0 wanted=dx" }
both = { case = "scale_backward n=4096 alpha=3 gain=1 wanted=both" }
*/
/* ridge-launch
[[value]]
name = "dx"
expression = "wanted != 1"
[[value]]
name = "dgain"
expression = "wanted != 0"
[[needs]]
expression = "ceil_div(n, 1024) <= 2147483647"
reason = "a grid has at most 2147483647 blocks of 1024 elements"
[[kernel]]
symbol = "scale_backward"
grid = ["ceil_div(n, 1024)"]
block = [256]
args = [
  { operand = "dy" }, { operand = "x", when = "dgain" }, { operand = "gain", when = "gain && dx" },
  { operand = "dx", when = "dx" }, { operand = "dgain", when = "dgain" }, { f32 = "alpha" }, { i64 = "n" },
]
*/
// clang-format on

extern "C" __global__ void __launch_bounds__(256) scale_backward(const float* dy, const float* x, const float* gain,
                                                                 float* dx, float* dgain, float alpha, long long n) {
  const long long stride = static_cast<long long>(gridDim.x) * blockDim.x;
  for (long long i = static_cast<long long>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += stride) {
    const float scaled = alpha * dy[i];
    if (dx != nullptr) dx[i] = gain != nullptr ? scaled * gain[i] : scaled;
    if (dgain != nullptr) dgain[i] = scaled * x[i];
  }
}
