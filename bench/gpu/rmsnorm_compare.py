#!/usr/bin/env python3
"""Times rmsnorm, forward and backward, beside PyTorch, torch.compile, QuACK and Liger, contenders in turns.

    rmsnorm_compare.py OUT [--configs A,B] [--shapes 8192x4096,...] [--repeats 30] [--quick] [--no-compile] [--commit ID]

Every timed call is one forward or one backward pass (dx and the weight's gradient, through autograd) in bfloat16, on random normal
data, between two events. Before it a gibibyte is written eight times: that displaces the L2, and its two milliseconds are longer than
the host code of every contender, so that events show the device's time alone. Contenders change places from round to round; the median counts. TB/s are of compulsory bytes: x and
y, or x, dy and dx, and the weight. The results of every timed launch are compared with fp64, in memory that held NaN before.
Writes OUT/rmsnorm.json (with every sample) and .csv. Peers that cannot be imported are named and left out, and so are configurations
for the shapes that they do not fit. Exit status 1 on a wrong
result, 77 without PyTorch or a Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
"""
import argparse
import csv
import json
import math
import pathlib
import statistics
import subprocess
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    print("rmsnorm_compare: skipped: needs a Hopper GPU", file=sys.stderr)
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402

F = torch.nn.functional
SHAPES = [(8192, 4096), (8192, 8192), (16384, 7168), (4096, 16384), (131072, 128), (32768, 1024), (1024, 65536)]
EPS = 1e-6
DISPLACED_BYTES, DISPLACED_TIMES = 1 << 30, 8
IMPLEMENTATION = {"forward": ("rmsnorm", "cuda_rmsnorm"), "backward": ("rmsnorm_backward", "cuda_rmsnorm_backward")}


