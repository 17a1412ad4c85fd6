// The functions behind torch.ops.ridgeline.*, and how they call each other: always through PyTorch's dispatcher, so
// that autograd, autocast, tracing and functionalisation see every call.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/library.h>

#include <optional>
#include <string_view>
#include <tuple>

namespace ridge::torch_frontend {

using at::Tensor;
using OptionalTensor = std::optional<Tensor>;
using OptionalType = std::optional<at::ScalarType>;
using OptionalText = std::optional<std::string_view>;

inline bool given(const OptionalTensor& tensor) { return tensor && tensor->defined(); }

// c = f(op(a) op(b) + bias) + residual. `main_grad` is where the gradient of b is added instead of being returned.
Tensor call_gemm(const Tensor& a, const Tensor& b, bool trans_a, bool trans_b, OptionalType out_dtype,
                 const OptionalTensor& bias = {}, OptionalText activation = {}, const OptionalTensor& main_grad = {},
                 const OptionalTensor& residual = {});
// c += op(a) op(b)
void call_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, bool trans_a, bool trans_b);

// op(a) op(b) of the rows of each group, which begin at `offsets` and end at the next. And c += a^T b of them. Where an
// index is given the rows of a, or of b, are those that it names; `places` says where each of them is named, for its
// gradient.
Tensor call_grouped_gemm(const Tensor& a, const Tensor& b, const Tensor& offsets, bool trans_a, bool trans_b,
                         OptionalType out_dtype, const OptionalTensor& main_grad = {},
                         const OptionalTensor& index_a = {}, const OptionalTensor& index_b = {},
                         const OptionalTensor& places = {});
void call_grouped_gemm_add(Tensor& c, const Tensor& a, const Tensor& b, const Tensor& offsets,
                           const OptionalTensor& index_a = {}, const OptionalTensor& index_b = {});

// alpha op(a) op(a)^T + beta residual + shift I.
Tensor call_symmetric_product(const Tensor& a, bool trans_a, OptionalType out_dtype, double alpha,
                              const OptionalTensor& residual, double beta, double shift);

// 8-bit codes and scales of a matrix and, with `column`, of its transpose; what is not asked for is empty.
using Quantized = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Quantized call_quantize(const Tensor& x, at::ScalarType format, std::string_view granularity, std::string_view rule,
                        bool row, bool column, const OptionalTensor& random);

// The norm of rows and what backward needs of it; the same of x + residual, with the sum; and its gradients, of which
// what is not asked for is empty.
using Normalised = std::tuple<Tensor, Tensor>;
using NormalisedSum = std::tuple<Tensor, Tensor, Tensor>;
using NormGradients = std::tuple<Tensor, Tensor>;
Normalised call_rmsnorm(const Tensor& x, const OptionalTensor& weight, double eps, bool zero_centred);
NormalisedSum call_rmsnorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight, double eps,
                               bool zero_centred);
NormGradients call_rmsnorm_backward(const Tensor& dy, const Tensor& x, const Tensor& rstd, const OptionalTensor& weight,
                                    bool zero_centred, const OptionalTensor& dsum, bool need_dx, bool need_dweight);

// The norm of rows that takes their mean off, which is one result more, and may add a bias.
using Centred = std::tuple<Tensor, Tensor, Tensor>;
using CentredSum = std::tuple<Tensor, Tensor, Tensor, Tensor>;
using CentredGradients = std::tuple<Tensor, Tensor, Tensor>;
Centred call_layernorm(const Tensor& x, const OptionalTensor& weight, const OptionalTensor& bias, double eps,
                       bool zero_centred);
CentredSum call_layernorm_add(const Tensor& x, const Tensor& residual, const OptionalTensor& weight,
                              const OptionalTensor& bias, double eps, bool zero_centred);
CentredGradients call_layernorm_backward(const Tensor& dy, const Tensor& x, const Tensor& mean, const Tensor& rstd,
                                         const OptionalTensor& weight, bool zero_centred, const OptionalTensor& dsum,
                                         bool need_dx, bool need_dweight, bool need_dbias);

