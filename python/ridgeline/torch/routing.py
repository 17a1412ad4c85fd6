"""Rows of a mixture of experts, to the experts and back, without the host knowing where."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

_combine_rows: Callable[..., torch.Tensor] = torch.ops.ridgeline.combine_rows.default


def combine_rows(
    x: torch.Tensor, sources: torch.Tensor, weights: torch.Tensor | None = None, *, places: torch.Tensor | None = None
) -> torch.Tensor:
    """y[t] = sum over k of weights[t, k] x[sources[t, k]], in float32 and rounded once; one source without a weight is copied.

    x        [rows of x, columns], float32, bfloat16 or float16 (float64: by torch)
    sources  [rows, top], int32 or int64, top from 1 to 64; negative: none. One that is no row of x is an error on a CPU, and counts for nothing on a GPU
    weights  [rows, top], float32
    places   [rows of x, m]: where each row of x is named, as numbers row * top + k, in the order in which its gradient adds them up; negative: none.
             Needed where x has a gradient: without it that would be a sum in an order of chance
    """
    if has_torch_function_variadic(x, sources):
        traced: torch.Tensor = handle_torch_function(combine_rows, (x, sources), x, sources, weights, places=places)
        return traced
    return _combine_rows(x, sources, weights, places)


class ExpertOrder(NamedTuple):
    """Which rows go where when tokens are sorted by their experts, for ``permute`` and ``unpermute``."""

    offsets: torch.Tensor
    """[experts + 1], int32: where the rows of each expert begin, and where the last end; what ``grouped_gemm`` takes."""
    tokens: torch.Tensor
    """[tokens * top, 1], int32: the token of each sorted row; -1 behind the last expert."""
    rows: torch.Tensor
    """[tokens, top], int32: the sorted row of each choice of a token; -1 where it has none."""
    choices: torch.Tensor
    """[tokens * top, 1], int32: token * top + k of each sorted row; -1 behind the last expert."""


def choices_by_expert(name: str, experts: torch.Tensor, num_experts: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The expert of each choice, token after token (num_experts: none), and the choices in the order of experts, those of one in the order of tokens.

    name  of the function that asks, for errors
    """
    if experts.dim() != 2:
        raise ValueError(f"{name}: experts has shape {tuple(experts.shape)}; give [tokens, top]")
    if num_experts < 1:
        raise ValueError(f"{name}: num_experts is {num_experts}; give at least 1")
    flat = torch.where((experts < 0) | (experts >= num_experts), num_experts, experts).flatten()
    return flat, torch.argsort(flat, stable=True)


def expert_order(experts: torch.Tensor, num_experts: int) -> ExpertOrder:
    """Tokens sorted by their experts; those of one expert stay in the order of tokens. Nothing waits for a GPU.

    experts  [tokens, top], whole numbers: the experts that each token chose; negative, or from num_experts on: none, as of a token that is dropped
    """
    flat, order = choices_by_expert("expert_order", experts, num_experts)
    sorted_experts = flat[order]
    offsets = torch.searchsorted(sorted_experts, torch.arange(num_experts + 1, device=flat.device, dtype=flat.dtype))
    choices = torch.where(sorted_experts < num_experts, order, -1)
    rows = torch.empty_like(order).scatter_(0, order, torch.arange(order.numel(), device=flat.device))
    rows = torch.where(flat < num_experts, rows, -1).view(experts.shape)
    tokens = torch.div(choices, max(experts.shape[1], 1), rounding_mode="floor")
    return ExpertOrder(offsets.int(), tokens.int()[:, None], rows.int(), choices.int()[:, None])


def permute(x: torch.Tensor, order: ExpertOrder) -> torch.Tensor:
    """The rows of x for each expert, [tokens * top, columns]; rows behind the last expert are 0. The gradient of a token is the sum of those of its rows."""
    return combine_rows(x, order.tokens, places=order.rows)


def unpermute(y: torch.Tensor, order: ExpertOrder, weights: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of each token's rows of y, times weights [tokens, top] in float32 (none: 1), which have a gradient, too."""
    return combine_rows(y, order.rows, weights, places=order.choices)
