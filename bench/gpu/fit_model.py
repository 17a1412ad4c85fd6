#!/usr/bin/env python3
"""Fits the constants of src/ops/matmul/cuda_wgmma_model.h to measured times. Needs numpy and scipy, no GPU.

    fit_model.py FOLDER... [--without FILE] [--name NAME]

A folder (bench/results/nvidia-h200) holds facts.json and sweep.csv, both made by `gemm_bench`. What is minimised is how much slower
than the best configuration the chosen one is, in the mean over all cases of all folders (every case counts once, so does every
protocol); the choice is softened so that it has a slope. --without names a file of shapes that are left out, one LAYOUT:TYPES:M,N,K
a line. Prints a `ModelConstants` in C++, the `model` of every configuration in the
kernel's description and, to stderr, what the choice reaches. The model itself is explained in the header; this
is the same in numpy, over all cases at once.
"""
import argparse
import csv
import json
import math
import pathlib
import re
import sys

import numpy as np
from scipy.optimize import minimize

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLOCK_UNDER_LOAD, MEMORY_REACHED, CYCLES_PER_LINE = 0.7576, 0.93, 2  # as in the header
PLAIN = ("bf16", "bf16-f32add", "bf16-bf16add", "e4m3-tensor")
PROMOTED = ("e4m3-tensor-promote", "e4m3-block", "e4m3-vector-f32add")
# Round numbers that know of no device; the fit begins and is held near them.
START = {"step_sharpness": 3, "memory_sharpness": 3, "drift_scale": 10, "drift_power": 0.3, "mn_major_step": 0.005,
         "mn_major_memory": 0.05, "single_wave": 0.02, "start": 800, "hidden_end": 150, "plain_end": 2000,
         "exchange": 5500}


def configurations():
    """Of the kernel's description, in its order."""
    text = (ROOT / "src/ops/matmul/cuda_wgmma.cu").read_text()
    lines = text[text.index("[configs]\n"):text.index("[variants]\n")].splitlines()
    found = {}
    for name, words in (re.fullmatch(r"(\w+) = \{ (.*) \}", line).groups() for line in lines if " = { " in line):
        values = dict(re.findall(r"RIDGE_(\w+) = (\d+)", words))
        value = lambda key, default: int(values.get(key, default))
        found[name] = {"block_m": value("BLOCK_M", 128), "block_n": value("BLOCK_N", 128), "cluster_m": value("CLUSTER_M", 1),
                       "cluster_n": value("CLUSTER_N", 1), "pingpong": value("PINGPONG", 0) == 1, "split_k": value("SPLIT_K", 1)}
    return found


CONFIGS = configurations()
NAMES = list(CONFIGS)


def tile_order(high, wide, rows, cols, clusters):
    best, order = math.inf, (1, 0)
    for along, sides in enumerate((rows, cols)):
        for group in range(1, min(sides, 32) + 1):
            across = clusters / group
            cost = group * high + across * wide if along == 0 else group * wide + across * high
            cost *= 1.02 if sides % group and sides > group else 1
            if cost < best:
                best, order = cost, (group, along)
    return order


