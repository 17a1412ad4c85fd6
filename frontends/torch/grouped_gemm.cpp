// ridgeline::grouped_gemm, grouped_gemm_add_, grouped_swiglu and grouped_swiglu_backward.
#include "ridge/ops/grouped_gemm.h"

#include <ATen/Functions.h>
#include <ATen/autocast_mode.h>

#include "convert.h"
#include "derivative.h"
#include "operators.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "grouped_gemm", kAdd = "grouped_gemm_add_";
constexpr std::string_view kSwiglu = "grouped_swiglu", kSwigluBackward = "grouped_swiglu_backward";

// ---- What a call asks of its tensors, of symbolic sizes

void check_types(const Tensor& a, const Tensor& b, const Tensor& offsets, std::string_view op) {
  const auto type = a.scalar_type();
  const bool usable_type = type == at::kFloat || type == at::kBFloat16 || type == at::kHalf ||
                           (type == at::kDouble && !a.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, op, ": a is ", type_of(a),
                   "; give torch.float32, torch.bfloat16 or torch.float16 (torch.float64: on the CPU)");
  check_same_type(a, b, op);
  const auto index = offsets.scalar_type();
  TORCH_CHECK_TYPE(index == at::kInt || index == at::kLong, op, ": the offsets are ", type_of(offsets),
                   "; give torch.int32 or torch.int64");
}

// What a call may have besides: the rows of a or of b by their numbers.
struct Gathered {
  OptionalTensor index_a, index_b, places;

  [[nodiscard]] bool any() const { return given(index_a) || given(index_b); }
  [[nodiscard]] const Tensor& index() const { return given(index_a) ? *index_a : *index_b; }
};

// `trans_a`: sums over rows.
void check_gathered(const Gathered& by, const Tensor& a, const Tensor& b, bool trans_a, std::string_view op) {
  if (!by.any()) return;
  TORCH_CHECK_VALUE(!given(by.index_a) || !given(by.index_b), op,
                    ": the rows of one operand are found by index; give index_a or index_b");
  TORCH_CHECK_VALUE(trans_a || !given(by.index_b), op,
                    ": index_b finds rows of b, which is a matrix for each group; give index_a");
  check_index(by.index(), op, given(by.index_a) ? "index_a" : "index_b");
  if (!given(by.places)) return;
  const Tensor& source = given(by.index_a) ? a : b;
  const auto type = by.places->scalar_type();
  TORCH_CHECK_TYPE(type == at::kInt || type == at::kLong, op, ": places is ", type_of(*by.places),
                   "; give torch.int32 or torch.int64");
  TORCH_CHECK_VALUE(by.places->dim() == 2 && same(by.places->sym_size(0), source.sym_size(0)), op,
                    ": places has shape ", by.places->sym_sizes(), " and there are ", source.sym_size(0),
                    " rows; give the places of each of them");
}

void check_offsets(const Tensor& offsets, const c10::SymInt& groups, std::string_view op) {
  TORCH_CHECK_VALUE(offsets.dim() == 1 && same(offsets.sym_size(0), groups + 1), op, ": the offsets have shape ",
                    offsets.sym_sizes(), " and there are ", groups, " groups; give ", groups + 1,
                    " numbers: where each group begins, and where the last ends");
  TORCH_CHECK_VALUE(offsets.is_contiguous(), op, ": the offsets are not contiguous; call .contiguous() on them first");
}

void check_matrix(const Tensor& matrix, std::string_view name, std::string_view op) {
  TORCH_CHECK_VALUE(matrix.dim() == 2, op, ": ", name, " has shape ", matrix.sym_sizes(), "; give a matrix of rows");
  check_strides(matrix, op, name, false);
}

