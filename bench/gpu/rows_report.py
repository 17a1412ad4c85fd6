#!/usr/bin/env python3
"""Writes the tables of docs/operators from what rows_compare.py, grouped_compare.py, moe_compare.py and linear_loss_compare.py measured. Needs neither a GPU nor PyTorch.

    rows_report.py RESULTS_FOLDER... [--docs docs/operators] [--check]

A folder is one of bench/results, with rows.json (and rows-NAME.json, of works that were run alone later), grouped.json, moe.json and linear_loss.json, or some of them; tables have the folders side by side, in their order. What stands
between the lines `<!-- measured rows WORK,... -->` and `<!-- /measured rows -->` of a page becomes a table of these works (operators in all of
their directions), `<!-- measured grouped -->` one of grouped products, `<!-- measured moe -->` one of layers of experts, `<!-- measured linear_loss -->` one of linear + cross entropy. --check writes nothing and exits with 1 where a page differs.
"""
import argparse
import json
import pathlib
import re
import sys

from report import geomean

OURS = "ridgeline"
# Beyond what its dtype leaves of a result, in the units of rows_compare.py: named beside the time.
MOST_ERROR = 1.0
DIRECTIONS = (("forward", "forward"), ("dgrad", "gradient of A"), ("wgrad", "gradient of B"))


def device_of(measured):
    versions = measured["versions"]
    return versions["device"].replace("NVIDIA ", ""), versions["smi"].split(",")[0]


def source(measured):
    """The device, and what ran on it."""
    versions = measured["versions"]
    device, driver = device_of(measured)
    names = {"torch": "PyTorch", "triton": "Triton", "quack-kernels": "QuACK", "liger-kernel": "Liger"}
    parts = [f"{title} {versions[key].split('+')[0]}" for key, title in names.items() if key in versions]
    return f"{device}: driver {driver}, {', '.join(parts)}, commit {measured['commit']}"


def table(head, lines):
    return "\n".join("| " + " | ".join(line) + " |" for line in (head, ["---"] * len(head), *lines))


def grouped_by(rows, *keys):
    found = {}
    for row in rows:
        found.setdefault(tuple(row[key] for key in keys), []).append(row)
    return found


def best_peer(rows):
    peers = [row for row in rows if not row["contender"].startswith(OURS)]
    return min(peers, key=lambda row: row["median_us"], default=None)


def rows_files(folder, works):
    """What was measured of these works, by file: of each work the last run by name, rows.json before rows-NAME.json, which has some works alone."""
    found = {}
    for path in sorted(folder.glob("rows*.json"), key=lambda path: path.stem):
        measured = json.loads(path.read_text())
        found |= {row["work"]: (path, measured) for row in measured["rows"] if row["work"].split(".")[0] in works}
    files = {path: {"measured": measured, "rows": [], "host": []} for path, measured in found.values()}
    for path, one in files.items():
        for kind in ("rows", "host"):
            one[kind] = [row for row in one["measured"][kind] if found.get(row["work"], (None,))[0] == path]
    return files


