// ridgeline::adamw_quantize_: a step of AdamW for a weight, and its codes, which are written where they lie.
#include "ridge/ops/adamw_quantize.h"

#include <string>
#include <vector>

#include "codes.h"
#include "convert.h"
#include "derivative.h"
#include "numbers.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "adamw_quantize_";

const Tensor* at(const OptionalTensor& tensor) { return given(tensor) ? &*tensor : nullptr; }

// What a call steps.
struct Stepped {
  const Tensor &param, &grad, &exp_avg, &exp_avg_sq;
  const OptionalTensor &master, &factor, &skip;
};

void check_stepped(const Stepped& s) {
  codes::check_matrix(s.param, kOp, "the parameter");
  const at::ScalarType type = s.param.scalar_type(), state = s.exp_avg.scalar_type();
  TORCH_CHECK_TYPE(state == at::kFloat || state == at::kBFloat16, kOp, ": exp_avg is ", type_of(s.exp_avg),
                   "; give torch.float32 or torch.bfloat16");
  const bool wide = s.grad.scalar_type() == at::kFloat;
  check_like(s.grad, kOp, "the gradient", s.param.sym_sizes(), wide ? at::kFloat : type);
  check_like(s.exp_avg, kOp, "exp_avg", s.param.sym_sizes(), state);
  check_like(s.exp_avg_sq, kOp, "exp_avg_sq", s.param.sym_sizes(), state);
  if (given(s.master)) check_like(*s.master, kOp, "master", s.param.sym_sizes(), at::kFloat);
  check_number(s.factor, kOp, "factor");
  check_number(s.skip, kOp, "skip");
}

// Codes that are written; of a copy there are both or neither.
struct Written {
  const OptionalTensor &q, &scale, &q_t, &scale_t;
};

void check_copy(const OptionalTensor& q, const OptionalTensor& scale, std::string_view name, const c10::SymInt& rows,
                const c10::SymInt& cols, const codes::Coding& coding) {
  TORCH_CHECK_VALUE(given(q) == given(scale), kOp, ": ", name, given(q) ? " has no scales" : " has scales alone",
                    "; give both, or neither");
  if (!given(q)) return;
  const c10::SymInt sizes[] = {rows, cols};
  check_like(*q, kOp, name, sizes, coding.format);
  check_like(*scale, kOp, c10::str("the scales of ", name), scale_sizes(coding.granularity, rows, cols),
             scale_type(coding.granularity));
  TORCH_CHECK_VALUE(scale->is_contiguous(), kOp, ": the scales of ", name,
                    " have gaps; give scales as quantize makes them");
}

codes::Coding coding_of(const Written& w, std::string_view granularity, std::string_view rule,
                        const OptionalTensor& random) {
  const at::ScalarType format = given(w.q)     ? w.q->scalar_type()
                                : given(w.q_t) ? w.q_t->scalar_type()
                                               : at::kFloat8_e4m3fn;
  return codes::coding_of(kOp, format, granularity, rule, given(w.q), given(w.q_t), random);
}

codes::Coding check_all(const Stepped& s, const Written& w, std::string_view granularity, std::string_view rule,
                        const OptionalTensor& random) {
  check_stepped(s);
  const codes::Coding coding = coding_of(w, granularity, rule, random);
  const c10::SymInt rows = s.param.sym_size(0), cols = s.param.sym_size(1);
  check_copy(w.q, w.scale, "q", rows, cols, coding);
  check_copy(w.q_t, w.scale_t, "q_t", cols, rows, coding);
  return coding;
}

void adamw_quantize_meta(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                         const OptionalTensor& master, const OptionalTensor& q, const OptionalTensor& scale,
                         const OptionalTensor& q_t, const OptionalTensor& scale_t, const OptionalTensor& factor,
                         const OptionalTensor& skip, double, double, double, double, double, double, bool,
                         std::string_view granularity, std::string_view rule, const OptionalTensor& random) {
  check_all({param, grad, exp_avg, exp_avg_sq, master, factor, skip}, {q, scale, q_t, scale_t}, granularity, rule,
            random);
}

