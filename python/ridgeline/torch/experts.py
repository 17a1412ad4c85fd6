"""Layers of experts: a linear layer for each group of rows, and a whole mixture, on one device or with the experts of several ranks."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch.utils.checkpoint import checkpoint

from . import exchange
from ._recipe import Recipe, RecipeLike, describe
from .coded_experts import fp8_gated_experts
from .gated_experts import gated_experts
from .grouped import codes_swiglu, configs_of, fp8_grouped_linear, recipe_of, specs_of_each
from .kept import factor
from .modules import Linear, _main_grad
from .ops import autocast, grouped_gemm, swiglu
from .precision import in_force
from .router import Order, Router, Score, drop_over_capacity
from .routing import ExpertOrder, expert_order, permute, unpermute


class GroupedLinear(torch.nn.Module):
    """A linear layer without a bias for each expert: rows x [rows, in_features] times the transposed matrix of their expert.

    ``weight`` is [num_experts, out_features, in_features]: ``weight[e]`` is that of a torch.nn.Linear. ``offsets`` [num_experts + 1] says on the device
    where the rows of each expert begin and where the last end (``expert_order``); rows of none are 0 in the result. Gradients are products of groups, too;
    that of a weight with ``main_grad`` is added there. With an ``ExpertOrder`` in place of offsets x are tokens, whose rows for each expert the product finds by
    index: no copy of them is kept (8-bit products are made of one). With ``recipe`` products are made of 8-bit floats, as ``fp8_grouped_linear`` takes it; in
    a block of ``autocast_fp8(enabled=False)`` they are not, and recipes of such blocks are for ``Linear`` and ``Fp8Linear``. In a block of
    ``quantized_weights`` the weight is quantised once a step.
    """

    _codes_can_be_kept = True  # it asks ``factor`` for its weight

    def __init__(
        self,
        num_experts: int,
        in_features: int,
        out_features: int,
        device: Any = None,
        dtype: torch.dtype | None = None,
        *,
        recipe: RecipeLike = None,
    ) -> None:
        super().__init__()
        _at_least_one("GroupedLinear", num_experts=num_experts, in_features=in_features, out_features=out_features)
        self.num_experts, self.in_features, self.out_features = num_experts, in_features, out_features
        self.recipe = None if recipe is None else recipe_of(recipe)
        self.weight = torch.nn.Parameter(torch.empty(num_experts, out_features, in_features, device=device, dtype=dtype))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """As torch.nn.Linear: uniform between the ends +-1 / sqrt(in_features)."""
        end = self.in_features**-0.5
        torch.nn.init.uniform_(self.weight, -end, end)

    def forward(self, x: torch.Tensor, offsets: torch.Tensor | ExpertOrder) -> torch.Tensor:
        if x.dim() != 2 or x.shape[1] != self.in_features:
            rows = "tokens, [tokens" if isinstance(offsets, ExpertOrder) else "rows sorted by experts, [rows"
            raise ValueError(f"GroupedLinear: x has shape {tuple(x.shape)}; give {rows}, {self.in_features}]")
        if not isinstance(offsets, ExpertOrder):
            return self._times(x, offsets)
        order = offsets
        if self._recipe_in_force() is not None:
            return self._times(permute(x, order), order.offsets)
        x, main_grad = x.contiguous(), _main_grad(self.weight)
        return grouped_gemm(x, self.weight, order.offsets, True, main_grad=main_grad, index_a=order.tokens, places=order.rows)

    def _recipe_in_force(self) -> Recipe | None:
        return self.recipe if self.recipe is not None and in_force(self.recipe) is not None else None

    def _times(self, x: torch.Tensor, offsets: torch.Tensor, factors: torch.Tensor | None = None) -> torch.Tensor:
        main_grad, recipe = _main_grad(self.weight), self._recipe_in_force()
        if recipe is None:
            return grouped_gemm(x, self.weight, offsets, True, main_grad=main_grad)
        return fp8_grouped_linear(x, factor(self, self.weight, recipe), offsets, recipe, main_grad=main_grad, factors=factors)

    def extra_repr(self) -> str:
        words = f"num_experts={self.num_experts}, in_features={self.in_features}, out_features={self.out_features}"
        return words if self.recipe is None else f"{words}, {describe(self.recipe)}"


def _is_its_product(layer: torch.nn.Module) -> bool:
    """Whether a call of the layer is ``GroupedLinear.forward`` alone: no wrapper, which may hand its attributes on, no other forward and no hooks."""
    if type(layer) is not GroupedLinear or "forward" in layer.__dict__ or torch.nn.modules.module._has_any_global_hook():  # type: ignore[no-untyped-call]
        return False
    return not any((layer._forward_pre_hooks, layer._forward_hooks, layer._backward_pre_hooks, layer._backward_hooks))


def _codes_swiglu(layer: GroupedLinear) -> bool:
    """Whether the layer may be given gate and up and their factors: if it saves codes for its gradient, and its call is its product."""
    if not _is_its_product(layer):
        return False
    recipe = layer._recipe_in_force()
    return recipe is not None and torch.is_grad_enabled() and layer.weight.requires_grad and codes_swiglu(configs_of(recipe))


class Mixture(NamedTuple):
    """What a ``MoE`` gives."""

    y: torch.Tensor
    """Of the tokens' shape."""
    experts: torch.Tensor
    """[tokens, top], int32: the experts that the router chose, those without room among them; for ``expert_counts``."""
    z_loss: torch.Tensor
    """``router_z_loss``, to be added to a loss with a small factor."""
    balance_loss: torch.Tensor
    """``load_balance_loss``, to be added to a loss with a small factor."""


