#!/usr/bin/env python3
"""Losses and rotary embedding of the library against eager PyTorch on a CPU, and against the speed of a copy in the same run.

  cmake --build build --target ridgeline_torch
  PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib .venv/bin/python bench/torch_overhead/losses.py [--threads N] [--json FILE]

cross_entropy is a mean with its gradient of the logits: `later` makes the gradient in backward, `one_pass` with the loss, `in_place` over the
logits. rope turns q and k of 32 and 8 heads of 128. Operands are far larger than the caches, and every call of a turn has others than the
call before. Contenders take turns, the order turns round every other time; a copy (torch's copy_, of as many bytes as the logits have) is one of them.
The first call's results are compared with float64. `ratio` is torch's time over ours, paired by turn; `copy_share` is the compulsory bytes
(logits read and gradient written; with `later` the logits twice) per second over those of the copy, paired by turn, too.
"""

import argparse
import json
import os
import pathlib
import platform
import statistics
import time

import torch

import ridgeline.torch as rt

F = torch.nn.functional
SETS = 2  # of operands, used in turns


def seconds(call):
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def race(calls, check, turns):
    """calls: name -> list of calls, one for each set of operands."""
    for name, each in calls.items():
        check(name, each[0]())
        each[-1]()
    times = {name: [] for name in calls}
    for turn in range(turns):
        for name in calls if turn % 2 == 0 else reversed(calls):
            times[name].append(seconds(calls[name][turn % SETS])[0])
    return times


def near(name, found, exact, bound):
    error = float((found.double() - exact).abs().max() / exact.abs().max())
    if not error < bound:
        raise SystemExit(f"{name}: off by {error:.2g} of the largest element")


def losses(tokens, columns, dtype, turns):
    sets = []
    for _ in range(SETS):
        logits = (2 * torch.randn(tokens, columns)).to(dtype)
        sets.append((logits, torch.randint(columns, (tokens,)), torch.empty_like(logits)))
    fresh = [x.clone() for x, _, _ in sets]

    def step(loss, x, target, **how):
        leaf = x.detach().requires_grad_()
        value = loss(leaf, target, **how)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    def in_place(x, target, space):
        # The logits are computed in a step; here a copy stands for that, which is not timed (`timed` below).
        leaf = space.detach().requires_grad_()
        value = rt.cross_entropy(leaf.view_as(leaf), target, in_place=True)
        return value.detach(), torch.autograd.grad(value, leaf)[0]

    calls = {
        "torch": [lambda x=x, t=t: step(F.cross_entropy, x, t) for x, t, _ in sets],
        "later": [lambda x=x, t=t: step(rt.cross_entropy, x, t) for x, t, _ in sets],
        "one_pass": [lambda x=x, t=t: step(rt.cross_entropy, x, t, one_pass=True) for x, t, _ in sets],
        "in_place": [lambda x=x, t=t, s=s: in_place(x, t, s) for x, t, s in sets],
        "copy": [lambda x=x, s=s: s.copy_(x) for x, _, s in sets],
    }
    wide = fresh[0].double().requires_grad_()
    exact = F.cross_entropy(wide, sets[0][1])
    (gradient,) = torch.autograd.grad(exact, wide)
    exact = exact.detach()

    def check(name, result):
        if name == "copy":
            return
        if name in ("later", "one_pass"):
            near(f"{name} loss", result[0], exact, 1e-5)
        if name != "torch" and name != "in_place":
            near(f"{name} gradient", result[1], gradient, 1e-4 if dtype == torch.float32 else 1e-2)

    for _, _, space in sets:
        space.copy_(fresh[0])
    near("in_place gradient", calls["in_place"][0]()[1], gradient, 1e-4 if dtype == torch.float32 else 1e-2)
    times = {name: [] for name in calls}
    for name, each in calls.items():
        check(name, each[0]())
        each[-1]()
    for turn in range(turns):
        at = turn % SETS
        for name in calls if turn % 2 == 0 else reversed(calls):
            if name == "in_place":
                sets[at][2].copy_(fresh[at])
                sets[at - 1][2].fill_(0)  # what was copied leaves the caches
            times[name].append(seconds(calls[name][at])[0])
    size = sets[0][0].numel() * dtype.itemsize
    return times, {"later": 3 * size, "one_pass": 2 * size, "in_place": 2 * size}, 2 * size, "cross_entropy"