// Sizes of the result along rows.
std::vector<c10::SymInt> rows_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_b,
                                    const Gathered& by, std::string_view op) {
  check_matrix(a, "a", op);
  TORCH_CHECK_VALUE(b.dim() == 3, op, ": b has shape ", b.sym_sizes(), "; give a matrix for each group");
  check_strides(b, op, "b", true);
  const auto k_of_b = b.sym_size(trans_b ? 2 : 1);
  TORCH_CHECK_VALUE(same(a.sym_size(1), k_of_b), op, ": a has ", a.sym_size(1), " columns but op(b) has ", k_of_b,
                    " rows; check trans_b");
  check_offsets(offsets, b.sym_size(0), op);
  return {rows_by_index(a, by.index_a), b.sym_size(trans_b ? 1 : 2)};
}

// Sizes of the result of sums over rows.
std::vector<c10::SymInt> sums_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, const Gathered& by,
                                    std::string_view op) {
  check_matrix(a, "a", op);
  check_matrix(b, "b", op);
  const auto rows_a = rows_by_index(a, by.index_a), rows_b = rows_by_index(b, by.index_b);
  TORCH_CHECK_VALUE(same(rows_a, rows_b), op, ": a has ", rows_a, " rows and b has ", rows_b,
                    "; sums are over the rows of both");
  const c10::SymInt groups = offsets.dim() == 1 ? offsets.sym_size(0) - 1 : c10::SymInt(0);
  TORCH_CHECK_VALUE(offsets.dim() == 1 && TORCH_GUARD_OR_TRUE(groups.sym_ge(1)), op, ": the offsets have shape ",
                    offsets.sym_sizes(), "; give where each group begins, and where the last ends");
  check_offsets(offsets, groups, op);
  return {groups, a.sym_size(1), b.sym_size(1)};
}

std::vector<c10::SymInt> result_sizes(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a,
                                      bool trans_b, const Gathered& by) {
  TORCH_CHECK_VALUE(!(trans_a && trans_b), kOp, ": trans_a sums over the rows of both; leave trans_b out");
  check_gathered(by, a, b, trans_a, kOp);
  return trans_a ? sums_sizes(a, b, offsets, by, kOp) : rows_sizes(a, b, offsets, trans_b, by, kOp);
}

at::ScalarType result_type(const Tensor& a, OptionalType out_dtype) {
  const auto type = out_dtype.value_or(a.scalar_type());
  check_result_type(type, kOp, {a.scalar_type(), a.scalar_type() == at::kDouble ? at::kDouble : at::kFloat});
  return type;
}

Tensor grouped_meta(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                    OptionalType out_dtype, const OptionalTensor&, const OptionalTensor& index_a,
                    const OptionalTensor& index_b, const OptionalTensor& places) {
  check_types(a, b, offsets, kOp);
  const auto sizes = result_sizes(a, b, offsets, trans_a, trans_b, {index_a, index_b, places});
  return at::empty_symint(sizes, a.options().dtype(result_type(a, out_dtype)));
}

void grouped_add_meta(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets, const OptionalTensor& index_a,
                      const OptionalTensor& index_b) {
  check_types(a, b, offsets, kAdd);
  const Gathered by{index_a, index_b, {}};
  check_gathered(by, a, b, true, kAdd);
  const auto type = c.scalar_type() == at::kFloat ? at::kFloat : a.scalar_type();
  check_like(c, kAdd, "c", sums_sizes(a, b, offsets, by, kAdd), type);
  check_strides(c, kAdd, "c", false);
}

// SwiGLU of products, and its gradients: no float64, a factor for each row if any.
void check_swiglu(const Tensor& a, const Tensor& b, const Tensor& offsets, const OptionalTensor& probs,
                  const c10::SymInt& rows, std::string_view op) {
  check_types(a, b, offsets, op);
  TORCH_CHECK_TYPE(a.scalar_type() != at::kDouble, op, ": a is torch.float64; give torch.float32 or shorter numbers");
  if (!given(probs)) return;
  TORCH_CHECK_TYPE(probs->scalar_type() == at::kFloat, op, ": probs is ", type_of(*probs), "; give torch.float32");
  TORCH_CHECK_VALUE(probs->dim() == 1 && same(probs->sym_size(0), rows), op, ": probs has shape ", probs->sym_sizes(),
                    " and there are ", rows, " rows; give a factor for each");
  TORCH_CHECK_VALUE(probs->is_contiguous(), op, ": probs is not contiguous; call .contiguous() on it first");
}

