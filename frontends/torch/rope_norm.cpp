// ridgeline::rope_norm and its backward: rmsnorm of every head of q and k with the rotary position embedding behind it.
#include "ridge/ops/rope_norm.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include "convert.h"
#include "derivative.h"
#include "norms.h"
#include "operators.h"
#include "ridge/ops/rope_norm_backward.h"
#include "rope.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

using turning::Angles, turning::rows_of, turning::strided_view, turning::turned_by_torch;

constexpr std::string_view kOp = "rope_norm";

// The weights of a call, and how they count.
struct Norm {
  const OptionalTensor &q_weight, &k_weight;
  bool zero_centred = false;
  double eps = 0;
};

Tensor nothing(const Tensor& q) { return at::empty({0}, q.options()); }
Tensor like(const Tensor& tensor) { return at::empty_symint(tensor.sym_sizes(), tensor.options()); }
Tensor like(const OptionalTensor& tensor, const Tensor& q) { return given(tensor) ? like(*tensor) : nothing(q); }

// ---- What a call asks of its tensors, of symbolic sizes

void check_weight(const OptionalTensor& weight, std::string_view name, const Tensor& q, at::ScalarType type) {
  if (!given(weight)) return;
  check_like(*weight, kOp, name, {q.sym_size(3)}, type);
  TORCH_CHECK_VALUE(weight->is_contiguous(), kOp, ": ", name, " is not contiguous; call .contiguous() on it first");
}

void check_call(const Tensor& q, const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  norms::check_eps(norm.eps, kOp);
  turning::check_inputs(kOp, q, k, angles);
  const bool both = given(norm.q_weight) == given(norm.k_weight);
  TORCH_CHECK_VALUE(given(k) ? both : !given(norm.k_weight), kOp,
                    given(k) ? ": a weight is given for one of q and k; give both, or neither"
                             : ": k_weight is given without k; give k, or leave it out");
  TORCH_CHECK_VALUE(!norm.zero_centred || given(norm.q_weight), kOp,
                    ": zero_centred is about the weights, and there are none; give weights, or leave it out");
  if (!given(norm.q_weight)) return;
  const auto type = norm.q_weight->scalar_type() == at::kFloat ? at::kFloat : q.scalar_type();
  check_weight(norm.q_weight, "q_weight", q, type);
  check_weight(norm.k_weight, "k_weight", q, type);
}

Turned rope_norm_meta(const Tensor& q, const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  check_call(q, k, angles, norm);
  return {like(q), like(k, q)};
}

void check_gradient(const Tensor& gradient, std::string_view name, const Tensor& of) {
  check_like(gradient, kOp, name, of.sym_sizes(), of.scalar_type());
  TORCH_CHECK_VALUE(same(gradient.sym_stride(3), 1) || same(gradient.sym_size(3), 1), kOp,
                    ": the elements of a head of ", name, " are ", gradient.sym_stride(3),
                    " apart; call .contiguous() on it first");
}

TurnedGradients backward_meta(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                              const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  check_call(q, k, angles, norm);
  check_gradient(dq_out, "the gradient of q's result", q);
  TORCH_CHECK_VALUE(given(k) == given(dk_out), kOp, ": k and the gradient of its result come together");
  if (given(k)) check_gradient(*dk_out, "the gradient of k's result", *k);
  return {like(q), like(k, q), like(norm.q_weight, q), like(norm.k_weight, q)};
}

// ---- By PyTorch's own operators: float64 (gradient checks), tangents, and gradients that are differentiated again

Tensor rstd_of(const Tensor& wide, double eps) { return at::rsqrt(at::mean(wide * wide, {-1}, true) + eps); }

Tensor of_one_by_torch(const Tensor& x, const OptionalTensor& weight, const Angles& angles, const Norm& norm) {
  const Tensor wide = x.to(norms::wide_type(x));
  const Tensor normal = norms::weighted(wide * rstd_of(wide, norm.eps), weight, norm.zero_centred);
  return turned_by_torch(normal, angles).to(x.scalar_type());
}
Turned by_torch(const Tensor& q, const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  return {of_one_by_torch(q, norm.q_weight, angles, norm),
          given(k) ? of_one_by_torch(*k, norm.k_weight, angles, norm) : nothing(q)};
}

