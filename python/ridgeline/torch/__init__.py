"""Ridgeline's operators for PyTorch: functions, modules, and which implementation runs (docs/pytorch.md)."""

from __future__ import annotations

from .. import __version__
from . import _library

_library.load()

from . import checkpoints  # noqa: E402, F401
from .adamw import AdamW  # noqa: E402
from .heads import Attention, attention, varlen_attention  # noqa: E402
from ._recipe import DelayedScaling, Recipe, recipe, recipes  # noqa: E402
from .coded import activation_quantize, rms_norm_quantize  # noqa: E402
from .coded_experts import fp8_gated_experts  # noqa: E402
from .coded_heads import attention_fp8, quantize_heads  # noqa: E402
from .config import QuantConfig  # noqa: E402
from .control import autotune, backends, explain, last_used, reset, set_backend, set_sm_budget  # noqa: E402
from .conversion import convert, quantize_  # noqa: E402
from .delayed import update_scales  # noqa: E402
from .experts import GroupedLinear, Mixture, MoE  # noqa: E402
from .gated_experts import gated_experts  # noqa: E402
from .grouped import fp8_grouped_linear, grouped_gemm_fp8  # noqa: E402
from .kept import KeptWeights  # noqa: E402
from .losses import CrossEntropyLoss, LinearCrossEntropy, ShardStatistics, cross_entropy, linear_cross_entropy, shard_gradient  # noqa: E402
from .masters import MasterWeights  # noqa: E402
from .modules import Embedding, Fp8Linear, LayerNorm, Linear, RMSNorm, SwiGLU, quantized_weights  # noqa: E402
from .muon import Muon, newton_schulz  # noqa: E402
from .observe import LayerStatistics, OperandStatistics, Statistics, statistics  # noqa: E402
from .ops import activation, embedding, gemm, gemm_fp8, grouped_gemm, layer_norm, log_softmax, logsumexp, rms_norm, softmax, swiglu, symmetric_product  # noqa: E402
from .precision import autocast_fp8  # noqa: E402
from .quantized import QuantizedTensor, dequantize, from_plain_tensors, grouped_quantize, quantize, to_plain_tensors  # noqa: E402
from .router import Route, Router, Routing, drop_over_capacity, expert_counts, load_balance_loss, route, router_z_loss  # noqa: E402
from .routing import ExpertOrder, combine_rows, expert_order, permute, unpermute  # noqa: E402
from .rotary import RotaryEmbedding, rope, rope_norm, rope_table  # noqa: E402
from .sdpa import hf_attention, sdpa, sdpa_refusal, use_sdpa  # noqa: E402
from .swap import SwapReport, swap_linears, unswap  # noqa: E402
from .fsdp import gather_in_fp8  # noqa: E402
from .flops import register as _register_flops  # noqa: E402
from .later import when_imported as _when_imported  # noqa: E402
from .sharding import register as _register_sharding  # noqa: E402
from .transforms import register as _register_transforms  # noqa: E402

_register_transforms()
_when_imported("torch.utils.flop_counter", _register_flops)
_when_imported("torch.distributed.tensor", _register_sharding)

__all__ = [
    "__version__",
    "AdamW",
    "Attention",
    "CrossEntropyLoss",
    "DelayedScaling",
    "Embedding",
    "ExpertOrder",
    "Fp8Linear",
    "GroupedLinear",
    "KeptWeights",
    "LayerNorm",
    "LayerStatistics",
    "Linear",
    "LinearCrossEntropy",
    "MasterWeights",
    "Mixture",
    "MoE",
    "Muon",
    "OperandStatistics",
    "QuantConfig",
    "QuantizedTensor",
    "RMSNorm",
    "Recipe",
    "RotaryEmbedding",
    "Route",
    "Router",
    "Routing",
    "ShardStatistics",
    "Statistics",
    "SwiGLU",
    "SwapReport",
    "activation",
    "activation_quantize",
    "attention",
    "attention_fp8",
    "autocast_fp8",
    "autotune",
    "backends",
    "combine_rows",
    "convert",
    "cross_entropy",
    "dequantize",
    "drop_over_capacity",
    "embedding",
    "expert_counts",
    "expert_order",
    "explain",
    "fp8_gated_experts",
    "fp8_grouped_linear",
    "from_plain_tensors",
    "gather_in_fp8",
    "gated_experts",
    "gemm",
    "gemm_fp8",
    "grouped_gemm",
    "grouped_gemm_fp8",
    "grouped_quantize",
    "hf_attention",
    "last_used",
    "layer_norm",
    "linear_cross_entropy",
    "load_balance_loss",
    "log_softmax",
    "logsumexp",
    "newton_schulz",
    "permute",
    "quantize",
    "quantize_",
    "quantize_heads",
    "quantized_weights",
    "rms_norm",
    "rms_norm_quantize",
    "recipe",
    "recipes",
    "reset",
    "rope",
    "rope_norm",
    "rope_table",
    "route",
    "router_z_loss",
    "sdpa",
    "sdpa_refusal",
    "set_backend",
    "set_sm_budget",
    "shard_gradient",
    "softmax",
    "statistics",
    "swap_linears",
    "swiglu",
    "symmetric_product",
    "to_plain_tensors",
    "unpermute",
    "unswap",
    "update_scales",
    "use_sdpa",
    "varlen_attention",
]
