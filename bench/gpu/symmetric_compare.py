#!/usr/bin/env python3
"""Times symmetric products and Muon's iteration beside the full product, PyTorch and QuACK, contenders taking turns.

    symmetric_compare.py OUT [--rounds 7] [--calls 10] [--configs NAME,...] [--no-peers] [--commit ID]

bfloat16, random normal data. A round of a contender is --calls calls back to back between two events, after one that is not timed, so that the L2 holds what the call before left; contenders change places
from round to round; the median of a call counts. `product` is A A^T of A [n, k]: our symmetric product, our full product (rt.gemm), PyTorch's, QuACK's gemm_symmetric where it can be imported, and
configurations of ours by --configs. `newton_schulz` is five steps of Muon's iteration: ours, PyTorch's as torch.optim.Muon runs it, and the same under torch.compile.
Every contender's result is compared with the product in fp32, in units of its RMS; ours must be symmetric to the last bit, and the iteration's as near to PyTorch's as bfloat16 leaves. Writes OUT/symmetric.json
(with every round) and OUT/symmetric.csv. Exit status 1 on a wrong result of ours, 77 without PyTorch or a Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or
ridgeline installed.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    print("symmetric_compare: skipped: needs a Hopper GPU", file=sys.stderr)
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

PRODUCTS = [(1024, 4096), (2048, 2048), (3072, 3072), (4096, 4096), (4096, 14336), (8192, 8192), (16384, 4096)]
ITERATIONS = [(2048, 8192), (4096, 4096), (4096, 14336), (8192, 8192)]
COEFFICIENTS = (3.4445, -4.775, 2.0315)
MOST_ERROR, MOST_DISTANCE = 0.01, 0.05  # of the RMS; of the iteration's 2-norm, where rounding goes through five steps


def timed(call, calls):
    call()  # what was chosen by name before makes the next call choose anew
    start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    start.record()
    for _ in range(calls):
        call()
    end.record()
    end.synchronize()
    return start.elapsed_time(end) * 1e3 / calls


def in_turns(contenders, rounds, calls):
    """Microseconds of a call, round by round."""
    found = {name: [] for name in contenders}
    for call in contenders.values():
        timed(call, 5)
    names = list(contenders)
    for at in range(rounds):
        for name in in_turn(names, at):
            found[name].append(timed(contenders[name], calls))
    return found


def of_product(a, options):
    contenders = {"ridgeline": lambda: rt.symmetric_product(a), "ridgeline full product": lambda: rt.gemm(a, a, trans_b=True)}
    if not options.no_peers:
        contenders["torch"] = lambda: a @ a.t()
        try:
            from quack.gemm_interface import gemm_symmetric

            def quack():
                found = gemm_symmetric(a, a.t())
                return found[-1] if isinstance(found, tuple) else found

            quack()
            contenders["quack"] = quack
        except Exception as reason:  # noqa: BLE001
            print(f"quack is left out: {type(reason).__name__}: {str(reason)[:160]}", flush=True)
    return contenders


def with_configuration(name, a):
    def call():
        rt.set_backend("symmetric_product", f"cuda_symmetric/{name}")
        try:
            return rt.symmetric_product(a)
        finally:
            rt.set_backend("symmetric_product", None)

    return call


def check_product(name, result, right):
    off = ((result.float() - right).abs().max() / right.square().mean().sqrt()).item()
    # The diagonal is far larger than the RMS: of it a rounding of its own.
    off = off if off <= MOST_ERROR else ((result.float() - right).abs() / (right.abs() + right.square().mean().sqrt())).max().item()
    wrong = name.startswith("ridgeline") and not (off <= MOST_ERROR)
    if name.startswith("ridgeline") and "full" not in name and not torch.equal(result, result.t()):
        wrong = True
    return off, wrong


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--calls", type=int, default=10)
    parser.add_argument("--configs", default="")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    rows, failed = [], False

    def note(work, shape, times, errors):
        fastest = min((statistics.median(each) for name, each in times.items() if not name.startswith("ridgeline")), default=None)
        for name, each in times.items():
            us = statistics.median(each)
            rows.append({"work": work, "shape": shape, "contender": name, "median_us": us, "error": errors[name], "used": rt.last_used("symmetric_product"), "rounds_us": each})
            print(f"{work:14s} {shape:12s} {name:36s} {us:10.1f} us  error {errors[name]:.2g}" + (f"  {fastest / us:.2f} of the best peer" if name == "ridgeline" and fastest else ""), flush=True)

    for n, k in PRODUCTS:
        a = torch.randn(n, k, device="cuda").bfloat16()
        contenders = of_product(a, options)
        for name in filter(None, options.configs.split(",")):
            contenders[f"ridgeline {name}"] = with_configuration(name, a)
        torch.backends.cuda.matmul.allow_tf32 = False
        right, errors = a.float() @ a.float().t(), {}
        for name, call in contenders.items():
            errors[name], wrong = check_product(name, call(), right)
            failed |= wrong
        note("product", f"{n}x{k}", in_turns(contenders, options.rounds, options.calls), errors)
    from torch.optim._muon import _zeropower_via_newtonschulz as theirs

    for m, n in ITERATIONS:
        x = torch.randn(m, n, device="cuda").bfloat16()
        contenders = {"ridgeline": lambda: rt.newton_schulz(x)}
        right = theirs(x, COEFFICIENTS, 5, 1e-7)
        if not options.no_peers:
            contenders["torch"] = lambda: theirs(x, COEFFICIENTS, 5, 1e-7)
            contenders["compile"] = torch.compile(contenders["torch"])
        errors = {name: (torch.linalg.vector_norm(call().float() - right.float()) / torch.linalg.vector_norm(right.float())).item() for name, call in contenders.items()}
        failed |= not errors["ridgeline"] <= MOST_DISTANCE
        note("newton_schulz", f"{m}x{n}", in_turns(contenders, options.rounds, max(1, options.calls // 2)), errors)
    options.out.mkdir(parents=True, exist_ok=True)
    measured = {"versions": versions(), "commit": options.commit, "rounds": options.rounds, "calls": options.calls, "rows": rows}
    (options.out / "symmetric.json").write_text(json.dumps(measured))
    with (options.out / "symmetric.csv").open("w", newline="") as file:
        table = csv.writer(file, lineterminator="\n")
        table.writerow(["work", "shape", "contender", "median_us", "error"])
        table.writerows([row["work"], row["shape"], row["contender"], f"{row['median_us']:.2f}", f"{row['error']:.3g}"] for row in rows)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
