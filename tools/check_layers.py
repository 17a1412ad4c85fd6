#!/usr/bin/env python3
"""Checks who includes whom (layers.txt), that no operator includes another, and the five rules that keep data flowing one way.

  tools/check_layers.py [--root DIR]     exit 0: clean; 1: each offence as file:line and what is allowed
"""
import argparse
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s*(["<])([^">]+)[">]')
SOURCE_SUFFIXES = {".h", ".cpp", ".cu", ".cuh", ".hip", ".inc"}
APP_MODULES = {"worker": "worker", "cli": "cli"}

VENDOR = re.compile(r'#\s*include\s*[<"](cuda|cublas|cudnn|nvrtc|nvml|nccl|hip/|rocblas|cblas|openblas|blis|dnnl|oneapi/)')
PROCESS = re.compile(r"\b(run_process\s*\(|fork\s*\(|posix_spawn|execv[pe]*\s*\(|system\s*\(|popen\s*\()")
STDOUT = re.compile(r"\bstd::cout\b|\bprintf\s*\(|\bputs\s*\(|fmt::print\s*\(\s*(?!stderr)|\bstdout\b")
JSON_KEY = re.compile(r'nlohmann/json\.hpp|\b[jJ]son\w*\s*\[\s*"')
DLOPEN = re.compile(r"\bdlopen\s*\(")


def matches(path, *patterns):
    return any(re.fullmatch(p, path) for p in patterns)


RULES = [
    (VENDOR, lambda p: matches(p, r"src/device/(cuda|hip|cpu)/.*", r"src/toolchain/.*", r"src/ops/[^/]+/(cuda|hip|cpu)_.*",
                               r"bench/.*", r"tests/gpu/.*"),
     "only src/device/<backend>, src/toolchain and src/ops/*/<backend>_* include vendor headers"),
    (PROCESS, lambda p: matches(p, r"src/(toolchain|execute|inspect|profile|mcp)/.*", r"src/propose/agent\.cpp", r"src/base/process\.(h|cpp)",
                                r"apps/worker/.*", r"tests/.*", r"bench/.*", r"src/evaluate/host.*"),
     "only toolchain, execute, inspect, profile, mcp, propose/agent.cpp and the worker's host start processes"),
    (STDOUT, lambda p: matches(p, r"apps/.*", r"tests/.*", r"bench/.*", r"examples/.*"), "only apps/ writes to stdout"),
    (JSON_KEY, lambda p: matches(p, r"src/record/.*", r"src/base/json\.cpp"), "only src/record spells a JSON key"),
    (DLOPEN, lambda p: matches(p, r"apps/worker/.*", r"src/evaluate/host.*", r"src/device/.*", r"src/ops/[^/]+/cpu_.*",
                               r"tests/.*", r"bench/.*"),
     "only the worker's host loads candidate code; devices and vendor implementations load their libraries"),
]


def read_layers(path):
    allowed = {}
    for number, line in enumerate(path.read_text().splitlines(), 1):
        line = line.split("#", 1)[0].strip()
        if not line:
            continue
        if ":" not in line:
            sys.exit(f"{path}:{number}: expected 'module : modules it may include', found: {line}")
        module, deps = line.split(":", 1)
        allowed[module.strip()] = set(deps.split())
    for module, deps in allowed.items():
        unknown = deps - allowed.keys()
        if unknown:
            sys.exit(f"{path}: {module} may include {sorted(unknown)}, which have no line of their own")
    return allowed


def has_cycle(allowed):
    state = {}

    def visit(module, chain):
        if state.get(module) == "done":
            return None
        if state.get(module) == "open":
            return chain + [module]
        state[module] = "open"
        for dep in sorted(allowed[module]):
            found = visit(dep, chain + [module])
            if found:
                return found
        state[module] = "done"
        return None

    for module in allowed:
        found = visit(module, [])
        if found:
            return found
    return None


def module_of(relative):
    parts = relative.split("/")
    if parts[0] == "src" and len(parts) > 2:
        return parts[1]
    if parts[0] == "apps" and len(parts) > 2:
        return APP_MODULES.get(parts[1], parts[1])
    if parts[0] == "include":
        return "include"
    if parts[0] == "frontends":
        return "frontends"
    return None


def resolve(relative, target):
    """Device sources name their headers relative to themselves, so that NVRTC finds them; give the path below src/."""
    if not target.startswith("../"):
        return target
    parts = [*relative.split("/")[:-1], *target.split("/")]
    path = []
    for part in parts:
        path = path[:-1] if part == ".." else path + [part]
    return "/".join(path[1:]) if path[:1] == ["src"] else target


def sibling(root, relative, target):
    """The operator whose files another operator includes: what both need lies in a folder of src/ops that is none (matmul, row_norm)."""
    own, other = relative.split("/"), target.split("/")
    if own[:2] != ["src", "ops"] or len(own) < 4 or other[0] != "ops" or len(other) < 3 or own[2] == other[1]:
        return None
    return other[1] if (root / "src/ops" / other[1] / "op.cpp").exists() else None


def check_file(root, relative, allowed, offences):
    module = module_of(relative)
    text = (root / relative).read_text(errors="replace")
    for number, line in enumerate(text.splitlines(), 1):
        code = line.split("//", 1)[0] if "://" not in line else line
        match = INCLUDE.match(line)
        if match and module is not None:
            target = resolve(relative, match.group(2))
            head = target.split("/", 1)[0]
            if operator := sibling(root, relative, target):
                offences.append(f'{relative}:{number}: an operator includes a file of the operator {operator}: "{target}"')
            if module in ("include", "frontends"):
                beside = module == "frontends" and "/" not in target  # a header of the same folder
                if match.group(1) == '"' and not target.startswith("ridge/") and not beside:
                    offences.append(f'{relative}:{number}: includes "{target}"; {module} may include only ridge/ headers')
            elif head in allowed and "/" in target and head != module and head not in allowed.get(module, set()):
                offences.append(f'{relative}:{number}: {module} includes "{target}"; '
                                f"it may include only: {' '.join(sorted(allowed.get(module, set()))) or 'nothing'}")
            elif match.group(1) == '"' and module in allowed and "/" in target and head not in allowed and head not in (
                    "ridge", "generated"):
                offences.append(f'{relative}:{number}: "{target}" is in no module of layers.txt')
        for pattern, permitted, rule in RULES:
            if pattern.search(code) and not permitted(relative):
                offences.append(f"{relative}:{number}: {rule}: {line.strip()[:100]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    allowed = read_layers(root / "layers.txt")
    cycle = has_cycle(allowed)
    if cycle:
        sys.exit("layers.txt has a cycle: " + " -> ".join(cycle))
    offences, count = [], 0
    for top in ("include", "src", "apps", "frontends"):
        for path in sorted((root / top).rglob("*")):
            if path.suffix in SOURCE_SUFFIXES and path.is_file():
                count += 1
                check_file(root, path.relative_to(root).as_posix(), allowed, offences)
    folders = {p.name for p in (root / "src").iterdir() if p.is_dir()}
    for folder in sorted(folders - allowed.keys()):
        offences.append(f"src/{folder}: has no line in layers.txt")
    print("\n".join(offences) if offences else f"layers: {count} files, clean")
    return 1 if offences else 0


if __name__ == "__main__":
    sys.exit(main())
