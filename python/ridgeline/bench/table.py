"""Results as text, JSON, and the tables that `ridge handoff` reads (docs/projects.md)."""

from __future__ import annotations

import csv
import math
import statistics
from collections.abc import Sequence
from typing import Any, TextIO

from .measure import Result, Times, median
from .operators import BENCHES, Bench

# The frozen headers of `benchmark.schema` gemm and, of GB/s, memory, and that of others with a backward pass (custom).
_PRODUCT = (
    "label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,"
    "Forward Time (ms),Backward Time (ms),out_snr,da_snr,db_snr"
)
_FORWARD = "label,Check,Forward {0},Forward {0}_stddev,Forward Time (ms),out_snr"
_OTHERS = (
    "label,Check,Forward {0},Forward {0}_stddev,Backward {0},Backward {0}_stddev,Forward Time (ms),"
    "Backward Time (ms),out_snr"
)
_PEER = "Peer,Peer Forward Time (ms),Peer Backward Time (ms),Forward Ratio,Backward Ratio"


def header(bench: Bench) -> str:
    if bench.axes == ("M", "N", "K"):
        return _PRODUCT
    return "".join((_OTHERS.format(bench.unit), *(f",{name}_snr" for name in bench.gradients))) if bench.leaves else _FORWARD.format(bench.unit)


def full_header(bench: Bench) -> str:
    """The header of whole benchmarks, then what the peer took."""
    sizes = ",".join(bench.axes if "B" in bench.axes else ("B", *bench.axes))
    rates = "Forward Time (ms),Forward {0},Backward Time (ms),Backward {0}".format(bench.unit)
    return f"TestID,Platform,GPU,Case,{sizes},Dtype,Granularity,Check,{rates},{_PEER}"


def _rates(bench: Bench, seconds: Sequence[float], work: float) -> tuple[float, float]:
    """Of the median, and the standard deviation over the calls."""
    if not seconds:
        return math.nan, math.nan
    return work / median(seconds) / bench.scale, statistics.pstdev([work / one / bench.scale for one in seconds])


def _columns(bench: Bench, result: Result, times: Times) -> dict[str, Any]:
    forward, backward = bench.work(result.case)
    row: dict[str, Any] = {}
    for name, seconds, work in (("Forward", times.forward, forward), ("Backward", times.backward, backward)):
        row[f"{name} {bench.unit}"], row[f"{name} {bench.unit}_stddev"] = _rates(bench, seconds, work)
        row[f"{name} Time (ms)"] = median(seconds) * 1e3
    return row


def row_of(result: Result) -> dict[str, Any]:
    bench = BENCHES[result.operator]
    row = {"label": result.label, "B": 1, **dict(zip(bench.axes, result.case.shape)), "Check": result.check}
    row.update(_columns(bench, result, result.ours))
    row.update({f"{name}_snr": found.snr_db for name, found in result.found.items()})
    if result.check == "ERROR":
        row.update({name: math.nan for name in row if name.endswith(("(ms)", bench.unit, "_stddev", "_snr"))})
    return row


def _ratio(ours: Sequence[float], peer: Sequence[float]) -> float:
    return median(peer) / median(ours) if ours and peer else math.nan


def full_row_of(number: int, result: Result, device_name: str) -> dict[str, Any]:
    bench = BENCHES[result.operator]
    row = row_of(result)
    row.update({"TestID": number, "Platform": result.device.partition(":")[0].upper(), "GPU": device_name, "Case": result.label})
    row.update({"Dtype": result.case.dtype_name, "Granularity": result.case.granularity, "Peer": bench.peer_name})
    row["Peer Forward Time (ms)"] = median(result.peer.forward) * 1e3
    row["Peer Backward Time (ms)"] = median(result.peer.backward) * 1e3
    row["Forward Ratio"] = _ratio(result.ours.forward, result.peer.forward)
    row["Backward Ratio"] = _ratio(result.ours.backward, result.peer.backward)
    return row


def write_csv(file: TextIO, columns: str, rows: Sequence[dict[str, Any]]) -> None:
    table = csv.DictWriter(file, columns.split(","), restval="nan", extrasaction="ignore")
    table.writeheader()
    table.writerows(rows)


def finite(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _json_times(bench: Bench, result: Result, times: Times, found: dict[str, Any]) -> dict[str, Any]:
    columns = {name: finite(value) for name, value in _columns(bench, result, times).items()}
    errors = {
        name: {"snr_db": finite(one.snr_db), "largest_error": finite(one.error), "share_of_allowed": finite(one.share)}
        for name, one in found.items()
    }
    return {"forward_s": times.forward, "backward_s": times.backward, "problem": times.problem, "outputs": errors, **columns}


def json_of(result: Result) -> dict[str, Any]:
    """Every sample; null where there is no number (also a signal-to-noise ratio without noise)."""
    bench, case = BENCHES[result.operator], result.case
    return {
        "label": result.label,
        "operator": result.operator,
        **dict(zip(bench.axes, case.shape)),
        "dtype": case.dtype_name,
        "granularity": case.granularity,
        "format": case.format,
        "device": result.device,
        "check": result.check,
        "problem": result.ours.problem or result.wrong,
        "implementation": result.implementation,
        "ours": _json_times(bench, result, result.ours, result.found),
        "peer": {"name": bench.peer_name, **_json_times(bench, result, result.peer, result.peer_found)},
        "forward_ratio": finite(_ratio(result.ours.forward, result.peer.forward)),
        "backward_ratio": finite(_ratio(result.ours.backward, result.peer.backward)),
    }


def aligned(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[i]) for row in (names, *rows)) for i in range(len(names))]
    lines = ["  ".join(cell.ljust(width) for cell, width in zip(row, widths)).rstrip() for row in (names, *rows)]
    return "\n".join(lines)


def _short(value: float, digits: int = 4) -> str:
    return "-" if math.isnan(value) else f"{value:.{digits}g}"


def _pass_cells(bench: Bench, times: Sequence[float], work: float, peer: Sequence[float]) -> list[str]:
    rate, spread = _rates(bench, times, work)
    milliseconds = median(times) * 1e3
    return [_short(milliseconds), f"{_short(rate)} +- {_short(spread, 2)}", _short(median(peer) * 1e3), _short(_ratio(times, peer), 3)]


def text(bench: Bench, results: Sequence[Result]) -> str:
    """A line for each case; ratios are the peer's time over ours."""
    passes = ["forward", "backward"] if bench.leaves else ["forward"]
    names = ["label", "dtype", "recipe", "Check"]
    for one in passes:
        names += [f"{one} ms", bench.unit, "peer ms", "ratio"]
    names += ["snr dB", "implementation"]
    rows = []
    for result in results:
        row = [result.label, result.case.dtype_name, result.case.recipe or "-", result.check]
        for one, work in zip(passes, bench.work(result.case)):
            row += _pass_cells(bench, getattr(result.ours, one), work, getattr(result.peer, one))
        row += [" ".join(_short(found.snr_db, 3) for found in result.found.values()) or "-", result.implementation or "-"]
        rows.append(row)
    return aligned(names, rows)


def summary(results: Sequence[Result]) -> str:
    """What `commands.test_summary` of a ridge-project.toml reads."""
    passed = sum(one.check == "PASS" for one in results)
    return f"passed={passed} failed={len(results) - passed}"


def problems(results: Sequence[Result]) -> list[str]:
    lines = [f"{one.label}: {one.ours.problem or one.wrong}" for one in results if one.check != "PASS"]
    return lines + [f"{one.label}: peer: {one.peer.problem}" for one in results if one.peer.problem]
