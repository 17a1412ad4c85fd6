// ridgeline::attention and ridgeline::attention_backward: heads of [batch, length, heads, dim] where they lie; and
// varlen_attention, the same of [tokens, heads, dim], which are the documents of a batch of one.
#include "ridge/ops/attention.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <ATen/autocast_mode.h>

#include <cmath>
#include <limits>

#include "convert.h"
#include "derivative.h"
#include "heads.h"
#include "operators.h"
#include "ridge/ops/attention_backward.h"
#include "shapes.h"

namespace ridge::torch_frontend {
namespace {

constexpr std::string_view kOp = "attention", kBackwardOp = "attention_backward";
constexpr std::string_view kVarlenOp = "varlen_attention", kVarlenBackwardOp = "varlen_attention_backward";
constexpr double kInfinity = std::numeric_limits<double>::infinity();

// What a call says beside its tensors.
struct Setting {
  bool causal = false;
  std::optional<double> scale;
  bool deterministic = false;
  std::int64_t window_left = -1, window_right = -1;
  double softcap = 0;  // 0: none

  [[nodiscard]] bool masked() const { return causal || window_left >= 0 || window_right >= 0; }
  [[nodiscard]] double factor(const Tensor& q) const {
    return scale ? *scale : 1 / std::sqrt(static_cast<double>(q.sym_size(3).guard_int(__FILE__, __LINE__)));
  }
};

// The operands beside q, k and v; undefined where there are none.
struct Beside {
  Tensor q_offsets, k_offsets;  // of packed documents
  Tensor sinks, slopes;

