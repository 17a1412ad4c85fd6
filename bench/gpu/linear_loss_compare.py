#!/usr/bin/env python3
"""Times linear + cross entropy, forward and backward, beside PyTorch and Liger, contenders in turns, with the memory that each needs.

    linear_loss_compare.py OUT [--cases 0,1] [--repeats 7] [--peers torch,compile,liger] [--commit ID]

bfloat16, random normal data, the mean over all tokens, gradients of the input and of the weight. Every call is between two events; contenders change places from round to
round; the median counts. TFLOP/s are 6 tokens hidden vocabulary; what a contender computes again is not counted. Memory is the most that a call had allocated beyond what was there before it,
its gradients included. Loss and gradients are compared with those of logits and products in float32, as the share of their 2-norm. Writes OUT/linear_loss.json (with every
sample) and .csv. Peers that cannot be imported are named and left out. Exit status 1 on a wrong result of ours, 77 without PyTorch or a GPU. Needs PYTHONPATH=python
RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
"""
import argparse
import csv
import json
import pathlib
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    print("linear_loss_compare: skipped: needs a GPU", file=sys.stderr)
    sys.exit(77)
import torch.nn.functional as F  # noqa: E402

import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

CASES = [(8192, 4096, 128256), (8192, 2048, 152064)]  # tokens, hidden, vocabulary
ALLOWED = {"loss": 1e-4, "dx": 1e-2, "dweight": 1e-2}  # a rounding to bf16 is 2e-3 of a norm; products of rounded logits' gradients have two


def offered(peers):
    def torch_loss(x, w, t):
        return F.cross_entropy((x @ w.t()).float(), t)

    found = {"ridgeline": lambda x, w, t: rt.linear_cross_entropy(x, w, t),
             "ridgeline narrow sums": lambda x, w, t: rt.linear_cross_entropy(x, w, t, wide_sums=False),
             "ridgeline narrow sums, 1664 tokens": lambda x, w, t: rt.linear_cross_entropy(x, w, t, chunk=1664, wide_sums=False),
             "ridgeline narrow sums, 1024 tokens": lambda x, w, t: rt.linear_cross_entropy(x, w, t, chunk=1024, wide_sums=False)}
    if "torch" in peers:
        found["torch"] = torch_loss
    if "compile" in peers:
        found["compile"] = torch.compile(torch_loss)
    if "liger" in peers:
        try:
            from liger_kernel.ops.fused_linear_cross_entropy import LigerFusedLinearCrossEntropyFunction as fused

            def liger(x, w, t):
                loss = fused.apply(x, w, t)
                return loss[0] if isinstance(loss, tuple) else loss

            found["liger"] = liger
        except Exception as reason:  # noqa: BLE001
            print(f"liger is left out: {type(reason).__name__}: {str(reason)[:160]}", flush=True)
    return found


def right(x, w, t, rows=512):
    """Loss and gradients by products of float32, a few tokens at a time."""
    torch.backends.cuda.matmul.allow_tf32 = False
    wide, dweight, dx, loss = w.float(), torch.zeros(w.shape, device="cuda"), torch.empty(x.shape, device="cuda"), 0.0
    for first in range(0, len(t), rows):
        at = slice(first, first + rows)
        logits = x[at].float() @ wide.t()
        loss += F.cross_entropy(logits, t[at], reduction="sum").item()
        share = torch.softmax(logits, -1)
        share[torch.arange(len(share), device="cuda"), t[at]] -= 1
        share /= len(t)
        dx[at] = share @ wide
        dweight.addmm_(share.t(), x[at].float())
    return loss / len(t), dx, dweight


def distances(results, expected):
    return {
        "loss": abs(results[0].item() - expected[0]) / abs(expected[0]),
        "dx": (torch.linalg.vector_norm(results[1].float() - expected[1]) / torch.linalg.vector_norm(expected[1])).item(),
        "dweight": (torch.linalg.vector_norm(results[2].float() - expected[2]) / torch.linalg.vector_norm(expected[2])).item(),
    }


class Contender:
    def __init__(self, name, call, x, w, t):
        self.name, self.samples, self.bytes, self.distance = name, [], 0, {}
        self._call, self._operands = call, (x, w, t)

    def run(self):
        x, w, t = self._operands
        loss = self._call(x, w, t)
        return loss, *torch.autograd.grad(loss, (x, w))

    def measure(self, expected):
        """Once for memory and results."""
        torch.cuda.synchronize()
        torch.cuda.reset_peak_memory_stats()
        before = torch.cuda.memory_allocated()
        results = self.run()
        torch.cuda.synchronize()
        self.bytes = torch.cuda.max_memory_allocated() - before
        self.distance = distances(results, expected)

    def time(self):
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        self.run()
        end.record()
        end.synchronize()
        self.samples.append(start.elapsed_time(end) * 1e-3)


def compare(case, options):
    tokens, hidden, vocabulary = case
    x = torch.randn(tokens, hidden, device="cuda").bfloat16().requires_grad_()
    w = (torch.randn(vocabulary, hidden, device="cuda") * hidden**-0.5).bfloat16().requires_grad_()
    t = torch.randint(vocabulary, (tokens,), device="cuda")
    with torch.no_grad():
        expected = right(x, w, t)
    contenders = []
    for name, call in offered(options.peers.split(",")).items():
        one = Contender(name, call, x, w, t)
        try:
            one.run()
            one.measure(expected)
            contenders.append(one)
        except Exception as reason:  # noqa: BLE001
            print(f"{name} {case}: {type(reason).__name__}: {str(reason)[:160]}", flush=True)
    del expected
    for turn in range(options.repeats):
        for one in in_turn(contenders, turn):
            one.time()
    rows, well = [], True
    for one in contenders:
        seconds = statistics.median(one.samples)
        good = all(one.distance[key] <= ALLOWED[key] for key in ALLOWED)
        well = well and (good or not one.name.startswith("ridgeline"))
        rows.append({"case": "x".join(map(str, case)), "contender": one.name, "median_ms": seconds * 1e3, "tflops": 6.0 * tokens * hidden * vocabulary / seconds * 1e-12,
                     "memory_gib": one.bytes / 2**30, **{f"error_{key}": value for key, value in one.distance.items()}, "samples_ms": [round(s * 1e3, 3) for s in one.samples]})
        print(f"{rows[-1]['case']:20s} {one.name:36s} {seconds * 1e3:8.2f} ms {rows[-1]['tflops']:6.0f} TFLOP/s {one.bytes / 2**30:6.2f} GiB  {one.distance}" + ("" if good else "  WRONG"), flush=True)
    return rows, well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cases", default="0,1")
    parser.add_argument("--repeats", type=int, default=7)
    parser.add_argument("--peers", default="torch,compile,liger")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    rows, well, began = [], True, time.time()
    for case in (CASES[int(one)] for one in options.cases.split(",")):
        found, good = compare(case, options)
        rows += found
        well = well and good
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(), "seconds": round(time.time() - began, 1), "rows": rows}
    (options.out / "linear_loss.json").write_text(json.dumps(record, indent=1) + "\n")
    keys = ["case", "contender", "median_ms", "tflops", "memory_gib", "error_loss", "error_dx", "error_dweight"]
    with open(options.out / "linear_loss.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(keys)
        for row in rows:
            writer.writerow([row[key] if isinstance(row[key], str) else f"{row[key]:.6g}" for key in keys])
    sys.exit(0 if well else 1)


if __name__ == "__main__":
    main()
