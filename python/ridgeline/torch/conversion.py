"""One call for everything that the library has: ``convert``; and weights that are kept as codes: ``quantize_``."""

from __future__ import annotations

import fnmatch
import functools
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Union

import torch
from torch.nn.utils import parametrize

from ._recipe import Recipe, RecipeLike, as_config
from .config import QuantConfig
from .modules import Fp8Linear
from .quantized import QuantizedTensor, quantize
from .swap import (
    COUNTERPARTS,
    Choice,
    Keep,
    Plan,
    SwapReport,
    Target,
    calls_attention,
    kept_because,
    plan_attention,
    plan_counterparts,
    plan_linears,
    target_of,
    unless_kept,
)

LEAVE = "leave"  # beside the names of recipes: the module stays what it is
PerModule = Callable[[str, torch.nn.Module], RecipeLike]
Recipes = Union[RecipeLike, Mapping[str, RecipeLike], PerModule]


def _chooser(recipe: Recipes, keep: Keep | None) -> Choice:
    """What a module becomes by its name; of modules without 8-bit floats any recipe means that they are exchanged."""
    targets: dict[str, Target | str] = {}
    if isinstance(recipe, Mapping):
        targets = {pattern: LEAVE if each == LEAVE else target_of(each) for pattern, each in recipe.items()}
    elif not callable(recipe):
        return unless_kept(target_of(recipe), keep)

    def choose(name: str, module: torch.nn.Module) -> Target | str:
        kept = kept_because(keep, name, module)
        if kept is not None:
            return kept
        if not isinstance(recipe, Mapping):
            assert callable(recipe)
            made = recipe(name, module)
            return "the function says so" if made == LEAVE else target_of(made)
        for pattern, target in targets.items():
            if fnmatch.fnmatchcase(name, pattern):
                return f"the recipe for {pattern!r}" if isinstance(target, str) else target
        return f"no pattern fits: {', '.join(map(repr, targets))}"

    return choose


def _check_patterns(module: torch.nn.Module, patterns: Mapping[str, RecipeLike]) -> None:
    """A pattern that fits no module is a typing error, which would leave modules as they are without a word."""
    modules = module.named_modules(remove_duplicate=False)
    names = [name for name, layer in modules if isinstance(layer, tuple(_KINDS)) or calls_attention(layer)]
    for pattern in patterns:
        if not any(fnmatch.fnmatchcase(name, pattern) for name in names):
            some = ", ".join(map(repr, names[:20])) + (f" and {len(names) - 20} more" if len(names) > 20 else "")
            raise ValueError(f"convert: the pattern {pattern!r} fits nothing that is exchanged; there are {some or 'no such modules'}")


def _why_not(recipe: Recipes, keep: Keep | None) -> Callable[[str, torch.nn.Module], str | None]:
    """Of modules that any recipe exchanges."""
    choose = _chooser(recipe, keep) if isinstance(recipe, Mapping) or callable(recipe) else None

    def why_not(name: str, layer: torch.nn.Module) -> str | None:
        if choose is None:
            return kept_because(keep, name, layer)
        answer = choose(name, layer)
        return answer if isinstance(answer, str) else None

    return why_not


def _plan_counterparts(kind: type[torch.nn.Module], plan: Plan, module: torch.nn.Module, recipe: Recipes, keep: Keep | None) -> None:
    plan_counterparts(plan, module, _why_not(recipe, keep), kind, to_ours=True)


# The kinds of modules that the library has a counterpart of, each with what plans their exchange: one row for each.
_KINDS: dict[type[torch.nn.Module], Callable[[Plan, torch.nn.Module, Recipes, Keep | None], None]] = {
    torch.nn.Linear: lambda plan, module, recipe, keep: plan_linears(plan, module, _chooser(recipe, keep)),
    **{kind: functools.partial(_plan_counterparts, kind) for kind in COUNTERPARTS},
}


