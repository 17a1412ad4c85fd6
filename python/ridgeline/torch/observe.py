"""Statistics of layers while they run: what is clipped, what is flushed to 0, how much signal each product keeps."""

from __future__ import annotations

import math
import threading
import warnings
import weakref
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Union

import torch

from . import delayed
from .control import last_used
from .ops import transformed
from .products import Codes

Values = Mapping[str, Union[float, str]]
Hook = Callable[[str, str, Values], None]


@dataclass(frozen=True)
class OperandStatistics:
    """Of x, w or dy in the last call that was looked at.

    amax       the largest magnitude; 0 where there is an infinity or NaN, or nothing
    saturated  share of elements beyond the largest value of the format by more than half a step: clipped, not rounded
    flushed    share of elements that are not 0 and whose code is
    """

    amax: float
    saturated: float = 0.0
    flushed: float = 0.0


@dataclass
class LayerStatistics:
    """Of one layer: operands "x", "w", "dy", and products "y", "dx", "dw" that were made of 8-bit floats.

    snr_db   10 log10(sum exact^2 / sum (made - exact)^2) of sampled rows; exact are products of the unquantised operands in float32
    kernels  the implementation that ran
    calls    forward calls that were looked at
    """

    operands: dict[str, OperandStatistics] = field(default_factory=dict)
    snr_db: dict[str, float] = field(default_factory=dict)
    kernels: dict[str, str] = field(default_factory=dict)
    calls: int = 0

    def values(self) -> dict[str, float | str]:
        """Flat, for loggers: "x.amax", "x.saturated", "x.flushed", "y.snr_db", "y.kernel" and so on."""
        flat: dict[str, float | str] = {}
        for name, one in self.operands.items():
            flat |= {f"{name}.amax": one.amax, f"{name}.saturated": one.saturated, f"{name}.flushed": one.flushed}
        flat |= {f"{name}.snr_db": value for name, value in self.snr_db.items()}
        return flat | {f"{name}.kernel": value for name, value in self.kernels.items()}


def _half_step(dtype: torch.dtype) -> float:
    """How far beyond the largest value rounding still ends there, relative to it: half of the spacing of its binade."""
    info = torch.finfo(dtype)
    return 0.5 * info.eps * 2.0 ** math.floor(math.log2(info.max)) / info.max


