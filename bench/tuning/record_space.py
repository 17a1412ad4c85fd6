#!/usr/bin/env python3
"""Every configuration of a kernel of the library on one case, measured once each on this machine: a recording that `ridge tune replay` searches.

    record_space.py OUT.json --on cuda --op softmax --source ops/softmax/cuda_softmax.cu --case "rows=4096 cols=32768" [--fix NAME=VALUE|VALUE,...] [--limit 240]

Each is built, checked and timed by the worker as the screening of a campaign does (task "screen"): every call verified on its own inputs, the
median of one session. What does not compile, is refused or wrong is a failed row. The file is in the T4 format of the auto-tuning community;
where the time limit ends it, the configurations are a random part of the space, and `metadata` says how many there are.
"""
import argparse
import itertools
import json
import os
import pathlib
import random
import re
import subprocess
import sys
import tempfile
import time
import tomllib

ROOT = pathlib.Path(__file__).resolve().parents[2]
DEEPER = re.compile(r'#include "(?:\.\./)+device/cuda/kernel/')


def block(text, marker):
    found = re.search(r"/\* " + marker + r"\n(.*?)\*/", text, re.S)
    return tomllib.loads(found.group(1)) if found else {}


def sources_of(start, path):
    """The start, the kernel, and the headers of operators, as a campaign puts them together."""
    files = [{"path": "start.cu", "text": start}]
    for file in [ROOT / "src" / path, *sorted((ROOT / "src/ops").rglob("*.cuh"))]:
        files.append({"path": str(file.relative_to(ROOT / "src")), "text": DEEPER.sub('#include "ridge/kernel/', file.read_text())})
    return files


def in_python(text):
    """An expression of launch plans: && || ! and c ? a : b are Python's and, or, not and a if c else b."""
    opened, parts = [], [""]  # one part for each parenthesis that is open
    for char in text.replace("&&", " and ").replace("||", " or "):
        if char == "(":
            parts.append("")
        elif char == ")":
            inner = parts.pop()
            opened.append(choice(inner))
            parts[-1] += f"\0{len(opened) - 1}\1"
        else:
            parts[-1] += char
    whole = choice(parts[0])
    while "\0" in whole:
        whole = re.sub("\0([0-9]+)\1", lambda found: f"({opened[int(found.group(1))]})", whole)
    return re.sub(r"!(?!=)", " not ", whole)


def choice(text):
    condition, question, rest = text.partition("?")
    if not question:
        return text
    yes, _, no = rest.partition(":")
    return f"(({yes.strip()}) if ({condition.strip()}) else ({choice(no).strip()}))"


def holds(expression, values):
    return bool(eval(in_python(expression), {"__builtins__": {}, "min": min, "max": max}, dict(values)))  # the kernel's own text


def configurations(tunables, constraints, fixed):
    names = [t["name"] for t in tunables]
    lists = [fixed.get(t["name"], t["values"]) for t in tunables]
    for values in itertools.product(*lists):
        one = dict(zip(names, values, strict=True))
        idle = [t for t in tunables if "needs" in t and one[t["name"]] != t["default"] and not holds(t["needs"], one)]
        if not idle and all(holds(c["expression"], one) for c in constraints):
            yield one


def ask(worker, cache, **request):
    with tempfile.TemporaryDirectory() as folder:
        asked, answered = pathlib.Path(folder, "request.json"), pathlib.Path(folder, "response.json")
        asked.write_text(json.dumps({"version": 1, "cache_directory": cache, **request}))
        subprocess.run([worker, asked, answered], capture_output=True, text=True, check=False)
        return json.loads(answered.read_text()) if answered.exists() else {"error": "no response"}


def name_of_gpu():
    return subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True, check=False).stdout.strip()


def main():
    options = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    options.add_argument("out")
    options.add_argument("--on", choices=("cpu", "cuda"), required=True)
    for name in ("op", "source", "case"):
        options.add_argument("--" + name, required=True)
    options.add_argument("--fix", default="", help="NAME=VALUE|VALUE,...: tunables that do not take all of their values")
    options.add_argument("--limit", type=float, default=240, help="seconds")
    options.add_argument("--worker", default=str(ROOT / "build/bin/ridge-worker"))
    given = options.parse_args()
    began = time.monotonic()
    text = (ROOT / "src" / given.source).read_text()
    declared = block(text, "ridge-tunables")
    fixed = {name: [int(one) for one in values.split("|")] for name, values in (pair.split("=") for pair in given.fix.split(",") if pair)}
    space = list(configurations(declared["tunable"], declared.get("constraint", []), fixed))
    random.Random(1).shuffle(space)
    gpu = given.on == "cuda"
    start = f'/* ridge-build\ncase = "{given.op} {given.case}"\n*/\n#include "{given.source}"\n'
    sources = sources_of(start, given.source) if gpu else [{"path": pathlib.Path(given.source).name, "text": text}]
    cases = [{"op": given.op, "params": [dict(zip(("name", "value"), word.split("="), strict=True)) for word in given.case.split()]}]
    results, cache = [], tempfile.mkdtemp()
    for first in range(0, len(space), 64):
        if time.monotonic() - began > given.limit:
            break
        candidates = [{"op": given.op, "backend": given.on, "name": "record", "sources": sources, "defines": one, "flags": [], "parent": ""}
                      for one in space[first:first + 64]]
        before = time.monotonic()
        ask(given.worker, cache, task="build", candidates=candidates, cases=cases)  # all at once, into the cache
        built = (time.monotonic() - before) / len(candidates)
        before = time.monotonic()
        answer = ask(given.worker, cache, task="screen", candidates=candidates, cases=cases)
        if "screen" not in answer:
            sys.exit(f"record_space: {answer.get('error', answer)}")
        each = (time.monotonic() - before) / len(candidates)
        for row in answer["screen"]:
            passed = row["outcome"] == "PASS"
            results.append({"configuration": row["defines"], "invalidity": "correct" if passed else row["outcome"].lower(),
                            "times": {"compilation": 1e3 * built, "benchmark": 1e3 * each},
                            "measurements": [{"name": "time", "value": 1e3 * row["latencies"][0] if passed else None, "unit": "ms"}]})
        print(f"{len(results)} of {len(space)}, {time.monotonic() - began:.0f} s", flush=True)
    used = {t["name"]: fixed.get(t["name"], t["values"]) for t in declared["tunable"]}
    device = name_of_gpu() if gpu else re.search(r"model name\s*: (.*)", pathlib.Path("/proc/cpuinfo").read_text()).group(1)
    head = {"timeunit": "miliseconds", "kernel": given.source, "case": cases[0]["op"] + " " + given.case, "configurations": len(space),
            "device": device, "commit": os.environ.get("RIDGE_COMMIT", ""), "protocol": "one screening session each, median"}
    pathlib.Path(given.out).write_text(json.dumps({"schema_version": "1.0.0", "metadata": head, "tune_params": used, "results": results}))


if __name__ == "__main__":
    main()
