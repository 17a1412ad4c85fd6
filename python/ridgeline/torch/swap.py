"""Exchanging the linear layers of a model, in place."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, Callable

import torch
from torch.nn.utils import parametrize

from .config import QuantConfig
from .modules import Fp8Linear, Linear, become

Keep = Callable[[str, torch.nn.Linear], bool]


@dataclass(frozen=True)
class SwapReport:
    """What became of each torch.nn.Linear of a model, by its name; one with two names is there twice.

    swapped  the recipe: "gemm", or "gemm_fp8" with format and granularity; "torch" after ``unswap``
    left     why it is as it was
    """

    swapped: dict[str, str] = field(default_factory=dict)
    left: dict[str, str] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [f"{name or '(the model)'}: {recipe}" for name, recipe in self.swapped.items()]
        lines += [f"{name or '(the model)'}: left: {reason}" for name, reason in self.left.items()]
        return "\n".join(lines) or "no torch.nn.Linear"


def _linears(module: torch.nn.Module) -> Iterator[tuple[list[str], torch.nn.Linear]]:
    names: dict[torch.nn.Linear, list[str]] = {}
    for name, layer in module.named_modules(remove_duplicate=False):
        if isinstance(layer, torch.nn.Linear):
            names.setdefault(layer, []).append(name)
    for layer, its_names in names.items():
        yield its_names, layer


def _reason_to_leave(layer: torch.nn.Linear, kinds: tuple[type, ...], config: QuantConfig | None) -> str | None:
    kind = parametrize.type_before_parametrizations(layer)
    if kind not in kinds:
        return f"{kind.__module__}.{kind.__qualname__} has code of its own"
    original = next(layer.parameters(), None)
    if config is not None and original is not None and original.dtype not in (torch.float32, torch.bfloat16, torch.float16):
        return f"its parameters are {original.dtype}, and 8-bit floats are made of float32, bfloat16 and float16"
    return None


def _check_can_be_kept(name: str, layer: torch.nn.Linear, config: QuantConfig | None, ours: bool) -> None:
    if "forward" in vars(layer):
        raise ValueError(
            f"swap_linears: {name or 'the layer'} has a forward of its own, set on the layer, which would go on running torch's "
            "product; remove it first, or leave the layer alone with keep="
        )
    if config is not None and not ours and "config" in vars(layer):
        raise ValueError(
            f"swap_linears: {name or 'the layer'} has an attribute 'config' of its own, which an Fp8Linear needs; rename it, or "
            "leave the layer alone with keep="
        )


def _exchange(
    module: torch.nn.Module, kind: type[torch.nn.Linear], config: QuantConfig | None, keep: Keep | None, recipe: str
) -> SwapReport:
    report, chosen = SwapReport(), []
    for names, layer in _linears(module):
        reason = _reason_to_leave(layer, (torch.nn.Linear, Linear, Fp8Linear), config)
        if reason is None and kind is torch.nn.Linear and parametrize.type_before_parametrizations(layer) is torch.nn.Linear:
            reason = "is a torch.nn.Linear"
        if reason is None and keep is not None and any([keep(name, layer) for name in names]):
            reason = "keep() is true"
        if reason is None:
            if kind is not torch.nn.Linear:  # whose own forward is torch's
                _check_can_be_kept(names[0], layer, config, isinstance(layer, Fp8Linear))
            chosen.append(layer)
        for name in names:
            (report.swapped if reason is None else report.left)[name] = recipe if reason is None else reason
    for layer in chosen:  # after all checks: a model is not left half exchanged
        changed: Any = become(layer, kind)
        if config is not None:
            changed.config = config
    return report


def swap_linears(module: torch.nn.Module, config: QuantConfig | None = None, keep: Keep | None = None) -> SwapReport:
    """Every torch.nn.Linear in ``module``, or ``module`` itself, becomes a Linear, or with ``config`` an Fp8Linear.

    In place, and the layer stays the same object: parameters, buffers, hooks, weight_norm, spectral_norm, pruning,
    parametrisations and attributes stay, and a layer with two names stays one. A Linear or Fp8Linear of ours gets the new
    recipe. ``keep(name, layer)`` leaves those alone for which it is true: output heads, say; of a layer with several names it
    is asked for each. Classes derived from torch.nn.Linear are left alone. ValueError with the layer's name, and nothing
    changed, for a layer that cannot be exchanged and kept whole: one with a ``forward`` set on it.
    """
    if config is None:
        return _exchange(module, Linear, None, keep, "gemm")
    scales = f", scales {config.scale_dtype}" if config.scale_dtype is not None else ""
    rounding = ", stochastic" if config.rounding == "stochastic" else ""
    return _exchange(module, Fp8Linear, config, keep, f"gemm_fp8: {config.format}, {config.granularity}{scales}{rounding}")


def unswap(module: torch.nn.Module, keep: Keep | None = None) -> SwapReport:
    """Every Linear and Fp8Linear in ``module``, or ``module`` itself, becomes a torch.nn.Linear again, as whole as before."""
    return _exchange(module, torch.nn.Linear, None, keep, "torch")
