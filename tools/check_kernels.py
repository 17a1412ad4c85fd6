#!/usr/bin/env python3
"""Compiles every shipped kernel configuration for its GPU and refuses a bad one. Needs nvcc, no GPU.

    tools/check_kernels.py [--nvcc PATH] [--jobs N] [--again] [NAME ...]

What `ridge inspect` reads from each cubin must equal what ptxas reports, and the required instructions are looked for through
it. The builds are those of build/kernel_builds.json, which the build of the library writes from the kernels' own descriptions
(src/record/kernel_description.h), and those of *.checks.toml in src and tests (kernels that check outputs on a GPU). Fails on register
spills or a stack frame, on more registers than declared, and on the warnings C7508 (setmaxnreg ignored), C7510 to C7514 (wgmma
pipeline serialised) and C7602. Without nvcc it says so and exits 77. A NAME keeps the builds whose name contains it.

A build that passed is not compiled again while the compiler, its sources, its macros and what checks it are the same: passes are
kept in the cache folder by the digest of all of these. --again compiles all.
"""
import argparse
import concurrent.futures
import hashlib
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


def shipped_builds(root, names):
    """(name, source, macros, sass, registers, prelude) of every build."""
    for build in json.loads((root / "build/kernel_builds.json").read_text())["builds"]:
        name = f"{build['kernel']}:{build['name']}"
        if not names or any(n in name for n in names):
            yield name, root / "src" / build["source"], build["defines"], build["sass"], build["max_registers"], []
    for path in sorted([*(root / "src").rglob("*.checks.toml"), *(root / "tests").rglob("*.checks.toml")]):
        check = tomllib.loads(path.read_text())
        for model in check.get("models", [""]):
            name = str(path.parent.relative_to(root) / check["symbol"]).removeprefix("src/ops/") + (f":{model}" if model else "")
            if not names or any(n in name for n in names):
                defines = [f"RIDGE_ROW_MODEL={model}"] if model else []
                prelude = [path.parent / one for one in check["prelude"]]
                yield name, path.parent / check["source"], defines, [], check["max_registers"], prelude


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
    problems += [f"there is no kernel {of}" for of in {wanted.rpartition(":")[0] for wanted in required} - {"", *kernels}]
    for name, kernel in kernels.items():
        for key, value in reported.get(name, {}).items():
            if kernel["resources"].get(key) != value:
                problems.append(f"{name}: ridge inspect reads {key} {kernel['resources'].get(key)}, ptxas reports {value}")
        if kernel["has_listing"]:
            opcodes = {opcode.split(".")[0] for opcode in kernel["opcodes"]}
            for wanted in required:  # OPCODE of every kernel, SYMBOL:OPCODE of one
                of, _, opcode = wanted.rpartition(":")
                if of in ("", name) and opcode not in opcodes:
                    problems.append(f"{name}: the machine code has no {opcode}")
            if kernel["counts"]["unknown"]:
                problems.append(f"{name}: {kernel['counts']['unknown']} instructions are in no row of the opcode table")
    return problems


class Passes:
    """Builds that passed, by the digest of all that the build and its checks depend on."""

    UNUSED_DAYS = 60

    def __init__(self, root, nvcc, folder):
        self.root, self.folder, self.digests = root, folder, {}
        version = subprocess.run([nvcc, "--version"], capture_output=True, text=True).stdout
        checker = [pathlib.Path(__file__), *sorted((root / "src/inspect").rglob("*.*"))]
        self.always = [version, *(f"{one.name} {self.digest(one)}" for one in checker)]
        folder.mkdir(parents=True, exist_ok=True)
        for one in folder.iterdir():
            if time.time() - one.stat().st_mtime > self.UNUSED_DAYS * 86400:
                one.unlink(missing_ok=True)

    def digest(self, path):
        if path not in self.digests:
            self.digests[path] = hashlib.sha256(path.read_bytes()).hexdigest()
        return self.digests[path]

    def sources(self, path, seen):
        """A source and what it includes of ours; headers of the toolkit come with the compiler's version."""
        path = path.resolve()
        if path not in seen:
            seen.add(path)
            for included in re.findall(r'^\s*#\s*include\s*"([^"]+)"', path.read_text(), re.MULTILINE):
                if (path.parent / included).exists():
                    self.sources(path.parent / included, seen)
        return seen

    def key(self, source, defines, sass, max_registers, prelude):
        files = set()
        for one in (source, *prelude):
            self.sources(one, files)
        parts = [*self.always, *ARCHITECTURE, str(source.relative_to(self.root)), *defines, "needs", *sass, str(max_registers)]
        parts += [str(one.relative_to(self.root)) for one in prelude]
        parts += [f"{one.relative_to(self.root)} {self.digest(one)}" for one in sorted(files)]
        return hashlib.sha256("\0".join(parts).encode()).hexdigest()

    def known(self, key):
        """What the build that passed said; None: none did."""
        try:
            os.utime(self.folder / key)
            return (self.folder / key).read_text()
        except OSError:
            return None

    def keep(self, key, summary):
        with tempfile.NamedTemporaryFile("w", dir=self.folder, delete=False) as file:
            file.write(summary)
        os.replace(file.name, self.folder / key)