def features(layout, types, m, n, k, name, facts):
    """What the model asks of a case in a configuration, without anything fitted."""
    c = CONFIGS[name]
    size = 1 if types.startswith("e4m3") else 2
    high, wide = c["block_m"] * c["cluster_m"], c["block_n"] * c["cluster_n"]
    rows, cols = -(-m // high), -(-n // wide)
    clusters = facts["multiprocessors"] // (c["cluster_m"] * c["cluster_n"] * c["split_k"])
    tiles = rows * cols
    waves, steps = -(-tiles // clusters), -(-(-(-k * size // 128)) // c["split_k"])
    group, along = tile_order(high, wide, rows, cols, clusters)
    at_once = min(tiles, clusters)
    if along == 0:
        row_tiles = min(group, rows)
        col_tiles = min(cols, at_once / row_tiles)
    else:
        col_tiles = min(group, cols)
        row_tiles = min(rows, at_once / col_tiles)
    lines_a = 1 if (m if layout[0] == "T" else k) * size % 128 == 0 else 2
    lines_b = 1 if (n if layout[1] == "N" else k) * size % 128 == 0 else 2
    output = m * n * (4 if "f32add" in types else 2) * (2 if types.endswith("add") else 1)
    return {"index": NAMES.index(name), "waves": waves, "steps": steps, "split_k": c["split_k"],
            "matrix_unit": 2 * c["block_m"] * c["block_n"] * 64 / 4096,
            "fill": CYCLES_PER_LINE * (c["block_m"] * lines_a / c["cluster_n"] + c["block_n"] * lines_b / c["cluster_m"]),
            "rows": row_tiles * high, "cols": col_tiles * wide, "row_tiles": max(1, row_tiles), "col_tiles": max(1, col_tiles),
            "busy": tiles / (waves * clusters), "least": (m + n) * k * size + output, "output": output,
            "pingpong": c["pingpong"], "area": c["block_m"] * c["block_n"] / 32768,
            "single": waves == 1 and c["pingpong"],
            "mn_major": (layout[0] == "T") + (layout[1] == "N"), "l2_bytes": facts["l2_bytes"],
            "bandwidth": facts["memory_bandwidth"], "clock": facts["clock_hz"]}


class Cases:
    """Rows of all configurations, case after case, as columns."""

    def __init__(self, folders, types, left_out):
        rows, self.seconds, starts, self.labels = [], [], [], []
        for folder in folders:
            facts = json.loads((folder / "facts.json").read_text())
            before = None
            for line in csv.DictReader(open(folder / "sweep.csv")):
                shape = (line["layout"], line["types"], int(line["M"]), int(line["N"]), int(line["K"]))
                if line["types"] not in types or shape in left_out:
                    continue
                if before != (line["protocol"], shape):
                    before = (line["protocol"], shape)
                    starts.append(len(rows))
                    self.labels.append((folder.name, line["protocol"], line["layout"], line["types"]))
                rows.append(features(*shape, line["config"], facts))
                self.seconds.append(float(line["us"]) * 1e-6)
        self.columns = {key: np.array([row[key] for row in rows], dtype=float) for key in rows[0]}
        self.index = self.columns["index"].astype(int)
        self.starts = np.array(starts)
        self.case = np.zeros(len(rows), int)
        self.case[self.starts[1:]] = 1
        self.case = np.cumsum(self.case)
        self.seconds = np.array(self.seconds)
        self.log_loss = np.log(self.seconds / np.minimum.reduceat(self.seconds, self.starts)[self.case])


def estimate(cases, p, weight):
    f = cases.columns
    multiply = f["matrix_unit"] * weight[cases.index] * (1 + p["mn_major_step"] * f["mn_major"]) * (1 + p["single_wave"] * f["single"])
    step = (multiply ** p["step_sharpness"] + f["fill"] ** p["step_sharpness"]) ** (1 / p["step_sharpness"])
    end = np.where(f["pingpong"] > 0, p["hidden_end"], p["plain_end"]) * f["area"] + np.where(f["split_k"] > 1, p["exchange"], 0)
    matrix = (f["waves"] * (f["steps"] * step + end) + p["start"]) / (f["clock"] * CLOCK_UNDER_LOAD)
    window = f["l2_bytes"] / (128 * (f["rows"] + f["cols"]) * f["steps"])
    late = np.exp(-((p["drift_scale"] * window) ** p["drift_power"]))
    read = f["waves"] * f["busy"] * f["steps"] * f["split_k"] * 128 * (
        f["rows"] * (1 + (f["col_tiles"] - 1) * late) + f["cols"] * (1 + (f["row_tiles"] - 1) * late))
    moved = np.maximum(f["least"], read + f["output"])
    memory = moved / (f["bandwidth"] * MEMORY_REACHED * (1 - p["mn_major_memory"] * f["mn_major"]))
    ratio = memory / matrix
    return matrix * (1 + ratio ** p["memory_sharpness"]) ** (1 / p["memory_sharpness"])


def objective(cases, logs):
    """Mean loss of the softened choice, and a little for estimates that are in no proportion to the times."""
    softness = 0.012
    least = np.minimum.reduceat(logs, cases.starts)[cases.case]
    chance = np.exp(-(logs - least) / softness)
    loss = np.add.reduceat(chance * np.minimum(cases.log_loss, 1), cases.starts) / np.add.reduceat(chance, cases.starts)
    near = cases.log_loss < 0.3
    off = logs - np.log(cases.seconds)
    mean = np.add.reduceat(off * near, cases.starts) / np.maximum(1, np.add.reduceat(near * 1.0, cases.starts))
    spread = np.mean((np.clip(off - mean[cases.case], -0.3, 0.3) * near) ** 2)
    return np.mean(loss) + 1.2 * np.mean(loss ** 2) + 0.3 * spread


def fit(cases, promoted_cases):
    keys, plain = list(START), [i for i, name in enumerate(NAMES) if not name.startswith("promote")]
    start = np.concatenate([np.log(list(START.values())), np.zeros(len(plain))])

    def unpack(v):
        weight = np.ones(len(NAMES))
        weight[plain] = np.exp(v[len(keys):])
        return dict(zip(keys, np.exp(v[:len(keys)]))), weight

    def loss(v):
        return objective(cases, np.log(estimate(cases, *unpack(v)))) + 1e-4 * np.sum((v - start) ** 2)

    p, weight = unpack(minimize(loss, start, method="L-BFGS-B", options={"maxiter": 200, "maxfun": 10 ** 6}).x)
    promoted = [i for i in range(len(NAMES)) if i not in plain]

    def promoted_loss(v):
        weight[promoted] = np.exp(v)
        return objective(promoted_cases, np.log(estimate(promoted_cases, p, weight)))

    best = min((minimize(promoted_loss, np.full(len(promoted), s), method="Nelder-Mead", options={"maxiter": 900}) for s in (0.3, 0)),
               key=lambda found: found.fun)
    promoted_loss(best.x)
    return p, weight


def report(cases, p, weight):
    logs, reached = np.log(estimate(cases, p, weight)), {}
    ends = [*cases.starts[1:], len(logs)]
    for label, begin, end in zip(cases.labels, cases.starts, ends):
        reached.setdefault(label, []).append(math.exp(-cases.log_loss[begin + np.argmin(logs[begin:end])]))
    for label, values in sorted(reached.items()):
        mean = math.exp(np.mean(np.log(values)))
        print(f"{' '.join(label):58s} {len(values):4d} cases: {mean:.3f} of the best, worst {min(values):.3f}", file=sys.stderr)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--without", type=pathlib.Path)
    parser.add_argument("--name", default="kModelConstants")
    arguments = parser.parse_args()
    left_out = set()
    for line in arguments.without.read_text().split() if arguments.without else ():
        layout, types, sizes = line.split(":")
        left_out.add((layout, types, *map(int, sizes.split(","))))
    cases, promoted = (Cases(arguments.folders, types, left_out) for types in (PLAIN, PROMOTED))
    p, weight = fit(cases, promoted)
    for some in (cases, promoted):
        report(some, p, weight)
    print(f"inline constexpr ModelConstants {arguments.name} = {{")
    for key, value in p.items():
        print(f"    .{key} = {value:.4g},")
    print("};")
    for name, w in zip(NAMES, weight):
        print(f"{name}: model = {w:.4f}")


if __name__ == "__main__":
    main()
