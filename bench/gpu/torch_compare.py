#!/usr/bin/env python3
"""Races our matrix products against PyTorch and cuBLASLt's best algorithm in one process.

    torch_compare.py --library libridge_gpu_bench.so --json OUT.json [--seconds S] [--no-cublaslt] [SHAPE ...]

A shape is LAYOUT:WORDS:M,N,K (gemm_shape.h says which words there are); --short takes every fifth of the bf16 layers and every
other shape of the rest. Random normal operands, several operand sets larger
together than the L2, contenders taking turns inside every round in a balanced order (turns.py), medians. Two protocols: `flushed` (a
cache-clearing read before every single launch) and `sustained` (no pause). Each row first checks our result against float64 on
sampled rows and keeps its signal-to-noise ratio. Without shapes: the standard table (--list prints it). report.py makes tables
and plots of the JSON. Exit status 77 without PyTorch or a Hopper GPU.
"""
import argparse
import ctypes
import json
import math
import platform
import statistics
import subprocess
import sys

from turns import in_turn

# Model, then N,K of its dense layers.
MODELS = [("Llama-3.1-8B", ["6144,4096", "4096,4096", "28672,4096", "4096,14336"]),
          ("Llama-3.1-70B", ["10240,8192", "8192,8192", "57344,8192", "8192,28672"]),
          ("Llama-3.1-405B", ["18432,16384", "16384,16384"]),
          ("Qwen2.5-7B", ["4608,3584", "3584,3584", "37888,3584", "3584,18944"]),
          ("Qwen2.5-72B", ["59136,8192", "8192,29568"]),
          ("DeepSeek-V3", ["2112,7168", "7168,2048", "24576,1536", "32768,512", "7168,16384", "4096,7168"])]
TOKENS = (4096, 8192)
CORE = ["4096,4096,4096", "8192,8192,8192", "4096,6144,4096", "4096,28672,4096", "4096,4096,14336", "8192,10240,8192",
        "8192,57344,8192", "8192,8192,28672", "4096,7168,2048", "4096,2112,7168"]
SMALL = [f"{m},{nk}" for m in (128, 256, 1024)
         for nk in ("4096,4096", "6144,4096", "28672,4096", "4096,14336", "8192,8192", "10240,8192")]
# dW[N, K] = dY^T X over T tokens.
WGRAD = ["6144,4096,8192", "4096,4096,8192", "28672,4096,8192", "4096,14336,8192", "10240,8192,8192", "8192,8192,8192",
         "8192,28672,4096", "2112,7168,4096", "7168,2048,4096", "4096,4096,4096"]


# Rows of A, B, both or of scales that do not start on 16 bytes.
OFF_16_BYTES = ["NT:bf16:4096,4096,4095", "NN:bf16:4096,4095,4096", "NT:bf16:8192,4096,4095", "TN:bf16:4095,4096,8192",
                "TN:bf16-bf16add:4095,4096,8192", "NT:e4m3-block:4094,4096,4096", "NT:e4m3-tensor:4096,4096,4095"]


def layer_rows(m, n, k, words="bf16"):
    """Of a layer Y[m,n] = X[m,k] W[n,k]^T: forward, gradient of X, gradient of W."""
    return [f"NT:{words}:{m},{n},{k}", f"NN:{words}:{m},{k},{n}", f"TN:{words}:{n},{k},{m}"]


def standard():
    layers = [tuple(map(int, nk.split(","))) for _, shapes in MODELS for nk in shapes]
    rows = list(dict.fromkeys(row for n, k in layers for m in TOKENS for row in layer_rows(m, n, k)))
    rows += [f"NT:bf16:{s}" for s in SMALL] + [f"{layout}:bf16:256,8192,8192" for layout in ("NN", "TN")]
    rows += [f"TN:{t}:{s}" for t in ("bf16-f32add", "bf16-bf16add") for s in WGRAD]
    rows += [f"NT:{t}:{s}" for t in ("e4m3-tensor", "e4m3-tensor-promote", "e4m3-row", "e4m3-row-promote", "e4m3-block")
             for s in CORE]
    rows += [f"NT:e4m3-vector-f32add:{s}" for s in WGRAD]
    rows += [f"NT:{t}:{s}" for t in ("bf16-bias-gelutanh", "bf16-residual") for s in CORE[:4]]
    rows += [f"NT:{t}:{s}" for t in ("f16", "tf32", "f32") for s in CORE[:2]]
    return rows + OFF_16_BYTES


