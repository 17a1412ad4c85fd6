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
    index_a: torch.Tensor | None = None,
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
    index_a   [rows], int32, without trans_a: row r of a is a[index_a[r]] with its scales, and a has any number of rows
              (``ExpertOrder.tokens``: codes of tokens that experts share); -1: a row of zeros

    Sums are those of ``gemm_fp8_scaled``, promoted to float32 every 128. There is no gradient:
    ``fp8_grouped_linear`` has one.
    """
    if trans_a and trans_b:
        raise ValueError(f"{_OP}: trans_a sums over the rows of both; leave trans_b out")
    if add_to is not None and not trans_a:
        raise ValueError(f"{_OP}: add_to without trans_a; only sums over rows are added")
    if index_a is not None and trans_a:
        raise ValueError(f"{_OP}: index_a with trans_a; code the transposes of the rows that it names (grouped_quantize with an index)")
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
    made: torch.Tensor = _product(left, right, scale_a, scale_b, offsets, out_dtype or a.dtype, trans_a, scaling, index_a)
    return made


def _random(spec: Spec, x: torch.Tensor) -> torch.Tensor | None:
    return random_words(x.device) if spec.stochastic else None


def _along(x: torch.Tensor, spec: Spec | None) -> Codes | None:
    """Codes with scales along the columns, which are those of the rows wherever groups begin."""
    return None if spec is None else Codes(*_quantize(x, spec.dtype, spec.grouping, spec.rule, True, False, _random(spec, x))[:2])


def _across(x: torch.Tensor, offsets: torch.Tensor, spec: Spec, index: torch.Tensor | None = None) -> tuple[Codes, torch.Tensor]:
    """Codes of the transpose with scales of each group, padded to whole steps of the sums, and where groups begin there."""
    _, _, q_t, scale_t, padded = _grouped_quantize(x, offsets, spec.dtype, spec.grouping, spec.rule, 128, False, True, _random(spec, x), index)
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


def _alike(along: Spec | None, across: Spec | None) -> bool:
    """Whether one read of an operand makes its codes for both of its products."""
    return along is not None and along == across and along.grouping == "1x128" and not along.stochastic


def _both(
    x: torch.Tensor, offsets: torch.Tensor, spec: Spec, of: str = "rows", factors: torch.Tensor | None = None, index: torch.Tensor | None = None
) -> _Both:
    """Of the rows, of those that an index names, or of what ``of`` makes of them, which is not stored."""
    q, scale, q_t, scale_t, padded, _ = _grouped_codes(x, offsets, spec.dtype, spec.grouping, spec.rule, of, None, factors, False, index)
    return _Both(Codes(q, scale), Codes(q_t, scale_t), padded)


# Of a product whose rows an index finds in the load. On an H200 steps of a layer took 0.98 of the time with 128 experts and 1,536 columns, and, within
# what rounds differ by, 1.01 with 8 and 28,672.
_MOST_COLUMNS_BY_INDEX = 4096


def _both_by_index(
    x: torch.Tensor, offsets: torch.Tensor, spec: Spec, index: torch.Tensor | None, columns: int
) -> tuple[_Both, torch.Tensor | None]:
    """Of the rows that an index names, for a product of so many columns, and the index that this still needs: where most rows are named twice and more,
    each is coded once."""
    if index is None or index.shape[0] < 2 * x.shape[0] or columns > _MOST_COLUMNS_BY_INDEX:
        return _both(x, offsets, spec, index=index), None
    rows = _along(x, spec)
    assert rows is not None
    return _Both(rows, *_across(x, offsets, spec, index)), index


def _both_gradients(
    gate_up: torch.Tensor, dy: torch.Tensor, offsets: torch.Tensor, spec: Spec, factors: torch.Tensor | None, need_factors: bool
) -> tuple[_Both, torch.Tensor]:
    """Of the gradients of gate and up, which are not stored, with the gradient of the factors."""
    of = "swiglu_backward"
    q, scale, q_t, scale_t, padded, dfactors = _grouped_codes(gate_up, offsets, spec.dtype, spec.grouping, spec.rule, of, dy, factors, need_factors)
    return _Both(Codes(q, scale), Codes(q_t, scale_t), padded), dfactors


_ONCE = (
    "{op}: no second derivative: this gradient is made of 8-bit floats; where it is differentiated again (gradient penalties, Hessians) use grouped_gemm "
    "or gated_experts, or call the layer in 'with autocast_fp8(enabled=False)'"
)


def refused_again(op: str, gradients: tuple[torch.Tensor | None, ...]) -> tuple[torch.Tensor | None, ...]:
    """Gradients of 8-bit products: where they are to be differentiated again that is an error."""
    if not products.differentiated_again():
        return gradients
    return tuple(None if each is None else products.refused(each, _ONCE.format(op=op)) for each in gradients)


def check_no_main_grad(op: str, *main_grads: torch.Tensor | None) -> None:
    if products.differentiated_again() and any(each is not None for each in main_grads):
        raise NotImplementedError(f"{op}: main_grad takes no gradient that is to be differentiated again (create_graph=True); leave main_grad out")


class _Experts(torch.autograd.Function):
    """Saved are what the gradients read: codes where their products are of 8 bits, else the operand. With factors x is gate and up, and what is
    multiplied is ``swiglu`` of it, in codes that are alike for both products.
    """

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        weight: torch.Tensor,
        offsets: torch.Tensor,
        configs: Configs,
        main_grad: torch.Tensor | None,
        recording: bool,
        factors: torch.Tensor | None,
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        # A Function is told what its inputs ask for, and not whether there will be a gradient.
        need_x, need_w = (recording and asked for asked in ctx.needs_input_grad[:2])
        (x_for_y, w_for_y), (_, w_for_dx), (_, x_for_dw) = (products.specs_of(*one) for one in zip(configs, PRODUCTS))
        of_w: Parts = (parts[0], parts[1], parts[2], parts[3])
        both = None
        if factors is not None or (need_w and _alike(x_for_y, x_for_dw)):
            assert x_for_y is not None
            both = _both(x, offsets, x_for_y, "rows" if factors is None else "swiglu", factors)
        rows = both.rows if both is not None else _along(x, x_for_y)
        w_along, w_across = _weight_codes(weight, of_w, w_for_y, w_for_dx if need_x else None)
        if x_for_y is None or rows is None or w_along is None:
            y: torch.Tensor = _grouped(x, weight, offsets, False, True)
        else:
            y = _product(rows.q, w_along.q, rows.scale, w_along.scale, offsets, x.dtype, False, _SCALINGS[x_for_y.grouping])
        x_across: tuple[torch.Tensor | None, ...] = (x if need_w else None, None, None)
        if need_w and x_for_dw is not None:
            columns, padded = both[1:] if both is not None else _across(x, offsets, x_for_dw)
            x_across = (*columns, padded)
        w_saved = w_across or (weight if need_x else None, None)
        ctx.call = configs, x.dtype, weight.dtype, main_grad
        ctx.save_for_backward(offsets, *x_across, *w_saved, factors, None if factors is None else x)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        (_, for_dx, for_dw), dtype, weight_dtype, main_grad = ctx.call
        offsets, x, x_scale, padded, w, w_scale, factors, gate_up = ctx.saved_tensors
        dy = grad.to(dtype).contiguous()
        dx = dw = dfactors = None
        need_x, need_w, need_factors = ctx.needs_input_grad[0], ctx.needs_input_grad[1], ctx.needs_input_grad[6]
        along, across = products.specs_of(for_dx, "dx")[0], products.specs_of(for_dw, "dw")[0]
        need_h = need_x or need_factors
        check_no_main_grad("fp8_grouped_linear", main_grad if need_w else None)
        both = _both(dy, offsets, along) if need_h and need_w and along is not None and _alike(along, across) else None
        if need_h:
            rows = both.rows if both is not None else _along(dy, along)
            if along is None or rows is None:
                dx = _grouped(dy, w, offsets)
            else:
                dx = _product(rows.q, w, rows.scale, w_scale, offsets, dtype, False, _SCALINGS[along.grouping])
        if need_w:
            if across is None and main_grad is None:
                dw = _grouped(dy, x, offsets, True, False, weight_dtype if weight_dtype == torch.float32 else None)
            elif across is None:
                _grouped_add(main_grad, dy, x, offsets)
            else:
                columns = both.columns if both is not None else _across(dy, offsets, across)[0]
                dw = _sums(columns, Codes(x, x_scale), padded, across, weight_dtype, main_grad)
        if factors is not None and need_h:
            made = _activation_backward(dx, gate_up, None, factors, None, "silu", True, 1.702, 7.0, need_x, False, need_factors)
            dx, dfactors = made[0] if need_x else None, made[2] if need_factors else None
        if along is not None:
            dx, dfactors = refused_again("fp8_grouped_linear", (dx, dfactors))
        if across is not None:
            (dw,) = refused_again("fp8_grouped_linear", (dw,))
        return dx, dw, None, None, None, None, dfactors, *[None] * (len(ctx.needs_input_grad) - 7)


def configs_of(given: RecipeLike) -> Configs:
    """Of the three products of a layer; ValueError for a recipe that groups do not have."""
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
    return Recipe(*configs_of(given))


def codes_swiglu(configs: Configs) -> bool:
    """Whether what is multiplied has the same codes in both of its products, so that they can be made where a SwiGLU is."""
    return _alike(products.specs_of(configs[0], "y")[0], products.specs_of(configs[2], "dw")[1])


def specs_of_each(configs: Configs) -> tuple[Spec, Spec, Spec] | None:
    """Of what is multiplied, of the weight and of a gradient, where each has the same codes in both of its products; else None."""
    (rows, weight), (gradient, weight_for_dx), (gradient_for_dw, _) = (products.specs_of(*one) for one in zip(configs, PRODUCTS))
    if rows is None or weight is None or gradient is None or weight != weight_for_dx:
        return None
    return (rows, weight, gradient) if codes_swiglu(configs) and _alike(gradient, gradient_for_dw) else None


def _weight_parts(weight: torch.Tensor, configs: Configs) -> Parts:
    """Of codes that were made before, by the configs."""
    if not isinstance(weight, QuantizedTensor):
        return (None, None, None, None)
    for config in configs[:2]:
        if config is not None:
            _scales(weight, config.grouping(weight=True), "weight")
    return weight._parts()


def _in_fours(rows: torch.Tensor, factors: torch.Tensor | None, none: int = 0) -> tuple[torch.Tensor, torch.Tensor | None]:
    """Behind the rows, or the numbers of rows, as many of ``none`` as scales of a step of a sum start on 16 bytes with, on a GPU."""
    missing = -rows.shape[0] % 4
    if not rows.is_cuda or missing == 0:
        return rows, factors
    padded = torch.nn.functional.pad(rows, (0, 0, 0, missing), value=none)
    return padded, None if factors is None else torch.nn.functional.pad(factors, (0, missing))


def fp8_grouped_linear(
    x: torch.Tensor,
    weight: torch.Tensor,
    offsets: torch.Tensor,
    recipe: RecipeLike = "blockwise",
    *,
    main_grad: torch.Tensor | None = None,
    factors: torch.Tensor | None = None,
) -> torch.Tensor:
    """y[r] = weight[g] x[r] for the rows r of each expert g, in 8-bit floats, and both gradients the same way.

    x          [rows, in], float32, bfloat16 or float16, sorted by expert
    weight     [experts, out, in], or a QuantizedTensor of it: ``quantize(weight, config, weight=True, transpose=True)``
    offsets    [experts + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of expert g; the others are 0, and so is their
               gradient
    recipe     a name, QuantConfig or Recipe whose products have granularity "blockwise" or "rowwise" or are None (``grouped_gemm``)
    main_grad  [experts, out, in], float32 or weight's dtype: the gradient of weight is added to it, and weight.grad stays as it is

    factors    [rows], float32: x is gate and up side by side [rows, 2 in], and ``swiglu(x, probs=factors)`` is multiplied, which is coded as it is
               made and not stored. For recipes whose y and dw read the same codes of it, by 1x128 and to nearest ("blockwise")

    x and dy are quantised along their columns for y and dx, by 1x128 or by row, and along the rows of each expert, padded to multiples of
    128, for dw, by 1x128 or a column of the expert's rows (``grouped_quantize``). Second derivatives of 8-bit products are refused, and main_grad where its
    gradient is to be differentiated again.
    """
    x = autocast(x)
    weight = autocast(weight)
    configs = configs_of(recipe)
    if factors is not None and not codes_swiglu(configs):
        raise ValueError(
            "fp8_grouped_linear: factors, and y and dw do not read the same codes by 1x128; use 'blockwise', or give swiglu(x, probs=factors) as x"
        )
    parts = _weight_parts(weight, configs)
    rows = x.shape[0]
    if any(config is not None and config.granularity == "blockwise" for config in configs):
        x, factors = _in_fours(x, factors)
    made: torch.Tensor = _Experts.apply(x, weight, offsets, configs, main_grad, torch.is_grad_enabled(), factors, *parts)  # type: ignore[no-untyped-call]
    return made if made.shape[0] == rows else made[:rows]