using TwoTensors = std::tuple<Tensor, Tensor>;
using ThreeTensors = std::tuple<Tensor, Tensor, Tensor>;

// y and C, which are gate and up.
TwoTensors swiglu_meta(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_b,
                       const OptionalTensor& probs, const OptionalTensor&, const OptionalTensor& index_a,
                       const OptionalTensor& places) {
  const Gathered by{index_a, {}, places};
  check_swiglu(a, b, offsets, probs, rows_by_index(a, index_a), kSwiglu);
  check_gathered(by, a, b, false, kSwiglu);
  const auto sizes = rows_sizes(a, b, offsets, trans_b, by, kSwiglu);
  TORCH_CHECK_VALUE(same(sizes[1] % 2, 0), kSwiglu, ": op(b) has ", sizes[1],
                    " columns; give those of gate and as many of up");
  return {at::empty_symint({sizes[0], sizes[1] / 2}, a.options()), at::empty_symint(sizes, a.options())};
}

// The gradients of gate and up, y again, and the gradient of probs.
ThreeTensors swiglu_backward_meta(const Tensor& dy, const Tensor& b, const Tensor& offsets, const Tensor& gate_up,
                                  bool trans_b, const OptionalTensor& probs) {
  check_swiglu(dy, b, offsets, probs, dy.sym_size(0), kSwigluBackward);
  const auto sizes = rows_sizes(dy, b, offsets, trans_b, {}, kSwigluBackward);
  const std::vector<c10::SymInt> both = {sizes[0], sizes[1] * 2};
  check_like(gate_up, kSwigluBackward, "gate_up", both, dy.scalar_type());
  check_strides(gate_up, kSwigluBackward, "gate_up", false);
  const auto dprobs = given(probs) ? at::empty_like(*probs) : at::empty({0}, dy.options().dtype(at::kFloat));
  return {at::empty_symint(both, dy.options()), at::empty_symint(sizes, dy.options()), dprobs};
}

// ---- The calls

// The rows that an index names for the rows `first` to `last` of groups; the others are zeros, whatever it says.
Tensor taken(const Tensor& rows, const OptionalTensor& index, std::string_view name, std::int64_t first,
             std::int64_t last) {
  if (!given(index)) return rows;
  const Tensor numbers = index->reshape({-1, 1}).clone();
  auto* const at = numbers.mutable_data_ptr<std::int32_t>();
  for (std::int64_t row = 0; row < numbers.size(0); ++row) {
    if (row < first || row >= last) at[row] = -1;
    TORCH_CHECK_VALUE(at[row] < rows.size(0), kOp, ": ", name, " ", row, " is ", at[row], ", of ", rows.size(0),
                      " rows; give numbers of rows, or a negative one for a row of zeros");
  }
  return combine_rows_by_torch(rows, numbers, {});
}

