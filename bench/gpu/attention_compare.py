#!/usr/bin/env python3
"""Checks the attention kernel against fp64 and times it beside cuDNN and FlashAttention-4, contenders taking turns.

    attention_compare.py ROOT OUT [--cubins FOLDER] [--repeats 30] [--quick] [--check-only] [--only WORD ...] [--cases TEXT] [--sections N ...] [--commit ID]

Takes the builds below from --cubins, or compiles src/ops/attention/cuda_attention.cu with nvcc, and launches them through the driver.
Every timed call is one launch on random normal data, with the L2 displaced before it, between two events; contenders change
places from round to round, the median counts. FLOP: 2 x pairs of a query and a key x (dim of q + dim of v) x heads, half of
them when causal. Writes OUT/attention.json (with every sample) and OUT/attention.csv. FlashAttention-4 takes part where
`flash_attn.cute` can be imported; a peer that refuses a shape is left out of it. --only: builds whose names begin with one of
the words; --cases: timed cases whose name has the text. Exit status 1 on a wrong result, 77 without PyTorch or a Hopper GPU. `compile FOLDER [WORD ...]` only compiles.
"""
import argparse
import concurrent.futures
import csv
import ctypes
import json
import math
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

from turns import in_turn

# name: dim of q and k, dim of v and o, causal, dtype, further defines; `_free` takes no turns, a number is keys per step.
BUILDS = {
    "d128_causal": (128, 128, True, "kBf16", {}),
    "d128_full": (128, 128, False, "kBf16", {}),
    "d128_full_free": (128, 128, False, "kBf16", {"TAKE_TURNS": 0}),
    "d128_full_160": (128, 128, False, "kBf16", {"BLOCK_N": 160, "QUERY_IN_REGISTERS": 0}),
    "d128_full_f16": (128, 128, False, "kF16", {}),
    "d64_causal": (64, 64, True, "kBf16", {}),
    "d64_full": (64, 64, False, "kBf16", {}),
    "d64_causal_stages4": (64, 64, True, "kBf16", {"STAGES": 4}),
    "d64_full_stages4": (64, 64, False, "kBf16", {"STAGES": 4}),
    "d64_causal_two": (64, 64, True, "kBf16", {"CONSUMERS": 2}),
    "d64_causal_two_stages4_slots4": (64, 64, True, "kBf16", {"CONSUMERS": 2, "STAGES": 4, "SLOTS": 4}),
    "d128_causal_slots3": (128, 128, True, "kBf16", {"SLOTS": 3}),
    "d128_causal_keys64_stages4": (128, 128, True, "kBf16", {"STAGES": 4, "BLOCK_N": 64}),
    "d128_full_keys64_stages4": (128, 128, False, "kBf16", {"STAGES": 4, "BLOCK_N": 64}),
    "d128_causal_keys64_stages4_slots3": (128, 128, True, "kBf16", {"STAGES": 4, "BLOCK_N": 64, "SLOTS": 3}),
    "d128_full_keys64_stages4_slots3": (128, 128, False, "kBf16", {"STAGES": 4, "BLOCK_N": 64, "SLOTS": 3}),
    "d96_causal": (96, 96, True, "kBf16", {}),
    "d96_full_f16": (96, 96, False, "kF16", {}),
    "d40_causal": (40, 40, True, "kBf16", {}),
    "d72_full": (72, 72, False, "kBf16", {}),
    "d192_causal": (192, 192, True, "kBf16", {}),
    "d200_full_f16": (200, 200, False, "kF16", {}),
    "d256_causal": (256, 256, True, "kBf16", {}),
    "d256_full": (256, 256, False, "kBf16", {}),
    "d256_full_f16": (256, 256, False, "kF16", {}),
    "d192_128_causal": (192, 128, True, "kBf16", {}),
    "d192_128_full": (192, 128, False, "kBf16", {}),
    "d192_128_full_f16": (192, 128, False, "kF16", {}),
    "d192_128_causal_128": (192, 128, True, "kBf16", {"SLOTS": 1, "BLOCK_N": 128, "QUERY_IN_REGISTERS": 1}),
    "d192_128_full_128": (192, 128, False, "kBf16", {"SLOTS": 1, "BLOCK_N": 128, "QUERY_IN_REGISTERS": 1}),
    "d64_128_causal": (64, 128, True, "kBf16", {}),
    "d128_256_full": (128, 256, False, "kBf16", {}),
}
SHAPES = [  # batch, heads, kv_heads, sequence, dim, dim of v, causal, builds: the library's last
    (1, 32, 8, 8192, 128, 128, True, ["d128_causal"]),
    (1, 32, 8, 8192, 128, 128, False, ["d128_full_free", "d128_full_160", "d128_full"]),
    (2, 64, 8, 4096, 128, 128, True, ["d128_causal"]),
    (2, 64, 8, 4096, 128, 128, False, ["d128_full_free", "d128_full_160", "d128_full"]),
    (1, 32, 8, 2048, 128, 128, True, ["d128_causal", "d128_causal_slots3"]),
    (1, 64, 8, 32768, 128, 128, True, ["d128_causal"]),
    (4, 32, 32, 2048, 64, 64, True, ["d64_causal", "d64_causal_stages4"]),
    (4, 32, 32, 2048, 64, 64, False, ["d64_full", "d64_full_stages4"]),
    (16, 32, 8, 1024, 128, 128, True, ["d128_causal", "d128_causal_slots3"]),
    (32, 32, 8, 512, 128, 128, True, ["d128_causal", "d128_causal_keys64_stages4", "d128_causal_keys64_stages4_slots3"]),
    (64, 32, 8, 256, 128, 128, True, ["d128_causal", "d128_causal_keys64_stages4", "d128_causal_keys64_stages4_slots3"]),
    (32, 32, 8, 512, 128, 128, False, ["d128_full", "d128_full_keys64_stages4", "d128_full_keys64_stages4_slots3"]),
    (32, 32, 32, 512, 128, 128, True, ["d128_causal", "d128_causal_keys64_stages4", "d128_causal_keys64_stages4_slots3"]),
    (64, 32, 32, 256, 64, 64, True, ["d64_causal", "d64_causal_two", "d64_causal_two_stages4_slots4"]),
    (1, 32, 8, 8192, 96, 96, True, ["d96_causal"]),
    (1, 16, 16, 16384, 256, 256, True, ["d256_causal"]),
    (1, 16, 16, 16384, 256, 256, False, ["d256_full"]),
    (1, 128, 128, 4096, 192, 128, True, ["d192_128_causal", "d192_128_causal_128"]),
    (1, 128, 128, 4096, 192, 128, False, ["d192_128_full", "d192_128_full_128"]),
]
CHECKS = [  # batch, heads, kv_heads, q_len, k_len: around the tiles, unequal both ways, several tiles per block
    (1, 1, 1, 128, 128), (1, 2, 1, 1, 1), (1, 2, 2, 127, 127), (2, 4, 2, 300, 300), (1, 8, 2, 513, 1025),
    (1, 3, 1, 1000, 300), (3, 6, 2, 129, 640), (2, 16, 4, 1111, 1111), (1, 4, 4, 64, 4096), (1, 40, 8, 2048, 2048),
    (2, 5, 5, 255, 161)]