void adamw_quantize(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                    const OptionalTensor& master, const OptionalTensor& q, const OptionalTensor& scale,
                    const OptionalTensor& q_t, const OptionalTensor& scale_t, const OptionalTensor& factor,
                    const OptionalTensor& skip, double lr, double beta1, double beta2, double eps, double weight_decay,
                    double step, bool maximize, std::string_view granularity, std::string_view rule,
                    const OptionalTensor& random) {
  check_same_device(kOp, {{"the parameter", &param},
                          {"the gradient", &grad},
                          {"exp_avg", &exp_avg},
                          {"exp_avg_sq", &exp_avg_sq},
                          {"master", &master},
                          {"q", &q},
                          {"scale", &scale},
                          {"q_t", &q_t},
                          {"scale_t", &scale_t},
                          {"factor", &factor},
                          {"skip", &skip},
                          {"random", &random}});
  const codes::Coding coding = check_all({param, grad, exp_avg, exp_avg_sq, master, factor, skip},
                                         {q, scale, q_t, scale_t}, granularity, rule, random);
  const OnDeviceOf on_device(param);
  AdamwQuantizeArgs args;
  args.update.param = rows_view(param, kOp, "the parameter");
  args.update.grad = rows_view(grad, kOp, "the gradient");
  args.update.exp_avg = rows_view(exp_avg, kOp, "exp_avg");
  args.update.exp_avg_sq = rows_view(exp_avg_sq, kOp, "exp_avg_sq");
  if (given(master)) args.update.master = rows_view(*master, kOp, "master");
  args.update.factor = number_view(factor);
  args.update.skip = number_view(skip);
  args.update.maximize = maximize;
  args.update.lr = lr, args.update.beta1 = beta1, args.update.beta2 = beta2, args.update.eps = eps;
  args.update.weight_decay = weight_decay, args.update.step = step;
  const auto of = [](const OptionalTensor& tensor) { return tensor.value_or(Tensor()); };
  codes::give(args, coding, {of(q), of(scale), of(q_t), of(scale_t)}, kOp);
  check(ridge::adamw_quantize(args, stream_of(param)));
}

void dispatch(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
              const OptionalTensor& master, const OptionalTensor& q, const OptionalTensor& scale,
              const OptionalTensor& q_t, const OptionalTensor& scale_t, const OptionalTensor& factor,
              const OptionalTensor& skip, double lr, double beta1, double beta2, double eps, double weight_decay,
              double step, bool maximize, std::string_view granularity, std::string_view rule,
              const OptionalTensor& random) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::adamw_quantize_", "").typed<decltype(dispatch)>();
  op.call(param, grad, exp_avg, exp_avg_sq, master, q, scale, q_t, scale_t, factor, skip, lr, beta1, beta2, eps,
          weight_decay, step, maximize, granularity, rule, random);
}

void adamw_quantize_autograd(const Tensor& param, const Tensor& grad, const Tensor& exp_avg, const Tensor& exp_avg_sq,
                             const OptionalTensor& master, const OptionalTensor& q, const OptionalTensor& scale,
                             const OptionalTensor& q_t, const OptionalTensor& scale_t, const OptionalTensor& factor,
                             const OptionalTensor& skip, double lr, double beta1, double beta2, double eps,
                             double weight_decay, double step, bool maximize, std::string_view granularity,
                             std::string_view rule, const OptionalTensor& random) {
  for (const Tensor* tensor : {&param, &grad, &exp_avg, &exp_avg_sq, at(master), at(factor)}) {
    if (tensor != nullptr) check_no_derivative_in_place(kOp, {*tensor});
  }
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    dispatch(param, grad, exp_avg, exp_avg_sq, master, q, scale, q_t, scale_t, factor, skip, lr, beta1, beta2, eps,
             weight_decay, step, maximize, granularity, rule, random);
  }
  for (const Tensor* tensor : {&param, &exp_avg, &exp_avg_sq, at(master), at(q), at(scale), at(q_t), at(scale_t)}) {
    if (tensor != nullptr && !tensor->is_inference()) tensor->unsafeGetTensorImpl()->bump_version();
  }
}

}  // namespace

void register_adamw_quantize(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA: library.impl("adamw_quantize_", adamw_quantize); return;
    case c10::DispatchKey::Meta: library.impl("adamw_quantize_", adamw_quantize_meta); return;
    case c10::DispatchKey::Autograd: library.impl("adamw_quantize_", adamw_quantize_autograd); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