  [[nodiscard]] bool packed() const { return q_offsets.defined(); }
};

Tensor tensor_of(const OptionalTensor& tensor) { return given(tensor) ? *tensor : Tensor(); }

// Tokens of documents are a batch of one sequence.
Tensor as_batch(const Tensor& x) { return x.defined() ? x.unsqueeze(0) : x; }

// ---- What a call asks of its tensors, of symbolic sizes

void check_softcap(double softcap, std::string_view op) {
  const auto cap = static_cast<float>(softcap);
  TORCH_CHECK_VALUE(softcap == 0 || (cap > 0 && std::isfinite(cap)), op, ": softcap is ", softcap,
                    "; give a finite number above 0, or 0 for none");
}

void check_inputs(const Tensor& q, const Tensor& k, const Tensor& v, const Setting& setting, std::string_view op) {
  check_scale(setting.scale, op);
  check_softcap(setting.softcap, op);
  check_window(setting.window_left, setting.window_right, op);
  const auto type = q.scalar_type();
  const bool usable_type =
      type == at::kBFloat16 || type == at::kHalf || (type == at::kDouble && !q.is_cuda());  // by torch
  TORCH_CHECK_TYPE(usable_type, op, ": q is ", type_of(q),
                   "; give torch.bfloat16 or torch.float16 (torch.float64: on the CPU), or call it under "
                   "torch.autocast");
  for (const auto& [x, name] : {std::pair{&q, "q"}, {&k, "k"}, {&v, "v"}}) {
    TORCH_CHECK_TYPE(x->scalar_type() == type, op, ": q is ", name_of(type), " and ", name, " ", type_of(*x),
                     "; cast one of them, or call it under torch.autocast");
    check_rows_of_heads(*x, op, name);
  }
  check_heads_of(q, k, v, op);
}

at::TensorOptions sum_options(const Tensor& q) {
  return q.options().dtype(q.scalar_type() == at::kDouble ? at::kDouble : at::kFloat);
}

void check_of_heads(const Beside& beside, const Tensor& q, std::string_view op) {
  const auto type = sum_options(q).dtype().toScalarType();
  for (const auto& [x, name] : {std::pair{&beside.sinks, "sinks"}, {&beside.slopes, "alibi_slopes"}}) {
    if (!x->defined()) continue;
    TORCH_CHECK_TYPE(x->scalar_type() == type, op, ": ", name, " is ", type_of(*x), "; give ", name_of(type));
    TORCH_CHECK_VALUE(x->dim() == 1 && same(x->sym_size(0), q.sym_size(-2)) && x->is_contiguous(), op, ": ", name,
                      " has shape ", x->sym_sizes(), "; give a contiguous vector of a number for each of the ",
                      q.sym_size(-2), " heads of q");
  }
}

void check_no_slope_gradient(const OptionalTensor& slopes, std::string_view op) {
  const Tensor x = tensor_of(slopes);
  TORCH_CHECK_NOT_IMPLEMENTED(!torch::autograd::compute_requires_grad(x), op,
                              ": alibi_slopes has no gradient; call .detach() on it");
}

// Of o: that of q with the heads of v.
c10::SymDimVector sizes_of_result(const Tensor& q, const Tensor& v) {
  c10::SymDimVector sizes(q.sym_sizes().begin(), q.sym_sizes().end());
  sizes.back() = v.sym_size(-1);
  return sizes;
}

void check_documents(std::initializer_list<std::pair<const Tensor*, std::string_view>> tensors, const Beside& beside,
                     std::string_view op) {
  for (const auto& [x, name] : tensors) {
    TORCH_CHECK_VALUE(x->dim() == 3, op, ": ", name, " has shape ", x->sym_sizes(),
                      "; give [tokens, heads, dim], the documents behind each other");
  }
  const std::pair<const Tensor*, std::string_view> both[] = {{&beside.q_offsets, "cu_seqlens_q"},
                                                             {&beside.k_offsets, "cu_seqlens_k"}};
  for (const auto& [x, name] : both) {
    TORCH_CHECK_TYPE(x->scalar_type() == at::kInt, op, ": ", name, " is ", type_of(*x),
                     "; call .to(torch.int32) on it");
    TORCH_CHECK_VALUE(x->dim() == 1 && TORCH_GUARD_OR_TRUE(x->sym_size(0).sym_ge(2)) && x->is_contiguous(), op, ": ",
                      name, " has shape ", x->sym_sizes(),
                      "; give a contiguous vector: where each document begins, and where the last one ends");
  }
  TORCH_CHECK_VALUE(same(both[0].first->sym_size(0), both[1].first->sym_size(0)), op, ": cu_seqlens_q has ",
                    both[0].first->sym_size(0), " numbers and cu_seqlens_k ", both[1].first->sym_size(0),
                    "; give as many: where each document begins, and where the last one ends");
}

// The results are [batch, length, heads, dim] in that order of memory, whatever the inputs' is: what a product of all
// heads reads next.
AttentionAndSum attention_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Beside& beside,
                               const Setting& setting) {
  check_inputs(q, k, v, setting, kOp);
  check_of_heads(beside, q, kOp);
  return {at::empty_symint(sizes_of_result(q, v), q.options()),
          at::empty_symint({q.sym_size(0), q.sym_size(2), q.sym_size(1)}, sum_options(q))};
}

AttentionAndSum varlen_meta(const Tensor& q, const Tensor& k, const Tensor& v, const Beside& beside,
                            const Setting& setting) {
  check_documents({{&q, "q"}, {&k, "k"}, {&v, "v"}}, beside, kVarlenOp);
  check_inputs(as_batch(q), as_batch(k), as_batch(v), setting, kVarlenOp);
  check_of_heads(beside, q, kVarlenOp);
  return {at::empty_symint(sizes_of_result(q, v), q.options()),
          at::empty_symint({q.sym_size(1), q.sym_size(0)}, sum_options(q))};
}

// The tensors of a backward call.
struct Backward {
  const Tensor &d_o, &q, &k, &v, &o, &lse;
};

void check_backward(const Backward& b, const Setting& setting, std::string_view op) {
  check_inputs(b.q, b.k, b.v, setting, op);
  for (const auto& [x, name] : {std::pair{&b.o, "o"}, {&b.d_o, "the gradient"}}) {
    check_like(*x, op, name, sizes_of_result(b.q, b.v), b.q.scalar_type());
    check_rows_of_heads(*x, op, name);
  }
  check_like(b.lse, op, "lse", {b.q.sym_size(0), b.q.sym_size(2), b.q.sym_size(1)},
             sum_options(b.q).dtype().toScalarType());
  TORCH_CHECK_VALUE(b.lse.is_contiguous(), op, ": lse is not contiguous; call .contiguous() on it first");
}

// That of sinks is empty where there are none.
AttentionGradients gradients_like(const Backward& b, const Beside& beside) {
  const auto like = [](const Tensor& x) { return at::empty_symint(x.sym_sizes(), x.options()); };
  return {like(b.q), like(b.k), like(b.v),
          beside.sinks.defined() ? like(beside.sinks) : at::empty({0}, sum_options(b.q))};
}

AttentionGradients backward_meta(const Backward& b, const Beside& beside, const Setting& setting) {
  check_backward(b, setting, kBackwardOp);
  check_of_heads(beside, b.q, kBackwardOp);
  return gradients_like(b, beside);
}

AttentionGradients varlen_backward_meta(const Backward& b, const Beside& beside, const Setting& setting) {
  check_documents({{&b.q, "q"}, {&b.k, "k"}, {&b.v, "v"}, {&b.o, "o"}, {&b.d_o, "the gradient"}}, beside,
                  kVarlenBackwardOp);
  check_backward({as_batch(b.d_o), as_batch(b.q), as_batch(b.k), as_batch(b.v), as_batch(b.o), as_batch(b.lse)},
                 setting, kVarlenBackwardOp);
  check_of_heads(beside, b.q, kVarlenBackwardOp);
  return gradients_like(b, beside);
}

// ---- By PyTorch's own operators, which know every derivative: for float64 (gradient checks), tangents, and gradients
// that are differentiated again

// Heads in front, [batch, kv_heads, heads of a group, length, dim], wide enough to add up in.
struct Heads {
  Tensor q, k, v;
  Tensor scores;  // -infinity where a query does not see a key
  Tensor slope;   // of a score by its softcap; undefined without
};

Tensor wide(const Tensor& x) { return x.scalar_type() == at::kDouble ? x : x.to(at::kFloat); }
Tensor in_groups(const Tensor& x, const c10::SymInt& kv_heads) {
  return wide(x).unflatten_symint(2, {kv_heads, x.sym_size(2) / kv_heads}).permute({0, 2, 3, 1, 4});
}
Tensor out_of_groups(const Tensor& x, at::ScalarType type) {
  return x.permute({0, 3, 1, 2, 4}).flatten(2, 3).to(type).contiguous();
}
Tensor out_of_shared(const Tensor& x, at::ScalarType type) {  // the sum over a group's heads of q
  return x.sum(2).transpose(1, 2).to(type).contiguous();
}

// A number for each head, [kv_heads, heads of a group, 1, 1], beside the scores.
Tensor beside_scores(const Tensor& of_heads, const c10::SymInt& kv_heads) {
  return wide(of_heads).unflatten_symint(0, {kv_heads, of_heads.sym_size(0) / kv_heads}).unsqueeze(-1).unsqueeze(-1);
}

Heads heads_of(const Tensor& q, const Tensor& k, const Tensor& v, const Setting& setting, const Beside& beside) {
  const auto kv_heads = k.sym_size(2), q_len = q.sym_size(1), k_len = k.sym_size(1);
  Heads h{in_groups(q, kv_heads), in_groups(k, kv_heads), in_groups(v, kv_heads), {}, {}};
  h.scores = at::matmul(h.q, h.k.transpose(-1, -2)) * setting.factor(q);
  if (setting.softcap != 0) {
    const Tensor tangent = at::tanh(h.scores / setting.softcap);
    h.scores = tangent * setting.softcap;
    h.slope = 1 - tangent * tangent;
  }
  if (!setting.masked() && !beside.packed() && !beside.slopes.defined()) return h;
  const auto places = [&](const c10::SymInt& count) { return at::arange(count, q.options().dtype(at::kLong)); };
  const Tensor keys = places(k_len), none = at::full({}, -kInfinity, h.scores.options());
  Tensor place = (places(q_len) + (k_len - q_len)).unsqueeze(-1);
  Tensor together;  // of one document
  if (beside.packed()) {
    const c10::SymInt count = beside.q_offsets.sym_size(0) - 1;
    const Tensor of_query = at::bucketize(places(q_len), beside.q_offsets, false, true).unsqueeze(-1);  // from 1
    const Tensor of_key = at::bucketize(keys, beside.k_offsets, false, true);
    together = (of_query == of_key) & (of_query > 0) & (of_query <= count);
    const Tensor ahead = (beside.k_offsets - beside.q_offsets).to(at::kLong);  // of keys, at a document's end
    place = places(q_len).unsqueeze(-1) + ahead.index({at::clamp_max(of_query, count)});
  }
  if (beside.slopes.defined()) {
    h.scores = h.scores - beside_scores(beside.slopes, kv_heads) * (place - keys).abs().to(h.scores.scalar_type());
  }
  const auto keep = [&](const Tensor& seen) { h.scores = at::where(seen, h.scores, none); };
  if (together.defined()) keep(together);
  if (setting.causal) keep(keys <= place);
  if (setting.window_left >= 0) keep(keys >= place - setting.window_left);
  if (setting.window_right >= 0) keep(keys <= place + setting.window_right);
  return h;
}

AttentionAndSum by_torch(const Tensor& q, const Tensor& k, const Tensor& v, const Setting& setting,
                         const Beside& beside = {}) {
  const Heads h = heads_of(q, k, v, setting, beside);
  const Tensor none = at::zeros({}, h.scores.options());
  Tensor most = at::full({}, -kInfinity, h.scores.options());
  if (!TORCH_GUARD_OR_FALSE(k.sym_size(1).sym_eq(0))) most = at::amax(h.scores.detach(), {-1}, true);
  const Tensor sinks = beside.sinks.defined() ? beside_scores(beside.sinks, h.q.sym_size(1)) : Tensor();
  if (sinks.defined()) most = at::maximum(most, sinks.detach());
  most = at::where(most == -kInfinity, none, most);  // of a row without keys
  const Tensor weights = at::exp(h.scores - most);
  Tensor total = weights.sum({-1}, true);
  if (sinks.defined()) total = total + at::exp(sinks - most);
  const Tensor empty = total == 0;
  const Tensor divisor = at::where(empty, at::ones({}, none.options()), total);
  const Tensor sum = at::where(empty, at::full({}, -kInfinity, none.options()), at::log(divisor) + most);
  return {out_of_groups(at::matmul(weights / divisor, h.v), q.scalar_type()),
          sum.squeeze(-1).flatten(1, 2).to(sum_options(q).dtype().toScalarType())};
}

// Where o and lse are undefined they follow from q, k and v, and so do the derivatives.
AttentionGradients gradients_by_torch(const Backward& b, const Setting& setting, const Beside& beside = {}) {
  const auto type = b.q.scalar_type();
  const Heads h = heads_of(b.q, b.k, b.v, setting, beside);
  const Tensor d_o = in_groups(b.d_o, b.k.sym_size(2));
  const Tensor sum = (b.lse.defined() ? b.lse : std::get<1>(by_torch(b.q, b.k, b.v, setting, beside)))
                         .unflatten_symint(1, {b.k.sym_size(2), b.q.sym_size(2) / b.k.sym_size(2)})
                         .unsqueeze(-1);
  const Tensor none = at::zeros({}, h.scores.options()), empty = sum == -kInfinity;
  const Tensor weights = at::where(empty, none, at::exp(h.scores - at::where(empty, none, sum)));
  const Tensor d_weights = at::matmul(d_o, h.v.transpose(-1, -2));
  const Tensor row =
      b.o.defined() ? (d_o * in_groups(b.o, b.k.sym_size(2))).sum({-1}, true) : (weights * d_weights).sum({-1}, true);
  Tensor d_scores = weights * (d_weights - row) * setting.factor(b.q);
  if (h.slope.defined()) d_scores = d_scores * h.slope;
  Tensor d_sinks = at::empty({0}, sum_options(b.q));
  if (beside.sinks.defined()) {
    const Tensor of_sinks = at::exp(beside_scores(beside.sinks, h.q.sym_size(1)) - at::where(empty, none, sum));
    d_sinks = (at::where(empty, none, of_sinks) * row).sum({0, 3, 4}).flatten().neg().to(beside.sinks.scalar_type());
  }
  return {out_of_groups(at::matmul(d_scores, h.k), type),
          out_of_shared(at::matmul(d_scores.transpose(-1, -2), h.q), type),
          out_of_shared(at::matmul(weights.transpose(-1, -2), d_o), type), d_sinks};
}

AttentionAndSum varlen_by_torch(const Tensor& q, const Tensor& k, const Tensor& v, const Beside& beside,
                                const Setting& setting) {
  const auto [o, lse] = by_torch(as_batch(q), as_batch(k), as_batch(v), setting, beside);
  return {o.squeeze(0), lse.squeeze(0)};
}

AttentionGradients varlen_gradients_by_torch(const Backward& b, const Beside& beside, const Setting& setting) {
  const auto [d_q, d_k, d_v, d_sinks] = gradients_by_torch(
      {as_batch(b.d_o), as_batch(b.q), as_batch(b.k), as_batch(b.v), as_batch(b.o), as_batch(b.lse)}, setting, beside);
  return {d_q.squeeze(0), d_k.squeeze(0), d_v.squeeze(0), d_sinks};
}

// ---- The calls

void set_empty(const Tensor& o, const Tensor& lse, const Beside& beside) {
  o.zero_();
  lse.fill_(-kInfinity);
  if (beside.sinks.defined()) lse.copy_(beside.sinks.unsqueeze(-1));
}
void set_empty(const AttentionGradients& gradients) {
  const auto& [d_q, d_k, d_v, d_sinks] = gradients;
  for (const Tensor* gradient : {&d_q, &d_k, &d_v, &d_sinks}) gradient->zero_();
}

void run_forward(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
                 const Beside& beside, const Setting& setting, std::string_view op) {
  const OnDeviceOf on_device(q);
  AttentionArgs args;
  args.q = strided_view(q, op, "q");
  args.k = strided_view(k, op, "k");
  args.v = strided_view(v, op, "v");
  args.o = strided_view(o, op, "the result");
  args.log_sum_exp = strided_view(lse, op, "lse");
  args.causal = setting.causal;
  args.scale = setting.scale;
  args.window_left = setting.window_left;
  args.window_right = setting.window_right;
  args.softcap = setting.softcap;
  if (beside.packed()) {
    args.q_offsets = strided_view(beside.q_offsets, op, "cu_seqlens_q");
    args.k_offsets = strided_view(beside.k_offsets, op, "cu_seqlens_k");
  }
  if (beside.sinks.defined()) args.sinks = strided_view(beside.sinks, op, "sinks");
  if (beside.slopes.defined()) args.alibi_slopes = strided_view(beside.slopes, op, "alibi_slopes");
  check(ridge::attention(args, stream_of(q)));
}

void run_backward(const Backward& b, const AttentionGradients& gradients, const Beside& beside, const Setting& setting,
                  std::string_view op) {
  const auto& [d_q, d_k, d_v, d_sinks] = gradients;
  const OnDeviceOf on_device(b.q);
  AttentionBackwardArgs args;
  args.q = strided_view(b.q, op, "q");
  args.k = strided_view(b.k, op, "k");
  args.v = strided_view(b.v, op, "v");
  args.o = strided_view(b.o, op, "o");
  args.log_sum_exp = strided_view(b.lse, op, "lse");
  args.d_o = strided_view(b.d_o, op, "the gradient");
  args.d_q = strided_view(d_q, op, "the gradient of q");
  args.d_k = strided_view(d_k, op, "the gradient of k");
  args.d_v = strided_view(d_v, op, "the gradient of v");
  args.causal = setting.causal;
  args.deterministic = setting.deterministic;
  args.scale = setting.scale;
  args.window_left = setting.window_left;
  args.window_right = setting.window_right;
  args.softcap = setting.softcap;
  if (beside.packed()) {
    args.q_offsets = strided_view(beside.q_offsets, op, "cu_seqlens_q");
    args.k_offsets = strided_view(beside.k_offsets, op, "cu_seqlens_k");
  }
  if (beside.sinks.defined()) {
    args.sinks = strided_view(beside.sinks, op, "sinks");
    args.d_sinks = strided_view(d_sinks, op, "the gradient of sinks");
  }
  if (beside.slopes.defined()) args.alibi_slopes = strided_view(beside.slopes, op, "alibi_slopes");
  check(ridge::attention_backward(args, stream_of(b.q)));
}

AttentionAndSum attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale,
                          bool deterministic, std::int64_t window_left, std::int64_t window_right,
                          const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Beside beside{{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)};
  check_same_device(kOp, {{"q", &q}, {"k", &k}, {"v", &v}, {"sinks", &beside.sinks}, {"alibi_slopes", &beside.slopes}});
  AttentionAndSum out = attention_meta(q, k, v, beside, setting);
  const auto& [o, lse] = out;
  if (is_empty(q, k)) {
    set_empty(o, lse, beside);
    return out;
  }
  if (q.scalar_type() == at::kDouble) return by_torch(q, k, v, setting, beside);
  run_forward(q, k, v, o, lse, beside, setting, kOp);
  return out;
}

