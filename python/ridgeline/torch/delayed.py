"""Delayed scaling: histories of largest elements in the layers' buffers, and their step."""

from __future__ import annotations

import itertools
import weakref
from collections.abc import Iterable
from typing import Any

import torch
import torch.distributed as dist
from torch.optim.optimizer import register_optimizer_step_post_hook

from ._recipe import DelayedScaling, Recipe
from .quantized import cast

BUFFER = "amax_history"  # float32 [3, history], newest first: rows of x, w and dy
NOW = "amax_now"  # float32 [3]: of the step that runs. No buffer, because DistributedDataParallel gives all ranks the first one's
X, W, DY = range(3)  # rows of both

_quantize_by = torch.ops.ridgeline.quantize_by.default


def give_history(layer: torch.nn.Module, settings: DelayedScaling) -> None:
    """What delayed scaling needs in a layer; a history of the right length goes on."""
    known = layer._buffers.get(BUFFER)
    if known is None or known.shape[1] != settings.history:
        device = next((p.device for p in layer.parameters()), None)
        layer.register_buffer(BUFFER, torch.zeros(3, settings.history, device=device))
        setattr(layer, NOW, torch.zeros(3, device=device))
    track(layer)


def take_history(layer: torch.nn.Module) -> None:
    layer._buffers.pop(BUFFER, None)
    vars(layer).pop(NOW, None)


def clear_history(layer: torch.nn.Module) -> None:
    """As before the first step."""
    history = layer._buffers.get(BUFFER)
    if history is not None:
        history.zero_()
        step_of(layer).zero_()


def kept(before: torch.Tensor, after: torch.Tensor) -> torch.Tensor:
    """The history ``before`` where ``after`` is, which a module's own way to move or cast made of it: in float32, and never uninitialised.

    One on the device "meta" has no elements to take along and becomes 0.
    """
    if before.is_meta and not after.is_meta:
        return torch.zeros(before.shape, device=after.device)
    return before.to(after.device)


def step_of(layer: torch.nn.Module) -> torch.Tensor:
    """Where the step that runs is collected, on the device of the history."""
    now: torch.Tensor = getattr(layer, NOW)
    history = layer._buffers[BUFFER]
    if history is not None and now.device != history.device:  # the layer was moved, which takes buffers along
        now = torch.zeros(3, device=history.device)
        setattr(layer, NOW, now)
    return now


@torch.no_grad()
def largest(x: torch.Tensor) -> torch.Tensor:
    """The largest magnitude of x as float32 []; 0 if x is empty or has an infinity or NaN."""
    if x.numel() == 0:
        return torch.zeros((), device=x.device)
    if type(x) in (torch.Tensor, torch.nn.Parameter):
        low, high = torch.aminmax(x)  # one pass
        found = torch.maximum(-low, high).float()
    else:
        found = x.abs().amax().float()
        found = getattr(found, "full_tensor", lambda: found)()  # of a DTensor: that of all its shards
    return torch.where(found.isfinite(), found, 0)


def _local(history: torch.Tensor) -> torch.Tensor:
    """The memory of a history, which a tensor-parallel plan makes a DTensor that every rank has."""
    local: torch.Tensor = getattr(history, "to_local", lambda: history)()
    return local


def past(history: torch.Tensor, settings: DelayedScaling) -> torch.Tensor:
    """Of x, w and dy [3], what their scales are made of; 0 where the history is empty."""
    with torch.no_grad():
        history = _local(history)
        if settings.algorithm == "latest":
            return history[:, 0] * 2.0**settings.margin
        most = history.amax(1)
        return most * 2.0**settings.margin if settings.margin else most


def record(x: torch.Tensor, now: torch.Tensor | None) -> None:
    """The largest magnitude of x into ``now``, by maximum: a second call, by activation checkpointing, changes nothing."""
    if now is not None:
        with torch.no_grad():
            now.copy_(torch.maximum(now, largest(x)))


def _by_one_operator(x: torch.Tensor) -> bool:
    """Whether one operator does it: it has no rule for DTensors."""
    return type(x) in (torch.Tensor, torch.nn.Parameter)


