"""Which recipe is in force: ``autocast_fp8``, in forward calls and where activation checkpointing makes them again."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any

import torch

from ._recipe import Config, RecipeLike, as_config, delayed_of


class _State(threading.local):
    """Of each thread, as torch.autocast."""

    def __init__(self) -> None:
        self.on = True
        self.chosen: tuple[Config, ...] = ()  # none: the layer's own
        self.before: list[tuple[bool, tuple[Config, ...]]] = []  # of each block, which may be one object in several threads


_state = _State()


def in_force(own: Config | None) -> Config | None:
    """The recipe by which a layer runs now whose own is ``own``; None is high precision."""
    if not _state.on:
        return None
    return _state.chosen[0] if _state.chosen else own


class autocast_fp8(contextlib.ContextDecorator):
    """Inside, layers run by another recipe than their own.

    enabled=False     ``Fp8Linear`` multiplies in high precision, as ``Linear`` does
    recipe            the recipe of every ``Linear`` and ``Fp8Linear``: a Recipe, a QuantConfig or a name
    recipe=None       each layer's own again, also inside a block with another

    Blocks nest, and the innermost decides; a block is a decorator, too. As torch.autocast it holds for the thread, and for forward calls:
    backward multiplies as the forward call did, wherever it runs, and activation checkpointing (torch.utils.checkpoint, reentrant or not)
    makes a forward call again by the recipes of the first time. It composes with torch.autocast, which says the dtype that is quantised
    from and of results. Functions (``gemm_fp8``) do as they are told. Layers whose weights are kept as codes (``quantize_``) keep their
    recipe, and in high precision multiply by what the codes stand for. ValueError for a recipe that is unknown or delayed, because a
    history has its place in a layer: ``convert(model, "delayed")``; and for ``enabled=False`` with a recipe.

    Cost: two attributes of a thread's state in a layer's call.
    """

    def __init__(self, enabled: bool = True, recipe: RecipeLike = None) -> None:
        config = as_config(recipe)
        if recipe is not None and not enabled:
            raise ValueError("autocast_fp8: enabled=False and a recipe; leave one of them out")
        if recipe is not None and config is None:
            enabled = False  # "high_precision"
        if delayed_of(config) is not None:
            raise ValueError(
                'autocast_fp8: a recipe with delayed scaling has a history in each layer; call convert(model, "delayed") and leave recipe out'
            )
        self._on, self._chosen = enabled, (() if config is None else (config,))

    def __enter__(self) -> None:
        _state.before.append((_state.on, _state.chosen))
        _state.on, _state.chosen = self._on, self._chosen

    def __exit__(self, *_: object) -> None:
        _state.on, _state.chosen = _state.before.pop()


def as_now(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` with the recipes that are in force now, whenever it is called."""
    on, chosen = _state.on, _state.chosen

    def call(*args: Any, **kwargs: Any) -> Any:
        before = _state.on, _state.chosen
        _state.on, _state.chosen = on, chosen
        try:
            return function(*args, **kwargs)
        finally:
            _state.on, _state.chosen = before

    return call
