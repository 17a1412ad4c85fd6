#!/usr/bin/env python3
"""Writes the tables of docs/operators/gemm.md from the result files of `bench/gemm_cpu/run`: table.py FOLDER ... [--check]."""
import json
import math
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
MANUAL = ROOT / "docs/operators/gemm.md"
BEGIN, END = "<!-- figures: begin (bench/gemm_cpu/table.py) -->", "<!-- figures: end -->"
OWN = ("cpu_simd", "cpu_bf16dot", "cpu_amx")
NAMES = {**{name: name for name in OWN}, "cpu_onednn": "oneDNN", "cpu_openblas": "OpenBLAS", "cpu_blis": "BLIS"}


def rows_by_case(report):
    cases = {}
    for row in report["bench"]:
        if row["outcome"] == "PASS":
            cases.setdefault(row["label"].split(" dtype")[0], {})[row["subject"]] = row
    return cases


def geomean(ratios):
    return math.exp(sum(map(math.log, ratios)) / len(ratios))


def table(path):
    report = json.loads(path.read_text())
    cases = rows_by_case(report)
    present = [name for name in NAMES if any(name in rows for rows in cases.values())]
    own_name = next(name for name in present if name in OWN)
    features = report["environment"]["facts"]["cpu.features"].split()
    instructions = next((name for name in ("amx_bf16", "avx512_bf16", "avx512f", "avx2") if name in features), "neither AVX2 nor AVX-512")
    threads = report["protocol"]["threads"]
    dtype = path.stem.split("-")[1]
    lines = [f"{dtype}, {threads} thread{'s' if threads > 1 else ''}, a processor with {instructions}, GFLOP/s:", "",
             "| m n k | " + " | ".join(NAMES[n] for n in present) + f" | {own_name} : oneDNN | interval | {own_name} : best other |", "|---" * (len(present) + 4) + "|"]
    ratios, of_best = [], []
    for label, rows in cases.items():
        rates = [f"{rows[n]['flops'] / 1e9:.0f}" if n in rows else "-" for n in present]
        own = rows.get(own_name, {})
        shape = " ".join(word.split("=")[1] for word in label.split())
        if "ratio" in own:
            ratios.append(own["ratio"])
            of_best.append(own["flops"] / max(row["flops"] for name, row in rows.items() if name != own_name))
            lines.append(f"| {shape} | {' | '.join(rates)} | {own['ratio']:.3f} | {own['ratio_low']:.3f} .. {own['ratio_high']:.3f} | {of_best[-1]:.3f} |")
        else:
            lines.append(f"| {shape} | {' | '.join(rates)} | - | - | - |")
    if ratios:
        lines.append(f"| **geomean** |{' |' * len(present)} **{geomean(ratios):.3f}** | | **{geomean(of_best):.3f}** |")
    noises = sorted(row["noise"] for rows in cases.values() for row in rows.values())
    others = max(row["guards"].get("foreign_load", 0) for rows in cases.values() for row in rows.values())
    if others > report["protocol"]["max_foreign_load"]:
        lines += ["", f"**Disturbed**: other programs used up to {100 * others:.0f} % of the processors."]
    lines += ["", f"Median noise between sessions {100 * noises[len(noises) // 2]:.1f} %. [{path.name}]"
              f"(../../{path.resolve().relative_to(ROOT)}), measured {report['created']} UTC.", ""]
    return lines


def main():
    folders = [pathlib.Path(folder) for folder in sys.argv[1:] if folder != "--check"]
    files = [folder / f"gemm-{dtype}-{threads}.json" for folder in folders for dtype in ("f32", "bf16") for threads in (1, 2)]
    lines = [line for path in files if path.exists() for line in table(path)]
    if not lines:
        sys.exit(f"no result files of bench/gemm_cpu/run in {', '.join(map(str, folders))}")
    text = MANUAL.read_text()
    start, end = text.index(BEGIN) + len(BEGIN), text.index(END)
    written = text[:start] + "\n" + "\n".join(lines) + text[end:]
    if "--check" in sys.argv:
        sys.exit(0 if written == text else "docs/operators/gemm.md does not show the result files; run bench/gemm_cpu/table.py")
    MANUAL.write_text(written)


if __name__ == "__main__":
    main()