def short():
    rows = standard()
    layers = [r for r in rows if ":bf16:" in r and int(r.split(":")[2].split(",")[0]) > 1024]
    rest = [r for r in rows if r not in layers]
    return layers[::5] + rest[::2]


class Library:
    def __init__(self, path):
        self.lib = ctypes.CDLL(path)
        u64, pointer = ctypes.c_uint64, ctypes.c_void_p
        self.lib.ridge_bench_gemm.restype = pointer
        self.lib.ridge_bench_gemm.argtypes = [ctypes.c_char_p, ctypes.c_char_p, u64, u64, u64, ctypes.POINTER(u64),
                                              ctypes.c_char_p, ctypes.c_int]
        self.lib.ridge_bench_gemm_launch.argtypes = [pointer, pointer]
        self.lib.ridge_bench_gemm_free.argtypes = [pointer]
        self.lib.ridge_bench_peer.restype = pointer
        self.lib.ridge_bench_peer.argtypes = [ctypes.c_char_p, u64, u64, ctypes.c_int]
        self.lib.ridge_bench_peer_algorithms.argtypes = [pointer]
        self.lib.ridge_bench_peer_launch.argtypes = [pointer, ctypes.c_int, u64, u64, u64, pointer]
        self.lib.ridge_bench_peer_free.argtypes = [pointer]
        self.lib.ridge_bench_open()

    def telemetry(self):
        values = [ctypes.c_uint() for _ in range(3)]
        self.lib.ridge_bench_telemetry(*[ctypes.byref(v) for v in values])
        return [v.value for v in values]


def race(contenders, sets, rounds, per_sample, before=None):
    """Samples in seconds per launch of each contender, and the telemetry read two thirds of the way."""
    events = [[(torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)) for _ in range(rounds)]
              for _ in contenders]
    for contender in contenders:
        contender(0)
    turn_set, telemetry = 0, None
    for r in range(rounds):
        for who in in_turn(range(len(contenders)), r):
            if before:
                before()
            begin, end = events[who][r]
            begin.record()
            for _ in range(per_sample):
                contenders[who](turn_set % sets)
                turn_set += 1
            end.record()
        if r == rounds * 2 // 3:
            telemetry = LIB.telemetry()
    torch.cuda.synchronize()
    return [[b.elapsed_time(e) * 1e-3 / per_sample for b, e in row] for row in events], telemetry


