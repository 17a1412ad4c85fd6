// ridgeline::rope, of q and k in one call, and the tables that it reads.
#include "ridge/ops/rope.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <algorithm>
#include <array>
#include <string>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "rope.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace turning {
namespace {

void check_heads(std::string_view op, const Tensor& x, std::string_view name, at::ScalarType type) {
  TORCH_CHECK_VALUE(x.dim() == 4, op, ": ", name, " has shape ", x.sym_sizes(),
                    "; give [batch, length, heads, dim], a view in any order of memory");
  TORCH_CHECK_TYPE(x.scalar_type() == type, op, ": q is ", name_of(type), " and ", name, " ", type_of(x),
                   "; cast one of them");
  TORCH_CHECK_VALUE(same(x.sym_stride(3), 1) || same(x.sym_size(3), 1), op, ": the elements of a head of ", name,
                    " are ", x.sym_stride(3), " apart; call .contiguous() on it first");
}

}  // namespace

void check_inputs(std::string_view op, const Tensor& q, const OptionalTensor& k, const Angles& angles) {
  const auto type = q.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !q.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, op, ": q is ", type_of(q),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_heads(op, q, "q", type);
  if (given(k)) {
    check_heads(op, *k, "k", type);
    for (const std::int64_t d : {0, 1, 3}) {
      TORCH_CHECK_VALUE(same(q.sym_size(d), k->sym_size(d)), op, ": q has shape ", q.sym_sizes(), " and k ",
                        k->sym_sizes(), "; they differ in heads alone");
    }
  }
  TORCH_CHECK_VALUE(angles.cos.dim() == 2, op, ": cos has shape ", angles.cos.sym_sizes(),
                    "; give [positions, rotary / 2]");
  check_like(angles.cos, op, "cos", angles.cos.sym_sizes(), at::kFloat);
  check_like(angles.sin, op, "sin", angles.cos.sym_sizes(), at::kFloat);
  TORCH_CHECK_VALUE(angles.cos.is_contiguous() && angles.sin.is_contiguous(), op,
                    ": cos or sin is not contiguous; call .contiguous() on it first");
  TORCH_CHECK_VALUE(!angles.cos.requires_grad() && !angles.sin.requires_grad(), op,
                    ": the table has no gradient; detach cos and sin");
  const c10::SymInt rows = angles.cos.sym_size(0), rotary = angles.cos.sym_size(1) * 2;
  TORCH_CHECK_VALUE(TORCH_GUARD_OR_TRUE(rotary.sym_le(q.sym_size(3))), op, ": a rotary dimension of ", rotary,
                    " in heads of ", q.sym_size(3), "; give tables of [positions, rotary / 2] of at most as many");
  if (!given(angles.positions)) {
    const c10::SymInt end = q.sym_size(1) + angles.offset;
    TORCH_CHECK_VALUE(angles.offset >= 0 && TORCH_GUARD_OR_TRUE(end.sym_le(rows)), op, ": positions ", angles.offset,
                      " to ", end - 1, " of a table of ", rows, " rows; make a longer table, or give an offset from 0");
    return;
  }
  const auto index = angles.positions->scalar_type();
  TORCH_CHECK_TYPE(index == at::kLong || index == at::kInt, op, ": the positions are ", type_of(*angles.positions),
                   "; give torch.int64 or torch.int32");
  check_like(*angles.positions, op, "the positions", {q.sym_size(0), q.sym_size(1)}, index);
}

Tensor turned_by_torch(const Tensor& x, const Angles& a) {
  const auto wide = x.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const auto of = [&](const Tensor& table) {
    const Tensor rows = given(a.positions) ? at::index_select(table, 0, a.positions->flatten().to(at::kLong))
                                                 .view({x.size(0), x.size(1), 1, table.size(1)})
                                           : table.narrow(0, a.offset, x.size(1)).unsqueeze(1);
    return rows.to(wide);
  };
  const Tensor cos = of(a.cos), sin = a.inverse ? -of(a.sin) : of(a.sin), values = x.to(wide);
  const std::int64_t pairs = a.cos.size(1), rotary = 2 * pairs;
  const Tensor part = values.narrow(-1, 0, rotary);
  Tensor turned;
  if (a.interleaved) {
    const Tensor both = part.unflatten(-1, {pairs, 2}), one = both.select(-1, 0), two = both.select(-1, 1);
    turned = at::stack({one * cos - two * sin, two * cos + one * sin}, -1).flatten(-2);
  } else {
    const Tensor one = part.narrow(-1, 0, pairs), two = part.narrow(-1, pairs, pairs);
    turned = at::cat({one * cos - two * sin, two * cos + one * sin}, -1);
  }
  return at::cat({turned, values.narrow(-1, rotary, x.size(-1) - rotary)}, -1).to(x.scalar_type());
}
void check_positions(std::string_view op, const Angles& a) {
  const std::int64_t rows = a.cos.size(0);
  if (!given(a.positions) || a.positions->numel() == 0) return;
  TORCH_CHECK_VALUE(a.positions->min().item<std::int64_t>() >= 0 && a.positions->max().item<std::int64_t>() < rows, op,
                    ": a position is outside of the table of ", rows, " rows");
}