AttentionAndSum varlen_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                                 const Tensor& k_offsets, bool causal, std::optional<double> scale, bool deterministic,
                                 std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks,
                                 double softcap, const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Beside beside{q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)};
  check_same_device(kVarlenOp, {{"q", &q},
                                {"k", &k},
                                {"v", &v},
                                {"cu_seqlens_q", &q_offsets},
                                {"cu_seqlens_k", &k_offsets},
                                {"sinks", &beside.sinks},
                                {"alibi_slopes", &beside.slopes}});
  AttentionAndSum out = varlen_meta(q, k, v, beside, setting);
  const auto& [o, lse] = out;
  if (is_empty(q, k)) {
    set_empty(o, lse, beside);
    return out;
  }
  if (q.scalar_type() == at::kDouble) return varlen_by_torch(q, k, v, beside, setting);
  run_forward(as_batch(q), as_batch(k), as_batch(v), as_batch(o), as_batch(lse), beside, setting, kVarlenOp);
  return out;
}

AttentionGradients attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                      const Tensor& o, const Tensor& lse, bool causal, std::optional<double> scale,
                                      bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                      const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Backward tensors{d_o, q, k, v, o, lse};
  const Beside beside{{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)};
  check_same_device(kBackwardOp, {{"q", &q},
                                  {"k", &k},
                                  {"v", &v},
                                  {"o", &o},
                                  {"lse", &lse},
                                  {"the gradient", &d_o},
                                  {"sinks", &beside.sinks},
                                  {"alibi_slopes", &beside.slopes}});
  AttentionGradients out = backward_meta(tensors, beside, setting);
  if (is_empty(q, k)) {
    set_empty(out);
    return out;
  }
  if (q.scalar_type() == at::kDouble) return gradients_by_torch(tensors, setting, beside);
  run_backward(tensors, out, beside, setting, kBackwardOp);
  return out;
}

