"""Both layers of gated experts as one function, which saves their gate and up and not what SwiGLU makes of them."""

from __future__ import annotations

from typing import Any

import torch

from .ops import autocast, grouped_gemm, swiglu, transformed
from .products import differentiated_again

_grouped = torch.ops.ridgeline.grouped_gemm.default
_grouped_add = torch.ops.ridgeline.grouped_gemm_add_.default
_grouped_swiglu = torch.ops.ridgeline.grouped_swiglu.default
_grouped_swiglu_backward = torch.ops.ridgeline.grouped_swiglu_backward.default
_PLAIN = (torch.Tensor, torch.nn.Parameter)

MainGrads = tuple[torch.Tensor | None, torch.Tensor | None]  # of gate_up and of down


class _Down(torch.autograd.Function):
    """The product of h, which is ``swiglu`` of both and not kept: backward makes it again where it makes the gradients of both."""

    @staticmethod
    def forward(
        ctx: Any,
        both: torch.Tensor,
        h: torch.Tensor,
        down: torch.Tensor,
        offsets: torch.Tensor,
        factors: torch.Tensor | None,
        main_grad: torch.Tensor | None,
    ) -> torch.Tensor:
        ctx.main_grad = main_grad
        ctx.save_for_backward(both, down, offsets, factors)
        y: torch.Tensor = _grouped(h, down, offsets, False, True)
        return y

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        both, down, offsets, factors = ctx.saved_tensors
        need_both, _, need_down, _, need_factors, _ = ctx.needs_input_grad
        dboth = ddown = dfactors = None
        if differentiated_again():  # of what the call stands for
            wanted = [each for each, need in ((both, need_both), (down, need_down), (factors, need_factors)) if need]
            made = iter(torch.autograd.grad(_plain_down(both, down, offsets, factors, ctx.main_grad), wanted, grad, create_graph=True))
            dboth, ddown, dfactors = (next(made) if need else None for need in (need_both, need_down, need_factors))
            return dboth, None, ddown, None, dfactors, None
        dy = grad.to(both.dtype).contiguous()
        if need_both or need_factors:
            dboth, h, dfactors = _grouped_swiglu_backward(dy, down, offsets, both, False, factors)
        else:
            h = swiglu(both, probs=factors)
        if need_down and ctx.main_grad is not None:
            _grouped_add(ctx.main_grad, dy, h, offsets)
        elif need_down:
            ddown = _grouped(dy, h, offsets, True)
        return dboth if need_both else None, None, ddown, None, dfactors if need_factors else None, None


def _plain_down(
    both: torch.Tensor, down: torch.Tensor, offsets: torch.Tensor, factors: torch.Tensor | None, main_grad: torch.Tensor | None
) -> torch.Tensor:
    return grouped_gemm(swiglu(both, probs=factors), down, offsets, True, main_grad=main_grad)


def _plain_experts(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    offsets: torch.Tensor,
    factors: torch.Tensor | None,
    index: torch.Tensor | None,
    places: torch.Tensor | None,
    main_grads: MainGrads,
) -> torch.Tensor:
    """``gated_experts`` of the operators that it stands for."""
    both = grouped_gemm(x, gate_up, offsets, True, main_grad=main_grads[0], index_a=index, places=places)
    return _plain_down(both, down, offsets, factors, main_grads[1])


def check_main_grad(op: str, name: str, main_grad: torch.Tensor | None, weight: torch.Tensor) -> None:
    """ValueError where the gradient of a weight cannot be added there."""
    if main_grad is not None and (main_grad.shape != weight.shape or main_grad.dtype not in (weight.dtype, torch.float32)):
        raise ValueError(
            f"{op}: the main_grad of {name} is {tuple(main_grad.shape)} in {main_grad.dtype}; give the shape of {name}, {tuple(weight.shape)}, in "
            f"{weight.dtype} or torch.float32"
        )


def gated_experts(
    x: torch.Tensor,
    gate_up: torch.Tensor,
    down: torch.Tensor,
    offsets: torch.Tensor,
    *,
    factors: torch.Tensor | None = None,
    index: torch.Tensor | None = None,
    places: torch.Tensor | None = None,
    main_grads: MainGrads = (None, None),
) -> torch.Tensor:
    """y[r] = down[g] (f[r] silu(gate[g] x[r]) * up[g] x[r]) for the rows r of each expert g: both layers of gated experts.

    SwiGLU is made where the first product is stored, and its gradients where that of its result would be; saved for backward are gate and up of every
    row and x, and not their SwiGLU.

    x           [rows, in], float32, bfloat16 or float16, sorted by expert; with index the tokens that experts share
    gate_up     [experts, 2 inner, in]: rows of gate, and behind them of up
    down        [experts, out, inner]
    offsets     [experts + 1], int32 or int64: rows offsets[g] to offsets[g + 1] are those of expert g; the others are 0, and so is their gradient
    factors     [rows], float32: f; None: 1
    index       [rows] or [rows, 1], int32, and places [tokens, m], as ``grouped_gemm`` takes them
    main_grads  of gate_up and of down: their gradients are added there, and none is returned

    float64, tensors of other classes (DTensor), forward mode and ``torch.func`` take the operators one by one, and so do second derivatives.
    """
    x, gate_up, down = autocast(x), autocast(gate_up), autocast(down)
    for name, main_grad, weight in zip(("gate_up", "down"), main_grads, (gate_up, down)):
        check_main_grad("gated_experts", name, main_grad, weight)
    differentiated = not torch.compiler.is_compiling() and transformed()
    if x.dtype == torch.float64 or differentiated or any(type(each) not in _PLAIN for each in (x, gate_up, down)):
        return _plain_experts(x, gate_up, down, offsets, factors, index, places, main_grads)
    h, both = _grouped_swiglu(x, gate_up, offsets, True, factors, main_grads[0], index, places)
    made: torch.Tensor = _Down.apply(both, h.detach(), down, offsets, factors, main_grads[1])  # type: ignore[no-untyped-call]
    return made
