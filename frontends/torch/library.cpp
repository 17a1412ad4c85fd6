// The schemas of torch.ops.ridgeline.*, and which function serves which key of PyTorch's dispatcher.
//
// This is PyTorch's full C++ interface, not its stable ABI (torch/csrc/stable): that one has no autograd functions, no
// autocast and no shape functions with symbolic sizes as of PyTorch 2.11, which would leave gradients to Python and
// cost each call more than its arithmetic at small sizes. The price is one build per minor version of PyTorch.
#include <torch/library.h>

#include "operators.h"

namespace ridge::torch_frontend {
namespace {

constexpr const char* kSchemas[] = {
    "gemm(Tensor a, Tensor b, bool trans_a=False, bool trans_b=False, ScalarType? out_dtype=None, Tensor? bias=None, "
    "str? activation=None, Tensor? main_grad=None, Tensor? residual=None) -> Tensor",
    "gemm_add_(Tensor(a!) c, Tensor a, Tensor b, bool trans_a=False, bool trans_b=False) -> ()",
    "grouped_gemm(Tensor a, Tensor b, Tensor offsets, bool trans_a=False, bool trans_b=False, ScalarType? "
    "out_dtype=None, Tensor? main_grad=None, Tensor? index_a=None, Tensor? index_b=None, Tensor? places=None) -> "
    "Tensor",
    "grouped_gemm_add_(Tensor(a!) c, Tensor a, Tensor b, Tensor offsets, Tensor? index_a=None, Tensor? index_b=None) "
    "-> ()",
    "grouped_swiglu(Tensor a, Tensor b, Tensor offsets, bool trans_b=False, Tensor? probs=None, Tensor? "
    "main_grad=None, "
    "Tensor? index_a=None, Tensor? places=None) -> (Tensor y, Tensor gate_up)",
    "grouped_swiglu_backward(Tensor dy, Tensor b, Tensor offsets, Tensor gate_up, bool trans_b=False, Tensor? "
    "probs=None) -> (Tensor dgate_up, Tensor y, Tensor dprobs)",
    "grouped_gemm_fp8(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor offsets, ScalarType out_dtype, bool "
    "along_sums=False, str scaling=\"block\", Tensor? index_a=None) -> Tensor",
    "grouped_gemm_fp8_add_(Tensor(a!) c, Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, Tensor offsets, str "
    "scaling=\"block\") -> ()",
    "symmetric_product(Tensor a, bool trans_a=False, ScalarType? out_dtype=None, float alpha=1., Tensor? "
    "residual=None, float beta=1., float shift=0.) -> Tensor",
    "gemm_fp8(Tensor a, Tensor b, bool trans_a=False, bool trans_b=False, ScalarType? out_dtype=None, "
    "str format=\"e4m3\", str granularity=\"tensorwise\", str rule=\"exact\", str rounding=\"nearest\", "
    "Tensor? main_grad=None, Tensor? bias=None) -> Tensor",
    "gemm_fp8_scaled(Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, bool trans_a, bool trans_b, "
    "ScalarType out_dtype, str scaling, str sums=\"promoted\", Tensor? bias=None) -> Tensor",
    "gemm_fp8_scaled_add_(Tensor(a!) c, Tensor a, Tensor b, Tensor scale_a, Tensor scale_b, bool trans_a, bool "
    "trans_b, "
    "str scaling, str sums=\"promoted\") -> ()",
    "quantize(Tensor x, ScalarType format, str granularity, str rule=\"exact\", bool row=True, bool column=False, "
    "Tensor? random=None) -> (Tensor q, Tensor scale, Tensor q_t, Tensor scale_t)",
    "quantize_by(Tensor x, Tensor amax, Tensor(a!)? found, ScalarType format, str rule=\"exact\", bool row=True, "
    "bool column=False) -> (Tensor q, Tensor scale, Tensor q_t, Tensor scale_t)",
    "grouped_quantize(Tensor x, Tensor offsets, ScalarType format, str granularity, str rule=\"exact\", int align=128, "
    "bool row=True, bool column=False, Tensor? random=None, Tensor? index=None) -> (Tensor q, Tensor scale, Tensor "
    "q_t, Tensor scale_t, Tensor padded)",
    "grouped_codes(Tensor x, Tensor offsets, ScalarType format, str granularity, str rule=\"exact\", str of=\"rows\", "
    "Tensor? dy=None, Tensor? probs=None, bool need_dprobs=False, Tensor? index=None) -> (Tensor q, Tensor scale, "
    "Tensor q_t, Tensor scale_t, Tensor padded, Tensor dprobs)",
    "dequantize(Tensor q, Tensor scale, str granularity, ScalarType out_dtype) -> Tensor",
    "rmsnorm(Tensor x, Tensor? weight, float eps, bool zero_centred=False) -> (Tensor y, Tensor rstd)",
    "rmsnorm_add(Tensor x, Tensor residual, Tensor? weight, float eps, bool zero_centred=False) -> (Tensor y, Tensor "
    "sum, "
    "Tensor rstd)",
    "rmsnorm_backward(Tensor dy, Tensor x, Tensor rstd, Tensor? weight, bool zero_centred=False, Tensor? dsum=None, "
    "bool need_dx=True, bool need_dweight=True) -> (Tensor dx, Tensor dweight)",
    "rmsnorm_quantize(Tensor x, Tensor? residual, Tensor? weight, float eps, bool zero_centred, ScalarType format, str "
    "granularity, str rule=\"exact\", bool row=True, bool column=False, Tensor? random=None) -> (Tensor q, Tensor "
    "scale, "
    "Tensor q_t, Tensor scale_t, Tensor sum, Tensor rstd)",
    "layernorm(Tensor x, Tensor? weight, Tensor? bias, float eps, bool zero_centred=False) -> (Tensor y, Tensor mean, "
    "Tensor rstd)",
    "layernorm_add(Tensor x, Tensor residual, Tensor? weight, Tensor? bias, float eps, bool zero_centred=False) -> "
    "(Tensor y, Tensor sum, Tensor mean, Tensor rstd)",
    "layernorm_backward(Tensor dy, Tensor x, Tensor mean, Tensor rstd, Tensor? weight, bool zero_centred=False, "
    "Tensor? dsum=None, bool need_dx=True, bool need_dweight=True, bool need_dbias=True) -> (Tensor dx, Tensor "
    "dweight, Tensor dbias)",
    "activation(Tensor x, Tensor? up, Tensor? probs, Tensor? mask, str function, bool packed, float alpha, float "
    "limit) "
    "-> Tensor",
    "activation_backward(Tensor dy, Tensor x, Tensor? up, Tensor? probs, Tensor? mask, str function, bool packed, "
    "float alpha, float limit, bool need_x=True, bool need_up=True, bool need_probs=True) -> (Tensor dx, Tensor dup, "
    "Tensor dprobs)",
    "activation_quantize(Tensor x, Tensor? up, Tensor? probs, Tensor? mask, str function, bool packed, float alpha, "
    "float limit, ScalarType format, str granularity, str rule=\"exact\", bool row=True, bool column=False, Tensor? "
    "random=None) -> (Tensor q, Tensor scale, Tensor q_t, Tensor scale_t)",
    "activation_quantize_backward(Tensor dy, Tensor x, Tensor? up, Tensor? probs, Tensor? mask, str function, bool "
    "packed, float alpha, float limit, ScalarType format, str granularity, str rule=\"exact\", bool row=True, bool "
    "column=False, Tensor? random=None) -> (Tensor q, Tensor scale, Tensor q_t, Tensor scale_t)",
    "adamw_(Tensor(a!)[] params, Tensor[] grads, Tensor(b!)[] exp_avgs, Tensor(c!)[] exp_avg_sqs, Tensor(d!)[] "
    "masters, Tensor? factor, Tensor? skip, float lr, float beta1, float beta2, float eps, float weight_decay, "
    "float step, bool maximize=False) -> ()",
    "adamw_quantize_(Tensor(a!) param, Tensor grad, Tensor(b!) exp_avg, Tensor(c!) exp_avg_sq, Tensor(d!)? master, "
    "Tensor(e!)? q, Tensor(f!)? scale, Tensor(g!)? q_t, Tensor(h!)? scale_t, Tensor? factor, Tensor? skip, float lr, "
    "float beta1, float beta2, float eps, float weight_decay, float step, bool maximize, str granularity, "
    "str rule=\"exact\", Tensor? random=None) -> ()",
    "cross_entropy(Tensor logits, Tensor target, int ignore_index=-100, float label_smoothing=0., float z_loss=0., "
    "float soft_cap=0.) -> (Tensor loss, Tensor lse)",
    "cross_entropy_backward(Tensor dloss, Tensor logits, Tensor target, Tensor lse, int ignore_index=-100, "
    "float label_smoothing=0., float z_loss=0., float soft_cap=0., int first=0, int whole=0) -> Tensor",
    "cross_entropy_with_gradient(Tensor logits, Tensor target, Tensor? grad=None, int ignore_index=-100, "
    "float label_smoothing=0., float z_loss=0., float soft_cap=0.) -> (Tensor loss, Tensor dlogits)",
    "cross_entropy_with_gradient_(Tensor(a!) logits, Tensor target, Tensor? grad=None, int ignore_index=-100, "
    "float label_smoothing=0., float z_loss=0., float soft_cap=0.) -> Tensor",
    "cross_entropy_shard(Tensor logits, Tensor target, int first, int whole, int ignore_index=-100, "
    "float soft_cap=0.) -> (Tensor most, Tensor sum, Tensor picked, Tensor total)",
    "softmax(Tensor x, str form=\"softmax\", float scale=1., ScalarType? out_dtype=None) -> Tensor",
    "softmax_backward(Tensor dy, Tensor saved, Tensor? lse, str form, float scale, ScalarType dtype) -> Tensor",
    "embedding(Tensor ids, Tensor weight, SymInt padding_idx=-1, Tensor? main_grad=None) -> Tensor",
    "embedding_backward(Tensor dy, Tensor ids, SymInt vocabulary, SymInt padding_idx=-1) -> Tensor",
    "embedding_backward_add_(Tensor(a!) dw, Tensor dy, Tensor ids, SymInt padding_idx=-1) -> ()",
    "combine_rows(Tensor x, Tensor sources, Tensor? weights=None, Tensor? places=None) -> Tensor",
    "combine_rows_backward(Tensor dy, Tensor x, Tensor sources) -> Tensor",
    "route(Tensor logits, int top, str score=\"softmax\", str order=\"score_first\", Tensor? bias=None, int groups=1, "
    "int group_top=1, bool renormalize=False, float scale=1.) -> (Tensor weights, Tensor experts)",
    "route_backward(Tensor dweights, Tensor logits, Tensor experts, str score, str order, bool renormalize, "
    "float scale) -> Tensor",
    "expert_order(Tensor experts, int num_experts, int align=1) -> (Tensor offsets, Tensor tokens, Tensor rows, Tensor "
    "choices)",
    "rescale_(Tensor(a!) x, Tensor factor) -> ()",
    "rope(Tensor q, Tensor? k, Tensor cos, Tensor sin, Tensor? positions=None, int offset=0, bool interleaved=False, "
    "bool inverse=False) -> (Tensor q_out, Tensor k_out)",
    "rope_(Tensor(a!) q, Tensor(b!)? k, Tensor cos, Tensor sin, Tensor? positions=None, int offset=0, "
    "bool interleaved=False, bool inverse=False) -> ()",
    "rope_norm(Tensor q, Tensor? k, Tensor? q_weight, Tensor? k_weight, Tensor cos, Tensor sin, "
    "Tensor? positions=None, int offset=0, bool interleaved=False, bool zero_centred=False, float eps=1e-6) -> "
    "(Tensor q_out, Tensor k_out)",
    "rope_norm_backward(Tensor dq_out, Tensor? dk_out, Tensor q, Tensor? k, Tensor? q_weight, Tensor? k_weight, "
    "Tensor cos, Tensor sin, Tensor? positions=None, int offset=0, bool interleaved=False, bool zero_centred=False, "
    "float eps=1e-6) -> (Tensor dq, Tensor dk, Tensor dq_weight, Tensor dk_weight)",
    "rope_table_(Tensor(a!) cos, Tensor(b!) sin, float base, str scaling, float factor, float original_length, "
    "float low_factor, float high_factor, float beta_fast, float beta_slow, float attention) -> ()",
    "attention(Tensor q, Tensor k, Tensor v, bool causal=False, float? scale=None, bool deterministic=False, "
    "int window_left=-1, int window_right=-1, Tensor? sinks=None, float softcap=0.0, Tensor? alibi_slopes=None) -> "
    "(Tensor o, Tensor lse)",
    "attention_backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, bool causal=False, "
    "float? scale=None, bool deterministic=False, int window_left=-1, int window_right=-1, Tensor? sinks=None, float "
    "softcap=0.0, Tensor? alibi_slopes=None) -> "
    "(Tensor d_q, Tensor d_k, Tensor d_v, Tensor d_sinks)",
    "attention_fp8(Tensor q, Tensor k, Tensor v, Tensor q_scale, Tensor k_scale, Tensor v_scale, ScalarType out_dtype, "
    "bool causal=False, float? scale=None, int window_left=-1, int window_right=-1) -> (Tensor o, Tensor lse)",
    "varlen_attention(Tensor q, Tensor k, Tensor v, Tensor q_offsets, Tensor k_offsets, bool causal=False, "
    "float? scale=None, bool deterministic=False, int window_left=-1, int window_right=-1, Tensor? sinks=None, float "
    "softcap=0.0, Tensor? alibi_slopes=None) -> "
    "(Tensor o, Tensor lse)",
    "varlen_attention_backward(Tensor d_o, Tensor q, Tensor k, Tensor v, Tensor o, Tensor lse, Tensor q_offsets, "
    "Tensor k_offsets, bool causal=False, float? scale=None, bool deterministic=False, int window_left=-1, int "
    "window_right=-1, Tensor? sinks=None, float softcap=0.0, Tensor? alibi_slopes=None) -> "
    "(Tensor d_q, Tensor d_k, Tensor d_v, Tensor d_sinks)",
};

void register_all(torch::Library& library, c10::DispatchKey key) {
  register_gemm(library, key);
  register_grouped_gemm(library, key);
  register_grouped_gemm_fp8(library, key);
  register_symmetric_product(library, key);
  register_quantize(library, key);
  register_grouped_quantize(library, key);
  register_gemm_fp8(library, key);
  register_rmsnorm(library, key);
  register_rmsnorm_quantize(library, key);
  register_layernorm(library, key);
  register_activation(library, key);
  register_activation_quantize(library, key);
  register_adamw(library, key);
  register_adamw_quantize(library, key);
  register_cross_entropy(library, key);
  register_softmax(library, key);
  register_embedding(library, key);
  register_combine_rows(library, key);
  register_route(library, key);
  register_expert_order(library, key);
  register_rope(library, key);
  register_rope_norm(library, key);
  register_rescale(library, key);
  register_attention(library, key);
  register_attention_fp8(library, key);
}

}  // namespace

TORCH_LIBRARY(ridgeline, library) {
  for (const char* schema : kSchemas) library.def(schema, {at::Tag::pt2_compliant_tag});
  define_control(library);
}
TORCH_LIBRARY_IMPL(ridgeline, CPU, library) { register_all(library, c10::DispatchKey::CPU); }
TORCH_LIBRARY_IMPL(ridgeline, CUDA, library) { register_all(library, c10::DispatchKey::CUDA); }
TORCH_LIBRARY_IMPL(ridgeline, Meta, library) { register_all(library, c10::DispatchKey::Meta); }
TORCH_LIBRARY_IMPL(ridgeline, CompositeExplicitAutograd, library) {
  register_all(library, c10::DispatchKey::CompositeExplicitAutograd);
}
TORCH_LIBRARY_IMPL(ridgeline, Autograd, library) { register_all(library, c10::DispatchKey::Autograd); }
TORCH_LIBRARY_IMPL(ridgeline, AutocastCPU, library) { register_all(library, c10::DispatchKey::AutocastCPU); }
TORCH_LIBRARY_IMPL(ridgeline, AutocastCUDA, library) { register_all(library, c10::DispatchKey::AutocastCUDA); }

}  // namespace ridge::torch_frontend