// f(x) times a gate, a factor and a mask of rows; its gradients, of which what is not asked for is empty. A packed x
// [..., 2 columns] holds the gate behind, and its gradient is of the same form.
using ActivationGradients = std::tuple<Tensor, Tensor, Tensor>;
Tensor call_activation(const Tensor& x, const OptionalTensor& up, const OptionalTensor& probs,
                       const OptionalTensor& mask, std::string_view function, bool packed, double alpha, double limit);
ActivationGradients call_activation_backward(const Tensor& dy, const Tensor& x, const OptionalTensor& up,
                                             const OptionalTensor& probs, const OptionalTensor& mask,
                                             std::string_view function, bool packed, double alpha, double limit,
                                             bool need_x, bool need_up, bool need_probs);

// Losses of tokens and the log-sum-exp of their logits; the gradient of the logits, of a shard too.
struct LossSettings {
  std::int64_t ignore_index = -100;
  double label_smoothing = 0, z_loss = 0, soft_cap = 0;
};
using LossAndSum = std::tuple<Tensor, Tensor>;
using LossAndGradient = std::tuple<Tensor, Tensor>;
using ShardStatistics = std::tuple<Tensor, Tensor, Tensor, Tensor>;
LossAndSum call_cross_entropy(const Tensor& logits, const Tensor& target, std::int64_t ignore_index,
                              double label_smoothing, double z_loss, double soft_cap);
Tensor call_cross_entropy_backward(const Tensor& dloss, const Tensor& logits, const Tensor& target, const Tensor& lse,
                                   std::int64_t ignore_index, double label_smoothing, double z_loss, double soft_cap,
                                   std::int64_t first, std::int64_t whole);

// Shares of rows, their logarithms, or the logarithm of the sum; the gradient of x from the result, or from x and that
// sum.
Tensor call_softmax(const Tensor& x, std::string_view form, double scale, OptionalType out_dtype);
Tensor call_softmax_backward(const Tensor& dy, const Tensor& saved, const OptionalTensor& lse, std::string_view form,
                             double scale, at::ScalarType dtype);

// Rows of a table, and their gradient added up by ids; `main_grad` is where that of the table is added instead of being
// returned.
Tensor call_embedding(const Tensor& ids, const Tensor& weight, c10::SymInt padding_idx,
                      const OptionalTensor& main_grad = {});
Tensor call_embedding_backward(const Tensor& dy, const Tensor& ids, c10::SymInt vocabulary, c10::SymInt padding_idx);
void call_embedding_backward_add(Tensor& dw, const Tensor& dy, const Tensor& ids, c10::SymInt padding_idx);

// Rows that are weighted sums of rows of x, which `sources` names; `places` says where each row of x is named, for its
// gradient. And the gradient of the weights.
Tensor call_combine_rows(const Tensor& x, const Tensor& sources, const OptionalTensor& weights,
                         const OptionalTensor& places);
// The same by PyTorch's own operators, which has derivatives of every order.
Tensor combine_rows_by_torch(const Tensor& x, const Tensor& sources, const OptionalTensor& weights);
Tensor call_combine_rows_backward(const Tensor& dy, const Tensor& x, const Tensor& sources);

// The weights of the experts that a token is routed to, and which they are; the gradient of the logits.
using WeightsAndExperts = std::tuple<Tensor, Tensor>;
WeightsAndExperts call_route(const Tensor& logits, std::int64_t top, std::string_view score, std::string_view order,
                             const OptionalTensor& bias, std::int64_t groups, std::int64_t group_top, bool renormalize,
                             double scale);
Tensor call_route_backward(const Tensor& dweights, const Tensor& logits, const Tensor& experts, std::string_view score,
                           std::string_view order, bool renormalize, double scale);

// q and k turned by the angles of their positions; what is left out is empty.
using Turned = std::tuple<Tensor, Tensor>;
Turned call_rope(const Tensor& q, const OptionalTensor& k, const Tensor& cos, const Tensor& sin,
                 const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool inverse);
// The same of heads that are normalised first; the gradients of q, k and the weights.
using TurnedGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;
Turned call_rope_norm(const Tensor& q, const OptionalTensor& k, const OptionalTensor& q_weight,
                      const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                      const OptionalTensor& positions, std::int64_t offset, bool interleaved, bool zero_centred,
                      double eps);
