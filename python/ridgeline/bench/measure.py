"""One case measured: every call on numbers of its own, checked, both sides interleaved and equally cold."""

from __future__ import annotations

import functools
import hashlib
import math
import os
import pathlib
import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import ridgeline.torch as rt

from .operators import Bench, Case
from .reference import Output

Tensor = torch.Tensor


@dataclass(frozen=True)
class Protocol:
    """How a case is measured: ``reused`` inputs are one set of tensors for all timed calls, and as much is drawn."""

    device: str = "cpu"
    repeats: int = 7
    warmups: int = 2
    seed: str = "0"
    reused: bool = False
    peer: bool = True


@dataclass
class Times:
    """Seconds of each timed call of one side, and why there are none."""

    forward: list[float] = field(default_factory=list)
    backward: list[float] = field(default_factory=list)
    problem: str = ""


@dataclass
class Found:
    """Of one output, the worst over all calls: signal to noise, largest error, and that as a share of what is allowed."""

    snr_db: float = math.inf
    error: float = 0.0
    share: float = 0.0
    largest: float = 0.0  # of the right elements

    def meet(self, out: Tensor, expected: Output) -> None:
        noise, exact = out.to(torch.float64) - expected.exact, expected.exact
        power, signal = float(noise.square().sum()), float(exact.square().sum())
        ratio = math.inf if power == 0 else 10 * math.log10(signal / power) if signal > 0 and math.isfinite(power) else -math.inf
        self.snr_db = min(self.snr_db, ratio)
        if out.numel() == 0:
            return
        away = noise.abs().nan_to_num(nan=math.inf)
        self.error = max(self.error, float(away.max()))
        self.share = max(self.share, float((away / expected.allowed.clamp(min=torch.finfo(torch.float64).tiny)).max()))
        self.largest = max(self.largest, float(exact.abs().max()))


@dataclass
class Result:
    label: str
    operator: str
    case: Case
    ours: Times = field(default_factory=Times)
    peer: Times = field(default_factory=Times)
    found: dict[str, Found] = field(default_factory=dict)
    peer_found: dict[str, Found] = field(default_factory=dict)
    implementation: str = ""
    device: str = ""
    wrong: str = ""

    @property
    def check(self) -> str:
        return "ERROR" if self.ours.problem else "FAIL" if self.wrong else "PASS"


def median(samples: Sequence[float]) -> float:
    return statistics.median(samples) if samples else math.nan


def _last_level_caches(root: pathlib.Path = pathlib.Path("/sys/devices/system/cpu")) -> int:
    """Bytes in the caches of the last level that the processors of this process have; 0 where Linux does not say."""
    found: dict[tuple[int, str], int] = {}  # by level and the processors that share it
    for cpu in os.sched_getaffinity(0):
        for index in root.glob(f"cpu{cpu}/cache/index*"):
            try:
                level, kind, size, shared = ((index / name).read_text().strip() for name in ("level", "type", "size", "shared_cpu_list"))
                if kind != "Instruction":
                    found[int(level), shared] = int(size.removesuffix("K")) << 10
            except (OSError, ValueError):
                continue
    last = max((level for level, _ in found), default=0)
    return sum(size for (level, _), size in found.items() if level == last)


