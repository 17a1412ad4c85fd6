"""Products of the rows of experts in 8-bit floats, by offsets that the device alone knows."""

from __future__ import annotations

from typing import Any, NamedTuple

import torch

from . import products
from ._recipe import PRODUCTS, Recipe, RecipeLike, as_config
from .config import QuantConfig, random_words
from .ops import autocast, codes_of
from .products import Codes, Spec
from .quantized import Parts, QuantizedTensor, stack_parts

_product = torch.ops.ridgeline.grouped_gemm_fp8.default
_product_add = torch.ops.ridgeline.grouped_gemm_fp8_add_.default
_grouped = torch.ops.ridgeline.grouped_gemm.default
_grouped_add = torch.ops.ridgeline.grouped_gemm_add_.default
_quantize = torch.ops.ridgeline.quantize.default
_grouped_quantize = torch.ops.ridgeline.grouped_quantize.default
_grouped_codes = torch.ops.ridgeline.grouped_codes.default
_activation_backward = torch.ops.ridgeline.activation_backward.default
_OP = "grouped_gemm_fp8"

Configs = tuple[QuantConfig | None, QuantConfig | None, QuantConfig | None]  # of y, dx, dw


_SCALINGS = {"1x128": "block", "row": "row", "tensor": "tensor"}  # by the scales of a


def _scales(of: QuantizedTensor, wanted: str, name: str) -> None:
    if of.grouping != wanted:
        raise ValueError(f"{_OP}: {name} has scales by {of.grouping}; here they are by {wanted}")


def _of_groups(scale: torch.Tensor, grouping: str, offsets: torch.Tensor) -> torch.Tensor:
    """One scale of a tensor as one for each group, of a stack as it is."""
    return scale.flatten().expand(offsets.shape[0] - 1).contiguous() if grouping == "tensor" else scale


def grouped_gemm_fp8(
    a: QuantizedTensor,
    b: QuantizedTensor,
    offsets: torch.Tensor,
    trans_b: bool = False,
    out_dtype: torch.dtype | None = None,
    *,
    trans_a: bool = False,
    add_to: torch.Tensor | None = None,
) -> torch.Tensor:
    """Products of codes: rows of a times the matrix of their group, or sums over the rows of each group.

    a         [rows, k] with scales by 1x128 (``quantize``, ``grouped_quantize`` with granularity "blockwise"), by row or by tensor
    b         [groups, k, n], with trans_b [groups, n, k], scales by 128x128, or as a's: ``quantize`` of the stack with ``weight=True``,
              and with ``transpose=True`` if it is used as it is stored
    offsets   [groups + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of group g; the others are 0
    out_dtype bfloat16, float16 or float32; a's by default
    trans_a   the sums over the rows of a [rows, m] and b [rows, n] instead: [groups, m, n]. Both have codes of their transpose with
              scales by 1x128, by row (one for each group) or by tensor, and offsets are multiples of 128:
              ``grouped_quantize(..., transpose=True)`` makes both
    add_to    [groups, m, n]: the sums are added to it, and it is returned

    Sums are those of ``gemm_fp8_scaled``, promoted to float32 every 128. There is no gradient:
    ``fp8_grouped_linear`` has one.
    """
    if trans_a and trans_b:
        raise ValueError(f"{_OP}: trans_a sums over the rows of both; leave trans_b out")
    if add_to is not None and not trans_a:
        raise ValueError(f"{_OP}: add_to without trans_a; only sums over rows are added")
    if a.grouping not in _SCALINGS:
        raise ValueError(f"{_OP}: a has scales by {a.grouping}; here they are by {' or '.join(_SCALINGS)}")
    scaling = _SCALINGS[a.grouping]
    _scales(b, "128x128" if scaling == "block" and not trans_a else a.grouping, "b")
    left, scale_a = codes_of(a._parts(), trans_a, "a", "", _OP)
    right, scale_b = codes_of(b._parts(), not trans_b, "b", "", _OP)
    scale_a, scale_b = (_of_groups(scale, a.grouping, offsets) for scale in (scale_a, scale_b))
    if add_to is not None:
        _product_add(add_to, left, right, scale_a, scale_b, offsets, scaling)
        return add_to
    made: torch.Tensor = _product(left, right, scale_a, scale_b, offsets, out_dtype or a.dtype, trans_a, scaling)
    return made


def _random(spec: Spec, x: torch.Tensor) -> torch.Tensor | None:
    return random_words(x.device) if spec.stochastic else None


