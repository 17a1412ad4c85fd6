#!/usr/bin/env python3
"""Lines of a tuned table (data/tuned) from what `gemm_bench sweep` measured: for every bucket of cases the configuration of our kernel
that was fastest over its cases and both protocols.

    table_of_sweep.py bench/results/DEVICE --libraries VERSIONS --fp8-libraries VERSIONS --driver NAME [--rows LEAST]

cuBLASLt is not among the contenders: a sweep times the best of its algorithms, a call takes its first. VERSIONS and NAME are as
`ridge tune` writes them. --rows: the least m of a case that counts; below, `ridge tune` compares with cuBLASLt.
"""
import argparse
import csv
import json
import math
import pathlib

FP8 = {"e4m3-tensor": ("tensor", "fast", "bf16", "0"), "e4m3-tensor-promote": ("tensor", "promoted", "bf16", "0"),
       "e4m3-block": ("block", "promoted", "bf16", "0"), "e4m3-vector-f32add": ("vector", "promoted", "f32", "1")}


def bucket(size):
    """As src/dispatch/tuned.cpp rounds: to 1, 1.5, 2, 3, 4, 6, ..."""
    if size < 3:
        return size
    power = 2 ** int(math.log2(size))
    relative = size / power
    return power if relative < math.sqrt(1.5) else power + power // 2 if relative < math.sqrt(3) else 2 * power


def params(layout, types, m, n, k):
    sizes = {"m": bucket(m), "n": bucket(n), "k": bucket(k)}
    if types in FP8:
        scaling, sums, out, accumulate = FP8[types]
        return "gemm_fp8", {**sizes, "dtype": "e4m3fn", "out": out, "layout": "nt", "accumulate": accumulate, "scaling": scaling, "sums": sums}
    out, accumulate = {"bf16": ("same", "0"), "bf16-f32add": ("f32", "1"), "bf16-bf16add": ("same", "1")}[types]
    return "gemm", {**sizes, "dtype": "bf16", "out": out, "layout": layout.lower(), "accumulate": accumulate, "batch": "1", "bias": "0",
                    "activation": "none", "residual": "0"}


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--libraries", required=True)
    parser.add_argument("--fp8-libraries", required=True)
    parser.add_argument("--driver", required=True)
    parser.add_argument("--rows", type=int, default=0)
    arguments = parser.parse_args()
    device = json.loads((arguments.folder / "facts.json").read_text())["name"]
    buckets = {}
    for line in csv.DictReader(open(arguments.folder / "sweep.csv")):
        m, n, k = (int(line[key]) for key in "MNK")
        if m < arguments.rows:
            continue
        op, values = params(line["layout"], line["types"], m, n, k)
        key = json.dumps({"op": op, "params": [{"name": name, "value": str(value)} for name, value in values.items()]},
                         separators=(",", ":"))
        case = buckets.setdefault(key, {}).setdefault((line["protocol"], line["layout"], m, n, k), {})
        case[line["config"]] = (float(line["us"]), int(line["rounds"]))
    for key, cases in buckets.items():
        common = set.intersection(*(set(times) for times in cases.values()))
        best = {name: min(us for us, _ in case.values()) for name, case in cases.items()}
        loss = {name: sum(math.log(case[name][0] / best[which]) for which, case in cases.items()) for name in common}
        if not loss:
            continue
        first, second = sorted(loss, key=loss.get)[:2] if len(loss) > 1 else (min(loss), min(loss))
        some = next(case for (protocol, *_), case in cases.items() if protocol == "sustained")
        own = "cuda_wgmma_fp8" if '"gemm_fp8"' in key else "cuda_wgmma"
        line = {"version": 1, "device": device, "libraries": arguments.fp8_libraries if own.endswith("fp8") else arguments.libraries,
                "driver": arguments.driver, "bucket": json.loads(key), "implementation": own, "configuration": first,
                "over": f"{own}/{second}", "ratio": math.exp((loss[second] - loss[first]) / len(cases)), "latency": some[first][0] * 1e-6,
                "rounds": some[first][1], "threads": 1, "refused": []}
        print(json.dumps(line, separators=(",", ":")))


if __name__ == "__main__":
    main()