// By torch's own products, group by group: float64, on a CPU.
Tensor by_torch(const Tensor& a_rows, const Tensor& b_rows, const Tensor& offsets, bool trans_a, bool trans_b,
                const Gathered& by) {
  const Tensor places = offsets.to(at::kLong);
  const auto* const at = places.const_data_ptr<std::int64_t>();
  const std::int64_t groups = places.numel() - 1;
  const Tensor a = taken(a_rows, by.index_a, "index_a", at[0], at[groups]);
  const Tensor b = taken(b_rows, by.index_b, "index_b", at[0], at[groups]);
  Tensor c = trans_a ? at::zeros({groups, a.size(1), b.size(1)}, a.options())
                     : at::zeros({a.size(0), b.size(trans_b ? 1 : 2)}, a.options());
  for (std::int64_t g = 0; g < groups; ++g) {
    TORCH_CHECK_VALUE(at[g] >= 0 && at[g] <= at[g + 1] && at[g + 1] <= a.size(0), kOp, ": offset ", g + 1, " is ",
                      at[g + 1], ", after ", at[g], " and of ", a.size(0), " rows");
    const std::int64_t rows = at[g + 1] - at[g];
    const Tensor own = a.narrow(0, at[g], rows);
    if (trans_a) {
      c.select(0, g).copy_(at::mm(own.t(), b.narrow(0, at[g], rows)));
    } else {
      const Tensor matrix = b.select(0, g);
      c.narrow(0, at[g], rows).copy_(at::mm(own, trans_b ? matrix.t() : matrix));
    }
  }
  return c;
}

GroupedGemmArgs arguments(const Tensor& a, const Tensor& b, const Tensor& offsets, const Tensor& c, bool trans_a,
                          bool trans_b, const Gathered& by, std::string_view op) {
  GroupedGemmArgs args;
  args.a = row_major_view(a, op, "a");
  args.b = trans_a ? row_major_view(b, op, "b") : matrix_view(b, trans_b, op, "b");
  args.offsets = dense_view(offsets, op, "the offsets");
  args.c = row_major_view(c, op, "the result");
  args.trans_a = trans_a, args.trans_b = trans_b;
  if (by.any()) {
    TensorView& index = given(by.index_a) ? args.index_a : args.index_b;
    index = dense_view(by.index(), op, "the index");
    index.rank = 1;
  }
  return args;
}

Tensor grouped(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
               OptionalType out_dtype, const OptionalTensor& main_grad, const OptionalTensor& index_a,
               const OptionalTensor& index_b, const OptionalTensor& places) {
  check_same_device(kOp, {{"a", &a},
                          {"b", &b},
                          {"the offsets", &offsets},
                          {"index_a", &index_a},
                          {"index_b", &index_b},
                          {"places", &places}});
  Tensor c = grouped_meta(a, b, offsets, trans_a, trans_b, out_dtype, main_grad, index_a, index_b, places);
  const Gathered by{index_a, index_b, places};
  if (a.scalar_type() == at::kDouble) return by_torch(a, b, offsets, trans_a, trans_b, by);
  const OnDeviceOf on_device(a);
  check(ridge::grouped_gemm(arguments(a, b, offsets, c, trans_a, trans_b, by, kOp), stream_of(a)));
  return c;
}

void grouped_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets, const OptionalTensor& index_a,
                 const OptionalTensor& index_b) {
  check_same_device(
      kAdd, {{"a", &a}, {"b", &b}, {"the offsets", &offsets}, {"c", &c}, {"index_a", &index_a}, {"index_b", &index_b}});
  grouped_add_meta(c, a, b, offsets, index_a, index_b);
  const Gathered by{index_a, index_b, {}};
  if (a.scalar_type() == at::kDouble) {
    c.add_(by_torch(a, b, offsets, true, false, by));
    return;
  }
  const OnDeviceOf on_device(a);
  GroupedGemmArgs args = arguments(a, b, offsets, c, true, false, by, kAdd);
  args.accumulate = true;
  check(ridge::grouped_gemm(args, stream_of(a)));
}

TwoTensors swiglu(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_b, const OptionalTensor& probs,
                  const OptionalTensor& main_grad, const OptionalTensor& index_a, const OptionalTensor& places) {
  check_same_device(
      kSwiglu,
      {{"a", &a}, {"b", &b}, {"the offsets", &offsets}, {"probs", &probs}, {"index_a", &index_a}, {"places", &places}});
  auto made = swiglu_meta(a, b, offsets, trans_b, probs, main_grad, index_a, places);
  const OnDeviceOf on_device(a);
  GroupedGemmArgs args =
      arguments(a, b, offsets, std::get<1>(made), false, trans_b, Gathered{index_a, {}, {}}, kSwiglu);
  args.y = row_major_view(std::get<0>(made), kSwiglu, "y");
  if (given(probs)) args.probs = dense_view(*probs, kSwiglu, "probs");
  check(ridge::grouped_gemm(args, stream_of(a)));
  return made;
}

