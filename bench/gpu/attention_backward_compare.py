#!/usr/bin/env python3
"""Checks the backward kernels of attention against fp64 and times them beside cuDNN and FlashAttention-4, contenders in turns.

    attention_backward_compare.py ROOT OUT [--cubins FOLDER] [--repeats 20] [--checks N] [--seconds S] [--quick] [--builds A,B] [--cases TEXT] [--sections N ...] [--commit ID]

Takes the builds below from --cubins, or compiles the three kernels of src/ops/attention/backward with nvcc, and launches them through
the driver: prepare, the kernel, finish; of short sequences the kernel alone, whose bits are equal in any case. Every timed call is one backward pass on random normal data, with the L2 displaced before it,
between two events; contenders change places from round to round, the median counts. FLOP: 5 x pairs of a query and a key x (dim + dim of v) x
heads, 2.5 times those of the forward, half of them when causal. Writes OUT/attention-backward.json (with every sample) and .csv. A deterministic contender carries
`_ordered` in its name; BUILD@MACRO=VALUE is a build with another value of a macro. Exit status 1 on a wrong result, 77 without PyTorch or a Hopper GPU. `compile FOLDER` only compiles.
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
import time

SOURCE = "src/ops/attention/backward/cuda_attention_backward.cu"
WIDE_SOURCE = "src/ops/attention/backward/cuda_attention_backward_wide.cu"
SHORT_SOURCE = "src/ops/attention/backward/cuda_attention_backward_short.cu"
LARGE, SMALL = ({"HEAD_DIM": dim, "BLOCK_M": 8192 // dim, "CLIPPED": 0, "COLUMNS": dim} for dim in (128, 64))
CLIPPED = {"CLIPPED": 1}  # heads that are smaller than the build's
LATENT = {"QUERY_DIM": 192, "VALUE_DIM": 128, "BLOCK_N": 128}
MIDDLE, WIDE = ({"QUERY_DIM": dim, "VALUE_DIM": dim, "BLOCK_N": 64} for dim in (192, 256))
# name: dim, dim of v, causal, dtype, defines
BUILDS = {}
for mask, causal in (("causal", 1), ("full", 0)):
    for order, ordered in (("", 0), ("_ordered", 1)):
        for name, dim, v_dim, defines in (("d128", 128, 128, LARGE), ("d64", 64, 64, SMALL), ("d96", 96, 96, {**LARGE, **CLIPPED, "COLUMNS": 96}),
                                          ("d192_128", 192, 128, LATENT), ("d256", 256, 256, WIDE)):
            BUILDS[f"{name}_{mask}{order}"] = (dim, v_dim, causal, "kBf16", {**defines, "ORDERED": ordered})
BUILDS["d128_causal_f16"] = (128, 128, 1, "kF16", LARGE)
BUILDS["d64_full_f16"] = (64, 64, 0, "kF16", SMALL)
BUILDS["d40_causal"] = (40, 40, 1, "kBf16", {**SMALL, **CLIPPED})
BUILDS["d8_full_f16"] = (8, 8, 0, "kF16", {**SMALL, **CLIPPED})
BUILDS["d192_128_causal_f16"] = (192, 128, 1, "kF16", LATENT)
BUILDS["d256_full_f16"] = (256, 256, 0, "kF16", WIDE)
BUILDS["d136_causal"] = (136, 136, 1, "kBf16", MIDDLE)
BUILDS["d192_full"] = (192, 192, 0, "kBf16", MIDDLE)
BUILDS["d72_200_full"] = (72, 200, 0, "kBf16", WIDE)
for name, dim, causal, kind in (("d64_causal_short", 64, 1, "kBf16"), ("d64_full_short", 64, 0, "kBf16"), ("d40_full_short", 40, 0, "kBf16"),
                                ("d64_full_short_f16", 64, 0, "kF16")):
    BUILDS[name] = (dim, dim, causal, kind, {"SHORT": 1, "ORDERED": 1})  # 256 queries and keys, equal bits in any case
SHAPES = [  # batch, heads, kv_heads, sequence, dim, dim of v, causal
    (1, 32, 8, 8192, 128, 128, True), (1, 32, 8, 8192, 128, 128, False), (2, 64, 8, 4096, 128, 128, True), (2, 64, 8, 4096, 128, 128, False),
    (4, 32, 32, 2048, 64, 64, True), (4, 32, 32, 2048, 64, 64, False), (32, 32, 8, 512, 128, 128, True), (64, 32, 32, 256, 64, 64, True), (64, 32, 32, 256, 64, 64, False), (128, 16, 16, 128, 64, 64, False),
    (1, 64, 8, 32768, 128, 128, True), (1, 32, 8, 8192, 96, 96, True), (1, 128, 128, 4096, 192, 128, True),
    (1, 128, 128, 4096, 192, 128, False), (1, 16, 16, 16384, 256, 256, True), (1, 16, 16, 16384, 256, 256, False),
    (4, 32, 8, 4096, 128, 128, True), (8, 32, 8, 2048, 128, 128, True), (16, 32, 8, 1024, 128, 128, True), (2, 32, 32, 4096, 128, 128, True)]
CHECKS = [  # batch, heads, kv_heads, q_len, k_len: around the tiles, unequal both ways, several blocks per head
    (1, 1, 1, 128, 128), (1, 1, 1, 64, 64), (1, 2, 1, 1, 1), (1, 2, 2, 127, 127), (2, 4, 2, 300, 300), (1, 8, 2, 513, 1025),
    (1, 3, 1, 1000, 300), (3, 6, 2, 129, 640), (1, 4, 4, 64, 2048), (2, 16, 4, 1111, 1111), (2, 5, 5, 255, 161),
    (1, 16, 4, 2048, 2048), (2, 5, 5, 256, 256), (1, 3, 3, 256, 100), (2, 3, 3, 100, 256), (1, 2, 2, 1, 256), (1, 2, 2, 200, 8), (3, 140, 140, 129, 200)]
NVCC = os.path.join(os.environ.get("CUDA_HOME", "/usr/local/cuda"), "bin", "nvcc")


def compile_builds(root, names, folder):
    folder.mkdir(parents=True, exist_ok=True)

    def compile_one(name):
        build, _, changed = name.partition("@")
        _, _, causal, dtype, more = BUILDS[build]
        defines = {"TYPE": dtype, "CAUSAL": causal, "WINDOW": 0, "PACKED": 0, "ORDERED": 0, "SINKS": 0, "SOFTCAP": 0, "ALIBI": 0, **more}
        defines |= dict(one.split("=") for one in changed.split("@") if one)
        source = WIDE_SOURCE if "QUERY_DIM" in more else SHORT_SOURCE if "SHORT" in more else SOURCE
        command = [NVCC, "-gencode=arch=compute_90a,code=sm_90a", "-cubin", "-std=c++20", "-lineinfo", "-Xptxas", "-v", "-o",
                   str(folder / f"backward_{name}.cubin"), str(root / source)]
        run = subprocess.run(command + [f"-DRIDGE_{key}={value}" for key, value in defines.items()], capture_output=True, text=True)
        if run.returncode or "C75" in run.stdout + run.stderr:
            sys.exit(f"attention_backward_compare: {name}: {run.stdout}{run.stderr}")
    with concurrent.futures.ThreadPoolExecutor() as pool:
        list(pool.map(compile_one, names))


if __name__ == "__main__" and len(sys.argv) == 3 and sys.argv[1] == "compile":
    compile_builds(pathlib.Path("."), list(BUILDS), pathlib.Path(sys.argv[2]))
    sys.exit(0)

import attention_compare as forward  # noqa: E402  leaves with status 77 where there is no GPU
import torch  # noqa: E402

CACHED_BYTES, ROUNDS = 32 << 20, 2
MULTIPROCESSORS = forward.MULTIPROCESSORS


class Rows(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("batch_stride", ctypes.c_int64), ("head_stride", ctypes.c_int64),
                ("row_stride", ctypes.c_int64)]

    def __init__(self, tensor):
        super().__init__(tensor.data_ptr(), tensor.stride(0), tensor.stride(2), tensor.stride(1))


class View(ctypes.Structure):
    _fields_ = [("o", Rows), ("d_o", Rows), ("d_q", Rows), ("log_sum_exp", ctypes.c_void_p), ("sum_batch_stride", ctypes.c_int64),
                ("sum_head_stride", ctypes.c_int64), ("scaled_log_sum", ctypes.c_void_p), ("delta", ctypes.c_void_p),
                ("grad_query", ctypes.c_void_p), ("turns", ctypes.c_void_p),
                *((name, ctypes.c_uint32) for name in ("q_len", "k_len", "heads", "kv_heads", "batch", "group", "q_blocks", "tiles", "section")),
                ("scale", ctypes.c_float), ("scale_log2", ctypes.c_float), ("left", ctypes.c_uint32), ("right", ctypes.c_uint32),
                ("d_k", Rows), ("d_v", Rows), ("key_tiles", ctypes.c_void_p), ("query_blocks", ctypes.c_void_p),
                ("dim", ctypes.c_uint32), ("value_dim", ctypes.c_uint32), ("sinks", ctypes.c_void_p), ("d_sinks", ctypes.c_void_p),
                ("sink_sums", ctypes.c_void_p), ("power_of_score", ctypes.c_float), ("cap_log2", ctypes.c_float), ("alibi_slopes", ctypes.c_void_p)]


class ShortView(ctypes.Structure):
    _fields_ = [("d_q", Rows), ("d_k", Rows), ("d_v", Rows), ("log_sum_exp", ctypes.c_void_p), ("sum_batch_stride", ctypes.c_int64),
                ("sum_head_stride", ctypes.c_int64), *((name, ctypes.c_uint32) for name in ("q_len", "k_len", "heads", "dim", "value_dim")),
                ("scale", ctypes.c_float), ("scale_log2", ctypes.c_float)]


class Build:
    def __init__(self, name, folder):
        self.name = name
        self.dim, self.v_dim, self.causal, kind, more = BUILDS[name.partition("@")[0]]
        self.dtype = torch.bfloat16 if kind == "kBf16" else torch.float16
        self.ordered = bool(more.get("ORDERED", 0))
        self.block_m, self.block_n = more.get("BLOCK_M", 64), more.get("BLOCK_N", 128)
        self.short = "SHORT" in more
        if self.short:
            more = {**more, "HEAD_DIM": 64, "BLOCK_M": 128}
        self.query_dim, self.value_dim = (more.get(key) or more["HEAD_DIM"] for key in ("QUERY_DIM", "VALUE_DIM"))
        self.wide = "QUERY_DIM" in more
        module = ctypes.c_void_p()
        forward.checked(forward.driver.cuModuleLoadData(ctypes.byref(module), (folder / f"backward_{name}.cubin").read_bytes()),
                        f"cuModuleLoadData {name}")
        self.functions = []
        for suffix in ("_short",) if self.short else ("_prepare", "", "_finish"):
            function = ctypes.c_void_p()
            forward.checked(forward.driver.cuModuleGetFunction(ctypes.byref(function), module,
                                                               f"ridge_attention_backward{suffix}".encode()), "cuModuleGetFunction")
            self.functions.append(function)
        tile = 128 * self.query_dim * 2
        block = self.block_m * self.query_dim * 2
        self.shared = 230576 if self.wide else 2 * tile + 4 * block + 2 * 128 * self.block_m * 2 + 32768 + 16 * self.block_m + 256
        if self.short:
            self.shared = 231552
        forward.checked(forward.driver.cuFuncSetAttribute(self.functions[0 if self.short else 1], 8, self.shared), "cuFuncSetAttribute")

    def takes(self, shape):
        _, heads, kv_heads, q_len, k_len = shape
        return not self.short or (heads == kv_heads and max(q_len, k_len) <= 256)

    def prepare_short(self, q, k, v, o, d_o, lse, d_q, d_k, d_v):
        batch, q_len, heads, dim = q.shape
        view = ShortView(Rows(d_q), Rows(d_k), Rows(d_v), lse.data_ptr(), lse.stride(0), lse.stride(1), q_len, k.shape[1], heads, dim, v.shape[3],
                         1 / math.sqrt(dim), math.log2(math.e) / math.sqrt(dim))
        maps = [forward.tensor_map(x, 64) for x in (q, k, v, o, d_o)]
        arguments = (ctypes.c_void_p * 6)(*map(ctypes.addressof, maps), ctypes.addressof(view))
        alive = (maps, view, q, k, v, o, d_o, lse, d_q, d_k, d_v)

        def call():
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            forward.checked(forward.driver.cuLaunchKernel(self.functions[0], batch * heads, 1, 1, 256, 1, 1, self.shared, stream, arguments, None),
                            "cuLaunchKernel")
            return alive
        return call

    def prepare(self, q, k, v, o, d_o, lse, d_q, d_k, d_v, section=0):
        if self.short:
            return self.prepare_short(q, k, v, o, d_o, lse, d_q, d_k, d_v)
        batch, q_len, heads, dim = q.shape
        k_len, kv_heads = k.shape[1], k.shape[2]
        q_blocks = -(-q_len // self.block_m)
        rows = batch * heads * q_blocks * self.block_m
        factors = torch.empty(2, rows, device="cuda")
        sums = torch.empty(rows * self.query_dim, device="cuda")
        turns = torch.empty(batch * heads * q_blocks * 2, device="cuda", dtype=torch.int32)
        view = View(Rows(o), Rows(d_o), Rows(d_q), lse.data_ptr(), lse.stride(0), lse.stride(1), factors[0].data_ptr(),
                    factors[1].data_ptr(), sums.data_ptr(), turns.data_ptr(), q_len, k_len, heads, kv_heads, batch,
                    heads // kv_heads, q_blocks, 0, 0, 1 / math.sqrt(dim), math.log2(math.e) / math.sqrt(dim), 0, 0)
        tiles = -(-k_len // self.block_n)
        head_bytes = q_len * (6 * self.query_dim + 2 * self.value_dim)  # as in the kernel's launch plan
        cached = CACHED_BYTES * kv_heads // (head_bytes * heads) if self.causal else CACHED_BYTES // head_bytes
        usual = ROUNDS * MULTIPROCESSORS // tiles if self.causal and cached < 16 else cached
        for_turns = 8 * MULTIPROCESSORS * kv_heads // (q_blocks * heads) if self.ordered and cached < 16 else 0
        usual = max(usual, for_turns, 1)
        section = min(section or usual, kv_heads * batch)
        view.tiles, view.section, view.dim, view.value_dim = tiles, section, dim, v.shape[3]
        maps = [forward.tensor_map(x, 64) for x in (q, k, v, d_o, d_k, d_v)]
        main_arguments = (ctypes.c_void_p * 7)(*map(ctypes.addressof, maps), ctypes.addressof(view))
        side_arguments = (ctypes.c_void_p * 1)(ctypes.addressof(view))
        launches = [(self.functions[0], q_blocks, batch * heads, 256, 0, side_arguments),
                    (self.functions[1], tiles * kv_heads * batch, 1, 512 if self.wide else 384, self.shared, main_arguments),
                    (self.functions[2], q_blocks, batch * heads, 2 * self.query_dim if self.wide else 256, 0, side_arguments)]
        alive = (maps, view, factors, sums, turns, q, k, v, o, d_o, lse, d_q, d_k, d_v)

        def call(which=(0, 1, 2)):
            stream = ctypes.c_void_p(torch.cuda.current_stream().cuda_stream)
            for index in which:
                function, x, y, threads, shared, arguments = launches[index]
                forward.checked(forward.driver.cuLaunchKernel(function, x, y, 1, threads, 1, 1, shared, stream, arguments, None),
                                "cuLaunchKernel")
            return alive
        return call


def reference(q, k, v, d_o, causal):
    """O, log-sum-exp, dQ, dK, dV in fp64."""
    q_len, k_len, group = q.shape[1], k.shape[1], q.shape[2] // k.shape[2]
    o, d_q = (torch.empty_like(x, dtype=torch.float64) for x in (d_o, q))
    d_k, d_v = (torch.zeros_like(x, dtype=torch.float64) for x in (k, v))
    lse = torch.empty(q.shape[0], q.shape[2], q_len, device="cuda", dtype=torch.float64)
    visible = torch.arange(k_len, device="cuda")[None] <= torch.arange(q_len, device="cuda")[:, None] + k_len - q_len
    scale = 1 / math.sqrt(q.shape[3])
    for b in range(q.shape[0]):
        for h in range(q.shape[2]):
            one_q, one_k, one_v, one_do = (x.double() for x in (q[b, :, h], k[b, :, h // group], v[b, :, h // group], d_o[b, :, h]))
            scores = one_q @ one_k.T * scale
            scores = scores.masked_fill(~visible, -math.inf) if causal else scores
            lse[b, h] = torch.logsumexp(scores, 1)
            weights = torch.exp(scores - lse[b, h].nan_to_num(neginf=0.0)[:, None])
            o[b, :, h] = weights @ one_v
            d_scores = weights * (one_do @ one_v.T - (one_do * o[b, :, h]).sum(1, keepdim=True))
            d_q[b, :, h] = d_scores @ one_k * scale
            d_k[b, :, h // group] += d_scores.T @ one_q * scale
            d_v[b, :, h // group] += weights.T @ one_do
    return o, lse, d_q, d_k, d_v


def check(build, batch, heads, kv_heads, q_len, k_len, magnitude=1.0, runs=2):
    make = lambda *shape: torch.randn(*shape, device="cuda")  # noqa: E731
    q, d_o = (x.to(build.dtype) for x in (magnitude * make(batch, q_len, heads, build.dim), make(batch, q_len, heads, build.v_dim)))
    k, v = ((magnitude * make(batch, k_len, kv_heads, dim)).to(build.dtype) for dim in (build.dim, build.v_dim))
    o, lse, *expected = reference(q, k, v, d_o, build.causal)
    padded = [torch.empty(batch, n + 3, h, dim, device="cuda", dtype=build.dtype)
              for n, h, dim in ((q_len, heads, build.dim), (k_len, kv_heads, build.dim), (k_len, kv_heads, build.v_dim))]
    outputs = [x[:, :n] for x, n in zip(padded, (q_len, k_len, k_len))]
    call = build.prepare(q, k, v, o.to(build.dtype), d_o, lse.float(), *outputs)
    failed, first = [], None
    for _ in range(10 if build.ordered else runs):
        for x in padded:
            x.fill_(math.nan)
        call()
        torch.cuda.synchronize()
        bits = [x.contiguous().view(torch.int16).clone() for x in outputs]
        if first is None:
            first = bits
        for index, name in enumerate(("dQ", "dK", "dV")):
            if (build.ordered or index > 0) and not torch.equal(bits[index], first[index]):
                failed.append(f"{name}: bits that differ between runs")
    limit = 1e-2 if build.dtype == torch.bfloat16 else 1.5e-3
    for name, x, want, memory, n in zip(("dQ", "dK", "dV"), outputs, expected, padded, (q_len, k_len, k_len)):
        # Where the exact gradient is zero (one key) what is left is rounding of fp32 sums of numbers around 1.
        error = ((x.double() - want).norm() / want.norm().clamp(min=1e-3 * math.sqrt(want.numel()))).item()
        if not error < limit:
            failed.append(f"{name}: relative error {error:.2e}")
        if not memory[:, n:].isnan().all():
            failed.append(f"{name}: memory outside was written")
    if failed:
        print(f"WRONG {build.name} {batch},{heads}/{kv_heads},{q_len}/{k_len}: {'; '.join(sorted(set(failed)))}", flush=True)
    return not failed


def contenders(shape, builds, options):
    from torch.nn.attention import SDPBackend, sdpa_kernel
    batch, heads, kv_heads, length, dim, v_dim, causal = shape
    make = lambda h, columns: torch.randn(batch, length, h, columns, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    q, k, v, d_o = make(heads, dim), make(kv_heads, dim), make(kv_heads, v_dim), make(heads, v_dim)
    calls, notes, expected = {}, {}, None
    try:
        leaves = [x.detach().requires_grad_() for x in (q, k, v)]
        with sdpa_kernel([SDPBackend.CUDNN_ATTENTION]):
            out = torch.nn.functional.scaled_dot_product_attention(*(x.transpose(1, 2) for x in leaves), is_causal=causal, enable_gqa=True)
        back = d_o.transpose(1, 2)
        calls["cudnn"] = lambda: torch.autograd.grad(out, leaves, back, retain_graph=True)
        expected = [x.clone() for x in calls["cudnn"]()]
    except RuntimeError as reason:
        calls.clear()
        print(f"no cuDNN: {str(reason)[:300]}", flush=True)
    # O and the log-sum-exp, in pieces of queries.
    o, lse = torch.empty_like(d_o), torch.empty(batch, heads, length, device="cuda")
    scale, group = 1 / math.sqrt(dim), heads // kv_heads
    for b in range(batch):
        for h in range(heads):
            for begin in range(0, length, 8192):
                rows = slice(begin, min(begin + 8192, length))
                scores = (q[b, rows, h] @ k[b, :, h // group].T).float() * scale
                if causal:
                    seen = torch.arange(length, device="cuda")[None] <= torch.arange(begin, rows.stop, device="cuda")[:, None]
                    scores.masked_fill_(~seen, -math.inf)
                lse[b, h, rows] = torch.logsumexp(scores, 1)
                o[b, rows, h] = (torch.exp(scores - lse[b, h, rows, None]).bfloat16() @ v[b, :, h // group])
    for name, build in builds.items():
        fits = build.takes((batch, heads, kv_heads, length, length))
        if (build.dim, build.v_dim, bool(build.causal), build.dtype) != (dim, v_dim, causal, torch.bfloat16) or not fits:
            continue
        for section in options.sections:
            grads = [torch.empty_like(x) for x in (q, k, v)]
            label = f"{name}_{section}_heads" if section else name
            calls[label] = build.prepare(q, k, v, o, d_o, lse, *grads, section=section)
            calls[label]()
            torch.cuda.synchronize()
            if expected is None:
                continue
            notes[label] = [round(((x.float() - y.float()).norm() / y.float().norm()).item(), 5) for x, y in zip(grads, expected)]
    if not options.no_peers:
        try:
            from flash_attn.cute import flash_attn_func
            for label, deterministic in (("fa4", False), ("fa4_ordered", True)):
                peer_leaves = [x.detach().requires_grad_() for x in (q, k, v)]
                peer_out = flash_attn_func(*peer_leaves, causal=causal, deterministic=deterministic)
                peer_out = peer_out[0] if isinstance(peer_out, tuple) else peer_out
                calls[label] = lambda out=peer_out, leaves=peer_leaves: torch.autograd.grad(out, leaves, d_o, retain_graph=True)
                calls[label]()
        except Exception as reason:
            print(f"no FlashAttention-4: {type(reason).__name__}: {str(reason)[:300]}", flush=True)
    return calls, notes


def profile(build, shape):
    """One backward pass, for a profiler."""
    batch, heads, kv_heads, length, dim, v_dim, _ = shape
    make = lambda h, columns: torch.randn(batch, length, h, columns, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    q, k, v, o, d_o = make(heads, dim), make(kv_heads, dim), make(kv_heads, v_dim), make(heads, v_dim), make(heads, v_dim)
    lse = math.log(length) + 0.5 + torch.rand(batch, heads, length, device="cuda")
    build.prepare(q, k, v, o, d_o, lse, *(torch.empty_like(x) for x in (q, k, v)))()
    torch.cuda.synchronize()


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("root", type=pathlib.Path)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cubins", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--checks", type=int, default=len(CHECKS), help="how many of the check shapes")
    parser.add_argument("--shapes", type=int, default=len(SHAPES), help="how many of the timed shapes")
    parser.add_argument("--seconds", type=float, default=1e9, help="no new shape after so many seconds")
    parser.add_argument("--sections", type=int, nargs="+", default=[0], help="heads of k and v worked on at one time; 0: as the library")
    parser.add_argument("--cases", default="", help="timed shapes whose name has this")
    parser.add_argument("--no-peers", action="store_true", help="cuDNN alone")
    parser.add_argument("--quick", action="store_true", help="no checks before the timing")
    parser.add_argument("--builds", default="")
    parser.add_argument("--profile", action="store_true", help="one pass of the first build at the first fitting shape, no more")
    parser.add_argument("--commit", default="")
    parser.add_argument("--name", default="attention-backward")
    options = parser.parse_args()
    began = time.time()
    torch.zeros(1, device="cuda")
    names = options.builds.split(",") if options.builds else list(BUILDS)
    folder = options.cubins or options.out / "cubins"
    if not options.cubins:
        compile_builds(options.root, names, folder)
    builds = {name: Build(name, folder) for name in names}
    if options.profile:
        build = builds[names[0]]
        return profile(build, next(x for x in SHAPES if x[4:] == (build.dim, build.v_dim, bool(build.causal))))
    if not options.quick:
        right = []
        for name, build in builds.items():
            right += [check(build, *shape) for shape in CHECKS[:options.checks] if build.takes(shape)]
            right += [check(build, *shape, magnitude=4.0) for shape in ((1, 4, 2, 700, 700), (1, 4, 4, 250, 250)) if build.takes(shape)]
            print(f"{time.time() - began:.0f} s {name}: {sum(right)} of {len(right)} right so far", flush=True)
        print(f"{sum(right)} of {len(right)} checks against fp64 passed", flush=True)
        if not all(right):
            sys.exit(1)
    rows, sweep = [], torch.zeros(128 << 20, dtype=torch.int32, device="cuda")
    for shape in SHAPES[:options.shapes]:
        if time.time() - began > options.seconds:
            print("out of time", flush=True)
            break
        batch, heads, kv_heads, length, dim, v_dim, causal = shape
        label = f"{batch},{heads}/{kv_heads},{length},{dim if dim == v_dim else f'{dim}/{v_dim}'} {'causal' if causal else 'full'}"
        if options.cases not in label or all(build.dim != dim for build in builds.values()):
            continue
        calls, notes = contenders(shape, builds, options)
        samples = forward.timed({name: [call] for name, call in calls.items()}, options.repeats if length < 16384 else 5, sweep)
        flop = 5e-9 * batch * heads * length * length * (dim + v_dim) * (0.5 if causal else 1)
        medians = {name: statistics.median(times) for name, times in samples.items()}
        print(f"{time.time() - began:.0f} s", label, "  ".join(f"{name} {flop / ms:.0f}" for name, ms in medians.items()), flush=True)
        print("   off cuDNN:", notes, flush=True)
        rows += [{"case": label, "contender": name, "median_ms": medians[name], "tflops": flop / medians[name],
                  "best_tflops": flop / min(times), "samples_ms": times} for name, times in samples.items()]
        del calls
        torch.cuda.empty_cache()
    with open(options.out / f"{options.name}.json", "w") as file:
        json.dump({"environment": forward.environment(options.commit),
                   "protocol": "one backward pass per sample, L2 displaced, contenders in turns", "repeats": options.repeats,
                   "rows": rows}, file)
    with open(options.out / f"{options.name}.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "contender", "median_ms", "tflops", "best_tflops"])
        writer.writerows([row["case"], row["contender"], f"{row['median_ms']:.5f}", f"{row['tflops']:.1f}", f"{row['best_tflops']:.1f}"]
                         for row in rows)


if __name__ == "__main__":
    main()