@functools.cache
def _flush_of(device: torch.device) -> Tensor:
    """What is written to push operands out of the caches: as large as those are, on a processor a quarter of the free memory at most."""
    if device.type == "cuda":
        size = 4 * getattr(torch.cuda.get_device_properties(device), "L2_cache_size", 64 << 20)
    else:
        free = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        size = max(64 << 20, min(_last_level_caches(), free // 4))
    return torch.empty(size, dtype=torch.int8, device=device)


class _Clock:
    """Times a call on a device whose caches hold nothing of its operands."""

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self._flush = _flush_of(device)

    def __call__(self, call: Callable[[], Any]) -> tuple[float, Any]:
        if not self._cuda:
            self._flush.fill_(1)
            start = time.perf_counter()
            result = call()
            return time.perf_counter() - start, result
        torch.cuda.synchronize(self._flush.device)
        self._flush.fill_(1)  # also gives the host time to enqueue the call: what is timed is the device
        first, last = (torch.cuda.Event(enable_timing=True) for _ in range(2))  # type: ignore[no-untyped-call]
        first.record()
        result = call()
        last.record()
        last.synchronize()
        return first.elapsed_time(last) * 1e-3, result


class _Numbers:
    """The inputs and the gradient of one call; the copies that a side gets are its own."""

    def __init__(self, bench: Bench, case: Case, protocol: Protocol, number: int) -> None:
        key = "/".join((protocol.seed, bench.name, str(case), str(number)))
        stream = torch.Generator(protocol.device).manual_seed(int.from_bytes(hashlib.sha256(key.encode()).digest()[:7], "big"))

        def draw(*size: int) -> Tensor:
            return torch.randn(size, generator=stream, dtype=torch.float32, device=protocol.device).to(case.dtype)

        self.bench, self.case = bench, case
        self.inputs = bench.inputs(case, draw)
        self.gradient = draw(*bench.output_size(case))

    def copies(self) -> tuple[list[Tensor], Tensor]:
        made = [one.clone() for one in self.inputs]
        return [one.requires_grad_(i < self.bench.leaves) for i, one in enumerate(made)], self.gradient.clone()

    def expected(self) -> list[Output]:
        wide = [_wide(one) for one in self.inputs]
        return self.bench.expected(self.case, _wide(self.gradient), *wide)

    def changed(self, inputs: list[Tensor], gradient: Tensor) -> bool:
        given, mine = [*inputs, gradient], [*self.inputs, self.gradient]
        return not all(torch.equal(_bytes(one), _bytes(other)) for one, other in zip(given, mine))


def _wide(x: Tensor) -> Tensor:
    return x.to(torch.float32).to(torch.float64)


def _bytes(x: Tensor) -> Tensor:
    return x.detach().view(torch.uint8) if x.dim() and x.is_contiguous() else x.detach()


class _Run:
    """The calls of one case."""

    def __init__(self, bench: Bench, case: Case, protocol: Protocol, label: str) -> None:
        self.bench, self.case, self.protocol = bench, case, protocol
        self.clock = _Clock(torch.device(protocol.device))
        self.first: _Numbers | None = None
        self.result = Result(label, bench.name, case, device=protocol.device)
        self.sides = {"ours": (bench.ours, self.result.ours)}
        if protocol.peer:
            self.sides["peer"] = (bench.peer, self.result.peer)

    def call(self, name: str, numbers: _Numbers, keep: bool, held: tuple[list[Tensor], Tensor] | None) -> list[Tensor]:
        """Forward and backward of one side, each timed by itself; its outputs and gradients."""
        function, times = self.sides[name]
        inputs, gradient = held or numbers.copies()
        ahead, out = self.clock(lambda: function(self.case, *inputs))
        if name == "ours":
            self.result.implementation = rt.last_used(self.bench.kernel)
        back, gradients = math.nan, ()
        if self.bench.leaves:
            back, gradients = self.clock(lambda: torch.autograd.grad(out, inputs[: self.bench.leaves], gradient))
        if keep:
            times.forward.append(ahead)
            if self.bench.leaves:
                times.backward.append(back)
        if name == "ours" and numbers.changed(inputs, gradient):
            self.fail("it changes what it is given")
        first = self.bench.seen(out.detach()) if name == "ours" else [out.detach()]
        return [*first, *gradients]

    def fail(self, problem: str) -> None:
        self.result.wrong = self.result.wrong or problem

    def judge(self, outputs: list[Tensor], expected: list[Output]) -> None:
        for out, right in zip(outputs, expected):
            if out.shape != right.exact.shape:
                self.fail(f"{right.name} has shape {tuple(out.shape)}, not {tuple(right.exact.shape)}")
                continue
            found = self.result.found.setdefault(right.name, Found())
            found.meet(out, right)
            off = ~((out.to(torch.float64) - right.exact).abs() <= right.allowed)  # NaN is off
            if bool(off.any()):
                at = tuple(int(i) for i in off.nonzero()[0])
                self.fail(
                    f"{right.name}{list(at)} is {float(out[at]):.6g}, {float(right.exact[at]):.6g} is right and "
                    f"{float(right.allowed[at]):.2g} allowed: {int(off.sum())} elements are off"
                )
            if not found.snr_db >= right.least_snr_db:
                self.fail(f"{right.name} has {found.snr_db:.1f} dB of signal to noise, {right.least_snr_db:g} are asked")

    def judge_peer(self, outputs: list[Tensor], expected: list[Output]) -> None:
        if self.bench.name == "quantize":  # its codes have other scales
            return
        for out, right in zip(outputs, expected):
            self.result.peer_found.setdefault(right.name, Found()).meet(out, right)

    def step(self, number: int, held: dict[str, tuple[list[Tensor], Tensor]]) -> None:
        numbers = _Numbers(self.bench, self.case, self.protocol, number)
        self.first = self.first or numbers
        if self.protocol.reused:  # drawn all the same: the memory is as warm
            numbers = self.first
        expected = numbers.expected()
        order = list(self.sides) if number % 2 == 0 else list(reversed(list(self.sides)))
        for name in order:
            if self.sides[name][1].problem:
                continue
            if self.protocol.reused and name not in held:
                held[name] = numbers.copies()
            try:
                outputs = self.call(name, numbers, number >= 0, held.get(name))
            except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:
                self.sides[name][1].problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
                continue
            judge = self.judge if name == "ours" else self.judge_peer
            judge(outputs, expected)

    def measure(self) -> Result:
        held: dict[str, tuple[list[Tensor], Tensor]] = {}
        for number in range(-self.protocol.warmups, self.protocol.repeats):
            self.step(number, held)
        return self.result


def measure(bench: Bench, case: Case, protocol: Protocol, label: str) -> Result:
    """Times and checks a case. What the call raises is in the result, not raised."""
    run = _Run(bench, case, protocol, label)
    try:
        return run.measure()
    except (RuntimeError, ValueError, TypeError, NotImplementedError) as error:  # of the inputs: out of memory, codes that are refused
        run.result.ours.problem = f"{type(error).__name__}: {str(error).splitlines()[0]}"
        return run.result
