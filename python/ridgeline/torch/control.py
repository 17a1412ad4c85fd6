"""Which implementation of an operator runs, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def backends(op: str) -> list[str]:
    """The implementations of an operator ("gemm", "gemm_fp8", "quantize", "dequantize"), best first."""
    return list(torch.ops.ridgeline.implementations(op))


def set_backend(op: str, implementation: str | None) -> None:
    """Every later call of ``op`` runs ``implementation``, or raises if that cannot run it; None: the normal order again."""
    if implementation is None:
        torch.ops.ridgeline.unforce(op)
    else:
        torch.ops.ridgeline.force(op, implementation)


def last_used(op: str) -> str:
    """The implementation that ran in this thread's last call of ``op``; empty before the first."""
    return torch.ops.ridgeline.last_used(op)


def explain(case: str, device: str | torch.device = "cpu", **parameters: object) -> str:
    """Which implementation runs a case, and why each other one does not.

    >>> explain("gemm", m=4096, n=4096, k=4096, dtype="bf16", layout="nt")     # or one string, as `ridge ops explain`
    """
    words = [case, *(f"{name}={value}" for name, value in parameters.items())]
    return torch.ops.ridgeline.explain(" ".join(words), torch.device(device))


@contextlib.contextmanager
def autotune(enabled: bool = True) -> Iterator[None]:
    """Inside, a case that is new is measured on scratch memory before its first run, and the winner is kept.

    At most about two seconds a case; a call that a CUDA graph records is not measured. Results live in RIDGE_CACHE_DIR (default
    ~/.cache/ridge) and hold for later processes (docs/dispatch.md).
    """
    torch.ops.ridgeline.autotune(enabled)
    try:
        yield
    finally:
        torch.ops.ridgeline.autotune(False)