AttentionGradients varlen_attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                             const Tensor& o, const Tensor& lse, const Tensor& q_offsets,
                                             const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                             bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                             const OptionalTensor& sinks, double softcap,
                                             const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Beside beside{q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)};
  const Backward tensors{d_o, q, k, v, o, lse};
  check_same_device(kVarlenBackwardOp, {{"q", &q},
                                        {"k", &k},
                                        {"v", &v},
                                        {"o", &o},
                                        {"lse", &lse},
                                        {"the gradient", &d_o},
                                        {"cu_seqlens_q", &q_offsets},
                                        {"cu_seqlens_k", &k_offsets},
                                        {"sinks", &beside.sinks},
                                        {"alibi_slopes", &beside.slopes}});
  AttentionGradients out = varlen_backward_meta(tensors, beside, setting);
  const auto& [d_q, d_k, d_v, d_sinks] = out;
  if (is_empty(q, k)) {
    set_empty(out);
    return out;
  }
  if (q.scalar_type() == at::kDouble) return varlen_gradients_by_torch(tensors, beside, setting);
  run_backward({as_batch(d_o), as_batch(q), as_batch(k), as_batch(v), as_batch(o), as_batch(lse)},
               {as_batch(d_q), as_batch(d_k), as_batch(d_v), d_sinks}, beside, setting, kVarlenBackwardOp);
  return out;
}