def codes(
    x: torch.Tensor, amax: torch.Tensor, now: torch.Tensor | None, dtype: torch.dtype, rule: str, row: bool, column: bool
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """What the operator ``quantize`` gives, with the scale of ``amax``, or of x itself where that is 0; finite elements beyond are clipped,
    NaN and Inf stay. The largest magnitude of x goes into ``now``, as by ``record``.
    """
    if _by_one_operator(x):
        made: tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor] = _quantize_by(x, amax, now, dtype, rule, row, column)
        return made
    record(x, now)
    amax = torch.where(amax > 0, amax, largest(x))
    scale = torch.ops.ridgeline.quantize(amax.reshape(1, 1), dtype, "tensor", rule)[1]
    q = cast(x, x.float() * scale.reciprocal(), dtype)
    none = x.new_empty(0, dtype=dtype), x.new_empty(0, dtype=torch.float32)
    along, scale_along = (q, scale) if row else none
    across, scale_across = (q.view(torch.uint8).t().contiguous().view(dtype), scale) if column else none
    return along, scale_along, across, scale_across


# Layers with a history, and the order in which they got it; weakly, and beside the layers, so that copies and files take nothing along.
_layers: weakref.WeakKeyDictionary[torch.nn.Module, int] = weakref.WeakKeyDictionary()
_serial = itertools.count()
_hook: Any = None


def track(layer: torch.nn.Module) -> None:
    """A step of an optimiser that has a parameter of ``layer`` is from now on one of its history."""
    global _hook
    if _hook is None:
        _hook = register_optimizer_step_post_hook(_after_step)
    if layer not in _layers:
        _layers[layer] = next(_serial)


def _after_step(optimizer: torch.optim.Optimizer, *_: Any) -> None:
    """In the order of the optimiser's parameters, and of layers with equal ones in that of their making: both are those of all ranks."""
    if not _layers:
        return
    places: dict[int, int] = {}
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            places.setdefault(id(parameter), len(places))
    found: list[tuple[tuple[int, ...], int, torch.nn.Module]] = []
    for layer, serial in _layers.items():
        at = tuple(sorted(places[id(p)] for p in layer.parameters(recurse=True) if id(p) in places))
        if at:
            found.append((at, serial, layer))
    _step([layer for *_, layer in sorted(found, key=lambda one: one[:2])])


def _settings(layer: torch.nn.Module) -> DelayedScaling | None:
    config = getattr(layer, "config", None)
    return config.delayed if isinstance(config, Recipe) else None


@torch.no_grad()
def _step(layers: Iterable[torch.nn.Module]) -> None:
    """Maxima over ranks, by one reduction for all layers of a device, then each history moves on by one."""
    kinds: dict[tuple[torch.device, bool], list[torch.nn.Module]] = {}
    seen: set[int] = set()  # layers made by from_float share a history, which has one step
    for layer in layers:
        settings = _settings(layer)
        if settings is not None and id(layer._buffers[BUFFER]) not in seen:
            seen.add(id(layer._buffers[BUFFER]))
            kinds.setdefault((step_of(layer).device, settings.reduce), []).append(layer)
    for (_, reduce), alike in kinds.items():
        found = torch.stack([step_of(layer) for layer in alike])
        if reduce and dist.is_available() and dist.is_initialized() and dist.get_world_size() > 1:
            dist.all_reduce(found, dist.ReduceOp.MAX)
        for layer, newest in zip(alike, found.unsqueeze(2)):
            history = _local(getattr(layer, BUFFER))
            history.copy_(torch.where(newest > 0, torch.cat([newest, history[:, :-1]], 1), history))
            step_of(layer).zero_()


def update_scales(module: torch.nn.Module) -> int:
    """Ends a step of every history in ``module``; how many layers have one.

    For layers whose parameters are in no torch.optim.Optimizer (frozen ones, an optimiser of one's own), and after a compiled
    optimiser's step. Reduced over the ranks where torch.distributed is initialised: call it on all of them.
    """
    layers = [layer for layer in module.modules() if _settings(layer) is not None]
    _step(layers)
    return len(layers)
