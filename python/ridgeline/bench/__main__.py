"""``python -m ridgeline.bench``: the operators of the PyTorch front end timed, checked, and compared with PyTorch's own."""

from __future__ import annotations

import argparse
import io
import json
import pathlib
import platform
import sys
from collections.abc import Sequence
from typing import Any

import torch

import ridgeline.torch as rt

from . import accuracy, suite, table
from .cases import EXIT_FAILED, EXIT_USAGE, add_how, add_what, cases_of, check_dtypes, device, protocol_of
from .measure import Result, measure
from .operators import BENCHES, Bench

_DESCRIPTION = """\
Times and checks the operators of the PyTorch front end, forward and backward, beside PyTorch's own operator in the same run.

Every call of either side gets tensors of its own with numbers that were never seen, and caches that were flushed; the two take turns. Every
result of ours is held to float64: each element to the error that rounding explains, and the signal-to-noise ratio to a least value.
What is printed are medians and standard deviations over the timed calls.
"""
_EXAMPLES = """\
examples:
  python -m ridgeline.bench gemm                                              default shapes of this device, bf16
  python -m ridgeline.bench gemm --dtype bf16,f32 --shapes 512x512x512,wide=64x8192x512 --csv gemm.csv
  python -m ridgeline.bench gemm_fp8 --device cuda --granularity tensorwise,blockwise --format hybrid --json
  python -m ridgeline.bench rms_norm --device cuda --shapes 8192x4096 --backend cuda_rmsnorm
  python -m ridgeline.bench suite --devices 0,1 --csv-dir results             every operator, one process for each GPU
  python -m ridgeline.bench accuracy --out accuracy.md                        errors against float64, as a table

exit status: 0 all PASS, 1 a FAIL or ERROR, 2 the command line or the device
"""


def device_name(name: str) -> str:
    if torch.device(name).type == "cuda":
        return torch.cuda.get_device_name(name)
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    return next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), platform.processor() or "CPU")


def environment(options: argparse.Namespace) -> dict[str, Any]:
    return {
        "ridgeline": rt.__version__,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "device": options.device,
        "device_name": device_name(options.device),
        "threads": torch.get_num_threads(),
        "repeats": options.repeats,
        "warmups": options.warmups,
        "inputs": options.inputs,
        "seed": options.seed,
    }


def prepare(options: argparse.Namespace, bench: Bench) -> None:
    if options.threads:
        torch.set_num_threads(options.threads)
    if options.backend:
        rt.set_backend(bench.kernel, options.backend)


def write_tables(options: argparse.Namespace, bench: Bench, results: Sequence[Result], name: str) -> None:
    rows = [table.row_of(one) for one in results]
    full = [table.full_row_of(number, one, name) for number, one in enumerate(results)]
    for path, columns, lines in ((options.csv, table.header(bench), rows), (options.full_csv, table.full_header(bench), full)):
        if not path:
            continue
        made = io.StringIO(newline="")
        table.write_csv(made, columns, lines)
        if path == "-":
            sys.stdout.write(made.getvalue())
        else:
            pathlib.Path(path).write_text(made.getvalue(), newline="")


def run(bench: Bench, options: argparse.Namespace) -> int:
    check_dtypes(bench, options.dtype or [])
    prepare(options, bench)
    results = [measure(bench, case, protocol_of(options), label) for label, case in cases_of(bench, options).items()]
    facts = environment(options)
    write_tables(options, bench, results, facts["device_name"])
    if options.json:
        print(json.dumps({"environment": facts, "rows": [table.json_of(one) for one in results]}, indent=1))
    elif "-" not in (options.csv, options.full_csv):
        print(f"{bench.name} on {facts['device_name']}, torch {facts['torch']}, {options.repeats} calls on {options.inputs} inputs; peer: {bench.peer_name}")
        print(table.text(bench, results))
        print(table.summary(results))
    for line in table.problems(results):
        print(line, file=sys.stderr)
    return EXIT_FAILED if any(one.check != "PASS" for one in results) else 0


def operator_parser(parsers: Any, bench: Bench) -> None:
    parser = parsers.add_parser(
        bench.name, help=bench.summary, description=f"{bench.summary[0].upper()}{bench.summary[1:]}.",
        epilog=f"default shapes ({'x'.join(bench.axes)}): cpu {bench.shapes['cpu']}; cuda {bench.shapes['cuda']}\n\n"
        f"example:\n  python -m ridgeline.bench {bench.name} --shapes {bench.shapes['cpu'].split(',')[0]} --csv {bench.name}.csv",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )  # fmt: skip
    parser.add_argument("--device", type=device, default="cpu", help="cpu, cuda or cuda:N (cpu)")
    parser.add_argument("--shapes", metavar="LIST", help=f"{'x'.join(bench.axes)} or LABEL={'x'.join(bench.axes)}, with commas between")
    add_what(parser)
    add_how(parser)
    parser.add_argument("--csv", metavar="FILE", help="the frozen table that `ridge handoff` reads; - is standard output")
    parser.add_argument("--full-csv", metavar="FILE", help="a wider one, with dtype, granularity, device and the peer's times")
    parser.add_argument("--json", action="store_true", help="print everything, with all samples, as JSON")
    parser.set_defaults(run=lambda options: run(bench, options), bench=bench)


def parser() -> argparse.ArgumentParser:
    whole = argparse.ArgumentParser(
        prog="python -m ridgeline.bench", description=_DESCRIPTION, epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parsers = whole.add_subparsers(required=True, metavar="COMMAND")
    for bench in BENCHES.values():
        operator_parser(parsers, bench)
    suite.add_parser(parsers)
    accuracy.add_parser(parsers)
    return whole


def main(arguments: Sequence[str] | None = None) -> int:
    whole = parser()
    options = whole.parse_args(arguments)
    try:
        return int(options.run(options))
    except argparse.ArgumentTypeError as error:
        whole.error(str(error))
    except (ValueError, OSError) as error:  # an unknown backend, a file that cannot be written
        print(f"{whole.prog}: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(main())