def _along(x: torch.Tensor, spec: Spec | None) -> Codes | None:
    """Codes with scales along the columns, which are those of the rows wherever groups begin."""
    return None if spec is None else Codes(*_quantize(x, spec.dtype, spec.grouping, spec.rule, True, False, _random(spec, x))[:2])


def _across(x: torch.Tensor, offsets: torch.Tensor, spec: Spec) -> tuple[Codes, torch.Tensor]:
    """Codes of the transpose with scales of each group, padded to whole steps of the sums, and where groups begin there."""
    _, _, q_t, scale_t, padded = _grouped_quantize(x, offsets, spec.dtype, spec.grouping, spec.rule, 128, False, True, _random(spec, x))
    return Codes(q_t, scale_t), padded


def _weight_codes(weight: torch.Tensor, parts: Parts, along: Spec | None, across: Spec | None) -> tuple[Codes | None, Codes | None]:
    """Of a stack and of its matrices' transposes: those that were made before, or new ones."""
    if all(part is None for part in parts):
        if along is not None and across is not None and along != across:
            return _weight_codes(weight, parts, along, None)[0], _weight_codes(weight, parts, None, across)[1]
        spec = along or across
        if spec is None:
            return None, None
        parts = stack_parts(weight, spec.dtype, spec.grouping, spec.rule, along is not None, across is not None)
    return (
        None if along is None else Codes(*codes_of(parts, False, "weight", "", "fp8_grouped_linear")),
        None if across is None else Codes(*codes_of(parts, True, "weight", ", which the gradient of x reads", "fp8_grouped_linear")),
    )


