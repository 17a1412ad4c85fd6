#!/usr/bin/env python3
"""Compiles every shipped kernel configuration for its GPU and refuses a bad one. Needs nvcc, no GPU.

    tools/check_kernels.py [--nvcc PATH] [--jobs N] [--all] [NAME ...]

Where build/bin/ridge is there, what `ridge inspect` reads from each cubin must equal what ptxas reports, and the required
instructions are looked for through it. Reads each src/**/*.configs.toml (what it declares is described in
src/ops/gemm/cuda_wgmma.configs.toml) and *.checks.toml (kernels that check outputs on a GPU), and fails on register spills or a stack
frame, on more registers than declared, and on the warnings C7508 (setmaxnreg ignored), C7510 to C7514 (wgmma pipeline serialised) and C7602. Without nvcc it says so and exits 77. By default a configuration is built as the first variant and the first configuration as every variant;
--all builds the whole product. A NAME keeps the configurations or variants that contain it.
"""
import argparse
import concurrent.futures
import json
import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib

ARCHITECTURE = ["-gencode=arch=compute_90a,code=sm_90a"]
BAD_WARNINGS = ("C7508", "C7510", "C7511", "C7512", "C7514", "C7602")


def builds_of(description, everything, names):
    configs, variants = description["configs"], description["variants"]
    first_config, first_variant = next(iter(configs)), next(iter(variants))
    for config, config_defines in configs.items():
        for variant, variant_defines in variants.items():
            if not everything and config != first_config and variant != first_variant:
                continue
            name = f"{config}/{variant}"
            if names and not any(n in name for n in names):
                continue
            defines = {**config_defines, **variant_defines}
            if any(all(defines.get(key) in (value if isinstance(value, list) else [value]) for key, value in rule.items())
                   for rule in description.get("unsupported", [])):
                continue
            yield name, defines
    for name, defines in description.get("extra", {}).items():
        if not names or any(n in name for n in names):
            yield name, defines


def required_opcodes(description, defines):
    eight_bit = "kE4m3" in defines.values() or "kE5m2" in defines.values()
    for opcode in description.get("required_sass", []):
        if opcode == "UTMASTG" and defines.get("DIRECT_STORE"):
            continue
        if opcode == "HGMMA" and eight_bit:
            yield "QGMMA"
        elif opcode == "UTMASTG" and defines.get("STORE") == "kAdd":
            yield "UTMAREDG"
        else:
            yield opcode


def reported_by_ptxas(text):
    """Resources by kernel, from the output of ptxas -v."""
    kernels, kernel = {}, None
    for line in text.splitlines():
        if found := re.search(r"Compiling entry function '(\w+)'", line):
            kernel = kernels.setdefault(found[1], {"shared_bytes": 0})
        for key, pattern in (("stack_bytes", r"(\d+) bytes stack frame"), ("spill_store_bytes", r"(\d+) bytes spill stores"),
                             ("spill_load_bytes", r"(\d+) bytes spill loads"), ("registers", r"Used (\d+) registers"),
                             ("shared_bytes", r"(\d+) bytes smem")):
            if kernel is not None and (found := re.search(pattern, line)):
                kernel[key] = int(found[1])
    return kernels


def inspect(ridge, cubin, ptxas_text, required):
    if not ridge.exists():
        return []
    result = subprocess.run([ridge, "inspect", cubin, "--json"], capture_output=True, text=True)
    if result.returncode not in (0, 1):
        return [f"ridge inspect failed: {result.stderr.strip()}"]
    problems, reported = [], reported_by_ptxas(ptxas_text)
    kernels = {k["name"]: k for image in json.loads(result.stdout) for k in image["kernels"]}
    if kernels.keys() != reported.keys():
        problems.append(f"ridge inspect finds {sorted(kernels)}, ptxas compiled {sorted(reported)}")
    for name, kernel in kernels.items():
        for key, value in reported.get(name, {}).items():
            if kernel["resources"].get(key) != value:
                problems.append(f"{name}: ridge inspect reads {key} {kernel['resources'].get(key)}, ptxas reports {value}")
        if kernel["has_listing"]:
            opcodes = {opcode.split(".")[0] for opcode in kernel["opcodes"]}
            problems += [f"{name}: the machine code has no {wanted}" for wanted in required if wanted not in opcodes]
            if kernel["counts"]["unknown"]:
                problems.append(f"{name}: {kernel['counts']['unknown']} instructions are in no row of the opcode table")
    return problems


def build(nvcc, ridge, source, prefix, name, defines, description, folder):
    cubin = pathlib.Path(folder) / (name.replace("/", "-") + ".cubin")
    command = [nvcc, *ARCHITECTURE, "-cubin", "-Xptxas", "-v", "-std=c++20", "-o", str(cubin), str(source)]
    command += [f"-D{prefix}{key}={value}" for key, value in defines.items()]
    if "prelude" in description:  # what the library puts in front of the source
        command += ["-include", str(source.parent / description["prelude"])]
    result = subprocess.run(command, capture_output=True, text=True)
    text = result.stdout + result.stderr
    problems = []
    if result.returncode != 0:
        return name, [f"nvcc failed: {text.strip()[-1500:]}"], "", command
    for code in BAD_WARNINGS:
        if code in text:
            problems.append(next(line.strip() for line in text.splitlines() if code in line))
    used = [int(n) for n in re.findall(r"Used (\d+) registers", text)]
    stack = [int(n) for n in re.findall(r"(\d+) bytes stack frame", text)]
    spills = [int(n) for n in re.findall(r"(\d+) bytes spill (?:stores|loads)", text)]
    if not used:
        problems.append("the compiler reported no register count")
    elif max(used) > description["max_registers"]:
        problems.append(f"{max(used)} registers, declared limit {description['max_registers']}")
    if any(spills):
        problems.append(f"{sum(spills)} bytes of register spills")
    if any(stack):
        problems.append(f"{max(stack)} bytes of stack frame")
    problems += inspect(ridge, cubin, text, required_opcodes(description, defines))
    return name, problems, f"{max(used, default=0)} registers", command


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--ridge", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent / "build/bin/ridge")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--all", action="store_true")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.nvcc).exists():
        print("skipped: no nvcc here (install the CUDA toolkit or pass --nvcc)", file=sys.stderr)
        return 77
    root = pathlib.Path(__file__).resolve().parent.parent
    started, failed, total = time.time(), 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = []
        for path in sorted([*(root / "src").rglob("*.configs.toml"), *(root / "src").rglob("*.checks.toml")]):
            description = tomllib.loads(path.read_text())
            source = path.parent / description["source"]
            for name, defines in builds_of(description, arguments.all, arguments.names):
                jobs.append(pool.submit(build, arguments.nvcc, arguments.ridge, source, description.get("prefix", "RIDGE_"), name, defines,
                                        description, folder))
        for job in concurrent.futures.as_completed(jobs):
            name, problems, summary, command = job.result()
            total += 1
            if problems:
                failed += 1
                print(f"FAILED {name}")
                for problem in problems:
                    print(f"  {problem}")
                print("  " + " ".join(command))
            elif arguments.verbose:
                print(f"ok     {name}: {summary}")
    print(f"check_kernels: {total} builds, {failed} failed, {time.time() - started:.0f} s")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
