"""Exchanging the linear layers of a model, in place."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable, TypeVar, Union

import torch
from torch.nn.utils import parametrize

from ._recipe import Config, RecipeLike, as_config, describe
from .delayed import BUFFER, NOW
from .losses import CrossEntropyLoss
from .modules import Fp8Linear, LayerNorm, Linear, RMSNorm, become, configure
from .quantized import QuantizedTensor
from .sdpa import Exchanged, calls_sdpa, exchanged

Keep = Callable[[str, Any], bool]
Kind = TypeVar("Kind", bound=torch.nn.Module)


@dataclass(frozen=True)
class SwapReport:
    """What became of each module of a model that the library has a counterpart of, by its name; one with two names is there twice.

    swapped  of linear layers the recipe: "gemm", or "gemm_fp8" with format and granularity, or each product's; of other modules the
             operator; "torch" after ``unswap``
    left     why it is as it was
    """

    swapped: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name or '(the model)'}: {recipe}" for name, recipe in self.swapped.items()]
        lines += [f"{name or '(the model)'}: left: {reason}" for name, reason in self.left.items()]
        return "\n".join(lines) or "nothing to exchange"


def _all_of(module: torch.nn.Module, kind: type[Kind]) -> Iterator[tuple[list[str], Kind]]:
    """Every module of a kind, with all its names."""
    names: dict[Kind, list[str]] = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        if isinstance(layer, kind):
            names.setdefault(layer, []).append(name)
    for layer, its_names in names.items():
        yield its_names, layer


@dataclass(frozen=True)
class Target:
    """What a layer becomes."""

    kind: type[torch.nn.Linear]
    config: Config | None = None

    def __str__(self) -> str:
        return "torch" if self.kind is torch.nn.Linear else describe(self.config)


# What becomes of a layer of that name: a target, or why it is left.
Choice = Callable[[str, Any], Union[Target, str]]
_KINDS = (torch.nn.Linear, Linear, Fp8Linear)
_TORCH = Target(torch.nn.Linear)


def target_of(recipe: RecipeLike) -> Target:
    config = as_config(recipe)
    return Target(Linear) if config is None else Target(Fp8Linear, config)


def _reason_to_leave(layer: torch.nn.Linear, target: Target) -> str | None:
    kind = parametrize.type_before_parametrizations(layer)
    if kind not in _KINDS:
        return f"{kind.__module__}.{kind.__qualname__} has code of its own"
    if target.kind is torch.nn.Linear and kind is torch.nn.Linear:
        return "is a torch.nn.Linear"
    if isinstance(layer._parameters.get("weight"), QuantizedTensor):
        return "its weight is kept as codes, which quantize_ made for its recipe"
    original = next(layer.parameters(), None)
    if target.config is not None and original is not None and original.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its parameters are {original.dtype}, and 8-bit floats are made of float32, bfloat16 and float16"
    return None


def _check_can_be_kept(name: str, layer: torch.nn.Linear, target: Target) -> None:
    if target.kind is torch.nn.Linear:  # whose own forward is torch's
        return
    if "forward" in vars(layer):
        raise ValueError(
            f"swap_linears: {name or 'the layer'} has a forward of its own, set on the layer, which would go on running torch's "
            "product; remove it first, or leave the layer alone with keep="
        )
    if target.config is None or isinstance(layer, Fp8Linear):
        return
    for attribute in ("config", BUFFER, NOW):
        if attribute in vars(layer) or attribute in layer._buffers:
            raise ValueError(
                f"swap_linears: {name or 'the layer'} has an attribute {attribute!r} of its own, which an Fp8Linear needs; rename it, or "
                "leave the layer alone with keep="
            )


def _chosen(names: list[str], layer: torch.nn.Linear, choose: Choice) -> Target | str:
    """One answer for all names of a layer: to leave it, if that is one of them."""
    answers = [choose(name, layer) for name in names]
    for answer in answers:
        if isinstance(answer, str):
            return answer
    if any(answer != answers[0] for answer in answers):
        raise ValueError(
            f"convert: {' and '.join(names)} are one layer, and its names have different recipes: "
            f"{' and '.join(str(answer) for answer in answers)}; give them one"
        )
    return answers[0]


class Plan:
    """What is going to be exchanged: after all checks of all modules, so that a model is not left half exchanged."""

    def __init__(self) -> None:
        self.report = SwapReport()
        self._steps: list[Callable[[], object]] = []

    def add(self, names: list[str], recipe: str, step: Callable[[], object]) -> None:
        self.report.swapped.update(dict.fromkeys(names, recipe))
        self._steps.append(step)

    def leave(self, names: list[str], reason: str) -> None:
        self.report.left.update(dict.fromkeys(names, reason))

    def carry_out(self) -> SwapReport:
        for step in self._steps:
            step()
        return self.report


def _become_linear(layer: torch.nn.Linear, target: Target) -> None:
    changed = become(layer, target.kind)
    if isinstance(changed, Fp8Linear) and target.config is not None:
        configure(changed, target.config)


def plan_linears(plan: Plan, module: torch.nn.Module, choose: Choice) -> None:
    """Every linear layer becomes what ``choose`` says; ValueError for one that cannot."""
    for names, layer in _all_of(module, torch.nn.Linear):
        answer = _chosen(names, layer, choose)
        reason = answer if isinstance(answer, str) else _reason_to_leave(layer, answer)
        if isinstance(answer, str) or reason is not None:
            plan.leave(names, str(reason))
            continue
        _check_can_be_kept(names[0], layer, answer)
        plan.add(names, str(answer), functools.partial(_become_linear, layer, answer))


def _why_no_loss(loss: torch.nn.CrossEntropyLoss) -> str | None:
    return "has class weights, which ridgeline.torch.CrossEntropyLoss has not" if loss.weight is not None else None


def _why_no_loss_of_torch(loss: CrossEntropyLoss) -> str | None:
    extra = [name for name in ("z_loss", "soft_cap") if getattr(loss, name)]
    return f"has {' and '.join(extra)}, which torch.nn.CrossEntropyLoss has not" if extra else None


def _why_no_norm_of_torch(norm: RMSNorm | LayerNorm) -> str | None:
    return f"zero_centred, which torch.nn.{type(norm).__name__} has not" if norm.zero_centred else None


@dataclass(frozen=True)
class Counterpart:
    """What a module of torch's becomes by any recipe, as it has no products: its class, what a report says, why it cannot be exchanged."""

    ours: type[torch.nn.Module]
    report: str
    why_not: Callable[[Any], str | None] = lambda module: None
    why_not_back: Callable[[Any], str | None] = lambda module: None