class MoE(torch.nn.Module):
    """A mixture of experts: y = sum over a token's experts e of w_e down_e(silu(gate_e(x)) up_e(x)), and the shared expert's without a weight.

    Of tokens [..., hidden], of which each goes to ``top`` of ``num_experts`` experts with ``inner`` features.

    score ... scale  of the ``Router``, whose weight is float32 whatever ``dtype`` is
    shared           inner features of a gated layer that every token passes, 0: none (several shared experts are one of all their features)
    capacity_factor  an expert takes at most ceil(capacity_factor * tokens * top / num_experts) tokens, the first ones; None: all. Weights of the others
                     are not renormalised
    recompute        activations are made again in backward in place of being saved, which products of high precision do without it, too
    recipe           of ``gate_up`` and ``down``, as ``GroupedLinear`` takes it
    process_group    ranks that share the experts: each has num_experts / ranks of them, in the order of ranks, and all of the router. The reference path
                     of expert parallelism (docs/pytorch.md): the host waits for the sizes of the exchange, and losses are those of the rank's own tokens

    The weight of a choice is a factor of the activation of its row, in float32 before that is rounded, so that what down makes is not saved. On one device
    nothing waits for it.
    """

    def __init__(
        self,
        hidden: int,
        inner: int,
        num_experts: int,
        top: int,
        *,
        score: Score = "softmax",
        order: Order = "score_first",
        bias: bool = False,
        groups: int = 1,
        group_top: int = 1,
        renormalize: bool = False,
        scale: float = 1.0,
        shared: int = 0,
        capacity_factor: float | None = None,
        recompute: bool = False,
        recipe: RecipeLike = None,
        process_group: Any = None,
        device: Any = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        _at_least_one("MoE", hidden=hidden, inner=inner, num_experts=num_experts, top=top)
        if shared < 0:
            raise ValueError(f"MoE: shared is {shared}; give the inner features of the shared expert, or 0 for none")
        if capacity_factor is not None and not 0 < capacity_factor < math.inf:
            raise ValueError(f"MoE: capacity_factor is {capacity_factor}; give a finite number above 0, or None")
        ranks = 1 if process_group is None else dist.get_world_size(process_group)
        if num_experts % ranks != 0:
            raise ValueError(f"MoE: num_experts is {num_experts}, of {ranks} ranks in process_group; give a multiple of the ranks")
        self.hidden, self.inner, self.num_experts, self.shared = hidden, inner, num_experts, shared
        self.capacity_factor, self.recompute, self.process_group = capacity_factor, recompute, process_group
        self.router = Router(
            hidden,
            num_experts,
            top,
            score=score,
            order=order,
            bias=bias,
            groups=groups,
            group_top=group_top,
            renormalize=renormalize,
            scale=scale,
            device=device,
        )
        self.gate_up = GroupedLinear(num_experts // ranks, hidden, 2 * inner, device, dtype, recipe=recipe)
        self.down = GroupedLinear(num_experts // ranks, inner, hidden, device, dtype, recipe=recipe)
        self.shared_gate_up = Linear(hidden, 2 * shared, False, device, dtype) if shared else None
        self.shared_down = Linear(shared, hidden, False, device, dtype) if shared else None

    def forward(self, x: torch.Tensor) -> Mixture:
        if x.shape[-1:] != (self.hidden,):
            raise ValueError(f"MoE: x has shape {tuple(x.shape)}; give [..., {self.hidden}]")
        tokens = x.reshape(-1, self.hidden)
        routing = self.router(tokens)
        y = self.mix(tokens, routing.weights, routing.experts)
        if self.shared_gate_up is not None and self.shared_down is not None:
            y = y + self.shared_down(swiglu(self.shared_gate_up(tokens)))
        return Mixture(y.view(x.shape), routing.experts, routing.z_loss, routing.balance_loss)

    @classmethod
    def from_block(cls, block: torch.nn.Module, **options: Any) -> MoE:
        """Another layer, with copies of the weights of a block of transformers' Mixtral or Qwen3-MoE, which is known by its structure alone.

        ``block.gate.weight`` is [experts, hidden]; ``block.experts`` has gate_up_proj [experts, 2 inner, hidden] and down_proj [experts, hidden, inner],
        or is a list of layers w1, w3, w2 or gate_proj, up_proj, down_proj. The number of choices and whether weights are renormalised are ``top_k`` and
        ``norm_topk_prob`` of the block or its gate; where there is no such word, as in Mixtral, they are. ``options`` are those of ``MoE`` and win;
        with ``process_group`` each rank copies its own experts.
        ValueError for a block of another structure, with other parameters or another activation than silu.
        """
        router, gate_up, down = _weights_of(block)
        experts, hidden, inner = down.shape
        own: dict[str, Any] = {"renormalize": True, "device": down.device, "dtype": down.dtype}
        for part in (block.gate, block):
            for theirs, name in (("top_k", "top"), ("norm_topk_prob", "renormalize")):
                own[name] = getattr(part, theirs, own.get(name))
        made = cls(hidden, inner, experts, **{**own, **options})
        first = 0 if made.process_group is None else dist.get_rank(made.process_group) * made.gate_up.num_experts
        with torch.no_grad():
            made.router.weight.copy_(router)
            for layer, given in ((made.gate_up, gate_up), (made.down, down)):
                layer.weight.copy_(given[first : first + layer.num_experts])
        return made

    def mix(self, x: torch.Tensor, weights: torch.Tensor, experts: torch.Tensor) -> torch.Tensor:
        """The weighted sum of each token's experts, [tokens, hidden], of a routing that is given.

        x        [tokens, hidden]
        weights  [tokens, top], float32
        experts  [tokens, top], whole numbers, as ``expert_order`` takes them
        """
        if self.capacity_factor is not None:
            capacity = math.ceil(self.capacity_factor * experts.shape[0] * experts.shape[1] / self.num_experts)
            experts = drop_over_capacity(experts, self.num_experts, capacity)
        order = expert_order(experts, self.num_experts)
        x, factors = autocast(x), factors_of(weights, order)
        if self.process_group is None:
            return self._experts(x, factors, order)
        sent = exchange.Exchange(order.offsets, order.tokens.shape[0], self.process_group)
        own = expert_order(sent.experts, self.gate_up.num_experts)
        y = self._experts(sent.there(permute(x, order)), factors_of(sent.there(factors[:, None]), own), own)
        return unpermute(sent.back(y), order)

    def _experts(self, x: torch.Tensor, factors: torch.Tensor, order: ExpertOrder) -> torch.Tensor:
        """The sum over the experts of each row of x of what they make of it, times the factors of the sorted rows."""
        weights = (self.gate_up.weight, self.down.weight)
        if _is_its_product(self.gate_up) and _is_its_product(self.down):
            recipe, main_grads = self.gate_up._recipe_in_force(), (_main_grad(weights[0]), _main_grad(weights[1]))
            if recipe is None and self.down._recipe_in_force() is None:
                rows = gated_experts(x.contiguous(), *weights, order.offsets, factors=factors, index=order.tokens, places=order.rows, main_grads=main_grads)
                return unpermute(rows, order)
            if recipe is not None and recipe == self.down._recipe_in_force() and self._codes_both(recipe):
                codes = (factor(self.gate_up, weights[0], recipe), factor(self.down, weights[1], recipe))
                return fp8_gated_experts(x.contiguous(), *codes, order, recipe, factors=factors, main_grads=main_grads)
        if not (self.recompute and torch.is_grad_enabled()):
            return unpermute(self._down(self._gate_up(x, order), factors, order.offsets), order)
        if self.gate_up._recipe_in_force() is None:  # a product that finds its rows saves none of them
            both = self._gate_up(x, order)
        else:
            both = checkpoint(self._gate_up, x, order, use_reentrant=False, preserve_rng_state=False)
        made: torch.Tensor = checkpoint(self._down, both, factors, order.offsets, use_reentrant=False, preserve_rng_state=False)
        return unpermute(made, order)

    def _codes_both(self, recipe: Recipe) -> bool:
        """Whether both layers are one function by the recipe, which saves what the gradients of both weights read."""
        weights = (self.gate_up.weight, self.down.weight)
        plain = all(type(weight) is torch.nn.Parameter and weight.requires_grad for weight in weights)
        return plain and torch.is_grad_enabled() and not self.recompute and specs_of_each(configs_of(recipe)) is not None

    def _gate_up(self, x: torch.Tensor, order: ExpertOrder) -> torch.Tensor:
        made: torch.Tensor = self.gate_up(x, order)
        return made

    def _down(self, both: torch.Tensor, factors: torch.Tensor, offsets: torch.Tensor) -> torch.Tensor:
        if _codes_swiglu(self.down):
            return self.down._times(both, offsets, factors)
        made: torch.Tensor = self.down(swiglu(both, probs=factors), offsets)
        return made

    def extra_repr(self) -> str:
        words = f"hidden={self.hidden}, inner={self.inner}, num_experts={self.num_experts}"
        for name, plain in (("shared", 0), ("capacity_factor", None), ("recompute", False)):
            value = getattr(self, name)
            words += "" if value == plain else f", {name}={value}"
        return words if self.process_group is None else f"{words}, {self.gate_up.num_experts} of them here"


def factors_of(weights: torch.Tensor, order: ExpertOrder) -> torch.Tensor:
    """The weight of each sorted row, [tokens * top], 0 behind the last expert; gradients are gathered, and not added up."""
    flat = weights.flatten()
    count = flat.shape[0] + 1  # the last one takes choices that are none
    return flat.new_zeros(count).scatter_(0, order.rows.flatten().long().remainder_(count), flat)[:-1]


def _weights_of(block: torch.nn.Module) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Of the router, gate_up and down of a block of transformers."""
    named = {**dict(block.named_parameters()), **dict(block.named_buffers())}
    router, gate_up, down = (named.pop(name, None) for name in ("gate.weight", "experts.gate_up_proj", "experts.down_proj"))
    for gate_name, up_name, down_name in (("w1", "w3", "w2"), ("gate_proj", "up_proj", "down_proj")):
        if f"experts.0.{gate_name}.weight" in named:
            count = len(block.experts)  # type: ignore[arg-type]
            gates, ups, downs = ([named.pop(f"experts.{e}.{name}.weight") for e in range(count)] for name in (gate_name, up_name, down_name))
            gate_up, down = torch.cat([torch.stack(gates), torch.stack(ups)], 1), torch.stack(downs)
    if router is None or gate_up is None or down is None or named:
        why = f"it has {', '.join(named)} besides" if router is not None and gate_up is not None and down is not None else "it has no such weights"
        raise ValueError(f"MoE.from_block: {type(block).__name__} is no block of gate.weight and experts of gate, up and down: {why}")
    experts, hidden, inner = down.shape
    if router.shape != (experts, hidden) or gate_up.shape != (experts, 2 * inner, hidden):
        raise ValueError(
            f"MoE.from_block: the weights of gate, gate_up and down have shapes {tuple(router.shape)}, {tuple(gate_up.shape)} and {tuple(down.shape)}; "
            "give [experts, hidden], [experts, 2 inner, hidden] and [experts, hidden, inner]"
        )
    probe = torch.linspace(-4, 4, 9, device=down.device)
    for part in block.modules():
        function = getattr(part, "act_fn", None)
        if function is not None and not torch.allclose(function(probe), torch.nn.functional.silu(probe), atol=1e-3):
            raise ValueError(f"MoE.from_block: the activation of {type(part).__name__} is {function}; MoE has silu")
    return router, gate_up, down


def _at_least_one(name: str, **sizes: int) -> None:
    for size, value in sizes.items():
        if value < 1:
            raise ValueError(f"{name}: {size} is {value}; give at least 1")
