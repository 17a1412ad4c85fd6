#!/usr/bin/env python3
"""Products of the library against torch's on a CPU: twenty shapes of a layer, y = x W^T, in fp32 and bf16.

  cmake --build build --target ridgeline_torch
  PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib .venv/bin/python bench/torch_overhead/products.py [--threads N] [--json FILE]

Contenders take turns, the order turns round every other time; a time is the median over the turns of a batch's mean, operands warm.
Results are compared with torch's in fp64 first. `ratio` is torch's time over ours, paired by turn: above 1 ours is faster.
"""

import argparse
import json
import math
import os
import pathlib
import platform
import statistics
import time

import torch

import ridgeline.torch as rt

SHAPES = [(m, n, k) for m in (1, 8, 64, 256, 1024) for n, k in ((1024, 1024), (4096, 1024), (1024, 4096))]
SHAPES += [(s, s, s) for s in (64, 128, 256, 512, 768)]
BATCH_SECONDS = 0.02


def check(x, weight, y):
    exact = x.double() @ weight.double().t()
    bound = 0.02 if x.dtype == torch.bfloat16 else 1e-4
    error = float((y.double() - exact).abs().max() / exact.abs().max())
    if not error < bound:
        raise SystemExit(f"{tuple(x.shape)} x {tuple(weight.shape)} {x.dtype}: off by {error:.2g} of the largest element")


def batch_seconds(call, count):
    start = time.perf_counter()
    for _ in range(count):
        call()
    return (time.perf_counter() - start) / count


def race(x, weight, turns):
    calls = {"ours": lambda: rt.gemm(x, weight, trans_b=True), "torch": lambda: torch.nn.functional.linear(x, weight)}
    check(x, weight, calls["ours"]())
    count = {name: max(1, int(BATCH_SECONDS / batch_seconds(call, 2))) for name, call in calls.items()}
    times = {name: [] for name in calls}
    for turn in range(turns):
        for name in calls if turn % 2 == 0 else reversed(calls):
            times[name].append(batch_seconds(calls[name], count[name]))
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=1)
    parser.add_argument("--turns", type=int, default=11)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = {"torch": torch.__version__, "ridgeline": rt.__version__, "commit": os.environ.get("RIDGE_COMMIT", ""), "threads": options.threads,
              "processor": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor()),
              "torch_best_instructions": torch.backends.cpu.get_cpu_capability(), "load_before": os.getloadavg()[0], "rows": []}
    for dtype in (torch.float32, torch.bfloat16):
        logs = []
        for m, n, k in SHAPES:
            times = race(torch.randn(m, k).to(dtype), torch.randn(n, k).to(dtype), options.turns)
            ratio = statistics.median(t / o for t, o in zip(times["torch"], times["ours"]))
            median = {name: statistics.median(values) for name, values in times.items()}
            logs.append(math.log(ratio))
            result["rows"].append({"dtype": str(dtype)[6:], "m": m, "n": n, "k": k, "implementation": rt.last_used("gemm"), "ratio": ratio, **times})
            print(f"{str(dtype)[6:]:9s} {m:5d} {n:5d} {k:5d}  ours {1e6 * median['ours']:9.1f} us  torch {1e6 * median['torch']:9.1f} us  ratio {ratio:.2f}", flush=True)
        print(f"{str(dtype)[6:]}: geometric mean {math.exp(statistics.mean(logs)):.3f}, smallest {math.exp(min(logs)):.2f}")
    if options.json:
        options.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