COUNTERPARTS: dict[type[torch.nn.Module], Counterpart] = {
    torch.nn.RMSNorm: Counterpart(RMSNorm, "rmsnorm", why_not_back=_why_no_norm_of_torch),
    torch.nn.LayerNorm: Counterpart(LayerNorm, "layernorm", why_not_back=_why_no_norm_of_torch),
    torch.nn.CrossEntropyLoss: Counterpart(CrossEntropyLoss, "cross_entropy of class indices", _why_no_loss, _why_no_loss_of_torch),
}


def plan_counterparts(
    plan: Plan, module: torch.nn.Module, choose: Callable[[str, torch.nn.Module], str | None], theirs: type[torch.nn.Module], to_ours: bool
) -> None:
    """Every module of a kind of torch's becomes ours, or with ``to_ours`` false torch's again, unless ``choose`` says why not."""
    made = COUNTERPARTS[theirs]
    for names, layer in _all_of(module, theirs):
        now = parametrize.type_before_parametrizations(layer)
        reason = next(filter(None, (choose(name, layer) for name in names)), None)
        if now not in (theirs, made.ours):
            reason = f"{now.__module__}.{now.__qualname__} has code of its own"
        elif not to_ours and now is theirs:
            reason = f"is a torch.nn.{theirs.__name__}"
        elif to_ours and "forward" in vars(layer):
            reason = "has a forward of its own, set on the layer"
        else:
            reason = reason or (made.why_not if to_ours else made.why_not_back)(layer)
        if reason is not None:
            plan.leave(names, reason)
        else:
            plan.add(names, made.report if to_ours else "torch", functools.partial(become, layer, made.ours if to_ours else theirs))