TensorView strided_view(const Tensor& tensor, std::string_view op, std::string_view name) {
  TensorView view;
  view.data = tensor.data_ptr();
  view.dtype = dtype_of(tensor, op, name);
  view.rank = static_cast<int>(tensor.dim());
  for (std::int64_t d = 0; d < tensor.dim(); ++d) {
    view.shape[static_cast<std::size_t>(d)] = tensor.size(d);
    view.stride[static_cast<std::size_t>(d)] = tensor.stride(d);
  }
  return view;
}

Tensor rows_of(const Tensor& gradient) {
  const bool usable = gradient.sym_stride(3) == 1 && gradient.is_non_overlapping_and_dense();
  return usable ? gradient : gradient.contiguous();
}

}  // namespace turning

namespace {

using turning::Angles, turning::check_inputs, turning::check_positions, turning::rows_of, turning::strided_view,
    turning::turned_by_torch;

constexpr std::string_view kOp = "rope";

Turned rope_meta(const Tensor& q, const OptionalTensor& k, const Angles& angles) {
  check_inputs(kOp, q, k, angles);
  return {at::empty_symint(q.sym_sizes(), q.options()),
          given(k) ? at::empty_symint(k->sym_sizes(), k->options()) : at::empty({0}, q.options())};
}

Turned by_torch(const Tensor& q, const OptionalTensor& k, const Angles& angles) {
  return {turned_by_torch(q, angles), given(k) ? turned_by_torch(*k, angles) : at::empty({0}, q.options())};
}
// ---- The calls

void turn(const Tensor& q, const OptionalTensor& k, const Angles& a, const Tensor& q_out, const Tensor& k_out) {
  const OnDeviceOf on_device(q);
  RopeArgs args;
  args.q = strided_view(q, kOp, "q");
  args.q_out = strided_view(q_out, kOp, "the result of q");
  args.cos = strided_view(a.cos, kOp, "cos");
  args.sin = strided_view(a.sin, kOp, "sin");
  if (given(k)) {
    args.k = strided_view(*k, kOp, "k");
    args.k_out = strided_view(k_out, kOp, "the result of k");
  }
  if (given(a.positions)) args.positions = strided_view(*a.positions, kOp, "the positions");
  args.offset = a.offset;
  args.interleaved = a.interleaved;
  args.inverse = a.inverse;
  check(ridge::rope(args, stream_of(q)));
}
void check_devices(const Tensor& q, const OptionalTensor& k, const Angles& a) {
  check_same_device(kOp, {{"q", &q}, {"k", &k}, {"cos", &a.cos}, {"sin", &a.sin}, {"positions", &a.positions}});
}

Turned rope(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
            const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
  const Angles angles{cos, sin, positions, offset, interleaved, inverse};
  check_devices(q, k, angles);
  Turned out = rope_meta(q, k, angles);
  if (q.scalar_type() == at::kDouble) {
    check_positions(kOp, angles);
    return by_torch(q, k, angles);
  }
  turn(q, k, angles, std::get<0>(out), std::get<1>(out));
  return out;
}

void rope_in_place(Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                   const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
  const Angles angles{cos, sin, positions, offset, interleaved, inverse};
  check_devices(q, k, angles);
  check_inputs(kOp, q, k, angles);
  if (q.scalar_type() == at::kDouble) {
    check_positions(kOp, angles);
    const Turned out = by_torch(q, k, angles);
    q.copy_(std::get<0>(out));
    if (given(k)) k->copy_(std::get<1>(out));
    return;
  }
  turn(q, k, angles, q, given(k) ? *k : Tensor());
}

constexpr std::array<std::string_view, 4> kScalings = {"none", "linear", "llama3", "yarn"};

void rope_table(Tensor& cos, Tensor& sin, double base, std::string_view scaling, double factor, double original_length,
                double low_factor, double high_factor, double beta_fast, double beta_slow, double attention) {
  const auto* const found = std::find(kScalings.begin(), kScalings.end(), scaling);
  TORCH_CHECK_VALUE(found != kScalings.end(), kOp, ": scaling=\"", scaling,
                    "\" is unknown; use one of none, linear, llama3, yarn");
  const RopeFrequencies how{base,       static_cast<RopeScaling>(found - kScalings.begin()),
                            factor,     original_length,
                            low_factor, high_factor,
                            beta_fast,  beta_slow,
                            attention};
  check(ridge::rope_table(how, strided_view(cos, kOp, "cos"), strided_view(sin, kOp, "sin")));
}

// ---- Derivatives: turned back by the same angles, any number of times

struct RopeFormula final : Gradients {
  enum Input { kQ, kK };
  enum Saved { kCos, kSin, kPositions };
  std::int64_t offset = 0;
  bool interleaved = false, inverse = false;