def peers(options):
    """Name: a function of (x, weight) that has a gradient."""
    found = {"torch": lambda x, w: F.rms_norm(x, (x.shape[-1],), w, EPS)}
    if not options.no_compile:
        torch._dynamo.config.cache_size_limit = 64
        found["compile"] = torch.compile(lambda x, w: F.rms_norm(x, (x.shape[-1],), w, EPS), dynamic=False)
    try:
        from quack import rmsnorm as quack_rmsnorm
        found["quack"] = lambda x, w: quack_rmsnorm(x, w, eps=EPS)
    except Exception as reason:  # noqa: BLE001
        print(f"no QuACK: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
    try:
        from liger_kernel.ops.rms_norm import LigerRMSNormFunction
        found["liger"] = lambda x, w: LigerRMSNormFunction.apply(x, w, EPS, 0.0, "llama", False)
    except Exception as reason:  # noqa: BLE001
        print(f"no Liger: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
    return found


def reference(x, w, dy):
    """y, dx and the weight's gradient from fp64, in pieces of rows."""
    y, dx = torch.empty_like(x, dtype=torch.float32), torch.empty_like(x, dtype=torch.float32)
    dw = torch.zeros_like(w, dtype=torch.float64)
    step = max(1, (1 << 25) // x.shape[1])
    for begin in range(0, x.shape[0], step):
        rows = slice(begin, begin + step)
        h, g, factor = x[rows].double(), dy[rows].double(), w.double()
        rstd = torch.rsqrt(h.square().mean(1, keepdim=True) + EPS)
        normal = h * rstd
        y[rows] = normal * factor
        dx[rows] = (g * factor - normal * (g * factor * normal).mean(1, keepdim=True)) * rstd
        dw += (g * normal).sum(0)
    return y, dx, dw.float()


def error(found, expected):
    """The largest error in units of what bfloat16 leaves of it: two roundings of itself, or a part of the tensor's own size."""
    worst = 0.0
    size = expected.square().mean().sqrt().item()
    rows = max(1, (1 << 26) // expected.shape[-1])
    for one, right in zip(found.split(rows), expected.split(rows)):
        ratio = ((one.float() - right).abs() / (right.abs() * 2**-7 + size * 2**-8)).max().item()
        worst = max(worst, math.inf if math.isnan(ratio) else ratio)
    return worst


class Contender:
    def __init__(self, name, function, direction, x, w, dy, configuration=None):
        self.name, self.direction, self.configuration = name, direction, configuration
        self.x, self.w, self.dy = x.detach().requires_grad_(), w.detach().requires_grad_(), dy
        self.function = function
        self.samples, self.worst = [], 0.0
        self.choose()
        self.out = function(self.x, self.w) if direction == "backward" else None

    def choose(self):
        if self.configuration is not None:
            rt.set_backend(*self.configuration)

    def run(self):
        if self.direction == "backward":
            return torch.autograd.grad(self.out, (self.x, self.w), self.dy, retain_graph=True)
        with torch.no_grad():
            return (self.function(self.x, self.w),)

    def timed(self, flush):
        self.choose()
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        flush()
        start.record()
        results = self.run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3, results

    def release(self):
        if self.configuration is not None:
            rt.set_backend(self.configuration[0], None)


def measure(shape, direction, functions, configurations, options, flush):
    rows, cols = shape
    x, dy = (torch.randn(rows, cols, device="cuda").bfloat16() for _ in range(2))
    w = (1 + 0.2 * torch.randn(cols, device="cuda")).bfloat16()
    y, dx, dw = reference(x, w, dy)
    expected = (y,) if direction == "forward" else (dx, dw)
    ours = lambda a, b: rt.rms_norm(a, (cols,), b, EPS)  # noqa: E731
    op, implementation = IMPLEMENTATION[direction]
    contenders = []
    for name in configurations:
        choice = implementation if name == "" else f"{implementation}/{name}"
        try:
            one = Contender(f"ridgeline{'/' if name else ''}{name}", ours, direction, x, w, dy, (op, choice))
        except ValueError:  # a configuration of the other direction
            continue
        try:
            one.run()
            contenders.append(one)
        except RuntimeError as reason:
            print(f"{one.name} {rows}x{cols} {direction}: {str(reason)[:200]}", flush=True)
        one.release()
    for name, function in functions.items():
        try:
            one = Contender(name, function, direction, x, w, dy)
            one.run()
            contenders.append(one)
        except Exception as reason:  # noqa: BLE001
            print(f"{name} {rows}x{cols} {direction}: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
    right = True
    for turn in range(options.repeats + 3):
        for at in range(len(contenders)):
            one = contenders[(at + turn) % len(contenders)]
            seconds, results = one.timed(flush)
            if turn >= 3:
                one.samples.append(seconds)
            one.worst = max([one.worst, *(error(found.reshape(want.shape), want) for found, want in zip(results, expected))])
            for found in results:
                found.detach().fill_(math.nan)  # the next result that is put there must be written
            one.release()
    size = (2 if direction == "forward" else 3) * rows * cols * 2 + cols * (2 if direction == "forward" else 4)
    found = []
    for one in contenders:
        median = statistics.median(one.samples)
        ours_here = one.configuration is not None
        if ours_here and one.worst > 1:
            right = False
        found.append({"shape": f"{rows}x{cols}", "direction": direction, "contender": one.name, "median_us": median * 1e6,
                      "tb_per_s": size / median * 1e-12, "best_us": min(one.samples) * 1e6, "worst_us": max(one.samples) * 1e6,
                      "error": one.worst, "samples_us": [round(s * 1e6, 3) for s in one.samples]})
        mark = "" if one.worst <= 1 else f"   WRONG by {one.worst:.3g}"
        print(f"{rows:7d} x {cols:5d} {direction:8s} {one.name:24s} {median * 1e6:9.2f} us {size / median * 1e-12:6.3f} TB/s{mark}", flush=True)
    return found, right


def versions():
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "device": torch.cuda.get_device_name(), "ridgeline": rt.__version__}
    for name in ("triton", "quack", "liger_kernel"):
        module = sys.modules.get(name)
        if module is not None:
            found[name] = getattr(module, "__version__", "unknown")
    query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"]
    found["smi"] = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return found


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--configs", default="")
    parser.add_argument("--shapes", default="")
    parser.add_argument("--directions", default="forward,backward")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    shapes = [tuple(map(int, one.split("x"))) for one in options.shapes.split(",") if one] or SHAPES
    if options.quick:
        shapes, options.repeats = shapes[:2], 10
    functions = {} if options.no_peers else peers(options)
    displaced = torch.empty(DISPLACED_BYTES // 4, device="cuda", dtype=torch.int32)

    def flush():
        for _ in range(DISPLACED_TIMES):
            displaced.fill_(1)

    rows, right, began = [], True, time.time()
    for shape in shapes:
        for direction in options.directions.split(","):
            configurations = [""] + [one for one in options.configs.split(",") if one]
            found, well = measure(shape, direction, functions, configurations, options, flush)
            rows += found
            right = right and well
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(), "seconds": round(time.time() - began, 1), "rows": rows}
    (options.out / "rmsnorm.json").write_text(json.dumps(record, indent=1) + "\n")
    with open(options.out / "rmsnorm.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["shape", "direction", "contender", "median_us", "tb_per_s", "best_us", "worst_us", "error"])
        for row in rows:
            writer.writerow([row["shape"], row["direction"], row["contender"], *(f"{row[key]:.3f}" for key in
                             ("median_us", "tb_per_s", "best_us", "worst_us", "error"))])
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
