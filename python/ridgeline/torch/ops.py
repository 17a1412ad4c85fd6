"""The operators as functions."""

from __future__ import annotations

from typing import Any, Literal

import torch
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .config import QuantConfig
from .quantized import Parts, QuantizedTensor, parts_of

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


def _codes(parts: Parts, transposed: bool, name: str, purpose: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a matrix, or of its transpose, whose columns are what is summed over."""
    codes, scale = parts[2:] if transposed else parts[:2]
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


def _multiply(
    a: Parts,
    b: Parts,
    groupings: tuple[str, str],
    trans_a: bool,
    trans_b: bool,
    out_dtype: torch.dtype,
    bias: torch.Tensor | None,
) -> torch.Tensor:
    scaling = _scaling(*groupings)
    left, scale_a = _codes(a, trans_a, "a", "")
    right, scale_b = _codes(b, not trans_b, "b", "")
    sums = "fast" if scaling in ("tensor", "row") else "promoted"  # as for plain tensors
    return _gemm_fp8_scaled(left, right, scale_a, scale_b, False, True, out_dtype, scaling, sums, bias)


class _ProductOfCodes(torch.autograd.Function):
    """What gemm_fp8.cpp does of plain tensors, of such as were quantised before; the table of layouts is there."""

    @staticmethod
    def forward(
        ctx: Any,
        a: torch.Tensor,
        b: torch.Tensor,
        groupings: tuple[str, str],
        trans_a: bool,
        trans_b: bool,
        out_dtype: torch.dtype,
        config: QuantConfig,
        bias: torch.Tensor | None,
        main_grad: torch.Tensor | None,
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        """Gradients are those of a and b; ``parts`` are what they were quantised to."""
        of_a, of_b = parts[:4], parts[4:]
        if any(ctx.needs_input_grad[:2]):
            # Of the other operand, along the sum of the gradient.
            none = (None, None)
            for_b = _codes(of_a, not trans_a, "a", " of b's gradient") if ctx.needs_input_grad[1] else none
            for_a = _codes(of_b, trans_b, "b", " of a's gradient") if ctx.needs_input_grad[0] else none
            ctx.save_for_backward(*for_b, *for_a)
            grouping = config.grouping()
            ctx.scalings = _scaling(grouping, groupings[1]), _scaling(grouping, groupings[0])
            ctx.call = trans_a, trans_b, a.dtype, config, main_grad
        ctx.bias = None if bias is None else bias.dtype
        return _multiply(of_a, of_b, groupings, trans_a, trans_b, out_dtype, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        if torch.is_grad_enabled():
            raise NotImplementedError(
                "gemm_fp8: no second derivative: gradients through a QuantizedTensor are rounded to 8 bits; leave create_graph "
                "out, or use gemm of plain tensors"
            )
        need_a, need_b = ctx.needs_input_grad[:2]
        grad_bias = grad.sum(0, dtype=ctx.bias) if ctx.needs_input_grad[7] else None
        if not need_a and not need_b:
            return *[None] * 7, grad_bias, *[None] * 9
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
        return grad_a, grad_b, *[None] * 5, grad_bias, *[None] * 9


def autocast(x: torch.Tensor) -> torch.Tensor:
    """x as the operators take it under torch.autocast."""
    device = x.device.type
    if isinstance(x, QuantizedTensor) or not torch.is_autocast_enabled(device):
        return x
    return x.to(torch.get_autocast_dtype(device))


def transformed() -> bool:
    """Whether forward mode or a transform of torch.func is at work."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None


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
    groupings, parts = [], []
    for x, weight, transpose in ((a, False, trans_a or need_b), (b, True, not trans_b or need_a)):
        known = isinstance(x, QuantizedTensor)
        groupings.append(x.grouping if known else config.grouping(weight))
        parts.append(x._parts() if known else parts_of(x.detach() if x.requires_grad else x, config, weight, transpose))
    out = out_dtype or a.dtype
    if bias is not None and torch.is_autocast_enabled(bias.device.type):
        bias = bias.to(out)
    shared = groupings[0], groupings[1]
    recorded = need_a or need_b or (grad and bias is not None and bias.requires_grad)
    if not recorded and (torch.compiler.is_compiling() or not transformed()):
        return _multiply(*parts, shared, trans_a, trans_b, out, bias)
    return _ProductOfCodes.apply(a, b, shared, trans_a, trans_b, out, config, bias, main_grad, *parts[0], *parts[1])