class Case:
    """Operands of one shape, and what PyTorch and float64 make of them."""

    def __init__(self, spec):
        self.spec = spec
        layout, self.types, self.mnk = spec.split(":")
        self.layout = layout
        m, n, k = self.m, self.n, self.k = tuple(map(int, self.mnk.split(",")))
        words = self.words = self.types.split("-")
        names = {"bf16": torch.bfloat16, "f16": torch.float16, "f32": torch.float32, "tf32": torch.float32,
                 "e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}
        self.in_type = names[words[0]]
        self.eight_bit = self.in_type.itemsize == 1
        out = [w for w in words[1:] if w.removesuffix("add") in ("bf16", "f16", "f32")]
        self.adds = bool(out) and out[0].endswith("add")
        self.out_type = names[out[0].removesuffix("add")] if out else torch.bfloat16 if self.eight_bit else self.in_type
        self.scaling = next((w for w in words if w in ("tensor", "row", "block", "vector")), "tensor" if self.eight_bit else None)
        self.fast = "promote" not in words and self.scaling in ("tensor", "row")
        bytes_of_set = self.in_type.itemsize * (m * k + n * k) + self.out_type.itemsize * m * n
        self.sets = max(3, min(24, (200 << 20) // bytes_of_set + 1))
        shape_a, shape_b = (k, m) if layout[0] == "T" else (m, k), (k, n) if layout[1] == "N" else (n, k)

        def normal(shape):
            x = torch.randn(shape, device="cuda", dtype=torch.bfloat16 if self.eight_bit else self.in_type)
            return x.to(self.in_type) if self.eight_bit else x

        self.a = [normal(shape_a) for _ in range(self.sets)]
        self.b = [normal(shape_b) for _ in range(self.sets)]
        self.c = [torch.zeros(m, n, device="cuda", dtype=self.out_type) for _ in range(self.sets)]
        self.d = [torch.zeros(m, n, device="cuda", dtype=self.out_type) for _ in range(self.sets)]
        self.op_a = [x.t() if layout[0] == "T" else x for x in self.a]
        self.op_b = [x if layout[1] == "N" else x.t() for x in self.b]
        self.scales()
        self.bias = torch.randn(n, device="cuda", dtype=self.out_type) if "bias" in words else None
        self.residual = torch.randn(m, n, device="cuda", dtype=self.out_type) if "residual" in words else None

    def scales(self):
        m, n, blocks = self.m, self.n, (self.k + 127) // 128

        def draw(*shape):
            return torch.rand(shape, device="cuda") + 0.5

        # Stored as torch and cuBLASLt want them: A's [k/128][m]; B's [n/128][k/128], or [k/128][n].
        self.scale_a = self.scale_b = None
        if self.scaling == "tensor":
            self.scale_a, self.scale_b = draw(1)[0], draw(1)[0]
        elif self.scaling == "row":
            self.scale_a, self.scale_b = draw(m, 1), draw(1, n)
        elif self.scaling == "block":
            self.scale_a, self.scale_b = draw(blocks, m).t(), draw((n + 127) // 128, blocks).t()
        elif self.scaling == "vector":
            self.scale_a, self.scale_b = draw(blocks, m).t(), draw(blocks, n)

    def torch_launch(self):
        a, b, d, words = self.op_a, self.op_b, self.d, self.words
        functional = torch.nn.functional
        activation = {"gelu": lambda x: functional.gelu(x), "gelutanh": lambda x: functional.gelu(x, approximate="tanh"),
                      "silu": lambda x: functional.silu(x)}.get(next((w for w in words if w in ("gelu", "gelutanh", "silu")), None))
        if self.eight_bit:
            def product(i, dtype=self.out_type):
                return torch._scaled_mm(a[i], b[i], self.scale_a, self.scale_b, out_dtype=dtype, use_fast_accum=self.fast)
            return (lambda i: d[i].add_(product(i))) if self.adds else product
        if self.adds:
            if self.out_type == torch.float32:
                return lambda i: d[i].add_(torch.mm(a[i], b[i], out_dtype=torch.float32))
            return lambda i: d[i].addmm_(a[i], b[i])
        if self.bias is not None or activation or self.residual is not None:
            def finished(i):
                x = torch.addmm(self.bias, a[i], b[i]) if self.bias is not None else None
                if self.residual is not None:
                    return torch.addmm(self.residual, a[i], b[i]) if x is None else activation(x) + self.residual
                return activation(x) if activation else x
            return finished
        if self.out_type != self.in_type:
            return lambda i: torch.mm(a[i], b[i], out_dtype=self.out_type)
        return lambda i: torch.mm(a[i], b[i], out=d[i])

    def exact(self, rows):
        a, b = self.op_a[0][rows].double(), self.op_b[0].double()
        if self.scaling in ("tensor", "row"):
            a = a * (self.scale_a if self.scaling == "tensor" else self.scale_a[rows]).double()
            b = b * self.scale_b.double()
        elif self.scaling:
            a = a * self.scale_a[rows].double().repeat_interleave(128, 1)[:, :self.k]
            scale_b = self.scale_b.double().repeat_interleave(128, 0)[:self.k]
            b = b * (scale_b.repeat_interleave(128, 1)[:, :self.n] if self.scaling == "block" else scale_b)
        x = a @ b
        if self.bias is not None:
            x = x + self.bias.double()
        functional = torch.nn.functional
        if "gelu" in self.words:
            x = functional.gelu(x)
        if "gelutanh" in self.words:
            x = functional.gelu(x, approximate="tanh")
        if "silu" in self.words:
            x = functional.silu(x)
        return x if self.residual is None else x + self.residual[rows].double()


def run_shape(spec, config, budget):
    case = Case(spec)
    m, n, k, sets, lib = case.m, case.n, case.k, case.sets, LIB.lib
    stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
    name = ctypes.create_string_buffer(64)
    pointers = [0 if t is None else t.data_ptr() for t in (case.scale_a, case.scale_b, case.bias, case.residual)]
    extras = (ctypes.c_uint64 * 4)(*pointers)
    ours = [lib.ridge_bench_gemm(spec.encode(), config.encode() if config else None, case.a[i].data_ptr(), case.b[i].data_ptr(),
                                 case.c[i].data_ptr(), extras, name, 64) for i in range(sets)]

    def launch_ours(i):
        lib.ridge_bench_gemm_launch(ours[i], stream)

    # Correct first: sampled rows against float64, before C has been added to a second time.
    launch_ours(0)
    rows = torch.randint(0, m, (64,), device="cuda")
    want, got = case.exact(rows), case.c[0][rows].double()
    error = ((got - want).norm() / want.norm()).item()
    limit = 5e-3 if case.out_type.itemsize == 2 else 1e-2 if case.eight_bit else 2e-3 if "tf32" in case.words else 1e-5
    assert error < limit, f"{spec}: relative error {error}"

    torch_launch = case.torch_launch()
    try:
        torch_launch(0)
    except RuntimeError as refusal:  # then ours is measured alone
        print(f"PyTorch refuses {spec}: {str(refusal).splitlines()[0]}", flush=True)
        torch_launch = None
    guess = 2.0 * m * n * k / (1.3e15 if case.eight_bit else 3e14 if case.words[0] == "tf32" else 4e13 if case.words[0] == "f32" else 7e14)
    per_sample = max(1, min(10, round(4e-4 / guess)))
    plain = not (arguments.no_cublaslt or case.bias is not None or case.residual is not None or set(case.words) & {"gelu", "gelutanh", "silu"})
    peer = lib.ridge_bench_peer(spec.encode(), pointers[0], pointers[1], 1 if case.fast else 0) if plain else None

    failing = set()  # algorithms of cuBLASLt: one that does not run costs no time

    def peer_with(algorithm):
        def launch(i):
            if not lib.ridge_bench_peer_launch(peer, algorithm, case.a[i].data_ptr(), case.b[i].data_ptr(), case.d[i].data_ptr(), stream):
                failing.add(algorithm)
        return launch

    usable = list(range(lib.ridge_bench_peer_algorithms(peer) if peer else 0))
    for algorithm in usable:
        for i in range(sets):
            peer_with(algorithm)(i)
    usable = [g for g in usable if g not in failing]
    contenders = {"ours": launch_ours} | ({"torch": torch_launch} if torch_launch else {})
    if usable:  # where cuBLASLt refuses the case the column stays empty
        samples, _ = race([peer_with(g) for g in usable], sets, max(2, min(7, round(0.1 / (guess * per_sample * len(usable))))),
                          per_sample)
        brief = {g: statistics.median(s) for g, s in zip(usable, samples) if g not in failing}
        if brief:
            contenders["lt_best"] = peer_with(min(brief, key=brief.get))
    work = 2e-12 * m * n * k
    # The same work first: the card reaches its power limit within milliseconds, its temperature later.
    for i in range(int(budget * 0.6 / guess) + 1):
        (torch_launch or launch_ours)(i % sets)
    flush = 3e-4  # seconds that clearing the cache takes
    for protocol, repeats, before in (("sustained", per_sample, None), ("flushed", 1, lambda: FLUSH.sum())):
        cost = len(contenders) * (guess * repeats * 1.1 + (flush if before else 0))
        rounds = max(9, min(40, round(budget / cost)))
        samples, telemetry = race(list(contenders.values()), sets, rounds, repeats, before)
        medians = [statistics.median(s) for s in samples]
        row = {"protocol": protocol, "layout": case.layout, "types": case.types, "M": m, "N": n, "K": k,
               "config": name.value.decode(), "relative_error": error, "snr_db": round(-20 * math.log10(max(error, 1e-9)), 2),
               "clock_mhz": telemetry[0], "power_w": telemetry[1], "temperature_c": telemetry[2], "samples": rounds}
        seconds_of = dict(zip(contenders, medians))
        if "lt_best" in seconds_of and min(brief, key=brief.get) in failing:
            print(f"not counted: cuBLASLt's algorithm {min(brief, key=brief.get)} failed in {spec}, {protocol}", flush=True)
            del seconds_of["lt_best"]
        for who, times in zip(contenders, samples):
            if who not in seconds_of:
                continue
            seconds = seconds_of[who]
            row[f"{who}_tflops"] = round(work / seconds, 1)
            row[f"{who}_us"] = round(seconds * 1e6, 2)
            row.setdefault("samples_us", {})[who] = [round(x * 1e6, 2) for x in times]
        for other in ("torch", "lt_best"):
            row[f"ours_over_{other}"] = round(seconds_of[other] / seconds_of["ours"], 4) if other in seconds_of else None
        ROWS.append(row)
        print(f"{protocol:9s} {case.layout} {case.types:19s} {case.mnk:17s} {row['config']:22s} ours {row['ours_tflops']:7.1f} torch "
              f"{row.get('torch_tflops', 0):7.1f} lt {row.get('lt_best_tflops', 0):7.1f}  x{row['ours_over_torch'] or 0:.3f} "
              f"x{row['ours_over_lt_best'] or 0:.3f} {row['clock_mhz']} MHz {row['power_w']} W err {error:.1e}", flush=True)
    for handle in ours:
        lib.ridge_bench_gemm_free(handle)
    if peer:
        lib.ridge_bench_peer_free(peer)


parser = argparse.ArgumentParser()
parser.add_argument("--library")
parser.add_argument("--json")
parser.add_argument("--config", help="one configuration for all shapes instead of the chosen one")
parser.add_argument("--commit", default="unknown")
parser.add_argument("--seconds", type=float, default=0.3, help="measuring time per shape and protocol")
parser.add_argument("--no-cublaslt", action="store_true", help="PyTorch alone, which takes the first algorithm of cuBLASLt")
parser.add_argument("--short", action="store_true", help="a part of the standard shapes, of every kind of work some")
parser.add_argument("--list", action="store_true", help="print the standard shapes and stop")
parser.add_argument("shapes", nargs="*")
arguments = parser.parse_args()
table = short() if arguments.short else standard()
if arguments.list:
    print("\n".join(table))
    sys.exit(0)
try:
    import torch
except ImportError:
    print("skipped: no PyTorch in this Python", file=sys.stderr)
    sys.exit(77)
if not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    print("skipped: PyTorch sees no Hopper GPU", file=sys.stderr)
    sys.exit(77)
LIB = Library(arguments.library)
FLUSH = torch.ones(128 << 20, device="cuda", dtype=torch.int32)
ROWS = []
refused = failed = 0
for item in arguments.shapes or table:
    torch.backends.cuda.matmul.allow_tf32 = ":tf32" in item
    try:
        run_shape(item, arguments.config, arguments.seconds)
    except AssertionError as problem:
        failed += 1
        print(f"FAILED {problem}", flush=True)
    except RuntimeError as problem:  # PyTorch refuses the case
        refused += 1
        print(f"not measured: {item}: {str(problem).splitlines()[0]}", flush=True)
environment = {"gpu": torch.cuda.get_device_name(), "torch": torch.__version__, "cuda": torch.version.cuda,
               "multiprocessors": torch.cuda.get_device_properties(0).multi_processor_count, "python": platform.python_version(),
               "commit": arguments.commit,
               "driver": subprocess.run(["nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader"],
                                        capture_output=True, text=True).stdout.strip()}
if arguments.json:
    with open(arguments.json, "w") as out:
        json.dump({"environment": environment, "rows": ROWS}, out)
print(f"torch_compare: {len(ROWS)} rows, {refused} shapes refused by PyTorch, {failed} wrong")
sys.exit(1 if failed else 0)