class _Experts(torch.autograd.Function):
    """Saved are what the gradients read: codes where their products are of 8 bits, else the operand."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        offsets: torch.Tensor,
        configs: Configs,
        main_grad: torch.Tensor | None,
        recording: bool,
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        # A Function is told what its inputs ask for, and not whether there will be a gradient.
        need_x, need_w = (recording and asked for asked in ctx.needs_input_grad[:2])
        (x_for_y, w_for_y), (_, w_for_dx), (_, x_for_dw) = (products.specs_of(*one) for one in zip(configs, PRODUCTS))
        of_w: Parts = (parts[0], parts[1], parts[2], parts[3])
        rows = _along(x, x_for_y)
        w_along, w_across = _weight_codes(weight, of_w, w_for_y, w_for_dx if need_x else None)
        if x_for_y is None or rows is None or w_along is None:
            y: torch.Tensor = _grouped(x, weight, offsets, False, True)
        else:
            y = _product(rows.q, w_along.q, rows.scale, w_along.scale, offsets, x.dtype, False, _SCALINGS[x_for_y.grouping])
        x_across: tuple[torch.Tensor | None, ...] = (x if need_w else None, None, None)
        if need_w and x_for_dw is not None:
            columns, padded = _across(x, offsets, x_for_dw)
            x_across = (*columns, padded)
        w_saved = w_across or (weight if need_x else None, None)
        ctx.call = configs, x.dtype, weight.dtype, main_grad
        ctx.save_for_backward(offsets, *x_across, *w_saved)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (_, for_dx, for_dw), dtype, weight_dtype, main_grad = ctx.call
        offsets, x, x_scale, padded, w, w_scale = ctx.saved_tensors
        dy = grad.to(dtype).contiguous()
        dx = dw = None
        if ctx.needs_input_grad[0]:
            spec = products.specs_of(for_dx, "dx")[0]
            rows = _along(dy, spec)
            if spec is None or rows is None:
                dx = _grouped(dy, w, offsets)
            else:
                dx = _product(rows.q, w, rows.scale, w_scale, offsets, dtype, False, _SCALINGS[spec.grouping])
        if ctx.needs_input_grad[1]:
            spec = products.specs_of(for_dw, "dw")[0]
            if spec is None and main_grad is None:
                dw = _grouped(dy, x, offsets, True, False, weight_dtype if weight_dtype == torch.float32 else None)
            elif spec is None:
                _grouped_add(main_grad, dy, x, offsets)
            else:
                dw = _sums(_across(dy, offsets, spec)[0], Codes(x, x_scale), padded, spec, weight_dtype, main_grad)
        return dx, dw, *[None] * (len(ctx.needs_input_grad) - 2)


def _sums(a: Codes, b: Codes, offsets: torch.Tensor, spec: Spec, dtype: torch.dtype, main_grad: torch.Tensor | None) -> torch.Tensor | None:
    """A gradient of a weight from codes of the transposes; None where it was added to main_grad."""
    scaling = _SCALINGS[spec.grouping]
    if main_grad is not None:
        _product_add(main_grad, a.q, b.q, a.scale, b.scale, offsets, scaling)
        return None
    made: torch.Tensor = _product(a.q, b.q, a.scale, b.scale, offsets, dtype, True, scaling)
    return made


class _Both(NamedTuple):
    """Codes of rows where they lie, of the transpose with groups padded to whole steps of the sums, and where groups begin there."""

    rows: Codes
    columns: Codes
    padded: torch.Tensor


def _both(
    x: torch.Tensor, offsets: torch.Tensor, spec: Spec, of: str = "rows", dy: torch.Tensor | None = None, probs: torch.Tensor | None = None
) -> _Both:
    q, scale, q_t, scale_t, padded = _grouped_codes(x, offsets, spec.dtype, spec.grouping, spec.rule, of, dy, probs)
    return _Both(Codes(q, scale), Codes(q_t, scale_t), padded)


class _GatedSpecs(NamedTuple):
    """To what the operands of gated experts are quantised, each once for both of its products."""

    x: Spec
    dy: Spec
    w_for_y: Spec
    w_for_dx: Spec


def gated_specs(recipe: Recipe) -> _GatedSpecs | None:
    """None where an operand is no codes, or of other codes in one product than in the other: then nothing is coded while it is made."""
    (x, w_for_y), (dy, w_for_dx), (dy_for_dw, x_for_dw) = (products.specs_of(getattr(recipe, product), product) for product in PRODUCTS)
    if x is None or dy is None or w_for_y is None or w_for_dx is None or (x, dy) != (x_for_dw, dy_for_dw):
        return None
    return None if dy.stochastic or (x.grouping, dy.grouping) != ("1x128", "1x128") else _GatedSpecs(x, dy, w_for_y, w_for_dx)


class _GatedExperts(torch.autograd.Function):
    """down(swiglu(gate_up(x)) factors), and all gradients. What SwiGLU and its backward make is coded where it is made, and never stored."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        factors: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        offsets: torch.Tensor,
        specs: _GatedSpecs,
        main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        def product(rows: Codes, w: Codes | None) -> torch.Tensor:
            assert w is not None
            made: torch.Tensor = _product(rows.q, w.q, rows.scale, w.scale, offsets, x.dtype, False, "block")
            return made

        first: Parts = (parts[0], parts[1], parts[2], parts[3])
        second: Parts = (parts[4], parts[5], parts[6], parts[7])
        w_for_dx = specs.w_for_dx if ctx.needs_input_grad[0] else None
        up_along, up_across = _weight_codes(gate_up, first, specs.w_for_y, w_for_dx)
        down_along, down_across = _weight_codes(down, second, specs.w_for_y, specs.w_for_dx)
        of_x = _both(x, offsets, specs.x)
        z = product(of_x.rows, up_along)
        of_h = _both(z, offsets, specs.x, "swiglu", probs=factors)
        y = product(of_h.rows, down_along)
        ctx.call = specs, main_grads, x.dtype, gate_up.dtype, down.dtype
        ctx.save_for_backward(offsets, factors, z, *of_x.columns, *of_h.columns, of_x.padded, *(up_across or (None, None)), *(down_across or (None, None)))
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        specs, main_grads, dtype, up_dtype, down_dtype = ctx.call
        offsets, factors, z, x_q, x_scale, h_q, h_scale, padded, up_q, up_scale, down_q, down_scale = ctx.saved_tensors
        of_dy = _both(grad.to(dtype).contiguous(), offsets, specs.dy)
        dh = _product(of_dy.rows.q, down_q, of_dy.rows.scale, down_scale, offsets, dtype, False, "block")
        d_down = _sums(of_dy.columns, Codes(h_q, h_scale), padded, specs.dy, down_dtype, main_grads[1])
        del of_dy  # before there are codes of dz
        d_factors = None
        if ctx.needs_input_grad[1]:
            d_factors = _activation_backward(dh, z, None, factors, None, "silu", True, 1.702, 7.0, False, False, True)[2]
        of_dz = _both(z, offsets, specs.dy, "swiglu_backward", dh, factors)
        del dh
        dx = None
        if ctx.needs_input_grad[0]:
            dx = _product(of_dz.rows.q, up_q, of_dz.rows.scale, up_scale, offsets, dtype, False, "block")
        d_up = _sums(of_dz.columns, Codes(x_q, x_scale), padded, specs.dy, up_dtype, main_grads[0])
        return dx, d_factors, d_up, d_down, *[None] * (len(ctx.needs_input_grad) - 4)