struct OneGradient {
  Tensor x, weight;
};
OneGradient gradient_by_torch(const Tensor& dy, const Tensor& x, const OptionalTensor& weight, const Angles& angles,
                              const Norm& norm) {
  const auto type = norms::wide_type(x);
  const Angles back{angles.cos, angles.sin, angles.positions, angles.offset, angles.interleaved, true};
  const Tensor wide = x.to(type), rstd = rstd_of(wide, norm.eps), normal = wide * rstd,
               g = turned_by_torch(dy.to(type), back), slope = norms::weighted(g, weight, norm.zero_centred);
  OneGradient found;
  found.x = ((slope - normal * at::mean(slope * normal, {-1}, true)) * rstd).to(x.scalar_type());
  found.weight =
      given(weight) ? (g * normal).reshape_symint({-1, x.sym_size(3)}).sum(0).to(weight->scalar_type()) : nothing(x);
  return found;
}
TurnedGradients gradients_by_torch(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                                   const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  const OneGradient of_q = gradient_by_torch(dq_out, q, norm.q_weight, angles, norm);
  OneGradient of_k{nothing(q), nothing(q)};
  if (given(k)) of_k = gradient_by_torch(*dk_out, *k, norm.k_weight, angles, norm);
  return {of_q.x, of_k.x, of_q.weight, of_k.weight};
}

// ---- The calls

// What both calls take in the same way.
template <class Args>
Args common_args(const Tensor& q, const OptionalTensor& k, const Angles& angles, const Norm& norm) {
  Args args;
  args.q = strided_view(q, kOp, "q");
  if (given(k)) args.k = strided_view(*k, kOp, "k");
  args.cos = strided_view(angles.cos, kOp, "cos");
  args.sin = strided_view(angles.sin, kOp, "sin");
  args.q_weight = norms::columns_view(norm.q_weight, kOp, "q_weight");
  args.k_weight = norms::columns_view(norm.k_weight, kOp, "k_weight");
  if (given(angles.positions)) args.positions = strided_view(*angles.positions, kOp, "the positions");
  args.offset = angles.offset;
  args.interleaved = angles.interleaved;
  args.zero_centred = norm.zero_centred;
  args.eps = norm.eps;
  return args;
}

Turned rope_norm(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                 const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin, const OptionalTensor& positions,
                 std::int64_t offset, bool interleaved, bool zero_centred, double eps) {
  const Angles angles{cos, sin, positions, offset, interleaved, false};
  const Norm norm{q_weight, k_weight, zero_centred, eps};
  check_same_device(kOp, {{"q", &q},
                          {"k", &k},
                          {"q_weight", &q_weight},
                          {"k_weight", &k_weight},
                          {"cos", &cos},
                          {"sin", &sin},
                          {"positions", &positions}});
  Turned out = rope_norm_meta(q, k, angles, norm);
  if (q.scalar_type() == at::kDouble) {
    turning::check_positions(kOp, angles);
    return by_torch(q, k, angles, norm);
  }
  const OnDeviceOf on_device(q);
  auto args = common_args<RopeNormArgs>(q, k, angles, norm);
  args.q_out = strided_view(std::get<0>(out), kOp, "the result of q");
  if (given(k)) args.k_out = strided_view(std::get<1>(out), kOp, "the result of k");
  check(ridge::rope_norm(args, stream_of(q)));
  return out;
}