// ---- Derivatives

struct AttentionFormula final : Gradients {
  enum Input { kQ, kK, kV, kSinks };
  enum Saved {
    kSavedQ,
    kSavedK,
    kSavedV,
    kSavedO,
    kSavedSum,
    kSavedQOffsets,
    kSavedKOffsets,
    kSavedSinks,
    kSavedSlopes
  };
  Setting setting;
  bool packed = false;  // of documents, whose offsets are saved
  bool with_sinks = false, with_slopes = false;

  [[nodiscard]] std::string name() const override { return "RidgelineAttentionBackward"; }
  [[nodiscard]] std::string text() const override {
    return c10::str("ridgeline_attention_", packed, with_sinks, with_slopes, setting.causal, setting.deterministic, "_",
                    setting.window_left, "_", setting.window_right, "_",
                    setting.scale ? exact_text(*setting.scale) : "", "_", exact_text(setting.softcap));
  }
  [[nodiscard]] variable_list operator()(const variable_list& grads, const variable_list& saved, const Tensor&,
                                         const std::vector<bool>& wanted) const override {
    const AttentionGradients found = packed ? of_documents(rows_of(grads[0]), saved) : of(rows_of(grads[0]), saved);
    variable_list result(wanted.size());
    if (wanted[kQ]) result[kQ] = std::get<0>(found);
    if (wanted[kK]) result[kK] = std::get<1>(found);
    if (wanted[kV]) result[kV] = std::get<2>(found);
    if (wanted[kSinks]) result[kSinks] = std::get<3>(found);
    return result;
  }