def fp8_gated_experts(
    x: torch.Tensor,
    factors: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    offsets: torch.Tensor,
    specs: _GatedSpecs,
    main_grads: tuple[torch.Tensor | None, torch.Tensor | None],
) -> torch.Tensor:
    """``fp8_grouped_linear`` by gate_up, ``swiglu`` with ``probs=factors`` and ``fp8_grouped_linear`` by down, with equal results."""
    x, gate_up, down = autocast(x), autocast(gate_up), autocast(down)
    rows, fill = x.shape[0], -x.shape[0] % 4
    if x.is_cuda and fill != 0:  # as fp8_grouped_linear
        x, factors = torch.nn.functional.pad(x, (0, 0, 0, fill)), torch.nn.functional.pad(factors, (0, fill))
    none: Parts = (None, None, None, None)
    parts = [part for weight in (gate_up, down) for part in (weight._parts() if isinstance(weight, QuantizedTensor) else none)]
    made: torch.Tensor = _GatedExperts.apply(x, factors, gate_up, down, offsets, specs, main_grads, *parts)  # type: ignore[no-untyped-call]
    return made if made.shape[0] == rows else made[:rows]


def _configs_of(given: RecipeLike) -> Configs:
    config = as_config(given)
    if isinstance(config, Recipe):
        configs = config.y, config.dx, config.dw
        if config.pad_rows is not None or config.pad_features is not None:
            raise ValueError("fp8_grouped_linear: nothing is padded here; leave pad_rows and pad_features out")
    else:
        configs = config, config, config
    for name, product in zip(PRODUCTS, configs):
        if product is not None and product.granularity not in ("blockwise", "rowwise"):
            raise ValueError(
                f"fp8_grouped_linear: {name} has granularity={product.granularity!r}; give 'blockwise' or 'rowwise', whose scales are of one "
                "expert each, or None for a product of high precision"
            )
    return configs


def recipe_of(given: RecipeLike) -> Recipe:
    """Of products of groups; ValueError for one that they do not have."""
    return Recipe(*_configs_of(given))


def fp8_grouped_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor,
    recipe: RecipeLike = "blockwise",
    *,
    main_grad: torch.Tensor | None = None,
) -> torch.Tensor:
    """y[r] = weight[g] x[r] for the rows r of each expert g, in 8-bit floats, and both gradients the same way.

    x          [rows, in], float32, bfloat16 or float16, sorted by expert
    weight     [experts, out, in], or a QuantizedTensor of it: ``quantize(weight, config, weight=True, transpose=True)``
    offsets    [experts + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of expert g; the others are 0, and so is their
               gradient
    recipe     a name, QuantConfig or Recipe whose products have granularity "blockwise" or "rowwise" or are None (``grouped_gemm``)
    main_grad  [experts, out, in], float32: the gradient of weight is added to it, and weight.grad stays as it is

    x and dy are quantised along their columns for y and dx, by 1x128 or by row, and along the rows of each expert, padded to multiples of
    128, for dw, by 1x128 or a column of the expert's rows (``grouped_quantize``). Second derivatives of 8-bit products are refused.
    """
    x = autocast(x)
    weight = autocast(weight)
    parts: Parts = weight._parts() if isinstance(weight, QuantizedTensor) else (None, None, None, None)
    configs = _configs_of(recipe)
    if isinstance(weight, QuantizedTensor):
        for config in configs[:2]:
            if config is not None:
                _scales(weight, config.grouping(weight=True), "weight")
    rows = x.shape[0]
    blocks = any(config is not None and config.granularity == "blockwise" for config in configs)
    if x.is_cuda and rows % 4 != 0 and blocks:  # their scales of a step of the sum start on 16 bytes there
        x = torch.nn.functional.pad(x, (0, 0, 0, -rows % 4))
    made: torch.Tensor = _Experts.apply(x, weight, offsets, configs, main_grad, torch.is_grad_enabled(), *parts)  # type: ignore[no-untyped-call]
    return made if made.shape[0] == rows else made[:rows]