def rows_table(folders, works):
    """For each device: ours, the best peer, and ours over it; forms of ours that a call asks for by name have lines of their own."""
    devices = [rows_files(folder, works) for folder in folders]
    devices = [files for files in devices if files]
    of_device = [grouped_by([row for one in files.values() for row in one["rows"]], "work", "shape") for files in devices]
    shown = list(dict.fromkeys(key for rows in of_device for key in rows))
    shown.sort(key=lambda key: works.index(key[0].split(".")[0]))
    names = [device_of(next(iter(files.values()))["measured"])[0] for files in devices]
    head = ["work, shape"]
    for name in names:
        head += [f"{name}: ours", "best peer", "ratio"]
    lines = []
    forms = {key: dict.fromkeys(row["contender"] for rows in of_device for row in rows.get(key, [])
                                if row["contender"] == OURS or (row["contender"].startswith(OURS + " ") and not row["contender"].startswith(OURS + " cuda_"))) for key in shown}
    for work, shape, form in ((*key, form) for key in shown for form in forms[key]):
        name = work.split(".", 1)[1] if len(works) == 1 else work.replace(".", " ")
        line = [f"{name}{form.replace(OURS + ' ', ', ') if form != OURS else ''} {shape.replace('x', ' x ')}"]
        for rows in of_device:
            here = rows.get((work, shape), [])
            ours = next((row for row in here if row["contender"] == form), None)
            peer = best_peer(here)
            wrong = " (!)" if peer and not peer["error"] <= MOST_ERROR else ""
            line += [f"{ours['tb_per_s']:.2f}" if ours else "", f"{peer['tb_per_s']:.2f} {peer['contender']}{wrong}" if peer else "",
                     f"{peer['median_us'] / ours['median_us']:.2f}" if ours and peer else ""]
        lines.append(line)
    hosts = []
    for name, files in zip(names, devices, strict=True):
        times = {(row["work"], row["contender"]): row["host_us"] for one in files.values() for row in one["host"]}
        said = [f"{work.split('.')[1] if len(works) == 1 else work.replace('.', ' ')} {times[work, OURS]:.1f} us (PyTorch {times[work, 'torch']:.1f})"
                for work, who in times if who == OURS and (work, "torch") in times]
        if said:
            hosts.append(f"{name} {', '.join(said)}")
    sources = {source(one["measured"]): None for files in devices for one in files.values()}
    text = (f"{table(head, lines)}\n\nTB/s of compulsory bytes, bf16 (AdamW: f32), medians, contenders in turns in one process, the L2 displaced before every call, first and last results held to fp64; "
            f"the peer is the fastest of PyTorch, torch.compile, QuACK and Liger that ran, and (!) says that a result of it was outside of what its dtype leaves. "
            f"{'; '.join(sources)} (samples: {', '.join(f'bench/results/{path.parent.name}/{path.name}' for files in devices for path in files)}).")
    return text + (f" Host time of a call with 512 rows, with its backward pass where it is one: {'; '.join(hosts)}." if hosts else "")


def grouped_table(folders):
    measured = [json.loads((folder / "grouped.json").read_text()) for folder in folders]
    of_device = [grouped_by(each["rows"], "case", "load", "direction") for each in measured]
    head = ["experts x rows x out x in, load"]
    for each in measured:
        head += [f"{device_of(each)[0]} {name}: ours, torch" for _, name in DIRECTIONS]
    lines, ratios = [], [{direction: [] for direction, _ in DIRECTIONS} for _ in measured]
    for case, load in dict.fromkeys((case, load) for rows in of_device for case, load, _ in rows):
        line = [f"{case.replace('x', ' x ')}, {load}"]
        for rows, over in zip(of_device, ratios, strict=True):
            for direction, _ in DIRECTIONS:
                here = rows.get((case, load, direction), [])
                ours, peer = next((row for row in here if row["contender"] == OURS), None), best_peer(here)
                line.append(f"{ours['tflops']:.0f}, {peer['tflops']:.0f}" if ours and peer else "")
                if ours and peer:
                    over[direction].append(ours["tflops"] / peer["tflops"])
        lines.append(line)
    means = []
    for each, over in zip(measured, ratios, strict=True):
        parts = [f"{name} {geomean(over[key]):.2f} ({min(over[key]):.2f})" for key, name in DIRECTIONS if over[key]]
        means.append(f"{device_of(each)[0]} {', '.join(parts)}")
    return (f"{table(head, lines)}\n\nTFLOP/s in bf16, medians, contenders in turns in one process, the L2 displaced before every call, first and last results held to fp64. A skewed load grows as u^3 over the "
            f"experts and gives one of them nothing. torch is `torch._grouped_mm`. Geometric means over it (smallest): {'; '.join(means)}. "
            f"{'; '.join(map(source, measured))} (samples: {', '.join(f'bench/results/{folder.name}/grouped.json' for folder in folders)}).")