 private:
  [[nodiscard]] AttentionGradients of(const Tensor& d_o, const variable_list& saved) const {
    const Tensor &q = saved[kSavedQ], &k = saved[kSavedK], &v = saved[kSavedV];
    const OptionalTensor sinks = sinks_of(saved), alibi_slopes = slopes_of(saved);
    if (at::GradMode::is_enabled()) {  // differentiated again
      return gradients_by_torch({d_o, q, k, v, Tensor(), Tensor()}, setting,
                                {{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)});
    }
    return call_attention_backward(d_o, q, k, v, saved[kSavedO], saved[kSavedSum], setting.causal, setting.scale,
                                   setting.deterministic, setting.window_left, setting.window_right, sinks,
                                   setting.softcap, alibi_slopes);
  }
  [[nodiscard]] AttentionGradients of_documents(const Tensor& d_o, const variable_list& saved) const {
    const Tensor &q = saved[kSavedQ], &k = saved[kSavedK], &v = saved[kSavedV];
    const OptionalTensor sinks = sinks_of(saved), alibi_slopes = slopes_of(saved);
    const Beside beside{saved[kSavedQOffsets], saved[kSavedKOffsets], tensor_of(sinks), tensor_of(alibi_slopes)};
    if (at::GradMode::is_enabled()) {
      return varlen_gradients_by_torch({d_o, q, k, v, Tensor(), Tensor()}, beside, setting);
    }
    return call_varlen_attention_backward(d_o, q, k, v, saved[kSavedO], saved[kSavedSum], beside.q_offsets,
                                          beside.k_offsets, setting.causal, setting.scale, setting.deterministic,
                                          setting.window_left, setting.window_right, sinks, setting.softcap,
                                          alibi_slopes);
  }

  [[nodiscard]] OptionalTensor sinks_of(const variable_list& saved) const {
    return with_sinks ? OptionalTensor(saved[kSavedSinks]) : std::nullopt;
  }
  [[nodiscard]] OptionalTensor slopes_of(const variable_list& saved) const {
    return with_slopes ? OptionalTensor(saved[kSavedSlopes]) : std::nullopt;
  }

  // Expanded gradients have no rows of their own.
  static Tensor rows_of(const Tensor& gradient) {
    const bool usable = gradient.sym_stride(-1) == 1 && gradient.is_non_overlapping_and_dense();
    return usable ? gradient : gradient.contiguous();
  }
};

// Calls the operator and records its derivative.
template <class Call>
AttentionAndSum recorded(const Tensor& q, const Tensor& k, const Tensor& v, const Beside& beside,
                         const Setting& setting, const Call& call) {
  NodePointer<BackwardNode> node;
  if (torch::autograd::compute_requires_grad(q, k, v, beside.sinks)) {
    node = make_node(q, k, v, beside.sinks);
    auto formula = std::make_shared<AttentionFormula>();
    formula->setting = setting;
    formula->packed = beside.packed();
    formula->with_sinks = beside.sinks.defined();
    formula->with_slopes = beside.slopes.defined();
    node->gradients = std::move(formula);
    node->saved.resize(beside.slopes.defined() ? 9 : beside.sinks.defined() ? 8 : beside.packed() ? 7 : 5);
  }
  AttentionAndSum out;
  {
    const at::AutoDispatchBelowADInplaceOrView below;
    out = call();
  }
  if (!node) return out;
  const auto& [o, lse] = out;
  torch::autograd::set_history(o, node);
  node->saved[AttentionFormula::kSavedQ] = {q, false};
  node->saved[AttentionFormula::kSavedK] = {k, false};
  node->saved[AttentionFormula::kSavedV] = {v, false};
  node->saved[AttentionFormula::kSavedO] = {o, true};
  node->saved[AttentionFormula::kSavedSum] = {lse, false};
  if (beside.packed()) {
    node->saved[AttentionFormula::kSavedQOffsets] = {beside.q_offsets, false};
    node->saved[AttentionFormula::kSavedKOffsets] = {beside.k_offsets, false};
  }
  if (beside.sinks.defined()) node->saved[AttentionFormula::kSavedSinks] = {beside.sinks, false};
  if (beside.slopes.defined()) node->saved[AttentionFormula::kSavedSlopes] = {beside.slopes, false};
  torch::autograd::edge_list edges;
  for (const Tensor* x : {&q, &k, &v, &beside.sinks}) {
    if (torch::autograd::compute_requires_grad(*x)) edges.push_back(torch::autograd::impl::gradient_edge(*x));
  }
  refuse_derivative(lse, std::move(edges),
                    "attention: there is no gradient through the log-sum-exp; call .detach() on it");
  return out;
}