ThreeTensors swiglu_backward(const Tensor& dy, const Tensor& b, const Tensor& offsets, const Tensor& gate_up,
                             bool trans_b, const OptionalTensor& probs) {
  check_same_device(kSwigluBackward,
                    {{"dy", &dy}, {"b", &b}, {"the offsets", &offsets}, {"gate_up", &gate_up}, {"probs", &probs}});
  auto made = swiglu_backward_meta(dy, b, offsets, gate_up, trans_b, probs);
  const OnDeviceOf on_device(dy);
  GroupedGemmArgs args = arguments(dy, b, offsets, std::get<0>(made), false, trans_b, {}, kSwigluBackward);
  args.gate_up = row_major_view(gate_up, kSwigluBackward, "gate_up");
  args.y = row_major_view(std::get<1>(made), kSwigluBackward, "y");
  if (given(probs)) {
    args.probs = dense_view(*probs, kSwigluBackward, "probs");
    args.dprobs = dense_view(std::get<2>(made), kSwigluBackward, "dprobs");
  }
  check(ridge::grouped_gemm(args, stream_of(dy)));
  return made;
}

// ---- Derivatives, which are grouped products again

// The gradients of all rows that name a row of a gathered operand, added up.
Tensor added_up(const Tensor& rows, const Tensor& places) {
  return at::GradMode::is_enabled() ? combine_rows_by_torch(rows, places, {}) : call_combine_rows(rows, places, {}, {});
}

struct GroupedGradients final : Gradients {
  enum Input { kA, kB };
  enum Saved { kSavedA, kSavedB, kOffsets, kIndexA, kIndexB, kPlaces, kSavedCount };
  bool trans_a = false, trans_b = false;
  at::ScalarType inputs = at::kFloat;

  [[nodiscard]] std::string name() const override { return "RidgelineGroupedGemmBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_grouped_gemm_", trans_a, trans_b, "_", inputs);
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved,
                                         const Tensor& main_grad, const std::vector<bool>& wanted) const override {
    const Tensor grad = usable(grads[0].to(inputs));
    variable_list result(3);
    if (wanted[kA]) {
      result[kA] = grad_of_a(saved, grad);
      if (saved[kIndexA].defined()) result[kA] = added_up(result[kA], saved[kPlaces]);
    }
    if (wanted[kB]) {
      result[kB] = grad_of_b(saved, grad, main_grad);
      if (saved[kIndexB].defined()) result[kB] = added_up(result[kB], saved[kPlaces]);
    }
    return result;
  }

 private:
  // Along sums C[g] = A^T B, and a row of A's gradient is one of B times C's gradient, transposed.
  [[nodiscard]] Tensor grad_of_a(const variable_list& saved, const Tensor& grad) const {
    const Tensor &b = saved[kSavedB], &offsets = saved[kOffsets];
    if (!trans_a) return call_grouped_gemm(grad, b, offsets, false, !trans_b, {});
    return call_grouped_gemm(b, grad, offsets, false, true, {}, {}, saved[kIndexB], {}, saved[kPlaces]);
  }
  [[nodiscard]] Tensor grad_of_b(const variable_list& saved, const Tensor& grad, Tensor main_grad) const {
    const Tensor &a = saved[kSavedA], &offsets = saved[kOffsets], &index = saved[kIndexA], &places = saved[kPlaces];
    if (trans_a) return call_grouped_gemm(a, grad, offsets, false, false, {}, {}, index, {}, places);
    const Tensor &left = trans_b ? grad : a, &right = trans_b ? a : grad;
    const OptionalTensor of_left = trans_b ? Tensor() : index, of_right = trans_b ? index : Tensor();
    if (!main_grad.defined()) {
      return call_grouped_gemm(left, right, offsets, true, false, {}, {}, of_left, of_right, places);
    }
    check_once(kOp);
    call_grouped_gemm_add(main_grad, left, right, offsets, of_left, of_right);
    return {};
  }
};