def moe_table(folders):
    """A line for every layer, load and contender, of the devices that were measured."""
    measured = [(folder, json.loads(path.read_text())) for folder in folders if (path := folder / "moe.json").exists()]
    head, lines, keys = ["layer, load", "contender"], [], ("case", "load", "contender")
    for _, each in measured:
        head += [f"{device_of(each)[0]}: step, TFLOP/s", "ms", "forward, TFLOP/s", "GiB kept, at most"]
    for found in dict.fromkeys(tuple(row[key] for key in keys) for _, each in measured for row in each["rows"]):
        line = [f"{found[0]}, {found[1]}", found[2]]
        for _, each in measured:
            row = next((row for row in each["rows"] if tuple(row[key] for key in keys) == found), None)
            line += [f"{row['step_tflops']:.0f}", f"{row['step_us'] / 1000:.2f}", f"{row['forward_tflops']:.0f}", f"{row['kept_mib'] / 1024:.2f}, {row['most_mib'] / 1024:.2f}"] if row else [""] * 4
        lines.append(line)
    return (f"{table(head, lines)}\n\nForward and backward (step) in bf16 with the routing given, medians, contenders in turns in one process, the L2 displaced before every step, first and last results held to fp64. TFLOP/s are those of the products alone; "
            "GiB are what forward keeps for backward, its result included, and the most that a step takes, gradients included. apart is ours with products and SwiGLU as calls of their own, whose result is kept, as ours was on the H100, with a copy there of the rows that are sorted by experts; recompute is that with `recompute=True`; torch sorts, takes rows by index_select, multiplies by `torch._grouped_mm` and adds up by index_add; compile is torch.compile of that. "
            f"{'; '.join(source(each) for _, each in measured)} (samples: {', '.join(f'bench/results/{folder.name}/moe.json' for folder, _ in measured)}).")


def linear_loss_table(folders):
    """A line for every contender and case, of the devices that were measured."""
    measured = [(folder, json.loads(path.read_text())) for folder in folders if (path := folder / "linear_loss.json").exists()]
    head, lines = ["tokens x hidden x vocabulary"], []
    for _, each in measured:
        head += [f"{device_of(each)[0]}: TFLOP/s", "ms", "GiB"]
    for case, contender in dict.fromkeys((row["case"], row["contender"]) for _, each in measured for row in each["rows"]):
        line = [f"{case.replace('x', ' x ')}, {contender}"]
        for _, each in measured:
            row = next((row for row in each["rows"] if (row["case"], row["contender"]) == (case, contender)), None)
            line += [f"{row['tflops']:.0f}", f"{row['median_ms']:.1f}", f"{row['memory_gib']:.2f}"] if row else ["", "", ""]
        lines.append(line)
    return (f"{table(head, lines)}\n\nLoss and both gradients in bf16, TFLOP/s of 6 tokens hidden vocabulary, medians, contenders in turns in one process; GiB is the most that was allocated beyond the inputs, the gradients included. "
            f"{'; '.join(source(each) for _, each in measured)} (samples: {', '.join(f'bench/results/{folder.name}/linear_loss.json' for folder, _ in measured)}).")


def rendered(text, folders):
    def rows(found):
        return f"{found[1]}\n{rows_table(folders, found[2].split(','))}\n{found[3]}"

    text = re.sub(r"(<!-- measured rows (\S+) -->)\n.*?(<!-- /measured rows -->)", rows, text, flags=re.S)
    text = re.sub(r"(<!-- measured linear_loss -->)\n.*?(<!-- /measured linear_loss -->)",
                  lambda found: f"{found[1]}\n{linear_loss_table(folders)}\n{found[2]}", text, flags=re.S)
    text = re.sub(r"(<!-- measured moe -->)\n.*?(<!-- /measured moe -->)", lambda found: f"{found[1]}\n{moe_table(folders)}\n{found[2]}", text, flags=re.S)
    return re.sub(r"(<!-- measured grouped -->)\n.*?(<!-- /measured grouped -->)",
                  lambda found: f"{found[1]}\n{grouped_table(folders)}\n{found[2]}", text, flags=re.S)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="+", type=pathlib.Path)
    parser.add_argument("--docs", type=pathlib.Path, default=pathlib.Path(__file__).parents[2] / "docs/operators")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args()
    differ = 0
    for page in sorted(options.docs.glob("*.md")):
        text = page.read_text()
        made = rendered(text, options.folders)
        if made == text:
            continue
        differ += 1
        print(f"{page}: {'differs from the results' if options.check else 'written'}")
        if not options.check:
            page.write_text(made)
    return 1 if options.check and differ else 0


if __name__ == "__main__":
    sys.exit(main())
