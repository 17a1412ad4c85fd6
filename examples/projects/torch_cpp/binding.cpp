// torch.ops.example.matmul: the kernel as an operator of PyTorch, with its gradient.
#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>
#include <torch/library.h>

void matmul(const float* a, const float* b, float* out, long m, long n, long k);
void matmul_backward(const float* d_out, const float* a, const float* b, float* d_a, float* d_b, long m, long n,
                     long k);

namespace {

at::Tensor forward_on_cpu(const at::Tensor& a, const at::Tensor& b) {
  TORCH_CHECK(a.dim() == 2 && b.dim() == 2 && a.size(1) == b.size(0), "matmul wants [m, k] and [k, n], got ", a.sizes(),
              " and ", b.sizes());
  TORCH_CHECK(a.scalar_type() == at::kFloat && b.scalar_type() == at::kFloat, "matmul wants float32");
  const at::Tensor left = a.contiguous(), right = b.contiguous();
  at::Tensor out = at::empty({a.size(0), b.size(1)}, a.options());
  matmul(left.const_data_ptr<float>(), right.const_data_ptr<float>(), out.mutable_data_ptr<float>(), a.size(0),
         b.size(1), a.size(1));
  return out;
}

struct Matmul : torch::autograd::Function<Matmul> {
  static at::Tensor forward(torch::autograd::AutogradContext* context, const at::Tensor& a, const at::Tensor& b) {
    const at::AutoDispatchBelowADInplaceOrView below;
    context->save_for_backward({a, b});
    return forward_on_cpu(a, b);
  }
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 const torch::autograd::variable_list& gradients) {
    const torch::autograd::variable_list saved = context->get_saved_variables();
    const at::Tensor d_out = gradients[0].contiguous(), a = saved[0].contiguous(), b = saved[1].contiguous();
    at::Tensor d_a = at::empty_like(a), d_b = at::empty_like(b);
    matmul_backward(d_out.const_data_ptr<float>(), a.const_data_ptr<float>(), b.const_data_ptr<float>(),
                    d_a.mutable_data_ptr<float>(), d_b.mutable_data_ptr<float>(), a.size(0), b.size(1), a.size(1));
    return {d_a, d_b};
  }
};

at::Tensor forward_with_gradient(const at::Tensor& a, const at::Tensor& b) { return Matmul::apply(a, b); }

}  // namespace

TORCH_LIBRARY(example, library) { library.def("matmul(Tensor a, Tensor b) -> Tensor"); }
TORCH_LIBRARY_IMPL(example, CPU, library) { library.impl("matmul", &forward_on_cpu); }
TORCH_LIBRARY_IMPL(example, Autograd, library) { library.impl("matmul", &forward_with_gradient); }
