"""The operators as functions."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .config import QuantConfig
from .quantized import QuantizedTensor, quantize

Activation = Literal["gelu", "gelu_tanh", "silu"]

# The overloads themselves: a call through torch.ops.ridgeline.gemm looks for one first, half a microsecond each time.
_gemm = torch.ops.ridgeline.gemm.default
_gemm_fp8 = torch.ops.ridgeline.gemm_fp8.default
_gemm_fp8_scaled = torch.ops.ridgeline.gemm_fp8_scaled.default
_gemm_fp8_scaled_add = torch.ops.ridgeline.gemm_fp8_scaled_add_.default

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

    a          [..., m, k], or [..., k, m] with trans_a
    b          [..., k, n], or [..., n, k] with trans_b; the same dtype of float32, bfloat16, float16 (float64: on the CPU, by
               torch). Leading dimensions are broadcast as in torch.matmul; a single matrix b is one product with all rows of a
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
    bias: torch.Tensor | None = None,
    main_grad: torch.Tensor | None = None,
) -> torch.Tensor:
    """op(a) op(b) + bias of 8-bit floats: both are quantised, and in backward so is the gradient, each once from high precision.

    Shapes as for ``gemm``, but b is one matrix. ``b`` plays the weight where that makes a difference (granularity "blockwise").
    out_dtype is a's by default, bias [n] of the result's dtype and added before it is rounded. Either may be a QuantizedTensor with a copy whose scales run along the sum, and for the
    other's gradient one whose scales run across it.
    """
    if has_torch_function_variadic(a, b) and not (isinstance(a, torch.Tensor) and isinstance(b, torch.Tensor)):  # torch.fx
        return handle_torch_function(
            gemm_fp8, (a, b), a, b, trans_a, trans_b, out_dtype, config, bias=bias, main_grad=main_grad
        )
    if isinstance(a, QuantizedTensor) or isinstance(b, QuantizedTensor):
        return _product_of_codes(a, b, trans_a, trans_b, out_dtype, config, bias, main_grad)
    return _gemm_fp8(
        a, b, trans_a, trans_b, out_dtype, config.format, config.granularity, config.rule, config.rounding, main_grad, bias
    )


def _codes(x: QuantizedTensor, transposed: bool, name: str, purpose: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of x, or of its transpose, whose columns are what is summed over."""
    codes, scale = (x.q_t, x.scale_t) if transposed else (x.q, x.scale)
    if codes is None or scale is None:
        made = "transpose=True" if transposed else "its untransposed copy"
        raise ValueError(f"gemm_fp8: {name} has no scales along the sum{purpose}; quantize it with {made}")
    return codes, scale


def _scaling(left: str, right: str) -> str:
    scaling = _SCALINGS.get((left, right))
    if scaling is None:
        raise ValueError(
            f"gemm_fp8: no product of scales by {left} (a) and by {right} (b); quantize both with one config, b with "
            "weight=True, and give that config"
        )
    return scaling


