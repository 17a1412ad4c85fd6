"""Activation checkpointing (torch.utils.checkpoint): what it calls again runs by the recipe of the first time, and is counted once."""

from __future__ import annotations

import functools
import importlib
from collections.abc import Callable
from typing import Any

from .later import when_imported
from .observe import unobserved, with_the_same_answers
from .precision import as_now


def _teach() -> None:
    """Wraps the functions that torch.utils.checkpoint will call again where it holds them, as it keeps the state of torch.autocast."""
    checkpoint: Any = importlib.import_module("torch.utils.checkpoint")
    frame, reentrant = checkpoint._CheckpointFrame, checkpoint.CheckpointFunction
    make_frame, forward = frame.__init__, reentrant.forward

    @functools.wraps(make_frame)
    def keep_in_frame(self: Any, recompute_fn: Callable[..., Any], *args: Any, **kwargs: Any) -> None:
        make_frame(self, unobserved(as_now(recompute_fn)), *args, **kwargs)  # the first call, not made through it, has the backward

    @functools.wraps(forward)
    def keep_in_function(ctx: Any, run_function: Callable[..., Any], *args: Any) -> Any:
        return forward(ctx, with_the_same_answers(as_now(run_function)), *args)

    frame.__init__ = keep_in_frame
    reentrant.forward = staticmethod(keep_in_function)


when_imported("torch.utils.checkpoint", _teach)