NodePointer<BackwardNode> backward_of(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a,
                                      bool trans_b, const OptionalTensor& main_grad, const Gathered& by) {
  auto formula = std::make_shared<GroupedGradients>();
  formula->trans_a = trans_a, formula->trans_b = trans_b;
  formula->inputs = a.scalar_type();
  auto node = make_node(a, b, offsets);
  node->saved.resize(GroupedGradients::kSavedCount);
  const bool of_a = node->should_compute_output(GroupedGradients::kA);
  const bool of_b = node->should_compute_output(GroupedGradients::kB);
  TORCH_CHECK_VALUE(given(by.places) || !((of_a && given(by.index_a)) || (of_b && given(by.index_b))), kOp, ": ",
                    given(by.index_a) ? "a" : "b",
                    " needs a gradient, which is read by the places of each of its rows; give places");
  const auto or_none = [](const OptionalTensor& tensor) { return given(tensor) ? *tensor : Tensor(); };
  if (of_b) node->saved[GroupedGradients::kSavedA] = {a, false};
  if (of_a) node->saved[GroupedGradients::kSavedB] = {b, false};
  node->saved[GroupedGradients::kOffsets] = {offsets, false};
  node->saved[GroupedGradients::kIndexA] = {or_none(by.index_a), false};
  node->saved[GroupedGradients::kIndexB] = {or_none(by.index_b), false};
  node->saved[GroupedGradients::kPlaces] = {or_none(by.places), false};
  node->gradients = std::move(formula);
  if (given(main_grad)) {
    TORCH_CHECK_VALUE(!trans_a, kOp, ": main_grad takes the gradient of a stack of matrices; leave trans_a out");
    check_main_grad(*main_grad, b, kOp);
    node->main_grad = *main_grad;
  }
  return node;
}

// c' = op(a') op(b) + op(a) op(b')
Tensor tangent_of_grouped(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                          at::ScalarType type, const Gathered& by) {
  Tensor sum;
  const auto product = [&](const Tensor& left, const Tensor& right) {
    const Tensor one =
        call_grouped_gemm(left, right, offsets, trans_a, trans_b, type, {}, by.index_a, by.index_b, by.places);
    sum = sum.defined() ? sum + one : one;
  };
  if (has_tangent(a)) product(usable(tangent_of(a)), primal_of(b));
  if (has_tangent(b)) product(primal_of(a), usable(tangent_of(b)));
  return sum;
}

Tensor grouped_autograd(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                        OptionalType out_dtype, const OptionalTensor& main_grad, const OptionalTensor& index_a,
                        const OptionalTensor& index_b, const OptionalTensor& places) {
  const Gathered by{index_a, index_b, places};
  const auto node = torch::autograd::compute_requires_grad(a, b)
                        ? backward_of(a, b, offsets, trans_a, trans_b, main_grad, by)
                        : nullptr;
  Tensor c;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    c = call_grouped_gemm(a, b, offsets, trans_a, trans_b, out_dtype, {}, index_a, index_b, places);
  }
  if (node) torch::autograd::set_history(c, node);
  if (any_tangent(a, b)) {
    c._set_fw_grad(tangent_of_grouped(a, b, offsets, trans_a, trans_b, c.scalar_type(), by), 0, false);
  }
  return c;
}

void grouped_add_autograd(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets,
                          const OptionalTensor& index_a, const OptionalTensor& index_b) {
  check_no_derivative_in_place(kAdd, {c, a, b});
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    call_grouped_gemm_add(c, a, b, offsets, index_a, index_b);
  }
  if (!c.is_inference()) c.unsafeGetTensorImpl()->bump_version();
}

