"""Which implementation of an operator runs, and why."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import torch


def backends(op: str) -> list[str]:
    """The implementations of an operator ("gemm", "gemm_fp8", "quantize", "dequantize", "rmsnorm", "activation"), best first."""
    return list(torch.ops.ridgeline.implementations(op))


def set_backend(op: str, implementation: str | None) -> None:
    """Every later call of ``op`` runs ``implementation``, or raises if that cannot run it; None: the normal order again.

    A name of ``backends(op)``, also with a configuration ("cuda_wgmma/pp_128x192"), or names by the case's dtype as in
    RIDGE_GEMM_BACKEND: "bf16:cpu_simd,other:cpu_onednn" (what is not named is as before), or "autotune": new cases are measured.
    Every name is looked up now; a ValueError lists those there are.

    >>> set_backend("gemm", "bf16:cpu_simd,other:cpu_blis")
    """
    if implementation is None:
        torch.ops.ridgeline.unforce(op)
    else:
        torch.ops.ridgeline.force(op, implementation)


def reset(*, tuned_tables: bool = False) -> None:
    """Dispatch as when the process began: no ``set_backend`` holds, ``autotune`` is off, what this process measured is forgotten,
    and environment variables (RIDGE_GEMM_BACKEND, RIDGE_AUTOTUNE) and tuned tables are read again.

    tuned_tables  also removes the tables that autotune and ``ridge tune`` kept in the cache folder, of all devices and for all
                  processes, as ``ridge tune --forget`` does
    """
    torch.ops.ridgeline.reset(tuned_tables)


def last_used(op: str) -> str:
    """The implementation that ran in this thread's last call of ``op``; empty before the first, ValueError for an unknown ``op``."""
    name: str = torch.ops.ridgeline.last_used(op)
    return name


_DTYPES = {
    torch.float32: "f32",
    torch.bfloat16: "bf16",
    torch.float16: "f16",
    torch.float8_e4m3fn: "e4m3fn",
    torch.float8_e5m2: "e5m2",
    torch.float8_e8m0fnu: "e8m0",
}


def _word(name: str, value: object) -> str:
    """A value as a case spells it."""
    if isinstance(value, torch.dtype) and value not in _DTYPES:
        raise ValueError(f"explain: {name}={value}, which no operator takes; use one of {', '.join(map(str, _DTYPES))}")
    if isinstance(value, tuple):  # one dtype for each factor
        return "_".join(dict.fromkeys(_word(name, one) for one in value))
    return _DTYPES[value] if isinstance(value, torch.dtype) else str(int(value) if isinstance(value, bool) else value)


def explain(case: str, device: str | torch.device = "cpu", **parameters: object) -> str:
    """Which implementation runs a case, and why each other one does not.

    >>> explain("gemm", m=4096, n=4096, k=4096, dtype=torch.bfloat16, layout="nt")     # or one string, as `ridge ops explain`
    >>> explain("gemm_fp8", dtype=(torch.float8_e5m2, torch.float8_e4m3fn), out=torch.bfloat16, accumulate=False)
    """
    words = [case, *(f"{name}={_word(name, value)}" for name, value in parameters.items())]
    text: str = torch.ops.ridgeline.explain(" ".join(words), torch.device(device))
    return text


def set_sm_budget(multiprocessors: int | None) -> None:
    """How many multiprocessors of a GPU later calls of this process count on, for work beside communication.

    multiprocessors  at most so many; less than 0: leave so many to others; None or 0: all, or those that PyTorch's own carve-out
                     (``torch._C._set_sm_carveout_experimental``) leaves

    Kernels that stay on their multiprocessors take one block of work after the other; where another kernel holds some, those that
    were counted on and are not there cost a whole turn. cuBLASLt is told the same. A call that a graph or ``torch.compile``
    recorded keeps the budget it was recorded with.

    >>> set_sm_budget(-16)      # NCCL runs with 16 channels beside the next layer
    """
    torch.ops.ridgeline.set_sm_budget(0 if multiprocessors is None else multiprocessors)


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
