"""``accuracy``: errors of every operator against float64, as a table."""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import sys
from typing import Any

import torch

from .cases import EXIT_FAILED, add_what, benches, cases_of, device, positive
from .measure import Found, Protocol, Result, measure
from .operators import BENCHES, FORMATS, GRANULARITIES
from .table import finite, write_csv

_COLUMNS = (
    "operator", "dtype", "recipe", "shape", "output", "snr_db", "largest_error", "largest_of_peak", "share_of_allowed", "peer_snr_db",
    "implementation", "check",
)  # fmt: skip
_HELP = "signal to noise and largest error of every operator, dtype and recipe against float64"
_EXPLAINED = """\
largest_of_peak is the largest error over the largest right element; share_of_allowed the largest error of an element over what rounding
explains of that element: above 1 it fails. peer_snr_db is that of PyTorch's own operator on the same numbers.

examples:
  python -m ridgeline.bench accuracy
  python -m ridgeline.bench accuracy --operators gemm_fp8 --granularity blockwise,mx --table csv --out accuracy.csv
"""


def _rows(result: Result) -> list[dict[str, Any]]:
    case = result.case
    common = {
        "operator": result.operator,
        "dtype": case.dtype_name,
        "recipe": case.recipe,
        "shape": "x".join(map(str, case.shape)),
        "implementation": result.implementation,
        "check": result.check,
    }
    if result.check == "ERROR":
        return [{**common, "output": ""}]
    rows = []
    for name, found in result.found.items():
        peer = result.peer_found.get(name, Found(snr_db=float("nan")))
        rows.append({
            **common, "output": name, "snr_db": found.snr_db, "largest_error": found.error,
            "largest_of_peak": found.error / found.largest if found.largest else 0.0, "share_of_allowed": found.share, "peer_snr_db": peer.snr_db,
        })  # fmt: skip
    return rows


def _cell(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)


def render(rows: list[dict[str, Any]], form: str) -> str:
    if form == "json":
        plain = [{name: finite(value) if isinstance(value, float) else value for name, value in row.items()} for row in rows]
        return json.dumps(plain, indent=1) + "\n"
    if form == "csv":
        made = io.StringIO(newline="")
        write_csv(made, ",".join(_COLUMNS), rows)
        return made.getvalue()
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|" + "---|" * len(_COLUMNS)]
    lines += ["| " + " | ".join(_cell(row.get(name, "")) for name in _COLUMNS) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def run(options: argparse.Namespace) -> int:
    protocol = Protocol(options.device, options.calls, 0, options.seed, False, not options.no_peer)
    results = []
    for name in options.operators or list(BENCHES):
        bench = BENCHES[name]
        shapes = bench.shapes[torch.device(options.device).type]
        chosen = argparse.Namespace(**vars(options), shapes=shapes if options.all_shapes else shapes.partition(",")[0])
        chosen.dtype = options.dtype or list(bench.dtypes)
        chosen.granularity, chosen.format = options.granularity or list(GRANULARITIES), options.format or list(FORMATS)
        if name in ("quantize", "dequantize"):  # "hybrid" is about gradients
            chosen.format = [one for one in chosen.format if one != "hybrid"]
        results += [measure(bench, case, protocol, label) for label, case in cases_of(bench, chosen).items()]
    made = render([row for result in results for row in _rows(result)], options.table)
    if options.out:
        pathlib.Path(options.out).write_text(made, newline="")
    else:
        sys.stdout.write(made)
    for result in results:
        if result.check != "PASS":
            print(f"{result.operator} {result.label}: {result.ours.problem or result.wrong}", file=sys.stderr)
    return EXIT_FAILED if any(result.check != "PASS" for result in results) else 0


def add_parser(parsers: Any) -> None:
    parser = parsers.add_parser(
        "accuracy", help=_HELP, description=f"{_HELP[0].upper()}{_HELP[1:]}.", epilog=_EXPLAINED, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--operators", type=benches, metavar="LIST", help=f"of {', '.join(BENCHES)}; default all")
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:N (cpu)")
    add_what(parser)
    parser.add_argument("--all-shapes", action="store_true", help="every default shape of the device instead of the first")
    parser.add_argument("--calls", type=positive, default=2, help="with other numbers each; the worst counts (2)")
    parser.add_argument("--seed", default="0", help="any text; the numbers of all inputs follow from it (0)")
    parser.add_argument("--no-peer", action="store_true", help="leave PyTorch's own operator out")
    parser.add_argument("--table", choices=("markdown", "csv", "json"), default="markdown")
    parser.add_argument("--out", metavar="FILE", help="instead of standard output")
    parser.set_defaults(run=run)
