"""The operators as functions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import torch
from torch.autograd import forward_ad
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .config import QuantConfig
from .quantized import Parts, QuantizedTensor, parts_of

Activation = Literal["gelu", "gelu_tanh", "silu"]
ActivationFunction = Literal["silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"]

# The overloads themselves: a call through torch.ops.ridgeline.gemm looks for one first, half a microsecond each time.
_gemm: Callable[..., torch.Tensor] = torch.ops.ridgeline.gemm.default
_grouped_gemm: Callable[..., torch.Tensor] = torch.ops.ridgeline.grouped_gemm.default
_symmetric_product: Callable[..., torch.Tensor] = torch.ops.ridgeline.symmetric_product.default
_gemm_fp8: Callable[..., torch.Tensor] = torch.ops.ridgeline.gemm_fp8.default
_gemm_fp8_scaled: Callable[..., torch.Tensor] = torch.ops.ridgeline.gemm_fp8_scaled.default
_gemm_fp8_scaled_add = torch.ops.ridgeline.gemm_fp8_scaled_add_.default

_rmsnorm: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.rmsnorm.default
_activation: Callable[..., torch.Tensor] = torch.ops.ridgeline.activation.default
_rmsnorm_add: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.rmsnorm_add.default
_layernorm: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.layernorm.default
_layernorm_add: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.layernorm_add.default
_softmax: Callable[..., torch.Tensor] = torch.ops.ridgeline.softmax.default
_embedding: Callable[..., torch.Tensor] = torch.ops.ridgeline.embedding.default

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
    if out_dtype is None and activation is None and main_grad is None and residual is None:  # an argument handed over costs 40 ns
        return _gemm(a, b, trans_a, trans_b) if bias is None else _gemm(a, b, trans_a, trans_b, None, bias)
    return _gemm(a, b, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual)


def grouped_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    offsets: torch.Tensor,
    trans_b: bool = False,
    out_dtype: torch.dtype | None = None,
    *,
    trans_a: bool = False,
    main_grad: torch.Tensor | None = None,
    index_a: torch.Tensor | None = None,
    index_b: torch.Tensor | None = None,
    places: torch.Tensor | None = None,
) -> torch.Tensor:
    """Rows of a times the matrix of their group (the expert of a mixture), with sums in float32. Groups are read on the device.

    a          [rows, k]; with index_a the tokens that the groups share, [tokens, k]
    b          [groups, k, n], or [groups, n, k] with trans_b; the same dtype of float32, bfloat16, float16 (float64: on the CPU)
    offsets    [groups + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of group g; the others are 0 in the result
    out_dtype  the inputs' (default) or torch.float32
    trans_a    sums over the rows of each group instead, a[rows of g].T @ b[rows of g]: a [rows, m], b [rows, n], [groups, m, n]
    main_grad  of b's shape, float32 or b's dtype: backward adds b's gradient here and returns none for b
    index_a    [rows] or [rows, 1], int32: row r of the groups is a[index_a[r]], of zeros where that is negative (``ExpertOrder.tokens``); no copy of the
               rows is kept
    index_b    the same for b, with trans_a
    places     [rows of what is gathered, m]: the rows of the groups that name each of its rows, in the order in which its gradient adds them up; negative:
               none (``ExpertOrder.rows``). Needed where that has a gradient
    """
    return _grouped_gemm(a, b, offsets, trans_a, trans_b, out_dtype, main_grad, index_a, index_b, places)


def symmetric_product(
    a: torch.Tensor,
    trans_a: bool = False,
    out_dtype: torch.dtype | None = None,
    *,
    alpha: float = 1.0,
    residual: torch.Tensor | None = None,
    beta: float = 1.0,
    shift: float = 0.0,
) -> torch.Tensor:
    """alpha op(a) op(a)^T + beta residual + shift I, symmetric to the last bit, with sums in float32: half of the products are computed.

    a          [n, k], or [k, n] with trans_a, or a batch of them; float32, bfloat16, float16 (float64: on the CPU, by torch)
    out_dtype  a's (default) or torch.float32
    residual   symmetric, of the result's shape and dtype: what lies below its diagonal is not looked at, and gets no gradient
    alpha, beta, shift
               numbers of the call, rounded to float32; shift is added to the diagonal
    """
    return _symmetric_product(a, trans_a, out_dtype, alpha, residual, beta, shift)


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
        traced: torch.Tensor = handle_torch_function(
            gemm_fp8, (a, b), a, b, trans_a, trans_b, out_dtype, config, bias=bias, main_grad=main_grad
        )
        return traced
    if not isinstance(config, QuantConfig) or config.sums is not None:
        raise ValueError(
            f"gemm_fp8: config={config!r}; give a QuantConfig without sums. Recipes and sums are for layers (Fp8Linear); gemm_fp8_scaled "
            "takes sums, too"
        )
    if isinstance(a, QuantizedTensor) or isinstance(b, QuantizedTensor):
        return _product_of_codes(a, b, trans_a, trans_b, out_dtype, config, bias, main_grad)
    return _gemm_fp8(a, b, trans_a, trans_b, out_dtype, *config.words, main_grad, bias)


def codes_of(parts: Parts, transposed: bool, name: str, purpose: str, op: str = "gemm_fp8") -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scales of a matrix, or of its transpose, whose columns are what is summed over."""
    codes, scale = (parts[2], parts[3]) if transposed else (parts[0], parts[1])
    if codes is None or scale is None:
        made = "transpose=True (quantize, quantize_, QuantizedTensor.from_checkpoint)" if transposed else "its untransposed copy"
        raise ValueError(f"{op}: {name} has no scales along the sum{purpose}; make it with {made}")
    return codes, scale


def scaling_of(left: str, right: str) -> str:
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
    scaling = scaling_of(*groupings)
    left, scale_a = codes_of(a, trans_a, "a", "")
    right, scale_b = codes_of(b, not trans_b, "b", "")
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
        of_a: Parts = (parts[0], parts[1], parts[2], parts[3])
        of_b: Parts = (parts[4], parts[5], parts[6], parts[7])
        if any(ctx.needs_input_grad[:2]):
            # Of the other operand, along the sum of the gradient.
            none = (None, None)
            for_b = codes_of(of_a, not trans_a, "a", " of b's gradient") if ctx.needs_input_grad[1] else none
            for_a = codes_of(of_b, trans_b, "b", " of a's gradient") if ctx.needs_input_grad[0] else none
            ctx.save_for_backward(*for_b, *for_a)
            grouping = config.grouping()
            ctx.scalings = scaling_of(grouping, groupings[1]), scaling_of(grouping, groupings[0])
            ctx.call = trans_a, trans_b, a.dtype, config, main_grad
        ctx.bias = None if bias is None else bias.dtype
        return _multiply(of_a, of_b, groupings, trans_a, trans_b, out_dtype, bias)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
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
        random = config.random_words(grad.device)
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


def rms_norm(
    input: torch.Tensor,
    normalized_shape: int | Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    *,
    residual: torch.Tensor | None = None,
    zero_centred: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """torch.nn.functional.rms_norm: input / sqrt(mean(input^2) + eps) * weight over the last dimensions, with sums in float32.

    input             [..., *normalized_shape], float32, bfloat16 or float16 (float64: on the CPU, by torch)
    normalized_shape  the last dimensions of the input
    weight            of normalized_shape, of any of these dtypes; another one than the input's is read as float32 (beside float64: as that).
                      The result has the input's dtype
    eps               None: torch.finfo(torch.float32).eps, of float64 its own, as torch does
    residual          of the input's shape and dtype: input + residual is normalised, and the result is (norm, sum)
    zero_centred      the weight counts as 1 + weight
    """
    if has_torch_function_variadic(input, weight, residual):
        traced: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = handle_torch_function(
            rms_norm, (input, weight, residual), input, normalized_shape, weight, eps, residual=residual, zero_centred=zero_centred
        )
        return traced
    dims = normalised_dims("rms_norm", input, normalized_shape, weight=weight)
    if eps is None:
        eps = torch.finfo(torch.float64 if input.dtype == torch.float64 else torch.float32).eps
    rows, more = rows_of(input, dims), None if residual is None else rows_of(residual, dims)
    factor = weight if weight is None or dims == 1 else weight.flatten()
    if factor is not None and factor.dtype != input.dtype:
        factor = wide(factor, input.dtype)
    if more is None:
        out = _rmsnorm(rows, factor, eps, zero_centred)[0]
        return out if dims == 1 else out.view(input.shape)
    both: tuple[torch.Tensor, ...] = _rmsnorm_add(rows, more, factor, eps, zero_centred)
    return (both[0], both[1]) if dims == 1 else (both[0].view(input.shape), both[1].view(input.shape))


def layer_norm(
    input: torch.Tensor,
    normalized_shape: int | Sequence[int],
    weight: torch.Tensor | None = None,
    bias: torch.Tensor | None = None,
    eps: float = 1e-5,
    *,
    residual: torch.Tensor | None = None,
    zero_centred: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """torch.nn.functional.layer_norm: (input - mean) / sqrt(variance + eps) * weight + bias over the last dimensions, with sums in float32.

    input             [..., *normalized_shape], float32, bfloat16 or float16 (float64: on the CPU, by torch)
    normalized_shape  the last dimensions of the input
    weight, bias      of normalized_shape, of any of these dtypes; another one than the input's is read as float32 (beside float64: as that).
                      The result has the input's dtype
    residual          of the input's shape and dtype: input + residual is normalised, and the result is (norm, sum)
    zero_centred      the weight counts as 1 + weight
    """
    if has_torch_function_variadic(input, weight, bias, residual):
        tensors = (input, weight, bias, residual)
        traced: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = handle_torch_function(
            layer_norm, tensors, input, normalized_shape, weight, bias, eps, residual=residual, zero_centred=zero_centred
        )
        return traced
    dims = normalised_dims("layer_norm", input, normalized_shape, weight=weight, bias=bias)
    rows, more = rows_of(input, dims), None if residual is None else rows_of(residual, dims)
    factor, added = (one if one is None or dims == 1 else one.flatten() for one in (weight, bias))
    if any(one is not None and one.dtype != input.dtype for one in (factor, added)):
        factor, added = (None if one is None else wide(one, input.dtype) for one in (factor, added))
        if factor is None and added is not None:  # whose dtype says that of the bias
            factor = torch.ones_like(added, requires_grad=False)
    if more is None:
        out = _layernorm(rows, factor, added, eps, zero_centred)[0]
        return out if dims == 1 else out.view(input.shape)
    both: tuple[torch.Tensor, ...] = _layernorm_add(rows, more, factor, added, eps, zero_centred)
    return (both[0], both[1]) if dims == 1 else (both[0].view(input.shape), both[1].view(input.shape))


def activation(
    x: torch.Tensor,
    function: ActivationFunction = "silu",
    *,
    up: torch.Tensor | None = None,
    packed: bool = False,
    probs: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    alpha: float = 1.702,
    limit: float = 7.0,
) -> torch.Tensor:
    """f(x) up probs, in float32 and rounded once: an activation, with a gate SwiGLU, GEGLU or ReGLU.

    x         [..., columns], float32, bfloat16 or float16 (float64: on the CPU, by torch)
    function  "silu", "gelu", "gelu_tanh", "relu", "relu2" (its square), or "clamped_silu": h sigmoid(alpha h) of h = min(x, limit), and
              then up counts as clamp(up, -limit, limit) + 1 (GPT-OSS)
    up        of x's shape and dtype; None: 1
    packed    x is [..., 2 columns], the activated half first and up behind: what one product of both weights gives. Its gradient has that form, too
    probs     [...], a factor of each row (of an expert's tokens), read as float32; None: 1
    mask      [...], bool or uint8: rows that are 0 there are 0, and so are their gradients, whatever x holds
    """
    if has_torch_function_variadic(x, up, probs, mask):
        traced: torch.Tensor = handle_torch_function(
            activation, (x, up, probs, mask), x, function, up=up, packed=packed, probs=probs, mask=mask, alpha=alpha, limit=limit
        )
        return traced
    if x.dim() == 0:
        raise ValueError("activation: the input has no dimension; give [..., columns]")
    factors = row_factors(x, probs, mask)
    return _activation(rows_of(x), None if up is None else rows_of(up), *factors, function, packed, alpha, limit)


def row_factors(x: torch.Tensor, probs: torch.Tensor | None, mask: torch.Tensor | None) -> tuple[torch.Tensor | None, torch.Tensor | None]:
    """Factors and mask of the rows of x as the operators read them."""
    if probs is not None:
        probs = probs.to(torch.float64 if x.dtype == torch.float64 else torch.float32).contiguous()
    if mask is not None:
        mask = (mask.view(torch.uint8) if mask.dtype == torch.bool else mask).contiguous()
    return probs, mask


def swiglu(
    x: torch.Tensor, up: torch.Tensor | None = None, *, probs: torch.Tensor | None = None, mask: torch.Tensor | None = None
) -> torch.Tensor:
    """silu(x) up, or of x [..., 2 columns] silu(first half) second half; ``activation`` has the other functions and what probs and mask are."""
    return gated(x, up, probs=probs, mask=mask, alpha=1.702, limit=7.0)  # said here, they stay numbers where a compiler traces the call


def gated(
    x: torch.Tensor,
    up: torch.Tensor | None = None,
    function: ActivationFunction = "silu",
    *,
    probs: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    alpha: float = 1.702,
    limit: float = 7.0,
) -> torch.Tensor:
    """``activation`` of two tensors, or without up of x [..., 2 columns]: one step of a graph of torch.fx, decided when that runs."""
    if has_torch_function_variadic(x, up) and not (isinstance(x, torch.Tensor) and isinstance(up, (torch.Tensor, type(None)))):
        traced: torch.Tensor = handle_torch_function(
            gated, (x, up, probs, mask), x, up, function, probs=probs, mask=mask, alpha=alpha, limit=limit
        )
        return traced
    return activation(x, function, up=up, packed=up is None, probs=probs, mask=mask, alpha=alpha, limit=limit)


def normalised_dims(op: str, input: torch.Tensor, normalized_shape: int | Sequence[int], **vectors: torch.Tensor | None) -> int:
    """How many of the last dimensions are normalised; ValueError unless their sizes, and those of weight and bias, are normalized_shape."""
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape or input.shape[-len(shape) :] != shape:
        raise ValueError(
            f"{op}: the last dimensions of the input, of shape {tuple(input.shape)}, are not normalized_shape={shape}; give the "
            "sizes of its last dimensions"
        )
    for name, vector in vectors.items():
        if vector is not None and vector.shape != shape:
            raise ValueError(f"{op}: {name} has shape {tuple(vector.shape)}; give it normalized_shape={shape}")
    return len(shape)


def wide(weight: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """A weight of another dtype than its input's in one that the operator multiplies by: float32, of float64 its own."""
    return weight.to(torch.float64 if dtype == torch.float64 else torch.float32) if weight.is_floating_point() else weight


def rows_of(x: torch.Tensor, normalised: int = 1) -> torch.Tensor:
    """x with its last dimensions as one, in a form that the operator reads; copied if it is expanded or has gaps within rows."""
    if normalised > 1:
        x = x.flatten(-normalised)
    return x if has_rows(x) else x.contiguous()


def has_rows(x: torch.Tensor) -> bool:
    """Whether rows are read where they lie."""
    return x.is_contiguous() or (x.dim() == 2 and x.stride(1) == 1 and x.stride(0) >= x.shape[1])


def _wide_by_autocast(x: torch.Tensor) -> bool:
    """Whether torch.autocast has softmax and its like of x in float32, as it does on GPUs and not on CPUs."""
    device = x.device.type
    return device != "cpu" and x.is_floating_point() and x.dtype != torch.float64 and autocast_dtype(device) is not None


def _rows_along(x: torch.Tensor, dim: int) -> tuple[torch.Tensor, bool]:
    """x with that dimension last, as rows that are read where they lie, and whether it was last."""
    last = dim in (-1, x.dim() - 1)
    return rows_of(x if last else x.movedim(dim, -1)), last


def _shares(form: str, input: torch.Tensor, dim: int, dtype: torch.dtype | None, scale: float) -> torch.Tensor:
    if dtype is None:
        dtype = torch.float32 if _wide_by_autocast(input) else input.dtype
    if dtype != input.dtype and not (dtype == torch.float32 and input.dtype in (torch.bfloat16, torch.float16)):
        input = input.to(dtype)
    if input.dim() == 0:
        return _shares(form, input.unsqueeze(0), dim, dtype, scale).squeeze(0)
    rows, last = _rows_along(input, dim)
    out = _softmax(rows, form, scale, dtype)
    return out if last else out.movedim(-1, dim).contiguous()


def softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None, *, scale: float = 1.0) -> torch.Tensor:
    """torch.softmax of scale * input, in float32 and rounded once.

    input  float32, bfloat16 or float16 (float64: on the CPU, by torch), or of any dtype where ``dtype`` is given
    dim    along which the results add up to 1; another than the last one costs a copy of the input and one of the result
    dtype  what the input is read as, and the result's: float32 of 16-bit numbers is made without a copy. Default: the input's,
           and float32 under torch.autocast on a GPU
    """
    if has_torch_function_variadic(input):
        traced: torch.Tensor = handle_torch_function(softmax, (input,), input, dim, dtype, scale=scale)
        return traced
    return _shares("softmax", input, dim, dtype, scale)


def log_softmax(input: torch.Tensor, dim: int = -1, dtype: torch.dtype | None = None, *, scale: float = 1.0) -> torch.Tensor:
    """torch.log_softmax of scale * input; arguments as for ``softmax``."""
    if has_torch_function_variadic(input):
        traced: torch.Tensor = handle_torch_function(log_softmax, (input,), input, dim, dtype, scale=scale)
        return traced
    return _shares("log_softmax", input, dim, dtype, scale)


def logsumexp(input: torch.Tensor, dim: int | Sequence[int], keepdim: bool = False, *, scale: float = 1.0) -> torch.Tensor:
    """torch.logsumexp of scale * input, in float32 and rounded once to the input's dtype.

    input    float32, bfloat16 or float16 (float64: on the CPU, by torch); whole numbers are read as the default dtype
    dim      one or several dimensions; others than the last one cost a copy of the input
    keepdim  whether they stay, with size 1
    """
    if has_torch_function_variadic(input):
        traced: torch.Tensor = handle_torch_function(logsumexp, (input,), input, dim, keepdim, scale=scale)
        return traced
    if not input.is_floating_point() and not input.is_complex():
        input = input.to(torch.get_default_dtype())
    dims = (dim,) if isinstance(dim, int) else tuple(dim)
    if not dims:
        raise ValueError("logsumexp: no dimension is given; give one or several")
    if input.dim() == 0:
        return logsumexp(input.unsqueeze(0), dim, False, scale=scale)
    moved = input.movedim(dims, tuple(range(-len(dims), 0))).flatten(-len(dims)) if len(dims) > 1 else input
    rows, _ = _rows_along(moved, dims[0] if len(dims) == 1 else -1)
    out = _softmax(rows, "logsumexp", scale)
    if not _wide_by_autocast(input):
        out = out.to(input.dtype)
    for at in sorted(each % input.dim() for each in dims) if keepdim else ():
        out = out.unsqueeze(at)
    return out


def embedding(
    ids: torch.Tensor, weight: torch.Tensor, padding_idx: int | None = None, *, main_grad: torch.Tensor | None = None
) -> torch.Tensor:
    """torch.nn.functional.embedding, whose gradient has the same bits in every call: rows are added up in float32 in the order of their tokens.

    ids          [...], int64 or int32; a number that is no row is an error on a CPU, and on a GPU as torch's call has it
    weight       [vocabulary, columns], float32, bfloat16 or float16 (float64: gradients by torch)
    padding_idx  ids of this number have no gradient; negative: counted from the end
    main_grad    of weight's shape, float32: backward adds the gradient here and returns none
    """
    if has_torch_function_variadic(ids, weight):
        traced: torch.Tensor = handle_torch_function(embedding, (ids, weight), ids, weight, padding_idx, main_grad=main_grad)
        return traced
    rows = weight.shape[0]
    if padding_idx is None:
        padding_idx = -1
    elif not -rows <= padding_idx < rows:
        raise ValueError(f"embedding: padding_idx is {padding_idx}, and the weight has {rows} rows; give one of {-rows} to {rows - 1}")
    elif padding_idx < 0:
        padding_idx += rows
    return _embedding(ids, weight, padding_idx, main_grad)


def autocast_dtype(device: str) -> torch.dtype | None:
    """What torch.autocast casts to on such devices; None where it does not: it is off, or the device has none, as "meta", which torch cannot be asked about."""
    return torch.get_autocast_dtype(device) if device in ("cpu", "cuda") and torch.is_autocast_enabled(device) else None


def autocast(x: torch.Tensor) -> torch.Tensor:
    """x as the operators take it under torch.autocast."""
    dtype = None if isinstance(x, QuantizedTensor) else autocast_dtype(x.device.type)
    return x if dtype is None else x.to(dtype)


def transformed() -> bool:
    """Whether forward mode or a transform of torch.func is at work."""
    return forward_ad._current_level >= 0 or torch._C._functorch.peek_interpreter_stack() is not None  # pyright: ignore[reportAttributeAccessIssue]


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
    nearest = config if config.rounding == "nearest" else replace(config, rounding="nearest")
    groupings: list[str] = []
    parts: list[Parts] = []
    for x, weight, transpose in ((a, False, trans_a or need_b), (b, True, not trans_b or need_a)):
        known = x if isinstance(x, QuantizedTensor) else None
        groupings.append(known.grouping if known is not None else config.grouping(weight))
        # Gradients alone are rounded at random, as of plain tensors.
        plain = x.detach() if known is None and x.requires_grad else x
        parts.append(known._parts() if known is not None else parts_of(plain, nearest, weight, transpose))
    dtype = out_dtype or a.dtype
    if bias is not None and autocast_dtype(bias.device.type) is not None:
        bias = bias.to(dtype)
    shared = groupings[0], groupings[1]
    recorded = need_a or need_b or (grad and bias is not None and bias.requires_grad)
    if not recorded and (torch.compiler.is_compiling() or not transformed()):
        return _multiply(parts[0], parts[1], shared, trans_a, trans_b, dtype, bias)
    made: torch.Tensor = _ProductOfCodes.apply(  # type: ignore[no-untyped-call]
        a, b, shared, trans_a, trans_b, dtype, config, bias, main_grad, *parts[0], *parts[1]
    )
    return made
