"""Rows of a mixture of experts, to the experts and back, without the host knowing where."""

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

_combine_rows: Callable[..., torch.Tensor] = torch.ops.ridgeline.combine_rows.default
_expert_order: Callable[..., tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]] = torch.ops.ridgeline.expert_order.default


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
    """[rows, 1], int32: the token of each sorted row; -1 where there is none: behind the last expert, and in front of the next one with ``align``. There are
    tokens * top rows, with ``align`` as many as it may take."""
    rows: torch.Tensor
    """[tokens, top], int32: the sorted row of each choice of a token; -1 where it has none."""
    choices: torch.Tensor
    """[rows, 1], int32: token * top + k of each sorted row; -1 where there is none."""


def expert_order(experts: torch.Tensor, num_experts: int, *, align: int = 1) -> ExpertOrder:
    """Tokens sorted by their experts; those of one expert stay in the order of tokens. Nothing waits for a GPU.

    experts      [tokens, top], whole numbers: the experts that each token chose; negative, or from num_experts on: none, as of a token that is dropped
    num_experts  1 to 4096
    align        the rows of each expert begin at a multiple of it, 1 to 1024; what is left in front of the next expert are rows without a token
    """
    if experts.dim() != 2:
        raise ValueError(f"expert_order: experts has shape {tuple(experts.shape)}; give [tokens, top]")
    return ExpertOrder(*_expert_order(experts, num_experts, align))


def permute(x: torch.Tensor, order: ExpertOrder) -> torch.Tensor:
    """The rows of x for each expert, [sorted rows, columns]; those without a token are 0. The gradient of a token is the sum of those of its rows."""
    return combine_rows(x, order.tokens, places=order.rows)


def unpermute(y: torch.Tensor, order: ExpertOrder, weights: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of each token's rows of y, times weights [tokens, top] in float32 (none: 1), which have a gradient, too."""
    return combine_rows(y, order.rows, weights, places=order.choices)