  [[nodiscard]] std::string name() const override { return "RidgelineRopeBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_rope_", offset, "_", interleaved, inverse);
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const OptionalTensor positions = saved[kPositions].defined() ? OptionalTensor(saved[kPositions]) : OptionalTensor();
    const auto have = [&](std::size_t at) {
      return at < wanted.size() && wanted[at] && at < grads.size() && grads[at].defined();
    };
    variable_list result(wanted.size());
    if (!have(kQ) && !have(kK)) return result;
    const Tensor first = rows_of(grads[have(kQ) ? kQ : kK]);
    const OptionalTensor second = have(kQ) && have(kK) ? OptionalTensor(rows_of(grads[kK])) : OptionalTensor();
    const Turned found = call_rope(first, second, saved[kCos], saved[kSin], positions, offset, interleaved, !inverse);
    result[have(kQ) ? kQ : kK] = std::get<0>(found);
    if (second) result[kK] = std::get<1>(found);
    return result;
  }
};

Turned rope_autograd(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                     const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
  if (any_tangent(q, k)) {
    const Angles angles{cos, sin, positions, offset, interleaved, inverse};
    rope_meta(q, k, angles);
    return by_torch(q, k, angles);
  }
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(q, k)) {
    node = make_node(q, k);
    auto formula = std::make_shared<RopeFormula>();
    formula->offset = offset, formula->interleaved = interleaved, formula->inverse = inverse;
    node->gradients = std::move(formula);
    node->saved.resize(3);
  }
  Turned out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call_rope(q, k, cos, sin, positions, offset, interleaved, inverse);
  }
  if (!node) return out;
  node->saved[RopeFormula::kCos] = {cos, false};
  node->saved[RopeFormula::kSin] = {sin, false};
  if (given(positions)) node->saved[RopeFormula::kPositions] = {*positions, false};
  torch::autograd::set_history(std::get<0>(out), node);
  if (given(k)) torch::autograd::set_history(std::get<1>(out), node);
  return out;
}

void rope_in_place_autograd(Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                            const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rope_", "").typed<decltype(rope_in_place)>();
  check_no_derivative_in_place("rope_", {q});
  if (given(k)) check_no_derivative_in_place("rope_", {*k});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    op.call(q, k, cos, sin, positions, offset, interleaved, inverse);
  }
  if (!q.is_inference()) q.unsafeGetTensorImpl()->bump_version();
  if (given(k) && !k->is_inference()) k->unsafeGetTensorImpl()->bump_version();
}

}  // namespace

Turned call_rope(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                 const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::rope", "").typed<decltype(call_rope)>();
  return op.call(q, k, cos, sin, positions, offset, interleaved, inverse);
}

void register_rope(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU: library.impl("rope_table_", rope_table); [[fallthrough]];
    case c10::DispatchKey::CUDA:
      library.impl("rope", rope);
      library.impl("rope_", rope_in_place);
      return;
    case c10::DispatchKey::Meta:
      library.impl("rope", [](const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                              const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
        return rope_meta(q, k, {cos, sin, positions, offset, interleaved, inverse});
      });
      library.impl("rope_", [](Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                               const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse) {
        check_inputs(kOp, q, k, {cos, sin, positions, offset, interleaved, inverse});
      });
      library.impl("rope_table_", [](Tensor&, Tensor&, double, std::string_view, double, double, double, double, double,
                                     double, double) {});
      return;
    case c10::DispatchKey::Autograd:
      library.impl("rope", rope_autograd);
      library.impl("rope_", rope_in_place_autograd);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
