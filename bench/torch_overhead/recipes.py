#!/usr/bin/env python3
"""What recipes, delayed scaling, padding and statistics cost a layer, forward and backward.

  PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib .venv/bin/python bench/torch_overhead/recipes.py [--device cuda] [--threads N] [--json FILE]

Medians over interleaved batches of calls of one layer, in microseconds, with the wait for the device: a small one, where what counts is
the way to the kernels, and a large one. The same results are meant within each group; the first is what the others are held to.
"""

import argparse
import contextlib
import json
import pathlib
import platform
import statistics

import torch
from run import interleaved, repeat

import ridgeline.torch as rt

HYBRID = rt.QuantConfig("hybrid")
BLOCKS = rt.QuantConfig("hybrid", "blockwise")


def step_of(config, rows, width, device, around=contextlib.nullcontext):
    torch.manual_seed(1)
    layer = torch.nn.Linear(width, width, device=device)
    rt.convert(layer, config)
    x, dy = torch.randn(rows, width, device=device, requires_grad=True), torch.randn(rows, width, device=device)

    def step():
        with around(layer):
            layer(x).backward(dy)

    return repeat(step)


def call_of(make, rows, width, device, around=contextlib.nullcontext):
    layer, x = make(width, width, device=device), torch.randn(rows, width, device=device)

    def call():
        with torch.no_grad(), around():
            layer(x)

    return repeat(call)


def groups(rows, width, device):
    same = rt.Recipe(HYBRID, HYBRID, HYBRID, pad_rows=1)
    recipes = {name: rt.recipe(name) for name in rt.recipes()}
    return {
        "recipes": {name: step_of(recipe, rows, width, device) for name, recipe in recipes.items()},
        "one config for all products": {"one operator": step_of(HYBRID, rows, width, device), "put together": step_of(same, rows, width, device)},
        "rows": {
            f"{rows + 1} rows": step_of(BLOCKS, rows + 1, width, device),
            f"padded to {rows + 16}": step_of(rt.Recipe(BLOCKS, BLOCKS, BLOCKS, pad_rows=16), rows + 1, width, device),
        },
        "statistics": {
            "off": step_of(HYBRID, rows, width, device),
            "on": step_of(HYBRID, rows, width, device, rt.statistics),
        },
        "a call without a gradient": {
            "torch.nn.Linear": call_of(torch.nn.Linear, rows, width, device),
            "Linear": call_of(rt.Linear, rows, width, device),
            "Fp8Linear": call_of(rt.Fp8Linear, rows, width, device),
            "Fp8Linear in autocast_fp8()": call_of(rt.Fp8Linear, rows, width, device, rt.autocast_fp8),
        },
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--threads", type=int, default=torch.get_num_threads())
    parser.add_argument("--batches", type=int, default=15)
    parser.add_argument("--json", type=pathlib.Path)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    gpu = options.device.startswith("cuda")
    drain = torch.cuda.synchronize if gpu else lambda: None
    cpu = next((line.split(":")[1].strip() for line in open("/proc/cpuinfo") if line.startswith("model name")), platform.machine())
    result = {"torch": torch.__version__, "device": torch.cuda.get_device_name() if gpu else cpu, "threads": options.threads, "us": {}}
    for rows, width, per_batch in ((16, 64, 20), (4096, 4096, 2) if gpu else (512, 1024, 1)):
        for group, calls in groups(rows, width, options.device).items():
            interleaved(calls, per_batch, 2, drain)
            times = interleaved(calls, per_batch, options.batches, drain)
            found = {name: statistics.median(each["wall"]) for name, each in times.items()}
            result["us"][f"{rows} x {width}, {group}"] = found
            first = next(iter(found.values()))
            for name, value in found.items():
                print(f"{rows:5} x {width:4}  {group:28} {name:28} {value:10.1f} us  {value / first:6.2f}", flush=True)
    if options.json:
        options.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