def _rows(matrix: torch.Tensor, at_most: int) -> torch.Tensor:
    """Which rows are looked at: all, or as many as asked for at equal distances."""
    count = matrix.shape[0]
    step = max(1, -(-count // at_most))
    return torch.arange(0, count, step, device=matrix.device)


def _sampled(codes: Codes, at: torch.Tensor, transposed: bool, grouping: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Some rows of a matrix as codes, and what they stand for; ``transposed`` codes are those of its transpose."""
    q, scale = codes
    if transposed:  # scales run across the rows
        whole = torch.ops.ridgeline.dequantize(q, scale, grouping, torch.float32)
        return q.view(torch.uint8).t()[at], whole.t()[at]
    if grouping == "128x128":  # rows of tiles are rows with scales of their own
        scale, grouping = scale.t()[:, at // 128].contiguous(), "1x128"
    elif grouping == "row":
        scale = scale[at]
    elif grouping == "mx":
        scale = scale.view(torch.uint8)[:, at].contiguous().view(scale.dtype)
    elif grouping == "1x128":
        scale = scale[:, at].contiguous()
    some = q.view(torch.uint8)[at].view(q.dtype)
    return some, torch.ops.ridgeline.dequantize(some, scale, grouping, torch.float32)


class _Observer:
    """One layer's."""

    def __init__(self, name: str, owner: Statistics) -> None:
        self.name, self.owner, self.seen, self.warned = name, owner, 0, False
        self.record = LayerStatistics()

    def wants(self) -> bool:
        self.seen += 1
        return (self.seen - 1) % self.owner.every == 0

    def operand(self, name: str, matrix: torch.Tensor, codes: Codes | None, transposed: bool, grouping: str) -> None:
        amax = delayed.largest(matrix).item()
        if codes is None or matrix.numel() == 0:
            self.record.operands[name] = OperandStatistics(amax)
            return
        at = _rows(matrix, self.owner.rows)
        q, made = _sampled(codes, at, transposed, grouping)
        width = matrix.shape[1]  # codes may have columns that were padded
        exact, made, bits = matrix[at].float().abs(), made[:, :width].abs(), q.view(torch.uint8)[:, :width] & 0x7F
        top = torch.tensor(torch.finfo(codes.q.dtype).max).to(codes.q.dtype).view(torch.uint8).to(bits.device)
        saturated = (bits == top) & (exact > made * (1 + _half_step(codes.q.dtype)))
        flushed = (bits == 0) & (exact != 0)
        one = OperandStatistics(amax, saturated.float().mean().item(), flushed.float().mean().item())
        self.record.operands[name] = one
        if one.saturated > self.owner.warn_above and not self.warned:
            self.warned = True
            remedy = "use another granularity (mx scales are rounded down)" if grouping == "mx" else "use current scaling, or a margin"
            warnings.warn(
                f"ridgeline: {self.name or 'the layer'} saturates: {100 * one.saturated:.2g} % of {name} (largest {amax:.3g}) lie beyond "
                f"what its scale lets {str(codes.q.dtype).removeprefix('torch.')} hold and are clipped; {remedy}",
                RuntimeWarning,
                stacklevel=2,
            )

    def product(self, name: str, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor, quantised: bool) -> None:
        self.record.kernels[name] = last_used("gemm_fp8" if quantised else "gemm")
        if not quantised:
            return
        at = _rows(left, self.owner.rows)
        exact = left[at].float() @ right.float()
        noise = (result[at].float() - exact).square().sum().item()
        signal = exact.square().sum().item()
        self.record.snr_db[name] = math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal > 0 else -math.inf

    def finished(self, phase: str) -> None:
        self.record.calls += phase == "forward"
        if self.owner.hook is not None:
            mine = ("x", "w", "y") if phase == "forward" else ("dy", "dx", "dw")
            found = self.record.values()
            self.owner.hook(self.name, phase, {key: value for key, value in found.items() if key.split(".")[0] in mine})


class Statistics:
    """What a ``with statistics(...)`` block gives: ``layers`` by name, of those that ran."""

    def __init__(self, every: int, rows: int, hook: Hook | None, warn_above: float) -> None:
        self.every, self.rows, self.hook, self.warn_above = every, rows, hook, warn_above
        self._observers: dict[str, _Observer] = {}

    @property
    def layers(self) -> dict[str, LayerStatistics]:
        return {name: each.record for name, each in self._observers.items() if each.record.calls}

    def __str__(self) -> str:
        lines = []
        for name, layer in self.layers.items():
            values = (f"{key} {value:.3g}" if isinstance(value, float) else f"{key} {value}" for key, value in layer.values().items())
            lines.append(f"{name or '(the model)'}: {', '.join(values)}")
        return "\n".join(lines) or "no layer of 8-bit floats ran"


class _Again:
    """Looks at the backward of a call that a checkpoint makes again; its forward was looked at the first time."""

    def __init__(self, first: _Observer) -> None:
        self._first = first

    def operand(self, name: str, matrix: torch.Tensor, codes: Codes | None, transposed: bool, grouping: str) -> None:
        if name == "dy":
            self._first.operand(name, matrix, codes, transposed, grouping)

    def product(self, name: str, left: torch.Tensor, right: torch.Tensor, result: torch.Tensor, quantised: bool) -> None:
        if name != "y":
            self._first.product(name, left, right, result, quantised)

    def finished(self, phase: str) -> None:
        if phase == "backward":
            self._first.finished(phase)


class _Call:
    """A function that a reentrant checkpoint calls now: notes who looks at its layers' calls, and says the same when it is called again."""

    def __init__(self, around: _Call | None, noted: dict[torch.nn.Module, list[_Observer | None]], again: bool) -> None:
        self._around, self._noted, self._at = around, noted, dict.fromkeys(noted, 0) if again else None

    def observer_of(self, layer: torch.nn.Module, found: _Observer) -> _Observer | _Again | None:
        if self._at is None:
            answer = _ask(self._around, layer, found)
            self._noted.setdefault(layer, []).append(answer._first if isinstance(answer, _Again) else answer)
            return answer
        at, noted = self._at.get(layer, 0), self._noted.get(layer, [])
        self._at[layer] = at + 1
        first = noted[at] if at < len(noted) else None
        return None if first is None else _Again(first)


class _Unobserved(_Call):
    def __init__(self) -> None:
        super().__init__(None, {}, True)


class _Running(threading.local):
    """The checkpointed function that this thread runs, if it does."""

    def __init__(self) -> None:
        self.call: _Call | None = None


_running = _Running()


def _ask(call: _Call | None, layer: torch.nn.Module, found: _Observer) -> _Observer | _Again | None:
    if call is not None:
        return call.observer_of(layer, found)
    return found if found.wants() else None


def _run(call: _Call, function: Callable[..., Any], args: Any, kwargs: Any) -> Any:
    before, _running.call = _running.call, call
    try:
        return function(*args, **kwargs)
    finally:
        _running.call = before


def unobserved(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function`` without statistics of its layers."""
    return lambda *args, **kwargs: _run(_Unobserved(), function, args, kwargs)


def with_the_same_answers(function: Callable[..., Any]) -> Callable[..., Any]:
    """``function``, in whose second call and later those layers' calls are looked at that were in the first, for their backward alone."""
    noted: list[dict[torch.nn.Module, list[_Observer | None]]] = []

    def call(*args: Any, **kwargs: Any) -> Any:
        again = bool(noted)
        if not again:
            noted.append({})
        return _run(_Call(_running.call, noted[0], again), function, args, kwargs)

    return call


# Beside the layers and not in them, as kept codes are.
_observed: weakref.WeakKeyDictionary[torch.nn.Module, _Observer] = weakref.WeakKeyDictionary()
_blocks = 0  # that are open: what a layer's call asks first


def observer_of(layer: torch.nn.Module, input: object) -> _Observer | _Again | None:
    """Who looks at this call of ``layer``; traced code, forward mode and transforms of torch.func are not looked at."""
    if not _blocks or torch.compiler.is_compiling() or transformed():
        return None
    found = _observed.get(layer)
    if found is None or type(input) not in (torch.Tensor, torch.nn.Parameter):
        return None
    return _ask(_running.call, layer, found)


def looks_at(layer: torch.nn.Module) -> bool:
    """Whether a call of ``layer`` may be looked at, which wants the rows that it reads."""
    return _blocks > 0 and not torch.compiler.is_compiling() and layer in _observed


@contextmanager
def statistics(
    module: torch.nn.Module, *, every: int = 1, rows: int = 64, hook: Hook | None = None, warn_above: float = 1e-3
) -> Iterator[Statistics]:
    """Inside, layers of ``module`` that multiply 8-bit floats note what their products lose; results and gradients are the same.

    every       looks at each layer's first forward call and every so many after it, with their backward
    rows        of each operand and result are looked at, at equal distances; amax is that of all
    hook        hook(layer's name, "forward" or "backward", values) after each call that was looked at, for loggers
    warn_above  a RuntimeWarning with the layer's name, once a layer, where a larger share of an operand is clipped

    Cost: one pass over each operand, a few over its ``rows`` rows, and the products of as many rows in float32 (of m = 512 rows and rows
    = 64 an eighth of what float32 layers do); it waits for the device. Where no block is open a layer's call compares one number. Layers
    inside compiled or exported programs, with tensors of other classes (DTensor), in forward mode, in transforms of torch.func and in
    high precision are not looked at. A call that activation checkpointing makes again is the same call. A call that is looked at keeps
    its input and weight for its backward; "dx" and "dw" are left out of ``snr_db`` where the operand that they need was changed in place
    before backward. ValueError for every or rows below 1.
    """
    if every < 1 or rows < 1:
        raise ValueError(f"statistics: every={every}, rows={rows}; give whole numbers from 1 up")
    global _blocks
    made = Statistics(every, rows, hook, warn_above)
    before = {}
    _blocks += 1
    for name, layer in module.named_modules():
        if isinstance(layer, torch.nn.Linear):
            before[layer] = _observed.get(layer)
            made._observers[name] = _observed[layer] = _Observer(name, made)
    try:
        yield made
    finally:
        _blocks -= 1
        for layer, other in before.items():
            if other is None:
                _observed.pop(layer, None)
            else:
                _observed[layer] = other