def build(nvcc, ridge, folder, name, source, defines, sass, max_registers, prelude):
    cubin = pathlib.Path(folder) / (name.replace("/", "-").replace(":", "-") + ".cubin")
    command = [nvcc, *ARCHITECTURE, "-cubin", "-Xptxas", "-v", "-std=c++20", "-o", str(cubin), str(source)]
    command += [f"-D{define}" for define in defines]
    for one in prelude:  # what the library puts in front of the source
        command += ["-include", str(one)]
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
    elif max(used) > max_registers:
        problems.append(f"{max(used)} registers, declared limit {max_registers}")
    if any(spills):
        problems.append(f"{sum(spills)} bytes of register spills")
    if any(stack):
        problems.append(f"{max(stack)} bytes of stack frame")
    problems += inspect(ridge, cubin, text, sass)
    return name, problems, f"{max(used, default=0)} registers", command


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--nvcc", default=shutil.which("nvcc") or "/usr/local/cuda/bin/nvcc")
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent, help="of the project")
    parser.add_argument("--ridge", type=pathlib.Path, help="default: ROOT/build/bin/ridge")
    parser.add_argument("--jobs", type=int, default=os.cpu_count())
    parser.add_argument("--again", action="store_true", help="compile what passed before, too")
    parser.add_argument("--verbose", action="store_true")
    parser.add_argument("names", nargs="*")
    arguments = parser.parse_args()
    if not pathlib.Path(arguments.nvcc).exists():
        print("skipped: no nvcc here (install the CUDA toolkit or pass --nvcc)", file=sys.stderr)
        return 77
    root = arguments.root.resolve()
    ridge = arguments.ridge or root / "build/bin/ridge"
    own = os.environ.get("RIDGE_CACHE_DIR")  # as src/base/environment.cpp has it
    cache = pathlib.Path(own or os.path.join(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache", "ridge"))
    passes = Passes(root, arguments.nvcc, cache / "kernel_checks")
    started, failed, total, before = time.time(), 0, 0, 0
    with tempfile.TemporaryDirectory() as folder, concurrent.futures.ThreadPoolExecutor(arguments.jobs) as pool:
        jobs = {}
        for one in shipped_builds(root, arguments.names):
            total += 1
            key = passes.key(*one[1:])
            if not arguments.again and (summary := passes.known(key)) is not None:
                before += 1
                if arguments.verbose:
                    print(f"ok     {one[0]}: {summary} (passed before)")
                continue
            jobs[pool.submit(build, arguments.nvcc, ridge, folder, *one)] = key
        for job in concurrent.futures.as_completed(jobs):
            name, problems, summary, command = job.result()
            if problems:
                failed += 1
                print(f"FAILED {name}")
                for problem in problems:
                    print(f"  {problem}")
                print("  " + " ".join(command))
                continue
            if ridge.exists():  # else the machine code was not looked at
                passes.keep(jobs[job], summary)
            if arguments.verbose:
                print(f"ok     {name}: {summary}")
    print(f"check_kernels: {total} builds, {failed} failed, {before} passed before, {time.time() - started:.0f} s")
    return 1 if failed or not total else 0


if __name__ == "__main__":
    sys.exit(main())
