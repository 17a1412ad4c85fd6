"""Both layers of gated experts in 8-bit floats as one function, which in training stores neither what SwiGLU makes nor its gradients."""

from __future__ import annotations

from typing import Any

import torch

from ._recipe import RecipeLike
from .gated_experts import MainGrads, check_main_grad
from .grouped import (
    _both,
    _both_by_index,
    _both_gradients,
    _in_fours,
    _product,
    _sums,
    _weight_codes,
    _weight_parts,
    check_no_main_grad,
    configs_of,
    fp8_grouped_linear,
    refused_again,
    specs_of_each,
)
from .ops import autocast, swiglu
from .products import Codes, Spec
from .routing import ExpertOrder, permute, unpermute

_combine_rows = torch.ops.ridgeline.combine_rows.default
_OP = "fp8_gated_experts"


class _GatedExperts(torch.autograd.Function):
    """Saved are gate and up of every row, and codes: of the transposes of x and of their SwiGLU, and of the weights as the gradients read them."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        gate_up: torch.Tensor,
        down: torch.Tensor,
        offsets: torch.Tensor,
        factors: torch.Tensor | None,
        index: torch.Tensor | None,
        places: torch.Tensor | None,
        specs: tuple[Spec, Spec, Spec],
        main_grads: MainGrads,
        *parts: torch.Tensor | None,
    ) -> torch.Tensor:
        of_rows, of_weights, _ = specs
        of_gate_up, of_down = (parts[0], parts[1], parts[2], parts[3]), (parts[4], parts[5], parts[6], parts[7])
        need_x, _, _, need_inner = _needs(ctx)
        weight, weight_back = _weight_codes(gate_up, of_gate_up, of_weights, of_weights if need_x else None)
        assert weight is not None
        rows, by_index = _both_by_index(x, offsets, of_rows, index, gate_up.shape[1])
        both: torch.Tensor = _product(rows.rows.q, weight.q, rows.rows.scale, weight.scale, offsets, x.dtype, False, "block", by_index)
        saved = (*(weight_back or (None, None)), *rows.columns)
        del rows, weight  # codes of the forward product alone
        weight, weight_back = _weight_codes(down, of_down, of_weights, of_weights if need_inner else None)
        assert weight is not None
        rows = _both(both, offsets, of_rows, "swiglu", factors)
        y: torch.Tensor = _product(rows.rows.q, weight.q, rows.rows.scale, weight.scale, offsets, x.dtype)
        ctx.call = specs, x.dtype, (gate_up.dtype, down.dtype), main_grads
        ctx.save_for_backward(offsets, factors, index, places, both, rows.padded, *saved, *(weight_back or (None, None)), *rows.columns)
        return y if places is None else _combine_rows(y, places)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        _, need_gate_up, need_down, _ = _needs(ctx)
        main_grads = ctx.call[3]
        check_no_main_grad(_OP, main_grads[0] if need_gate_up else None, main_grads[1] if need_down else None)
        with torch.no_grad():
            found = _GatedExperts._gradients(ctx, grad)
        dx, dgate_up, ddown, dfactors = refused_again(_OP, found)
        return dx, dgate_up, ddown, None, dfactors, *[None] * (len(ctx.needs_input_grad) - 5)

    @staticmethod
    def _gradients(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:
        """Of x, gate_up, down and the factors."""
        (of_rows, _, of_gradients), dtype, weight_dtypes, main_grads = ctx.call
        offsets, factors, index, places, both, padded, *codes = ctx.saved_tensors
        first, x, second, h = (Codes(*codes[at : at + 2]) for at in range(0, 8, 2))
        need_x, need_gate_up, need_down, need_inner = _needs(ctx)
        dx = dgate_up = ddown = None
        dy, by_index = _both_by_index(grad.to(dtype).contiguous(), offsets, of_gradients, index, both.shape[1] // 2)
        if need_down:
            ddown = _sums(dy.columns, h, padded, of_rows, weight_dtypes[1], main_grads[1])
        if not need_inner:
            return None, None, ddown, None
        dh: torch.Tensor = _product(dy.rows.q, second.q, dy.rows.scale, second.scale, offsets, dtype, False, "block", by_index)
        del dy
        need_factors = ctx.needs_input_grad[4]
        dboth, dfactors = _both_gradients(both, dh, offsets, of_gradients, factors, need_factors)
        del dh
        if need_x:
            dx = _product(dboth.rows.q, first.q, dboth.rows.scale, first.scale, offsets, dtype)
            dx = dx if places is None else _combine_rows(dx, places)
        if need_gate_up:
            dgate_up = _sums(dboth.columns, x, padded, of_rows, weight_dtypes[0], main_grads[0])
        return dx, dgate_up, ddown, dfactors if need_factors else None


def _needs(ctx: Any) -> tuple[bool, bool, bool, bool]:
    """Whether gradients of x, gate_up and down are asked for, and any of what down multiplies."""
    need_x, need_gate_up, need_down, _, need_factors, *_ = ctx.needs_input_grad
    return need_x, need_gate_up, need_down, need_x or need_gate_up or need_factors


def _check(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor, rows: int, tokens: int, factors: torch.Tensor | None) -> None:
    if x.dim() != 2 or gate_up.dim() != 3 or down.dim() != 3 or gate_up.shape[::2] != (down.shape[0], x.shape[1]) or gate_up.shape[1] != 2 * down.shape[2]:
        raise ValueError(
            f"{_OP}: x, gate_up and down are {tuple(x.shape)}, {tuple(gate_up.shape)} and {tuple(down.shape)}; give [rows, in], [experts, 2 inner, in] and "
            "[experts, out, inner]"
        )
    if x.shape[0] != tokens:
        raise ValueError(f"{_OP}: x has {x.shape[0]} rows, and the order is of {tokens} tokens")
    if factors is not None and (factors.shape != (rows,) or factors.dtype != torch.float32):
        raise ValueError(f"{_OP}: factors are {tuple(factors.shape)} in {factors.dtype}; give one for each row, ({rows},), in torch.float32")


def fp8_gated_experts(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    offsets: torch.Tensor | ExpertOrder,
    recipe: RecipeLike = "blockwise",
    *,
    factors: torch.Tensor | None = None,
    main_grads: MainGrads = (None, None),
) -> torch.Tensor:
    """y[r] = down[g] (f[r] silu(gate[g] x[r]) * up[g] x[r]) for the rows r of each expert g, in 8-bit floats: both layers of gated experts.

    The bits of ``fp8_grouped_linear(fp8_grouped_linear(x, gate_up, offsets), down, offsets, factors=f)`` and of its gradients, but for the order of the
    sums of the gradient of factors. Where gradients are asked for, SwiGLU and its gradients are coded as they are made, and not stored. With an
    ``ExpertOrder`` in place of offsets x and y are tokens: y is ``unpermute`` of what the rows ``permute(x, order)`` give; no copies of tokens or of
    their gradients are stored, and where experts share them and have at most 4,096 columns they are coded once along rows. Second derivatives are refused, and main_grads where gradients are to be differentiated again.

    x           [rows, in], float32, bfloat16 or float16, sorted by expert; or tokens
    gate_up     [experts, 2 inner, in]: rows of gate, and behind them of up; or a QuantizedTensor of it, as ``fp8_grouped_linear`` takes it
    down        [experts, out, inner], the same
    offsets     [experts + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of expert g; the others are 0, and so is their gradient
    recipe      of both layers; operands have the same codes in both of their products, by 1x128 and to nearest: "blockwise"
    factors     [rows], float32: f; None: 1
    main_grads  of gate_up and of down: their gradients are added there, and none is returned
    """
    x, gate_up, down = autocast(x), autocast(gate_up), autocast(down)
    configs = configs_of(recipe)
    specs = specs_of_each(configs)
    if specs is None:
        raise ValueError(f"{_OP}: by {recipe!r} an operand has not the same codes in both of its products; use 'blockwise', or fp8_grouped_linear of each layer")
    order, begins = (offsets, offsets.offsets) if isinstance(offsets, ExpertOrder) else (None, offsets)
    rows, tokens = (x.shape[0], x.shape[0]) if order is None else (order.tokens.shape[0], order.rows.shape[0])
    _check(x, gate_up, down, rows, tokens, factors)
    for name, main_grad, weight in zip(("gate_up", "down"), main_grads, (gate_up, down)):
        check_main_grad(_OP, name, main_grad, weight)
    leaves = (x, gate_up, down) if factors is None else (x, gate_up, down, factors)
    if not (torch.is_grad_enabled() and any(leaf.requires_grad for leaf in leaves)):  # no codes for gradients
        h = swiglu(fp8_grouped_linear(x if order is None else permute(x, order), gate_up, begins, recipe), probs=factors)
        y = fp8_grouped_linear(h, down, begins, recipe)
        return y if order is None else unpermute(y, order)
    index, places = None, None
    if order is None:
        x, factors = _in_fours(x, factors)
    else:
        index, factors = _in_fours(order.tokens, factors, -1)
        places = order.rows
    parts = (*_weight_parts(gate_up, configs), *_weight_parts(down, configs))
    made: torch.Tensor = _GatedExperts.apply(x, gate_up, down, begins, factors, index, places, specs, main_grads, *parts)  # type: ignore[no-untyped-call]
    return made if made.shape[0] == tokens else made[:tokens]
