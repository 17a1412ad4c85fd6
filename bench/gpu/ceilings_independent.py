#!/usr/bin/env python3
"""The ceilings of a GPU measured without Ridgeline, and `ridge ceilings --on cuda` held against them.

    ceilings_independent.py measure OUT.json
    ceilings_independent.py compare RIDGE.json OUT.json [OUT.json ...] --csv TABLE.csv

PyTorch (copy_, fill_, sum, add, matmul, _scaled_mm), Triton (streams, also in the L2) and CuPy (multiply-adds, shared memory,
empty kernels); whatever is not installed is left out and said so. Samples of at least 2 ms between two CUDA events, queued behind a
sleeping kernel so that the host's speed does not count; random normal data; the fastest way of each kind counts. `compare`
takes the medians of several runs, made before and after Ridgeline's: each is a machine in another thermal state. Exit status 1
when a ceiling of Ridgeline's is more than 2 % below what was reached here, 77 without PyTorch or a GPU."""
import argparse
import csv
import json
import pathlib
import statistics
import sys
import time

SIDE, ARRAY, WARM, PASSES = 8192, 4 << 30, 4 << 20, 128  # rows; bytes of an array, from memory and in the L2
SAMPLE, BUDGET, FEWEST, MOST = 2e-3, 0.2, 20, 60  # seconds of a sample and of all; how many
REST = 0.02  # seconds before each sample of a matrix product
TOLERANCE = 0.02


def median_and_best(values, is_time):
    ordered = sorted(values, reverse=is_time)
    return statistics.median(values), ordered[min(len(ordered) - 1, round(0.95 * (len(ordered) - 1)))]


