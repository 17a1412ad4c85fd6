"""The router of a mixture of experts: which experts a token goes to, with which weights, and what keeps them in balance."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .ops import logsumexp
from .routing import expert_order

Score = Literal["softmax", "sigmoid"]
Order = Literal["score_first", "top_first"]

_route: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.ops.ridgeline.route.default


class Route(NamedTuple):
    """What ``route`` gives of each token."""

    weights: torch.Tensor
    """[tokens, top], float32 (float64 of float64): the weight of each chosen expert."""
    experts: torch.Tensor
    """[tokens, top], int32: the chosen experts, by falling score; what ``expert_order`` takes."""


def route(
    logits: torch.Tensor,
    top: int,
    *,
    score: Score = "softmax",
    order: Order = "score_first",
    bias: torch.Tensor | None = None,
    groups: int = 1,
    group_top: int = 1,
    renormalize: bool = False,
    scale: float = 1.0,
) -> Route:
    """The ``top`` experts of each token with the largest scores, and their weights. Of equal scores the lower expert comes first.

    logits       [tokens, experts], float32, bfloat16 or float16 (float64: by torch)
    score        of a logit: softmax over the experts, or sigmoid
    order        "score_first": the score is of all experts, as in Mixtral, Qwen and DeepSeek; "top_first": of the chosen ones, as in GPT-OSS
    bias         [experts], float32: added to the scores for the choice alone, without a gradient (DeepSeek-V3); to the logits with "top_first"
    groups       the experts in so many equal groups; those of the ``group_top`` with the largest sum of their two best scores can be chosen
    renormalize  weights are divided by 1e-20 and their sum
    scale        times every weight
    """
    if has_torch_function_variadic(logits):
        traced: Route = handle_torch_function(
            route,
            (logits,),
            logits,
            top,
            score=score,
            order=order,
            bias=bias,
            groups=groups,
            group_top=group_top,
            renormalize=renormalize,
            scale=scale,
        )
        return traced
    return Route(*_route(logits, top, score, order, bias, groups, group_top, renormalize, scale))


def router_z_loss(logits: torch.Tensor) -> torch.Tensor:
    """The mean over tokens of logsumexp(logits)^2, in float32: it keeps logits small (ST-MoE, Zoph et al. 2022, equation 5).

    logits  [tokens, experts]; of no token it is 0
    """
    sums = torch.logsumexp(logits, -1) if logits.dtype == torch.float64 else logsumexp(logits.float(), -1)
    return sums.square().sum() / max(logits.shape[0], 1)


def expert_counts(experts: torch.Tensor, num_experts: int) -> torch.Tensor:
    """How many tokens chose each expert, [num_experts], int64, without the host; a negative choice counts for none."""
    flat = torch.where(experts < 0, num_experts, experts).flatten().long()
    counts = torch.zeros(num_experts + 1, dtype=torch.int64, device=experts.device)
    return counts.scatter_add_(0, flat, torch.ones_like(flat))[:num_experts]


def load_balance_loss(logits: torch.Tensor, experts: torch.Tensor, *, score: Score = "softmax") -> torch.Tensor:
    """experts * sum over e of f_e P_e, in float32: 1 where all experts have equal shares, up to their number where one has all.

    f_e is the share of expert e in all choices, a constant. P_e is the mean over tokens of its score, of which those of a token add up to 1: the
    softmax of the logits (Switch Transformer, Fedus et al. 2021, equations 4 to 6, there for one choice of a token), or the sigmoid divided by
    the sum of the token's (DeepSeek-V3 2024, equations 17 to 20). Of no token it is 0.

    logits   [tokens, experts]
    experts  [tokens, top], as ``route`` gives them; negative: none
    """
    tokens, count = logits.shape
    wide = logits if logits.dtype == torch.float64 else logits.float()
    if score == "softmax":
        scores = torch.softmax(wide, -1)
    elif score == "sigmoid":
        scores = torch.sigmoid(wide)
        scores = scores / (scores.sum(-1, keepdim=True) + 1e-20)
    else:
        raise ValueError(f'load_balance_loss: score="{score}" is unknown; use one of softmax, sigmoid')
    counts = expert_counts(experts, count)
    shares = counts.to(wide.dtype) / counts.sum().clamp(min=1)
    return count * (shares * scores.sum(0)).sum() / max(tokens, 1)


def drop_over_capacity(experts: torch.Tensor, num_experts: int, capacity: int) -> torch.Tensor:
    """``experts`` with -1 for every choice beyond the first ``capacity`` of its expert, in the order of tokens and of their choices. Nothing waits for a GPU.

    experts  [tokens, top], whole numbers; negative, or from num_experts on: none, and -1 in the result
    """
    if capacity < 0:
        raise ValueError(f"drop_over_capacity: capacity is {capacity}; give at least 0")
    order = expert_order(experts, num_experts)
    begins = order.offsets[experts.clamp(0, num_experts - 1).long()]  # of the rows of each choice's expert
    kept = (order.rows >= 0) & (order.rows - begins < capacity)
    return torch.where(kept, experts, -1)


class Routing(NamedTuple):
    """What a ``Router`` gives of each token, and of all."""

    weights: torch.Tensor
    """[tokens, top], float32."""
    experts: torch.Tensor
    """[tokens, top], int32."""
    z_loss: torch.Tensor
    """``router_z_loss``, to be added to a loss with a small factor (0.001 in ST-MoE)."""
    balance_loss: torch.Tensor
    """``load_balance_loss``, to be added to a loss with a small factor (0.01 in Switch Transformer)."""


class Router(torch.nn.Module):
    """A linear layer and ``route``: from tokens [..., hidden] to the experts of each, with the two losses of routers as plain values.

    Leading dimensions are taken together: results have a row for each token. Logits are computed in the weight's dtype, float32 unless another
    is given, whatever the tokens have. With ``bias`` there is a buffer ``bias`` of zeros that is added to the scores for the choice alone; it has no
    gradient, and steps of it (DeepSeek-V3: up where ``expert_counts`` is below the mean, else down) are the caller's.
    """

    bias: torch.Tensor | None

    def __init__(
        self,
        hidden: int,
        experts: int,
        top: int,
        *,
        score: Score = "softmax",
        order: Order = "score_first",
        bias: bool = False,
        groups: int = 1,
        group_top: int = 1,
        renormalize: bool = False,
        scale: float = 1.0,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        self.hidden, self.experts, self.top = hidden, experts, top
        self.score: Score = score
        self.order: Order = order
        self.groups, self.group_top = groups, group_top
        self.renormalize, self.scale = renormalize, scale
        self.weight = torch.nn.Parameter(torch.empty(experts, hidden, device=device, dtype=dtype or torch.float32))
        self.register_buffer("bias", torch.zeros(experts, device=device, dtype=torch.float32) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        torch.nn.init.normal_(self.weight, std=self.hidden**-0.5)
        if self.bias is not None:
            torch.nn.init.zeros_(self.bias)

    def forward(self, x: torch.Tensor) -> Routing:
        if x.shape[-1] != self.hidden:
            raise ValueError(f"Router: x has shape {tuple(x.shape)}; give [..., {self.hidden}]")
        with torch.autocast(x.device.type, enabled=False):
            logits = torch.nn.functional.linear(x.reshape(-1, self.hidden).to(self.weight.dtype), self.weight)
        found = route(
            logits,
            self.top,
            score=self.score,
            order=self.order,
            bias=self.bias,
            groups=self.groups,
            group_top=self.group_top,
            renormalize=self.renormalize,
            scale=self.scale,
        )
        return Routing(*found, router_z_loss(logits), load_balance_loss(logits, found.experts, score=self.score))

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}, experts={self.experts}, top={self.top}, score={self.score}, order={self.order}"