class _ProductOfCodes(torch.autograd.Function):
    """What gemm_fp8.cpp does of plain tensors, of such as were quantised before; the table of layouts is there."""

    @staticmethod
    def forward(
        ctx: Any,
        a: QuantizedTensor,
        b: QuantizedTensor,
        trans_a: bool,
        trans_b: bool,
        out_dtype: torch.dtype,
        config: QuantConfig,
        bias: torch.Tensor | None,
        main_grad: torch.Tensor | None,
    ) -> torch.Tensor:
        scaling = _scaling(a.grouping, b.grouping)
        left, scale_a = _codes(a, trans_a, "a", "")
        right, scale_b = _codes(b, not trans_b, "b", "")
        if any(ctx.needs_input_grad[:2]):
            # Of the other operand, along the sum of the gradient.
            none = (None, None)
            for_b = _codes(a, not trans_a, "a", " of b's gradient") if ctx.needs_input_grad[1] else none
            for_a = _codes(b, trans_b, "b", " of a's gradient") if ctx.needs_input_grad[0] else none
            ctx.save_for_backward(*for_b, *for_a)
            grouping = config.grouping()
            ctx.scalings = _scaling(grouping, b.grouping), _scaling(grouping, a.grouping)
            ctx.call = trans_a, trans_b, a.dtype, config, main_grad
        ctx.bias = None if bias is None else bias.dtype
        sums = "fast" if scaling in ("tensor", "row") else "promoted"  # as for plain tensors
        return _gemm_fp8_scaled(left, right, scale_a, scale_b, False, True, out_dtype, scaling, sums, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "gemm_fp8: no second derivative: gradients through a QuantizedTensor are rounded to 8 bits; leave create_graph "
                "out, or use gemm of plain tensors"
            )
        need_a, need_b = ctx.needs_input_grad[:2]
        grad_bias = grad.sum(0, dtype=ctx.bias) if ctx.needs_input_grad[6] else None
        if not need_a and not need_b:
            return None, None, None, None, None, None, grad_bias, None
        trans_a, trans_b, dtype, config, main_grad = ctx.call
        x_t, scale_x, w_t, scale_w = ctx.saved_tensors
        random = None
        if config.rounding == "stochastic":
            random = torch.randint(1 << 62, (2,), dtype=torch.int64, device=grad.device)
        dy, scale, dy_t, scale_t = torch.ops.ridgeline.quantize(
            grad.to(dtype).contiguous(), config.grad_dtype, config.grouping(), config.rule, need_a, need_b, random
        )
        grad_a = grad_b = None
        for_a, for_b = ctx.scalings
        if need_a and trans_a and for_a != "block":
            grad_a = _gemm_fp8_scaled(w_t, dy, scale_w, scale, False, True, dtype, for_a)
        elif need_a:
            grad_a = _gemm_fp8_scaled(dy, w_t, scale, scale_w, False, True, dtype, for_a)
            grad_a = grad_a.t() if trans_a else grad_a
        if need_b:
            factors = (dy_t, x_t, scale_t, scale_x) if trans_b else (x_t, dy_t, scale_x, scale_t)
            if main_grad is None:
                grad_b = _gemm_fp8_scaled(*factors, False, True, dtype, for_b)
            else:
                _gemm_fp8_scaled_add(main_grad, *factors, False, True, for_b)
        return grad_a, grad_b, None, None, None, None, grad_bias, None


def autocast(x: torch.Tensor) -> torch.Tensor:
    """x as the operators take it under torch.autocast."""
    device = x.device.type
    if isinstance(x, QuantizedTensor) or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))


def _product_of_codes(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool,
    trans_b: bool,
    out_dtype: torch.dtype | None,
    config: QuantConfig,
    bias: torch.Tensor | None,
    main_grad: torch.Tensor | None,
) -> torch.Tensor:
    if not isinstance(a, QuantizedTensor) and a.dim() > 2:
        rows = a.transpose(-1, -2) if trans_a else a
        out = _product_of_codes(rows.flatten(0, -2), b, False, trans_b, out_dtype, config, bias, main_grad)
        return out.view(*rows.shape[:-1], out.shape[-1])
    a, b = autocast(a), autocast(b)
    grad = torch.is_grad_enabled()
    need_a, need_b = grad and a.requires_grad, grad and b.requires_grad
    left = a if isinstance(a, QuantizedTensor) else quantize(a, config, transpose=trans_a or need_b)
    right = b if isinstance(b, QuantizedTensor) else quantize(b, config, weight=True, transpose=not trans_b or need_a)
    out = out_dtype or left.dtype
    if bias is not None and torch.is_autocast_enabled(bias.device.type):
        bias = bias.to(out)
    return _ProductOfCodes.apply(left, right, trans_a, trans_b, out, config, bias, main_grad)
