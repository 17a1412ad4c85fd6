"""From words of a command line to cases."""

from __future__ import annotations

import argparse
import re
from collections.abc import Sequence

import torch

from .measure import Protocol
from .operators import ALIASES, BENCHES, DTYPES, FORMATS, GRANULARITIES, Bench, Case

EXIT_FAILED, EXIT_USAGE = 1, 2
_LABEL = re.compile(r"[A-Za-z0-9_.:-]{1,80}")  # what ridge-project.toml takes


def words(text: str, known: Sequence[str], what: str) -> list[str]:
    """Items of a list; an error names the one that is unknown and those there are."""
    given = [ALIASES.get(word, word) for word in text.split(",")]
    for word in given:
        if word not in known:
            raise argparse.ArgumentTypeError(f"{what} {word!r} is unknown; use one of {', '.join(known)}")
    if len(set(given)) != len(given):
        raise argparse.ArgumentTypeError(f"{what} {text!r}: one is there twice")
    return given


def dtypes(text: str) -> list[str]:
    return words(text, list(DTYPES), "dtype")


def granularities(text: str) -> list[str]:
    return words(text, GRANULARITIES, "granularity")


def formats(text: str) -> list[str]:
    return words(text, FORMATS, "format")


def positive(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1 up")
    return int(text)


def shapes(text: str, axes: Sequence[str]) -> dict[str, tuple[int, ...]]:
    """"64x64x64,large=512x512x512" by label; a shape without one is its own label."""
    found: dict[str, tuple[int, ...]] = {}
    for item in text.split(","):
        label, _, sizes = item.rpartition("=")
        parts = sizes.split("x")
        if len(parts) != len(axes) or not all(part.isdecimal() and int(part) > 0 for part in parts):
            raise argparse.ArgumentTypeError(
                f"shape {item!r} is not {'x'.join(axes)} in whole numbers from 1 up, for instance {'x'.join(['64'] * len(axes))} or "
                f"small={'x'.join(['64'] * len(axes))}"
            )
        label = label or sizes
        if not _LABEL.fullmatch(label):
            raise argparse.ArgumentTypeError(f"label {label!r}: use letters, digits and _ . : - (at most 80)")
        if label in found:
            raise argparse.ArgumentTypeError(f"label {label!r} is there twice")
        found[label] = tuple(int(part) for part in parts)
    return found


def check_dtypes(bench: Bench, dtypes: Sequence[str]) -> None:
    for dtype in dtypes:
        if dtype not in bench.dtypes:
            raise argparse.ArgumentTypeError(f"dtype {dtype!r}: {bench.name} has {', '.join(bench.dtypes)}")


def cases_of(bench: Bench, options: argparse.Namespace) -> dict[str, Case]:
    """Every shape in every dtype that the operator has, granularity and format, by label; the label has what is listed more than once."""
    default = bench.shapes[torch.device(options.device).type]
    sizes = shapes(options.shapes or default, bench.axes)
    types = options.dtype or [bench.dtypes[0]]
    made = (options.granularity or ["tensorwise"], options.format or ["e4m3"]) if bench.quantises else ([""], [""])
    cases = {}
    for label, shape in sizes.items():
        for dtype in filter(bench.dtypes.__contains__, types):
            for granularity in made[0]:
                for format in made[1]:
                    more = [
                        word
                        for word, several in ((dtype, types), (format, made[1]), (granularity, made[0]))
                        if len(several) > 1
                    ]
                    cases["-".join([label, *more])] = Case(shape, dtype, granularity, format)
    return cases


def device(text: str) -> str:
    """cpu, cuda or cuda:N, where there is such a device."""
    try:
        one = torch.device(text)
    except RuntimeError:
        raise argparse.ArgumentTypeError(f"device {text!r} is unknown; use cpu, cuda or cuda:0") from None
    if one.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"device {text!r}: no operators there; use cpu, cuda or cuda:0")
    if one.type == "cuda" and not (torch.cuda.is_available() and (one.index or 0) < torch.cuda.device_count()):
        raise argparse.ArgumentTypeError(
            f"device {text!r}: PyTorch {torch.__version__} sees {torch.cuda.device_count()} CUDA devices here; use --device cpu"
        )
    return text


def protocol_of(options: argparse.Namespace) -> Protocol:
    return Protocol(options.device, options.repeats, options.warmups, options.seed, options.inputs == "reused", not options.no_peer)


def add_what(parser: argparse.ArgumentParser) -> None:
    """The flags that say which cases."""
    parser.add_argument("--dtype", type=dtypes, metavar="LIST", help=f"of {', '.join(DTYPES)} (fp32, fp16 are names of the same); default bf16")
    parser.add_argument("--granularity", type=granularities, metavar="LIST", help=f"who shares a scale: {', '.join(GRANULARITIES)}; default tensorwise")
    parser.add_argument("--format", type=formats, metavar="LIST", help=f"8-bit floats: {', '.join(FORMATS)}; default e4m3")


def add_how(parser: argparse.ArgumentParser) -> None:
    """The flags that say how they are measured."""
    parser.add_argument("--repeats", type=positive, default=7, help="timed calls of each side (7)")
    parser.add_argument("--warmups", type=positive, default=2, help="calls before them (2)")
    parser.add_argument("--seed", default="0", help="any text; the numbers of all inputs follow from it (0)")
    parser.add_argument("--threads", type=positive, help="of PyTorch and the operators on a CPU (PyTorch's default)")
    parser.add_argument("--inputs", choices=("fresh", "reused"), default="fresh", help="of every timed call: tensors of its own, or one set; as much is drawn (fresh)")
    parser.add_argument("--no-peer", action="store_true", help="leave PyTorch's own operator out")
    parser.add_argument("--backend", metavar="NAMES", help='implementation, as ridgeline.torch.set_backend takes it: "bf16:cpu_simd,other:cpu_onednn"')


def benches(text: str) -> list[str]:
    return words(text, list(BENCHES), "operator")