TurnedGradients rope_norm_backward(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                                   const OptionalTensor& k, const OptionalTensor& q_weight,
                                   const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                   const OptionalTensor& positions, std::int64_t offset, bool interleaved,
                                   bool zero_centred, double eps) {
  const Angles angles{cos, sin, positions, offset, interleaved, false};
  const Norm norm{q_weight, k_weight, zero_centred, eps};
  check_same_device(kOp, {{"the gradient of q's result", &dq_out},
                          {"the gradient of k's result", &dk_out},
                          {"q", &q},
                          {"k", &k},
                          {"q_weight", &q_weight},
                          {"k_weight", &k_weight},
                          {"cos", &cos},
                          {"sin", &sin},
                          {"positions", &positions}});
  TurnedGradients out = backward_meta(dq_out, dk_out, q, k, angles, norm);
  if (q.scalar_type() == at::kDouble) {
    turning::check_positions(kOp, angles);
    return gradients_by_torch(dq_out, dk_out, q, k, angles, norm);
  }
  const OnDeviceOf on_device(q);
  auto args = common_args<RopeNormBackwardArgs>(q, k, angles, norm);
  args.dq_out = strided_view(dq_out, kOp, "the gradient of q's result");
  args.dq = strided_view(std::get<0>(out), kOp, "the gradient of q");
  if (given(k)) args.dk_out = strided_view(*dk_out, kOp, "the gradient of k's result");
  if (given(k)) args.dk = strided_view(std::get<1>(out), kOp, "the gradient of k");
  if (given(q_weight)) args.dq_weight = dense_view(std::get<2>(out), kOp, "the gradient of q_weight");
  if (given(k_weight)) args.dk_weight = dense_view(std::get<3>(out), kOp, "the gradient of k_weight");
  check(ridge::rope_norm_backward(args, stream_of(q)));
  return out;
}

// ---- Derivatives

struct RopeNormFormula final : Gradients {
  enum Input { kQ, kK, kQWeight, kKWeight };
  enum Saved { kSavedQ, kSavedK, kSavedQWeight, kSavedKWeight, kCos, kSin, kPositions, kSavedCount };
  std::int64_t offset = 0;
  bool interleaved = false, zero_centred = false;
  double eps = 0;

  [[nodiscard]] std::string name() const override { return "RidgelineRopeNormBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_rope_norm_", offset, "_", interleaved, zero_centred, "_", exact_text(eps));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const auto optional = [&](Saved at) { return saved[at].defined() ? OptionalTensor(saved[at]) : OptionalTensor(); };
    const OptionalTensor k = optional(kSavedK), q_weight = optional(kSavedQWeight), k_weight = optional(kSavedKWeight),
                         positions = optional(kPositions);
    const auto arrived = [&](std::size_t at, const Tensor& of) {
      return at < grads.size() && grads[at].defined() ? rows_of(grads[at])
                                                      : at::zeros_symint(of.sym_sizes(), of.options());
    };
    const Tensor dq_out = arrived(kQ, saved[kSavedQ]);
    const OptionalTensor dk_out = k ? OptionalTensor(arrived(kK, *k)) : OptionalTensor();
    TurnedGradients found;
    if (at::GradMode::is_enabled()) {  // differentiated again
      found = gradients_by_torch(dq_out, dk_out, saved[kSavedQ], k,
                                 {saved[kCos], saved[kSin], positions, offset, interleaved, false},
                                 {q_weight, k_weight, zero_centred, eps});
    } else {
      found = call_rope_norm_backward(dq_out, dk_out, saved[kSavedQ], k, q_weight, k_weight, saved[kCos], saved[kSin],
                                      positions, offset, interleaved, zero_centred, eps);
    }
    variable_list result(wanted.size());
    const Tensor* const all[] = {&std::get<0>(found), &std::get<1>(found), &std::get<2>(found), &std::get<3>(found)};
    for (std::size_t at = 0; at < wanted.size(); ++at) {
      if (wanted[at]) result[at] = *all[at];
    }
    return result;
  }
};