AttentionAndSum attention_autograd(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                   std::optional<double> scale, bool deterministic, std::int64_t window_left,
                                   std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                                   const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Beside beside{{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)};
  check_no_slope_gradient(alibi_slopes, kOp);
  if (any_tangent(q, k, v, sinks, alibi_slopes)) {
    attention_meta(q, k, v, beside, setting);
    return by_torch(q, k, v, setting, beside);
  }
  return recorded(q, k, v, beside, setting, [&] {
    return call_attention(q, k, v, causal, scale, deterministic, window_left, window_right, sinks, softcap,
                          alibi_slopes);
  });
}

AttentionAndSum varlen_autograd(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                                const Tensor& k_offsets, bool causal, std::optional<double> scale, bool deterministic,
                                std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks,
                                double softcap, const OptionalTensor& alibi_slopes) {
  const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
  const Beside beside{q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)};
  check_no_slope_gradient(alibi_slopes, kVarlenOp);
  if (any_tangent(q, k, v, sinks, alibi_slopes)) {
    varlen_meta(q, k, v, beside, setting);
    return varlen_by_torch(q, k, v, beside, setting);
  }
  return recorded(q, k, v, beside, setting, [&] {
    return call_varlen_attention(q, k, v, q_offsets, k_offsets, causal, scale, deterministic, window_left, window_right,
                                 sinks, softcap, alibi_slopes);
  });
}

AttentionGradients varlen_backward_autograd(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                            const Tensor& o, const Tensor& lse, const Tensor& q_offsets,
                                            const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                            bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                            const OptionalTensor& sinks, double softcap,
                                            const OptionalTensor& alibi_slopes) {
  if (torch::autograd::compute_requires_grad(d_o, q, k, v, tensor_of(sinks)) ||
      any_tangent(d_o, q, k, v, sinks, alibi_slopes)) {
    const Beside beside{q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)};
    const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
    varlen_backward_meta({d_o, q, k, v, o, lse}, beside, setting);
    return varlen_gradients_by_torch({d_o, q, k, v, Tensor(), Tensor()}, beside, setting);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_varlen_attention_backward(d_o, q, k, v, o, lse, q_offsets, k_offsets, causal, scale, deterministic,
                                        window_left, window_right, sinks, softcap, alibi_slopes);
}

AttentionAndSum varlen_autocast(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                                const Tensor& k_offsets, bool causal, std::optional<double> scale, bool deterministic,
                                std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks,
                                double softcap, const OptionalTensor& alibi_slopes) {
  const auto device = q.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& x) { return at::autocast::cached_cast(type, x, device); };
  return call_varlen_attention(cast(q), cast(k), cast(v), q_offsets, k_offsets, causal, scale, deterministic,
                               window_left, window_right, sinks, softcap, alibi_slopes);
}

AttentionGradients backward_autograd(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                     const Tensor& o, const Tensor& lse, bool causal, std::optional<double> scale,
                                     bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                     const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes) {
  if (torch::autograd::compute_requires_grad(d_o, q, k, v, tensor_of(sinks)) ||
      any_tangent(d_o, q, k, v, sinks, alibi_slopes)) {
    const Beside beside{{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)};
    const Setting setting{causal, scale, deterministic, window_left, window_right, softcap};
    backward_meta({d_o, q, k, v, o, lse}, beside, setting);
    return gradients_by_torch({d_o, q, k, v, Tensor(), Tensor()}, setting, beside);
  }
  const at::AutoDispatchBelowADInplaceOrView below;
  return call_attention_backward(d_o, q, k, v, o, lse, causal, scale, deterministic, window_left, window_right, sinks,
                                 softcap, alibi_slopes);
}

