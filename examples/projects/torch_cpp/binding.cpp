// torch.ops.example.matmul and matmul_backward: the kernel as operators of PyTorch. ops.py makes one the other's
// gradient.
#include <ATen/core/Tensor.h>
#include <ATen/ops/empty.h>
#include <torch/library.h>

#include <tuple>

void matmul(const float* a, const float* b, float* out, long m, long n, long k);
void matmul_backward(const float* d_out, const float* a, const float* b, float* d_a, float* d_b, long m, long n,
                     long k);

namespace {

at::Tensor forward(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "matmul wants [m, k] and [k, n], got ", a.sizes(),
              " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat, "matmul wants float32");
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  matmul(left.const_data_ptr<float>(), right.const_data_ptr<float>(), out.mutable_data_ptr<float>(), a.size(0),
         b.size(1), a.size(1));
  return out;
}

std::tuple<at::Tensor, at::Tensor> backward(const at::Tensor& d_out, const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor d = d_out.contiguous(), left = a.contiguous(), right = b.contiguous();
  at::Tensor d_a = at::empty(a.sizes(), a.options()), d_b = at::empty(b.sizes(), b.options());
  matmul_backward(d.const_data_ptr<float>(), left.const_data_ptr<float>(), right.const_data_ptr<float>(),
                  d_a.mutable_data_ptr<float>(), d_b.mutable_data_ptr<float>(), a.size(0), b.size(1), a.size(1));
  return {d_a, d_b};
}

}  // namespace

TORCH_LIBRARY(example, library) {
  library.def("matmul(Tensor a, Tensor b) -> Tensor");
  library.def("matmul_backward(Tensor d_out, Tensor a, Tensor b) -> (Tensor, Tensor)");
}
TORCH_LIBRARY_IMPL(example, CPU, library) {
  library.impl("matmul", &forward);
  library.impl("matmul_backward", &backward);
}