Tensor grouped_autocast(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                        OptionalType out_dtype, const OptionalTensor& main_grad, const OptionalTensor& index_a,
                        const OptionalTensor& index_b, const OptionalTensor& places) {
  const auto device = a.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& t) { return at::autocast::cached_cast(type, t, device); };
  return call_grouped_gemm(cast(a), cast(b), offsets, trans_a, trans_b, out_dtype, main_grad, index_a, index_b, places);
}

constexpr std::string_view kByGatedExperts =
    "ridgeline.torch.gated_experts has gradients and tangents, or call .detach() on the inputs";

// Gate and up have the gradients of grouped_gemm; y has none here.
TwoTensors swiglu_autograd(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_b,
                           const OptionalTensor& probs, const OptionalTensor& main_grad, const OptionalTensor& index_a,
                           const OptionalTensor& places) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::grouped_swiglu", "").typed<decltype(swiglu)>();
  const std::initializer_list<Tensor> inputs = {a, b, given(probs) ? *probs : Tensor()};
  refuse_tangents(kSwiglu, inputs, kByGatedExperts);
  const auto node = torch::autograd::compute_requires_grad(a, b)
                        ? backward_of(a, b, offsets, false, trans_b, main_grad, {index_a, {}, places})
                        : nullptr;
  TwoTensors made;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    made = op.call(a, b, offsets, trans_b, probs, {}, index_a, places);
  }
  refuse_derivative(std::get<0>(made), inputs, kSwiglu, kByGatedExperts);
  if (node) torch::autograd::set_history(std::get<1>(made), node);
  return made;
}

ThreeTensors swiglu_backward_autograd(const Tensor& dy, const Tensor& b, const Tensor& offsets, const Tensor& gate_up,
                                      bool trans_b, const OptionalTensor& probs) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_swiglu_backward", "")
                             .typed<decltype(swiglu_backward)>();
  return without_derivative(
      kSwigluBackward, {dy, b, gate_up, given(probs) ? *probs : Tensor()},
      [&] { return op.call(dy, b, offsets, gate_up, trans_b, probs); }, kByGatedExperts, kByGatedExperts);
}

}  // namespace

Tensor call_grouped_gemm(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                         OptionalType out_dtype, const OptionalTensor& main_grad, const OptionalTensor& index_a,
                         const OptionalTensor& index_b, const OptionalTensor& places) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm", "")
                             .typed<decltype(call_grouped_gemm)>();
  return op.call(a, b, offsets, trans_a, trans_b, out_dtype, main_grad, index_a, index_b, places);
}

void call_grouped_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets,
                           const OptionalTensor& index_a, const OptionalTensor& index_b) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::grouped_gemm_add_", "")
                             .typed<decltype(call_grouped_gemm_add)>();
  op.call(c, a, b, offsets, index_a, index_b);
}

void register_grouped_gemm(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("grouped_gemm", grouped);
      library.impl("grouped_swiglu", swiglu);
      library.impl("grouped_swiglu_backward", swiglu_backward);
      library.impl("grouped_gemm_add_", grouped_add);
      return;
    case c10::DispatchKey::Meta:
      library.impl("grouped_gemm", grouped_meta);
      library.impl("grouped_swiglu", swiglu_meta);
      library.impl("grouped_swiglu_backward", swiglu_backward_meta);
      library.impl("grouped_gemm_add_", grouped_add_meta);
      return;
    case c10::DispatchKey::Autograd:
      library.impl("grouped_gemm", grouped_autograd);
      library.impl("grouped_swiglu", swiglu_autograd);
      library.impl("grouped_swiglu_backward", swiglu_backward_autograd);
      library.impl("grouped_gemm_add_", grouped_add_autograd);
      return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA: library.impl("grouped_gemm", grouped_autocast); return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