AttentionAndSum attention_autocast(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                                   std::optional<double> scale, bool deterministic, std::int64_t window_left,
                                   std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                                   const OptionalTensor& alibi_slopes) {
  const auto device = q.device().type();
  const c10::impl::ExcludeDispatchKeyGuard without(
      c10::DispatchKeySet({c10::DispatchKey::AutocastCPU, c10::DispatchKey::AutocastCUDA}));
  const auto type = at::autocast::get_autocast_dtype(device);
  const auto cast = [&](const Tensor& x) { return at::autocast::cached_cast(type, x, device); };
  return call_attention(cast(q), cast(k), cast(v), causal, scale, deterministic, window_left, window_right, sinks,
                        softcap, alibi_slopes);
}

}  // namespace

AttentionAndSum call_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale, bool deterministic, std::int64_t window_left,
                               std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                               const OptionalTensor& alibi_slopes) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("ridgeline::attention", "").typed<decltype(call_attention)>();
  return op.call(q, k, v, causal, scale, deterministic, window_left, window_right, sinks, softcap, alibi_slopes);
}
AttentionGradients call_attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& o, const Tensor& lse, bool causal, std::optional<double> scale,
                                           bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                           const OptionalTensor& sinks, double softcap,
                                           const OptionalTensor& alibi_slopes) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::attention_backward", "")
                             .typed<decltype(call_attention_backward)>();
  return op.call(d_o, q, k, v, o, lse, causal, scale, deterministic, window_left, window_right, sinks, softcap,
                 alibi_slopes);
}

AttentionAndSum call_varlen_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                                      const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                      bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                      const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::varlen_attention", "")
                             .typed<decltype(call_varlen_attention)>();
  return op.call(q, k, v, q_offsets, k_offsets, causal, scale, deterministic, window_left, window_right, sinks, softcap,
                 alibi_slopes);
}
AttentionGradients call_varlen_attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& o, const Tensor& lse, const Tensor& q_offsets,
                                                  const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                                  bool deterministic, std::int64_t window_left,
                                                  std::int64_t window_right, const OptionalTensor& sinks,
                                                  double softcap, const OptionalTensor& alibi_slopes) {
  static const auto op = c10::Dispatcher::singleton()
                             .findSchemaOrThrow("ridgeline::varlen_attention_backward", "")
                             .typed<decltype(call_varlen_attention_backward)>();
  return op.call(d_o, q, k, v, o, lse, q_offsets, k_offsets, causal, scale, deterministic, window_left, window_right,
                 sinks, softcap, alibi_slopes);
}

void register_attention(torch::Library& library, c10::DispatchKey key) {
  switch (key) {
    case c10::DispatchKey::CPU:
    case c10::DispatchKey::CUDA:
      library.impl("attention", attention);
      library.impl("attention_backward", attention_backward);
      library.impl("varlen_attention", varlen_attention);
      library.impl("varlen_attention_backward", varlen_attention_backward);
      return;
    case c10::DispatchKey::Meta:
      library.impl("attention",
                   [](const Tensor& q, const Tensor& k, const Tensor& v, bool causal, std::optional<double> scale,
                      bool deterministic, std::int64_t window_left, std::int64_t window_right,
                      const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes) {
                     return attention_meta(q, k, v, {{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)},
                                           {causal, scale, deterministic, window_left, window_right, softcap});
                   });
      library.impl("attention_backward",
                   [](const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o,
                      const Tensor& lse, bool causal, std::optional<double> scale, bool deterministic,
                      std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                      const OptionalTensor& alibi_slopes) {
                     return backward_meta({d_o, q, k, v, o, lse}, {{}, {}, tensor_of(sinks), tensor_of(alibi_slopes)},
                                          {causal, scale, deterministic, window_left, window_right, softcap});
                   });
      library.impl("varlen_attention",
                   [](const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                      const Tensor& k_offsets, bool causal, std::optional<double> scale, bool deterministic,
                      std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                      const OptionalTensor& alibi_slopes) {
                     return varlen_meta(q, k, v, {q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)},
                                        {causal, scale, deterministic, window_left, window_right, softcap});
                   });
      library.impl(
          "varlen_attention_backward",
          [](const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& o, const Tensor& lse,
             const Tensor& q_offsets, const Tensor& k_offsets, bool causal, std::optional<double> scale,
             bool deterministic, std::int64_t window_left, std::int64_t window_right, const OptionalTensor& sinks,
             double softcap, const OptionalTensor& alibi_slopes) {
            return varlen_backward_meta({d_o, q, k, v, o, lse},
                                        {q_offsets, k_offsets, tensor_of(sinks), tensor_of(alibi_slopes)},
                                        {causal, scale, deterministic, window_left, window_right, softcap});
          });
      return;
    case c10::DispatchKey::Autograd:
      library.impl("attention", attention_autograd);
      library.impl("attention_backward", backward_autograd);
      library.impl("varlen_attention", varlen_autograd);
      library.impl("varlen_attention_backward", varlen_backward_autograd);
      return;
    case c10::DispatchKey::AutocastCPU:
    case c10::DispatchKey::AutocastCUDA:
      library.impl("attention", attention_autocast);
      library.impl("varlen_attention", varlen_autocast);
      return;
    default: return;
  }
}

}  // namespace ridge::torch_frontend