def convert(module: torch.nn.Module, recipe: Recipes = "tensorwise", *, keep: Keep | None = None) -> SwapReport:
    """Exchanges everything in ``module`` that the library has, in place, and says what became of each module, by its name.

    recipe  one for all: a Recipe, a QuantConfig, a name (``recipes()`` lists them), None or "high_precision" for our products without
            8-bit floats
            {pattern: recipe}: of each module the first pattern that fits its name, as in a shell ("blocks.*.mlp.*", "*"); a module that
            none fits is left, and a pattern that fits none is a ValueError with the names there are
            function(name, module): the recipe
            "leave" in place of a recipe, in the last two: the module stays what it is
    keep    ``keep(name, module)``: the module stays what it is

    These are torch.nn.Linear, which become Linear or Fp8Linear (``swap_linears`` says what stays and what is refused), torch.nn.RMSNorm,
    LayerNorm and CrossEntropyLoss, which become ours by any recipe, and modules with a method that names
    torch.nn.functional.scaled_dot_product_attention, whose ``forward`` calls ``sdpa`` in its place (helpers outside of the class are seen in
    the call; ``use_sdpa`` says what a call left with torch); ``keep`` and functions are asked for all of them. A
    loss with class weights is left; one that is called with class probabilities is a case for ``keep``, because only the call shows them,
    and raises NotImplementedError. A second call gives layers of ours the new recipe, and ``unswap`` ends it. Nothing is changed where an
    error is raised.
    """
    if isinstance(recipe, Mapping):
        _check_patterns(module, recipe)
    plan = Plan()
    for plan_kind in _KINDS.values():
        plan_kind(plan, module, recipe, keep)
    plan_attention(plan, module, _why_not(recipe, keep), to_ours=True)
    return plan.carry_out()


def _weight_config(recipe: RecipeLike) -> QuantConfig:
    config = as_config(recipe)
    if isinstance(config, Recipe):
        if config.delayed is not None:
            raise ValueError("quantize_: delayed scaling is for training; give a recipe whose scales are current")
        config = config.y
    if config is None:
        raise ValueError(f"quantize_: {recipe!r} has no forward product of 8-bit floats; give a QuantConfig, or a recipe that has one")
    return config


def quantize_(
    module: torch.nn.Module, recipe: RecipeLike = "rowwise", *, keep: Keep | None = None, transpose: bool = False
) -> SwapReport:
    """Linear layers of ``module`` become Fp8Linear whose weights are kept as codes with scales, in place: for inference.

    recipe     a QuantConfig, a name or a Recipe, of which the forward product is taken; inputs are quantised in each call
    keep       keep(name, layer): the layer stays what it is
    transpose  also keeps codes of the transpose, for gradients of the input (adapters beside frozen layers)

    A weight [n, k] takes n k bytes and its scales instead of 2 n k (bfloat16), twice that with ``transpose``; results are those of an
    Fp8Linear with the weight itself. The codes are a parameter ``weight`` (a QuantizedTensor) without a gradient. State dicts hold it
    and load into a model that ``quantize_`` was called for with the same recipe, by ``assign=True`` also into one on the device "meta";
    ``to_plain_tensors`` makes them ready for safetensors. Layers that share a weight go on sharing it; an embedding that shares it
    keeps its own. ValueError, and nothing changed, for a recipe that has no such product; layers whose weight is computed
    (parametrisations, weight_norm) are left with that reason.
    """
    config = _weight_config(recipe)
    target = Target(Fp8Linear, config)

    def choose(name: str, layer: torch.nn.Linear) -> Target | str:
        if parametrize.is_parametrized(layer, "weight") or "weight" not in layer._parameters:
            return "its weight is computed in each call; remove what computes it first (parametrize.remove_parametrizations)"
        return unless_kept(target, keep)(name, layer)

    plan = Plan()
    plan_linears(plan, module, choose)
    report = plan.carry_out()
    made: dict[int, tuple[torch.nn.Parameter, torch.nn.Parameter]] = {}
    for name in report.swapped:
        layer = module.get_submodule(name)
        weight = layer._parameters["weight"]
        if weight is None or isinstance(weight, QuantizedTensor):
            continue
        if id(weight) not in made:
            nearest = replace(config, rounding="nearest")  # gradients alone are rounded at random
            codes = quantize(weight.detach(), nearest, weight=True, transpose=transpose)
            made[id(weight)] = weight, torch.nn.Parameter(codes, requires_grad=False)
        layer._parameters["weight"] = made[id(weight)][1]
    return report