TurnedGradients call_rope_norm_backward(const Tensor& dq_out, const OptionalTensor& dk_out, const Tensor& q,
                                        const OptionalTensor& k, const OptionalTensor& q_weight,
                                        const OptionalTensor& k_weight, const Tensor& cos, const Tensor& sin,
                                        const OptionalTensor& positions, std::int64_t offset, bool interleaved,
                                        bool zero_centred, double eps);

// softmax(scale q k^T) v of heads and the log-sum-exp of their rows; the gradients of q, k, v and sinks.
using AttentionAndSum = std::tuple<Tensor, Tensor>;
using AttentionGradients = std::tuple<Tensor, Tensor, Tensor, Tensor>;
AttentionAndSum call_attention(const Tensor& q, const Tensor& k, const Tensor& v, bool causal,
                               std::optional<double> scale, bool deterministic, std::int64_t window_left,
                               std::int64_t window_right, const OptionalTensor& sinks, double softcap,
                               const OptionalTensor& alibi_slopes);
AttentionGradients call_attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                           const Tensor& o, const Tensor& lse, bool causal, std::optional<double> scale,
                                           bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                           const OptionalTensor& sinks, double softcap,
                                           const OptionalTensor& alibi_slopes);
// The same of documents behind each other, [tokens, heads, dim].
AttentionAndSum call_varlen_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& q_offsets,
                                      const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                      bool deterministic, std::int64_t window_left, std::int64_t window_right,
                                      const OptionalTensor& sinks, double softcap, const OptionalTensor& alibi_slopes);
AttentionGradients call_varlen_attention_backward(const Tensor& d_o, const Tensor& q, const Tensor& k, const Tensor& v,
                                                  const Tensor& o, const Tensor& lse, const Tensor& q_offsets,
                                                  const Tensor& k_offsets, bool causal, std::optional<double> scale,
                                                  bool deterministic, std::int64_t window_left,
                                                  std::int64_t window_right, const OptionalTensor& sinks,
                                                  double softcap, const OptionalTensor& alibi_slopes);

// One registration a file; library.cpp calls them.
void register_gemm(torch::Library& library, c10::DispatchKey key);
void register_grouped_gemm(torch::Library& library, c10::DispatchKey key);
void register_grouped_gemm_fp8(torch::Library& library, c10::DispatchKey key);
void register_symmetric_product(torch::Library& library, c10::DispatchKey key);
void register_quantize(torch::Library& library, c10::DispatchKey key);
void register_grouped_quantize(torch::Library& library, c10::DispatchKey key);
void register_rmsnorm(torch::Library& library, c10::DispatchKey key);
void register_rmsnorm_quantize(torch::Library& library, c10::DispatchKey key);
void register_layernorm(torch::Library& library, c10::DispatchKey key);
void register_activation(torch::Library& library, c10::DispatchKey key);
void register_activation_quantize(torch::Library& library, c10::DispatchKey key);
void register_adamw(torch::Library& library, c10::DispatchKey key);
void register_adamw_quantize(torch::Library& library, c10::DispatchKey key);
void register_cross_entropy(torch::Library& library, c10::DispatchKey key);
void register_softmax(torch::Library& library, c10::DispatchKey key);
void register_embedding(torch::Library& library, c10::DispatchKey key);
void register_combine_rows(torch::Library& library, c10::DispatchKey key);
void register_route(torch::Library& library, c10::DispatchKey key);
void register_expert_order(torch::Library& library, c10::DispatchKey key);
void register_rope(torch::Library& library, c10::DispatchKey key);
void register_rope_norm(torch::Library& library, c10::DispatchKey key);
void register_rescale(torch::Library& library, c10::DispatchKey key);
void register_attention(torch::Library& library, c10::DispatchKey key);
void register_attention_fp8(torch::Library& library, c10::DispatchKey key);
void register_gemm_fp8(torch::Library& library, c10::DispatchKey key);
void define_control(torch::Library& library);

}  // namespace ridge::torch_frontend