class Bench:
    def __init__(self, torch):
        self.torch, self.results = torch, []

    def span(self, run, runs, rest=0):
        if rest:
            self.torch.cuda.synchronize()
            time.sleep(rest)
        start, end = (self.torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.torch.cuda._sleep(100_000 + 20_000 * runs)  # cycles: what follows is queued before it starts
        start.record()
        for _ in range(runs):
            run()
        end.record()
        end.synchronize()
        return 1e-3 * start.elapsed_time(end)

    def measure(self, name, method, unit, amount, run, rest=0):
        """One way: `amount` per run; an error is a row without a value. With `rest`, so many seconds of idleness before samples of
        one run each: the power limit lowers the clock within milliseconds of full load."""
        try:
            for _ in range(3):
                self.span(run, 1)
            once = statistics.median(self.span(run, 1) for _ in range(3))
            runs = 1 if rest else max(1, min(200, -(-SAMPLE // once)))
            count = int(max(FEWEST, min(MOST, BUDGET / (rest + runs * once))))
            spans = [self.span(run, int(runs), rest) for _ in range(3 + count)][3:]
            samples = [s / runs for s in spans] if unit == "s" else [amount * runs / s for s in spans]
            median, best = median_and_best(samples, unit == "s")
            row = {"name": name, "method": method, "unit": unit, "median": median, "best": best, "samples": samples}
            print(f"{name:26} {method:34} median {median:.4g} {unit}, best {best:.4g}", flush=True)
        except Exception as error:  # noqa: BLE001: one way that fails must not cost the others
            row = {"name": name, "method": method, "unit": unit, "error": f"{type(error).__name__}: {error}"[:300]}
            print(f"{name:26} {method:34} {row['error']}", flush=True)
        self.results.append(row)


def streams(bench, torch):
    x, z, y = (torch.empty(ARRAY // 4, device="cuda") for _ in range(3))
    for array in (x, z, y):
        array.normal_()
    bench.measure("copy_bandwidth", "torch copy_", "B/s", 2 * ARRAY, lambda: y.copy_(x))
    bench.measure("write_bandwidth", "torch fill_", "B/s", ARRAY, lambda: y.fill_(1.5))
    bench.measure("write_bandwidth", "torch zero_", "B/s", ARRAY, lambda: y.zero_())
    bench.measure("triad_bandwidth", "torch add, alpha", "B/s", 3 * ARRAY, lambda: torch.add(x, z, alpha=0.75, out=y))
    bench.measure("read_bandwidth", "torch sum", "B/s", ARRAY, lambda: torch.sum(x))
    bench.measure("read_bandwidth", "torch amax", "B/s", ARRAY, lambda: torch.amax(x))
    try:
        import triton  # noqa: F401
    except ImportError as error:
        print(f"no Triton: {error}")
        return
    import triton_streams
    triton_streams.cold(bench, torch, x, z, y)
    del x, y, z
    torch.cuda.empty_cache()
    triton_streams.warm(bench, torch, WARM, PASSES)


def products(bench, torch):
    flop = 2 * SIDE**3
    for name, dtype in (("matrix_bf16", torch.bfloat16), ("matrix_fp16", torch.float16), ("matrix_tf32", torch.float32)):
        torch.backends.cuda.matmul.allow_tf32 = True
        a, b = (torch.randn(SIDE, SIDE, device="cuda").to(dtype) for _ in range(2))
        c = torch.empty(SIDE, SIDE, device="cuda", dtype=dtype)
        for suffix, rest in (("", REST), ("_sustained", 0)):
            bench.measure(name + suffix, "torch matmul a b^T", "FLOP/s", flop, lambda: torch.matmul(a, b.t(), out=c), rest)
            bench.measure(name + suffix, "torch matmul a b", "FLOP/s", flop, lambda: torch.matmul(a, b, out=c), rest)
    a, b = (torch.randn(SIDE, SIDE, device="cuda").to(torch.float8_e4m3fn) for _ in range(2))
    one = torch.ones((), device="cuda")
    for suffix, rest in (("", REST), ("_sustained", 0)):
        bench.measure("matrix_fp8" + suffix, "torch _scaled_mm, fast sums", "FLOP/s", flop,
                      lambda: torch._scaled_mm(a, b.t(), one, one, out_dtype=torch.bfloat16, use_fast_accum=True), rest)


UNITS = r"""
extern "C" __global__ void chains(float* out, int steps, float scale) {
  float a = threadIdx.x, b = a + 1, c = a + 2, d = a + 3, e = a + 4, f = a + 5, g = a + 6, h = a + 7;
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int j = 0; j < 8; ++j) {
      a = fmaf(a, scale, 1.f); b = fmaf(b, scale, 1.f); c = fmaf(c, scale, 1.f); d = fmaf(d, scale, 1.f);
      e = fmaf(e, scale, 1.f); f = fmaf(f, scale, 1.f); g = fmaf(g, scale, 1.f); h = fmaf(h, scale, 1.f);
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = a + b + c + d + e + f + g + h;
}
extern "C" __global__ void shared(float* out, int steps) {
  __shared__ volatile float4 rows[1024];
  volatile float* words = (volatile float*)rows;
  for (int i = threadIdx.x; i < 4096; i += blockDim.x) words[i] = i;
  __syncthreads();
  unsigned at = (unsigned)__cvta_generic_to_shared((const void*)rows) + threadIdx.x * 16;  // volatile: ptxas merges equal loads
  float sum = 0;
  for (int i = 0; i < steps; ++i) {
#pragma unroll
    for (int j = 0; j < 16; ++j) {
      float p, q, r, s;
      asm volatile("ld.volatile.shared.v4.f32 {%0,%1,%2,%3}, [%4];" : "=f"(p), "=f"(q), "=f"(r), "=f"(s) : "r"(at));
      sum += q;
    }
  }
  out[blockIdx.x * blockDim.x + threadIdx.x] = sum;
}
extern "C" __global__ void nothing() {}
"""


def units(bench, torch):
    try:
        import cupy
    except ImportError as error:
        print(f"no CuPy: {error}")
        return
    stream = cupy.cuda.ExternalStream(torch.cuda.current_stream().cuda_stream)
    count = torch.cuda.get_device_properties(0).multi_processor_count
    out = cupy.zeros(count * 2048, dtype=cupy.float32)
    chains, shared, nothing = (cupy.RawKernel(UNITS, name) for name in ("chains", "shared", "nothing"))
    with stream:
        blocks, threads, steps = count * 16, 128, 2000
        bench.measure("fma_f32", "CuPy, 8 chains", "FLOP/s", 2.0 * 64 * steps * blocks * threads,
                      lambda: chains((blocks,), (threads,), (out, cupy.int32(steps), cupy.float32(0.999))))
        blocks_shared, threads_shared = count * 2, 1024
        bench.measure("shared_memory_bandwidth", "CuPy, 16 bytes a thread", "B/s", 256.0 * 500 * blocks_shared * threads_shared,
                      lambda: shared((blocks_shared,), (threads_shared,), (out, cupy.int32(500))))
        bench.measure("launch_time_chained", "CuPy, empty kernels", "s", 1, lambda: nothing((1,), (32,), ()))


def measure(arguments):
    try:
        import torch
        assert torch.cuda.is_available()
    except (ImportError, AssertionError):
        print("no PyTorch that sees a GPU", file=sys.stderr)
        return 77
    bench = Bench(torch)
    bench.measure("warm up", "torch matmul", "FLOP/s", 1, lambda a=torch.randn(4096, 4096, device="cuda"): a @ a)
    bench.results.clear()
    for part in (streams, units, products):
        try:
            part(bench, torch)
        except Exception as error:  # noqa: BLE001
            print(f"{part.__name__}: {type(error).__name__}: {error}", file=sys.stderr)
        torch.cuda.empty_cache()
    arguments.out.write_text(json.dumps({"device": torch.cuda.get_device_name(), "torch": torch.__version__,
                                         "results": bench.results}) + "\n")
    return 0


def independent(paths):
    """Of each ceiling the way with the best median, over all runs."""
    found = {}
    for path in paths:
        for row in json.loads(path.read_text())["results"]:
            if "median" not in row:
                continue
            ways = found.setdefault(row["name"], {})
            ways.setdefault(row["method"], {"unit": row["unit"], "samples": []})["samples"] += row["samples"]
    best = {}
    for name, ways in found.items():
        for method, way in ways.items():
            is_time = way["unit"] == "s"
            median, top = median_and_best(way["samples"], is_time)
            known = best.get(name)
            if known is None or (median < known["median"] if is_time else median > known["median"]):
                best[name] = {"method": method, "median": median, "best": top, "unit": way["unit"]}
    return best


def compare(arguments):
    ours = {row["name"]: row for row in json.loads(arguments.ridge.read_text())}
    theirs = independent(arguments.independent)
    rows, below = [], []
    for name, row in ours.items():
        if name not in theirs or not row["samples"]:
            continue
        other = theirs[name]
        is_time = row["unit"] == "s"
        median, best = median_and_best(row["samples"], is_time)
        ratio, top = (other["median"] / median, other["best"] / best) if is_time else (median / other["median"], best / other["best"])
        verdict = "within 2 %" if abs(ratio - 1) <= TOLERANCE else "above" if ratio > 1 else "BELOW"
        if verdict == "BELOW":
            below.append(name)
        rows.append({"ceiling": name, "unit": row["unit"], "ridge_value": f"{row['value']:.6g}", "ridge_median": f"{median:.6g}",
                     "independent_median": f"{other['median']:.6g}", "independent_best": f"{other['best']:.6g}",
                     "ratio_of_medians": f"{ratio:.4f}", "ratio_of_bests": f"{top:.4f}", "verdict": verdict,
                     "independent_method": other["method"], "ridge_method": row["method"]})
        print(f"{name:26} ridge {median:.4g}, independent {other['median']:.4g} {row['unit']} ({other['method']}): "
              f"ratio {ratio:.4f}, of the bests {top:.4f}: {verdict}")
    if not rows:
        print("nothing in common to compare", file=sys.stderr)
        return 1
    with arguments.csv.open("w", newline="") as file:
        table = csv.DictWriter(file, rows[0].keys())
        table.writeheader()
        table.writerows(rows)
    return 1 if below else 0


def main():
    parser = argparse.ArgumentParser()
    verbs = parser.add_subparsers(required=True)
    one = verbs.add_parser("measure")
    one.add_argument("out", type=pathlib.Path)
    one.set_defaults(run=measure)
    two = verbs.add_parser("compare")
    two.add_argument("ridge", type=pathlib.Path)
    two.add_argument("independent", type=pathlib.Path, nargs="+")
    two.add_argument("--csv", type=pathlib.Path, required=True)
    two.set_defaults(run=compare)
    arguments = parser.parse_args()
    return arguments.run(arguments)


if __name__ == "__main__":
    sys.exit(main())
