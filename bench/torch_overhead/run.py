#!/usr/bin/env python3
"""What a call from Python costs: ours over the same call in C++, and ours beside torch.matmul.

  cmake --build build --target ridgeline_torch bench_torch_overhead
  PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib .venv/bin/python bench/torch_overhead/run.py [--device cuda] [--json FILE]

Host time per call in microseconds, also of a layer of 64 features on 8 rows, medians over interleaved batches of calls; on a GPU the device is drained between batches, and
batches are short enough that its queue never fills, so that enqueueing is all that is timed. Also the 512^3 product itself
(`wall`: a batch with the wait at its end), and what `import ridgeline.torch` adds to `import torch` in a fresh process.
"""

import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

import torch

import ridgeline.torch as rt

IMPORT = "import time, torch; start = time.perf_counter(); import ridgeline.torch; print(1e3 * (time.perf_counter() - start))"


def interleaved(calls, per_batch, batches, drain):
    """Microseconds of every batch by name; the order turns round every other time."""
    times = {name: {"host": [], "wall": []} for name in calls}
    for batch in range(batches):
        for name in calls if batch % 2 == 0 else reversed(list(calls)):
            start = time.perf_counter()
            seconds = calls[name](per_batch)
            host = time.perf_counter() - start
            drain()
            wall = time.perf_counter() - start
            times[name]["host"].append(1e6 * (seconds if seconds else host / per_batch))
            times[name]["wall"].append(1e6 * wall / per_batch)
    return times


def repeat(function):
    def run(count):
        for _ in range(count):
            function()

    return run


def measure(size, dtype, device, per_batch, batches, drain):
    a, b = (torch.randn(size, size, device=device).to(dtype) for _ in range(2))
    c = torch.empty_like(a)
    leaf, weight = a.clone().requires_grad_(), b.clone().requires_grad_()
    cpp, op = torch.ops.ridgeline_bench.gemm_seconds, torch.ops.ridgeline.gemm.default
    calls = {
        "C++ API": lambda count: cpp(c, a, b, True, count),
        "torch.ops.ridgeline.gemm": repeat(lambda: op(a, b, False, True)),
        "ridgeline.torch.gemm": repeat(lambda: rt.gemm(a, b, trans_b=True)),
        "torch.matmul": repeat(lambda: torch.matmul(a, b.t())),
        "ridgeline.torch.gemm, recording": repeat(lambda: rt.gemm(leaf, weight, trans_b=True)),
        "torch.matmul, recording": repeat(lambda: torch.matmul(leaf, weight.t())),
    }
    interleaved(calls, per_batch, 3, drain)
    return interleaved(calls, per_batch, batches, drain)


def layers(device, dtype, per_batch, batches, drain):
    """A layer of 64 features on 8 rows, each kind with and without recording."""
    x = torch.randn(8, 64, device=device).to(dtype)
    plain = torch.nn.Linear(64, 64, device=device, dtype=dtype)
    kinds = {"torch.nn.Linear": plain, "ridgeline.torch.Linear": rt.Linear.from_float(plain), "Fp8Linear": rt.Fp8Linear.from_float(plain)}
    calls = {}
    for name, layer in kinds.items():
        calls[f"{name}, recording"] = repeat(lambda layer=layer: layer(x))
        calls[name] = torch.no_grad()(repeat(lambda layer=layer: layer(x)))
    interleaved(calls, per_batch, 3, drain)
    return interleaved(calls, per_batch, batches, drain)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--batches", type=int, default=40)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.ops.load_library(str(pathlib.Path(os.environ["RIDGELINE_LIBRARY_DIR"]).resolve() / "libbench_torch_overhead.so"))
    gpu = options.device.startswith("cuda")
    torch.set_num_threads(1)
    drain = torch.cuda.synchronize if gpu else lambda: None
    dtype = torch.bfloat16 if gpu else torch.float32
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if gpu else "cpu", "import_ms": []}
    for size, per_batch in ((64 if gpu else 4, 100), (512, 100 if gpu else 4)):
        times = measure(size, dtype, options.device, per_batch, options.batches, drain)
        result[f"{size}^3 {str(dtype)[6:]}"] = times
        print(f"{size}^3 {dtype}: microseconds per call, host / wall")
        base = statistics.median(times["C++ API"]["host"])
        for name, both in times.items():
            host, wall = (statistics.median(both[kind]) for kind in ("host", "wall"))
            print(f"  {name:34s} {host:9.2f} / {wall:9.2f}   over C++ {host - base:+.2f}")
        ours, theirs = times["ridgeline.torch.gemm"]["wall"], times["torch.matmul"]["wall"]
        print(f"  torch.matmul / ours, wall, paired: {statistics.median(t / o for t, o in zip(theirs, ours)):.3f}")
    times = layers(options.device, dtype, 100, options.batches, drain)
    result[f"layer 8x64 {str(dtype)[6:]}"] = times
    print(f"layer 8 x 64 {dtype}: microseconds per call, host; over torch.nn.Linear, paired")
    for name, both in times.items():
        base = times["torch.nn.Linear, recording" if name.endswith("recording") else "torch.nn.Linear"]["host"]
        over = statistics.median(mine - theirs for mine, theirs in zip(both["host"], base))
        print(f"  {name:34s} {statistics.median(both['host']):9.2f}   smallest {min(both['host']):.2f}   over {over:+.2f}")
    for _ in range(5):
        result["import_ms"].append(float(subprocess.run([sys.executable, "-c", IMPORT], check=True, capture_output=True, text=True).stdout))
    print(f"import ridgeline.torch after torch: {statistics.median(result['import_ms']):.1f} ms (median of 5 processes)")
    if options.json:
        options.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