def defines_of(name):
    """What the library builds such heads with (the values of the kernel's launch plan), and what the build changes."""
    dim, v_dim, causal, dtype, more = BUILDS[name]
    depth, width = (max(-(-columns // 32) * 32, 64) for columns in (dim, v_dim))
    panels, v_panels = -(-depth // 64), -(-width // 64)
    slots = more.get("SLOTS", 2 if panels <= 3 and v_panels <= 2 else 1)
    consumers = more.get("CONSUMERS", 3 if max(depth, width) == 64 else 2)
    widest = max(panels, v_panels)
    keys = 128 if widest <= 2 else 96 if panels == 3 and v_panels <= 2 else 112 if widest == 3 else 80
    in_registers = more.get("QUERY_IN_REGISTERS", int(consumers == 2 and slots > 1))
    registers = (32, 160) if consumers == 3 else (24, 240) if slots > 1 or in_registers else (32, 232)
    return {"TYPE": dtype, "HEAD_DIM": depth, "VALUE_DIM": width, "OUTPUT_COLUMNS": width, "BLOCK_N": keys, "SLOTS": slots, "CONSUMERS": consumers,
            "CAUSAL": int(causal), "WINDOW": 0, "PACKED": 0, "SINKS": 0, "SOFTCAP": 0, "ALIBI": 0, "STAGES": 2, "TAKE_TURNS": 1, "QUERY_IN_REGISTERS": in_registers,
            "PRODUCER_REGISTERS": registers[0], "CONSUMER_REGISTERS": registers[1], **more}


def compile_builds(root, names, folder):
    folder.mkdir(parents=True, exist_ok=True)
    nvcc = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")

    def compile_one(name):
        command = [nvcc, "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-std=c++20", "-Xptxas", "-v", "-o",
                   str(folder / f"{name}.cubin"), str(root / "src/ops/attention/cuda_attention.cu")]
        run = subprocess.run(command + [f"-DRIDGE_{key}={value}" for key, value in defines_of(name).items()], capture_output=True, text=True)
        if run.returncode or "C75" in run.stderr or " 0 bytes spill stores" not in run.stderr:
            sys.exit(f"attention_compare: {name}: {run.stderr}")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, names))


def named(words):
    return [name for name in BUILDS if any(name.startswith(word) for word in words)]


if __name__ == "__main__" and sys.argv[1:2] == ["compile"]:
    compile_builds(pathlib.Path("."), named(sys.argv[3:] or [""]), pathlib.Path(sys.argv[2]))
    sys.exit(0)

try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available() or torch.cuda.get_device_capability()[0] != 9:
    print("attention_compare: no PyTorch that sees a Hopper GPU", file=sys.stderr)
    sys.exit(77)

CACHED_BYTES = 32 << 20
MULTIPROCESSORS = torch.cuda.get_device_properties(0).multi_processor_count
driver = ctypes.CDLL("libcuda.so.1")


def checked(code, what):
    if code:
        sys.exit(f"attention_compare: {what}: CUresult {code}")


class View(ctypes.Structure):
    _fields_ = [("log_sum_exp", ctypes.c_void_p), ("batch_stride", ctypes.c_int64), ("head_stride", ctypes.c_int64),
                *((name, ctypes.c_uint32) for name in ("q_len", "k_len", "heads", "heads_total", "group", "q_tiles", "section")),
                ("scale_log2", ctypes.c_float), ("left", ctypes.c_uint32), ("right", ctypes.c_uint32),
                ("tiles", ctypes.c_void_p), ("o", ctypes.c_void_p), ("o_row_stride", ctypes.c_int64), ("o_head_stride", ctypes.c_int64),
                ("sinks", ctypes.c_void_p), ("power_of_score", ctypes.c_float), ("cap_log2", ctypes.c_float), ("alibi_slopes", ctypes.c_void_p)]


class Map(ctypes.Structure):
    _fields_ = [("words", ctypes.c_uint64 * 16)]


def tensor_map(tensor, rows):
    memory = (ctypes.c_uint8 * 256)()
    address = ctypes.addressof(memory)
    encoded = Map.from_address(address + -address % 64)
    encoded.memory = memory
    batch, length, heads, dim = tensor.shape
    sizes = (ctypes.c_uint64 * 4)(dim, length, heads, batch)
    strides = (ctypes.c_uint64 * 3)(*(2 * tensor.stride(axis) for axis in (1, 2, 0)))
    box, steps = (ctypes.c_uint32 * 4)(64, rows, 1, 1), (ctypes.c_uint32 * 4)(1, 1, 1, 1)
    element = 9 if tensor.dtype == torch.bfloat16 else 6
    checked(driver.cuTensorMapEncodeTiled(ctypes.byref(encoded), element, 4, ctypes.c_void_p(tensor.data_ptr()), sizes, strides,
                                          box, steps, 0, 3, 3, 0), "cuTensorMapEncodeTiled")
    return encoded


class Build:
    def __init__(self, name, folder):
        self.name = name
        self.dim, self.v_dim, self.causal, dtype, _ = BUILDS[name]
        self.dtype = torch.bfloat16 if dtype == "kBf16" else torch.float16
        defines = defines_of(name)
        self.consumers, self.block = defines["CONSUMERS"], defines["BLOCK_N"]
        module, self.function = ctypes.c_void_p(), ctypes.c_void_p()
        checked(driver.cuModuleLoadData(ctypes.byref(module), (folder / f"{name}.cubin").read_bytes()), "cuModuleLoadData")
        checked(driver.cuModuleGetFunction(ctypes.byref(self.function), module, b"ridge_attention"), "cuModuleGetFunction")
        panels, v_panels = -(-defines["HEAD_DIM"] // 64), -(-defines["VALUE_DIM"] // 64)
        slots, stages = defines["SLOTS"], defines["STAGES"]
        self.shared = 128 * (slots * max(panels, v_panels) * 64 * self.consumers + stages * (panels + v_panels) * self.block) + max(64 * (stages + slots), 256)
        checked(driver.cuFuncSetAttribute(self.function, 8, self.shared), "cuFuncSetAttribute")

    def usual_section(self, q_tiles, heads, group, kv_bytes):
        """That of the kernel's launch plan."""
        if not self.causal:
            return max(CACHED_BYTES // 2 // kv_bytes, 1) * group
        if q_tiles * heads < 32 * MULTIPROCESSORS and 4 * heads <= MULTIPROCESSORS * group:
            return heads

        def fits(rounds):
            return rounds * MULTIPROCESSORS * kv_bytes <= CACHED_BYTES * q_tiles * group

        def whole(rounds):
            return rounds * MULTIPROCESSORS % q_tiles == 0
        if q_tiles > 16:
            return max(max(CACHED_BYTES // kv_bytes, 1) * group, 8 * MULTIPROCESSORS // q_tiles)
        rounds = 8 if fits(8) else 4 if whole(4) and (fits(4) or not whole(2)) else 2 if whole(2) else 8
        return max(rounds * MULTIPROCESSORS // q_tiles, 1)

    def prepare(self, q, k, v, o, lse, section=0):
        batch, q_len, heads, dim = q.shape
        k_len, kv_heads = k.shape[1], k.shape[2]
        rows = 64 * self.consumers
        q_tiles = -(-q_len // rows)
        section = min(section or self.usual_section(q_tiles, batch * heads, heads // kv_heads, 2 * k_len * (dim + v.shape[3])), batch * heads)
        maps = [tensor_map(q, rows), tensor_map(k, self.block), tensor_map(v, self.block), tensor_map(o, rows)]
        view = View(lse.data_ptr(), heads * q_len, q_len, q_len, k_len, heads, batch * heads, heads // kv_heads, q_tiles,
                    section, math.log2(math.e) / math.sqrt(dim), 0, 0)
        arguments = (ctypes.c_void_p * 5)(*map(ctypes.addressof, maps), ctypes.addressof(view))
        grid = min(MULTIPROCESSORS, q_tiles * batch * heads)
        alive = (maps, view, q, k, v, o, lse)

        def call():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            checked(driver.cuLaunchKernel(self.function, grid, 1, 1, (self.consumers + 1) * 128, 1, 1, self.shared, stream,
                                          arguments, None), "cuLaunchKernel")
            return alive
        return call


def reference(q, k, v, causal):
    q_len, k_len, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    out = torch.empty(*q.shape[:3], v.shape[3], device="cuda", dtype=torch.float64)
    lse = torch.empty(q.shape[0], q.shape[2], q_len, device="cuda", dtype=torch.float64)
    visible = torch.arange(k_len, device="cuda")[None] <= torch.arange(q_len, device="cuda")[:, None] + k_len - q_len
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            scores = q[b, :, h].double() @ k[b, :, h // group].double().T / math.sqrt(q.shape[3])
            scores = scores.masked_fill(~visible, -math.inf) if causal else scores
            lse[b, h] = torch.logsumexp(scores, 1)
            weights = torch.exp(scores - lse[b, h].nan_to_num(neginf=0.0)[:, None])
            out[b, :, h] = weights @ v[b, :, h // group].double()
    return out, lse


def check(build, batch, heads, kv_heads, q_len, k_len, magnitude=1.0):
    q, k, v = ((magnitude * torch.randn(batch, n, h, dim, device="cuda")).to(build.dtype)
               for n, h, dim in ((q_len, heads, build.dim), (k_len, kv_heads, build.dim), (k_len, kv_heads, build.v_dim)))
    padded = torch.empty(batch, q_len + 3, heads, build.v_dim, device="cuda", dtype=build.dtype)
    sums = torch.empty(batch * heads * q_len + 64, device="cuda")
    o, lse, runs = padded[:, :q_len], sums[:batch * heads * q_len].view(batch, heads, q_len), []
    call = build.prepare(q, k, v, o, lse)
    for _ in range(3):
        padded.fill_(math.nan)
        sums.fill_(math.nan)
        call()
        torch.cuda.synchronize()
        runs.append((o.contiguous().view(torch.int16).clone(), lse.view(torch.int32).clone()))
    expected, expected_lse = reference(q, k, v, build.causal)
    error = (o.double() - expected).norm() / expected.norm().clamp(min=1e-30)
    seen = expected_lse.isfinite()
    lse_error = (lse.double() - expected_lse)[seen].abs().max().item() if seen.any() else 0.0
    failed = [text for wrong, text in (
        (not error < (5e-3 if build.dtype == torch.bfloat16 else 6e-4), f"relative error {error:.2e}"),
        (not lse_error < 2e-4, f"log-sum-exp off by {lse_error:.2e}"),
        (not torch.equal(lse.isneginf(), expected_lse.isneginf()), "rows without keys"),
        (not (padded[:, q_len:].isnan().all() and sums[batch * heads * q_len:].isnan().all()), "memory outside the outputs"),
        (any(not torch.equal(x, y) for run in runs[1:] for x, y in zip(run, runs[0])), "bits that differ between runs")) if wrong]
    if failed:
        print(f"WRONG {build.name} {batch},{heads}/{kv_heads},{q_len}/{k_len}: {'; '.join(failed)}", flush=True)
    return not failed


def contenders(shape, builds, sets, sections):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    try:
        from flash_attn.cute import flash_attn_func
    except ImportError:
        flash_attn_func = None
    batch, heads, kv_heads, length, dim, v_dim, causal, names = shape
    calls = {}
    for _ in range(sets):
        q, k, v = (torch.randn(batch, length, h, n, device="cuda", dtype=torch.bfloat16)
                   for h, n in ((heads, dim), (kv_heads, dim), (kv_heads, v_dim)))

        def cudnn(q=q.transpose(1, 2), k=k.transpose(1, 2), v=v.transpose(1, 2)):
            with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
                return torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=causal, enable_gqa=True)
        for name, section in ((name, section) for name in names for section in sections):
            lse = torch.empty(batch, heads, length, device="cuda")
            o = torch.empty(batch, length, heads, v_dim, device="cuda", dtype=q.dtype)
            calls.setdefault(f"{name}_{section}_heads" if section else name, []).append(builds[name].prepare(q, k, v, o, lse, section))
        calls.setdefault("cudnn", []).append(cudnn)
        if flash_attn_func is not None:
            calls.setdefault("fa4", []).append(lambda q=q, k=k, v=v: flash_attn_func(q, k, v, causal=causal))
    for peer in ("cudnn", "fa4"):
        try:
            for call in calls.get(peer, []):
                call()
        except Exception as reason:
            print(f"no {peer}: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
            del calls[peer]
    return calls


def timed(calls, repeats, sweep):
    names, samples = list(calls), {name: [] for name in calls}
    for name in names:
        for call in calls[name]:
            call()
    for turn in range(repeats):
        events = []
        for name in in_turn(names, turn):
            sweep.add_(1)
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            begin.record()
            calls[name][turn % len(calls[name])]()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            samples[name].append(begin.elapsed_time(end))
    return samples


def environment(commit):
    query = "name,driver_version,power.limit,clocks.sm,power.draw,temperature.gpu"
    state = subprocess.run(["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"], capture_output=True, text=True).stdout
    versions = {}
    for package in ("flash-attn-4", "nvidia-cutlass-dsl", "quack-kernels"):
        try:
            versions[package] = __import__("importlib.metadata", fromlist=["version"]).version(package)
        except Exception:
            versions[package] = None
    return {"commit": commit, "device": state.strip(), "fields": query, "torch": torch.__version__, "cuda": torch.version.cuda,
            "cudnn": torch.backends.cudnn.version(), "peers": versions, "multiprocessors": MULTIPROCESSORS}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cubins", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--sections", type=int, nargs="+", default=[0], help="heads of q worked on at one time; 0: as the library")
    parser.add_argument("--cases", default="", help="timed shapes whose name has this")
    parser.add_argument("--quick", action="store_true", help="no checks before the timing")
    parser.add_argument("--check-only", action="store_true")
    parser.add_argument("--only", nargs="+", default=[""])
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.zeros(1, device="cuda")
    names = named(options.only)
    with tempfile.TemporaryDirectory() as folder:
        if not options.cubins:
            compile_builds(options.root, names, pathlib.Path(folder))
        builds = {name: Build(name, options.cubins or pathlib.Path(folder)) for name in names}
    right = {}
    if not options.quick:
        for name, build in builds.items():
            right[name] = [check(build, *shape) for shape in CHECKS] + [check(build, 1, 4, 2, 700, 700, magnitude=4.0)]
        passed = [one for of_build in right.values() for one in of_build]
        print(f"{sum(passed)} of {len(passed)} checks against fp64 passed", flush=True)
        builds = {name: build for name, build in builds.items() if all(right[name])}  # what is wrong is not timed
    wrong = not all(map(all, right.values()))
    if options.check_only:
        return wrong
    rows, sweep = [], torch.zeros(128 << 20, dtype=torch.int32, device="cuda")
    for *shape, of_shape in SHAPES:
        batch, heads, kv_heads, length, dim, v_dim, causal = shape
        of_shape = [name for name in of_shape if name in builds]
        label = f"{batch},{heads}/{kv_heads},{length},{dim}{f'/{v_dim}' if v_dim != dim else ''} {'causal' if causal else 'full'}"
        if not of_shape or options.cases not in label:
            continue
        calls = contenders((*shape, of_shape), builds, 2 if length < 16384 else 1, options.sections)
        samples = timed(calls, options.repeats, sweep)
        flop = 2e-9 * batch * heads * length * length * (dim + v_dim) * (0.5 if causal else 1)
        medians = {name: statistics.median(times) for name, times in samples.items()}
        print(label, "  ".join(f"{name} {flop / ms:.0f}" + (f" ({medians['fa4'] / ms:.3f})" if "fa4" in medians else "")
                               for name, ms in medians.items()), flush=True)
        rows += [{"case": label, "contender": name, "median_ms": medians[name], "tflops": flop / medians[name],
                  "best_tflops": flop / min(times), "samples_ms": times} for name, times in samples.items()]
        del calls
        torch.cuda.empty_cache()
    with open(options.out / "attention.json", "w") as file:
        json.dump({"environment": environment(options.commit), "protocol": "one launch per sample, L2 displaced, contenders in turns",
                   "repeats": options.repeats, "rows": rows}, file)
    with open(options.out / "attention.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "contender", "median_ms", "tflops", "best_tflops"])
        writer.writerows([row["case"], row["contender"], f"{row['median_ms']:.5f}", f"{row['tflops']:.1f}", f"{row['best_tflops']:.1f}"]
                         for row in rows)
    return wrong


if __name__ == "__main__":
    sys.exit(main())