Turned rope_norm_autograd(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                          const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                          const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool zero_centred,
                          double eps) {
  if (any_tangent(q, k, q_weight, k_weight)) {
    const Angles angles{cos, sin, positions, offset, interleaved, false};
    const Norm norm{q_weight, k_weight, zero_centred, eps};
    rope_norm_meta(q, k, angles, norm);
    return by_torch(q, k, angles, norm);
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(q, k, q_weight, k_weight)) {
    node = make_node(q, k, q_weight, k_weight);
    auto formula = std::make_shared<RopeNormFormula>();
    formula->offset = offset, formula->interleaved = interleaved;
    formula->zero_centred = zero_centred, formula->eps = eps;
    node->gradients = std::move(formula);
    node->saved.resize(RopeNormFormula::kSavedCount);
  }
  Turned out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_rope_norm(q, k, q_weight, k_weight, cos, sin, positions, offset, interleaved, zero_centred, eps);
  }
  if (!node) return out;
  const auto save = [&](RopeNormFormula::Saved at, const OptionalTensor& tensor) {
    if (given(tensor)) node->saved[at] = {*tensor, false};
  };
  save(RopeNormFormula::kSavedQ, q);
  save(RopeNormFormula::kSavedK, k);
  save(RopeNormFormula::kSavedQWeight, q_weight);
  save(RopeNormFormula::kSavedKWeight, k_weight);
  save(RopeNormFormula::kCos, cos);
  save(RopeNormFormula::kSin, sin);
  save(RopeNormFormula::kPositions, positions);
  torch::autograd::set_history(std::get<0>(out), node);
  if (given(k)) torch::autograd::set_history(std::get<1>(out), node);
  return out;
}

TurnedGradients rope_norm_backward_autograd(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                                            const OptionalTensor& k, const OptionalTensor& q_weight,
                                            const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                            const OptionalTensor& positions, std::int64_t offset, bool interleaved,
                                            bool zero_centred, double eps) {
  const bool recorded = torch::autograd::compute_requires_grad(dq_out, dk_out, q, k, q_weight, k_weight);
  if (recorded || any_tangent(dq_out, dk_out, q, k, q_weight, k_weight)) {
    const Angles angles{cos, sin, positions, offset, interleaved, false};
    const Norm norm{q_weight, k_weight, zero_centred, eps};
    backward_meta(dq_out, dk_out, q, k, angles, norm);
    return gradients_by_torch(dq_out, dk_out, q, k, angles, norm);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_rope_norm_backward(dq_out, dk_out, q, k, q_weight, k_weight, cos, sin, positions, offset, interleaved,
                                 zero_centred, eps);
}

}  // namespace

Turned call_rope_norm(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                      const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                      const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool zero_centred,
                      double eps) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rope_norm", "").typed<decltype(call_rope_norm)>();
  return op.call(q, k, q_weight, k_weight, cos, sin, positions, offset, interleaved, zero_centred, eps);
}
TurnedGradients call_rope_norm_backward(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                                        const OptionalTensor& k, const OptionalTensor& q_weight,
                                        const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                        const OptionalTensor& positions, std::int64_t offset, bool interleaved,
                                        bool zero_centred, double eps) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::rope_norm_backward", "")
                             .typed<decltype(call_rope_norm_backward)>();
  return op.call(dq_out, dk_out, q, k, q_weight, k_weight, cos, sin, positions, offset, interleaved, zero_centred, eps);
}

void register_rope_norm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("rope_norm", rope_norm);
      library.impl("rope_norm_backward", rope_norm_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("rope_norm", [](const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                                   const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                   const OptionalTensor& positions, std::int64_t offset, bool interleaved,
                                   bool zero_centred, double eps) {
        return rope_norm_meta(q, k, {cos, sin, positions, offset, interleaved, false},
                              {q_weight, k_weight, zero_centred, eps});
      });
      library.impl(
          "rope_norm_backward",
          [](const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q, const OptionalTensor& k,
             const OptionalTensor& q_weight, const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
             const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool zero_centred, double eps) {
            return backward_meta(dq_out, dk_out, q, k, {cos, sin, positions, offset, interleaved, false},
                                 {q_weight, k_weight, zero_centred, eps});
          });
      return;
    case c10::DispatchKey::Autograd:
      library.impl("rope_norm", rope_norm_autograd);
      library.impl("rope_norm_backward", rope_norm_backward_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