def calls_attention(layer: torch.nn.Module) -> bool:
    """Whether a method of the module's class names torch.nn.functional.scaled_dot_product_attention."""
    return calls_sdpa(type(layer))


def _exchange_class(layer: torch.nn.Module, kind: type[torch.nn.Module]) -> None:
    layer.__class__ = kind


def plan_attention(plan: Plan, module: torch.nn.Module, choose: Callable[[str, torch.nn.Module], str | None], to_ours: bool) -> None:
    """Every module that calls torch's attention calls ``sdpa`` in its place, or with ``to_ours`` false torch's again, unless ``choose`` says
    why not."""
    for names, layer in _all_of(module, torch.nn.Module):
        if not calls_attention(layer):
            continue
        now = type(layer)
        reason = next(filter(None, (choose(name, layer) for name in names)), None)
        if not to_ours and not issubclass(now, Exchanged):
            reason = "calls torch's attention"
        elif to_ours and "forward" in vars(layer):
            reason = "has a forward of its own, set on the layer"
        elif parametrize.is_parametrized(layer):
            reason = "has a class that PyTorch made for its parametrisations; use_sdpa() around its calls does the same"
        if reason is not None:
            plan.leave(names, reason)
        elif to_ours:
            kind = now if issubclass(now, Exchanged) else exchanged(now)
            plan.add(names, "sdpa in place of torch's attention", functools.partial(_exchange_class, layer, kind))
        elif issubclass(now, Exchanged):
            plan.add(names, "torch", functools.partial(_exchange_class, layer, now.original))


def unless_kept(target: Target, keep: Keep | None) -> Choice:
    """``target`` for all layers but those for which ``keep`` is true, and those that can become none."""

    def choose(name: str, layer: torch.nn.Linear) -> Target | str:
        reason = _reason_to_leave(layer, target)
        return reason or kept_because(keep, name, layer) or target

    return choose


def swap_linears(module: torch.nn.Module, config: RecipeLike = None, keep: Keep | None = None) -> SwapReport:
    """Every torch.nn.Linear in ``module``, or ``module`` itself, becomes a Linear, or with ``config`` an Fp8Linear.

    In place, and the layer stays the same object: parameters, buffers, hooks, weight_norm, spectral_norm, pruning,
    parametrisations and attributes stay, and a layer with two names stays one. A Linear or Fp8Linear of ours gets the new
    recipe. ``config`` is a QuantConfig, a Recipe or the name of one. ``keep(name, layer)`` leaves those alone for which it is true:
    output heads, say; of a layer with several names it is asked for each. Classes derived from torch.nn.Linear are left alone, and
    layers whose weights are kept as codes. ValueError with the layer's name, and nothing changed, for a layer that cannot be
    exchanged and kept whole: one with a ``forward`` set on it.
    """
    plan = Plan()
    plan_linears(plan, module, unless_kept(target_of(config), keep))
    return plan.carry_out()


def kept_because(keep: Keep | None, name: str, layer: torch.nn.Module) -> str | None:
    return "keep() is true" if keep is not None and keep(name, layer) else None


def unswap(module: torch.nn.Module, keep: Keep | None = None) -> SwapReport:
    """Every module that ``convert`` made ours in ``module``, or ``module`` itself, becomes torch.nn's again, as whole as before.

    Left are layers whose weights are kept as codes, norms with ``zero_centred``, losses with ``z_loss`` or ``soft_cap``, and those for
    which ``keep(name, layer)`` is true.
    """
    plan = Plan()
    plan_linears(plan, module, unless_kept(_TORCH, keep))
    for kind in COUNTERPARTS:
        plan_counterparts(plan, module, functools.partial(kept_because, keep), kind, to_ours=False)
    plan_attention(plan, module, functools.partial(kept_because, keep), to_ours=False)
    return plan.carry_out()
