"""The operators as functions."""

from __future__ import annotations

from typing import Literal

import torch

from .config import QuantConfig
from .quantized import QuantizedTensor, quantize

Activation = Literal["gelu", "gelu_tanh", "silu"]

# The overloads themselves: a call through torch.ops.ridgeline.gemm looks for one first, half a microsecond each time.
_gemm = torch.ops.ridgeline.gemm.default
_gemm_fp8 = torch.ops.ridgeline.gemm_fp8.default
_gemm_fp8_scaled = torch.ops.ridgeline.gemm_fp8_scaled.default

_SCALINGS = {
    ("tensor", "tensor"): "tensor",
    ("row", "row"): "row",
    ("1x128", "128x128"): "block",
    ("1x128", "1x128"): "vector",
    ("mx", "mx"): "mx",
}


def gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = False,
    out_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
    activation: Activation | None = None,
    *,
    residual: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
) -> torch.Tensor:
    """f(op(a) op(b) + bias) + residual with sums in float32; op is the identity or the transpose.

    a          [m, k], or [k, m] with trans_a; with a dimension before, a batch
    b          [k, n], or [n, k] with trans_b; the same dtype of float32, bfloat16, float16 (float64: on the CPU, by torch)
    out_dtype  the inputs' (default) or torch.float32
    bias       [n], of the result's dtype
    activation None, "gelu", "gelu_tanh" or "silu"
    residual   of the result's shape and dtype, added last
    main_grad  of b's shape, float32 or b's dtype: backward adds b's gradient here and returns none for b
    """
    if out_dtype is None and bias is None and activation is None and main_grad is None and residual is None:
        return _gemm(a, b, trans_a, trans_b)  # every argument that is handed over costs 40 ns
    return _gemm(a, b, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual)


def gemm_fp8(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = False,
    out_dtype: torch.dtype | None = None,
    config: QuantConfig = QuantConfig(),
    *,
    main_grad: torch.Tensor | None = None,
) -> torch.Tensor:
    """op(a) op(b) of 8-bit floats: both are quantised, and in backward so is the gradient, each once from high precision.

    Shapes as for ``gemm``, matrices only. ``b`` plays the weight where that makes a difference (granularity "blockwise").
    out_dtype is a's by default. Either may be a QuantizedTensor with a copy whose scales run along the sum; gradients then
    stop at the product, so a plain operand beside it must not require one.
    """
    if isinstance(a, QuantizedTensor) or isinstance(b, QuantizedTensor):
        return _product_of_codes(a, b, trans_a, trans_b, out_dtype, config)
    return _gemm_fp8(
        a, b, trans_a, trans_b, out_dtype, config.format, config.granularity, config.rule, config.rounding, main_grad
    )


def _along_sum(x: QuantizedTensor, transposed: bool, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of x, or of its transpose, whose columns are what is summed over."""
    codes, scale = (x.q_t, x.scale_t) if transposed else (x.q, x.scale)
    if codes is None or scale is None:
        made = "transpose=True" if transposed else "its untransposed copy"
        raise ValueError(f"gemm_fp8: {name} has no scales along the sum; quantize it with {made}")
    return codes, scale


def _product_of_codes(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool,
    trans_b: bool,
    out_dtype: torch.dtype | None,
    config: QuantConfig,
) -> torch.Tensor:
    for name, x in (("a", a), ("b", b)):
        if torch.is_grad_enabled() and x.requires_grad:
            raise RuntimeError(
                f"gemm_fp8: {name} requires a gradient, but there is none through a QuantizedTensor; give both as plain "
                "tensors, detach() it, or call under torch.no_grad()"
            )
    left = a if isinstance(a, QuantizedTensor) else quantize(a, config, transpose=trans_a)
    right = b if isinstance(b, QuantizedTensor) else quantize(b, config, weight=True, transpose=not trans_b)
    scaling = _SCALINGS.get((left.grouping, right.grouping))
    if scaling is None:
        raise ValueError(
            f"gemm_fp8: no product of scales by {left.grouping} (a) and by {right.grouping} (b); quantize both with one "
            "config, b with weight=True"
        )
    q_a, scale_a = _along_sum(left, trans_a, "a")
    q_b, scale_b = _along_sum(right, not trans_b, "b")
    sums = "fast" if scaling in ("tensor", "row") else "promoted"  # as for plain tensors
    return _gemm_fp8_scaled(q_a, q_b, scale_a, scale_b, False, True, out_dtype or left.dtype, scaling, sums)
