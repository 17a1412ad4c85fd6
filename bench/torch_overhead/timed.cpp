// torch.ops.ridgeline_bench.gemm_seconds: ridge::gemm called in a loop from C++, on the tensors of a Python program.
#include <torch/library.h>

#include <chrono>

#include "convert.h"
#include "ridge/ops/gemm.h"

namespace ridge::torch_frontend {
namespace {

// Seconds of host time per call; on a GPU that is what enqueueing costs.
double gemm_seconds(at::Tensor& c, const at::Tensor& a, const at::Tensor& b, bool trans_b, std::int64_t calls) {
  const OnDeviceOf on_device(a);
  GemmArgs args;
  bool trans_a = false;
  args.a = matrix_view(a, trans_a, "gemm", "a");
  args.b = matrix_view(b, trans_b, "gemm", "b");
  args.c = row_major_view(c, "gemm", "c");
  args.trans_a = trans_a, args.trans_b = trans_b;
  const Stream stream = stream_of(a);
  const auto start = std::chrono::steady_clock::now();
  for (std::int64_t i = 0; i < calls; ++i) check(ridge::gemm(args, stream));
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / static_cast<double>(calls);
}

}  // namespace

TORCH_LIBRARY(ridgeline_bench, library) {
  library.def("gemm_seconds(Tensor(a!) c, Tensor a, Tensor b, bool trans_b, int calls) -> float", &gemm_seconds);
}

}  // namespace ridge::torch_frontend