def turned(tokens, dtype, turns, interleaved):
    cos, sin = rt.rope_table(tokens, 128, base=5e5)
    sets = [tuple(torch.randn(1, tokens, heads, 128).to(dtype) for heads in (32, 8)) for _ in range(SETS)]
    spaces = [torch.empty(1, tokens, 40, 128, dtype=dtype) for _ in range(SETS)]
    c, s = (torch.cat([t, t], -1).to(dtype)[None, :, None] for t in (cos, sin))

    def by_torch(x):
        if interleaved:
            pairs = x.unflatten(-1, (-1, 2))
            half = torch.stack([-pairs[..., 1], pairs[..., 0]], -1).flatten(-2)
            return x * c_pairs + half * s_pairs
        half = torch.cat([-x[..., 64:], x[..., :64]], -1)
        return x * c + half * s

    c_pairs, s_pairs = (t.repeat_interleave(2, -1).to(dtype)[None, :, None] for t in (cos, sin))
    calls = {
        "torch": [lambda q=q, k=k: (by_torch(q), by_torch(k)) for q, k in sets],
        "apart": [lambda q=q, k=k: rt.rope(q, k, cos, sin, interleaved=interleaved) for q, k in sets],
        "in_place": [lambda q=q, k=k: rt.rope(q, k, cos, sin, interleaved=interleaved, in_place=True) for q, k in sets],
        "copy": [lambda q=q, k=k, t=t: (t[:, :, :32].copy_(q), t[:, :, 32:].copy_(k)) for (q, k), t in zip(sets, spaces)],
    }
    q = sets[0][0].double()
    pairs = torch.view_as_complex((q.unflatten(-1, (-1, 2)) if interleaved else q.unflatten(-1, (2, -1)).transpose(-1, -2)).contiguous())
    out = torch.view_as_real(pairs * torch.complex(cos.double(), sin.double())[None, :, None])
    exact = out.flatten(-2) if interleaved else out.transpose(-1, -2).flatten(-2)
    times = race(calls, lambda name, result: name in ("copy", "in_place") or near(name, result[0], exact, 2e-2), turns)
    size = sum(t.numel() for t in sets[0]) * dtype.itemsize
    return times, {"apart": 2 * size, "in_place": 2 * size}, 2 * size, "rope"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--turns", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=256)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    result = {"torch": torch.__version__, "ridgeline": rt.__version__, "commit": os.environ.get("RIDGE_COMMIT", ""), "threads": options.threads,
              "processor": next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.processor()),
              "torch_best_instructions": torch.backends.cpu.get_cpu_capability(), "load_before": os.getloadavg()[0], "rows": []}
    cases = [(f"cross_entropy {options.tokens} x {columns}", dtype, lambda c=columns, d=dtype: losses(options.tokens, c, d, options.turns))
             for dtype in (torch.float32, torch.bfloat16) for columns in (32000, 128256)]
    cases += [(f"rope 32 + 8 heads of 128, {16 * options.tokens} tokens{', interleaved' * pairs}", dtype,
               lambda d=dtype, p=pairs: turned(16 * options.tokens, d, options.turns, p))
              for dtype in (torch.float32, torch.bfloat16) for pairs in (False, True)]
    for label, dtype, run in cases:
        times, work, copied, kernel = run()
        copy_rate = [copied / t for t in times["copy"]]
        for name, size in work.items():
            ratio = statistics.median(t / o for t, o in zip(times["torch"], times[name]))
            rates = [size / t for t in times[name]]
            share = statistics.median(r / c for r, c in zip(rates, copy_rate))
            print(f"{str(dtype)[6:]:9s} {label:58s} {name:9s} {1e3 * statistics.median(times[name]):8.2f} ms  torch {1e3 * statistics.median(times['torch']):8.2f} ms  "
                  f"ratio {ratio:5.2f}  {1e-9 * statistics.median(rates):6.1f} GB/s  copy {1e-9 * statistics.median(copy_rate):6.1f}  share {share:.2f}", flush=True)
            result["rows"].append({"dtype": str(dtype)[6:], "case": label, "contender": name, "implementation": rt.last_used(kernel), "ratio": ratio,
                                   "copy_share": share, "bytes": size})
        result["rows"].append({"dtype": str(dtype)[6:], "case": label, "seconds": times})
    if options.json:
        options.json.write_text(json.dumps(result))


if __name__ == "__main__":
    main()
