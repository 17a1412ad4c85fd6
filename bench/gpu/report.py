#!/usr/bin/env python3
"""Tables and a plot of what torch_compare.py measured. Needs neither a GPU nor PyTorch.

    report.py RESULTS.json [--csv FOLDER] [--svg OUT.svg] [--markdown PAGE.md]
    report.py RESULTS.json ... --summary PAGE.md

--csv writes one file per kind of operands and contender in the frozen format of the GEMM class (of bf16 a row is a layer: forward,
and the two gradients together as backward; of other kinds one product, as forward), and gemm-ratios.csv with every raw median. --markdown replaces what stands between the lines
`<!-- measured -->` and `<!-- /measured -->` of the page by all tables, --summary by one table of the main kinds of work on every device
that is given; a page with several devices marks each by its name, `<!-- measured NVIDIA H200 -->`. Without options the tables go to stdout.
"""
import argparse
import csv
import json
import math
import pathlib
import statistics

CONTENDERS = {"ours": "ridgeline", "torch": "torch", "lt_best": "cublaslt"}
PROTOCOLS = ("sustained", "flushed")
HEADER = ("label,B,M,N,K,Check,Forward TFLOPS,Forward TFLOPS_stddev,Backward TFLOPS,Backward TFLOPS_stddev,Forward Time (ms),"
          "Backward Time (ms),out_snr,da_snr,db_snr").split(",")
WORKS = [("bf16 forward (NT)", "NT", "bf16", "torch.matmul"), ("bf16 gradient of X (NN)", "NN", "bf16", "torch.matmul"),
         ("bf16 gradient of W (TN)", "TN", "bf16", "torch.matmul"),
         ("bf16 gradient of W, added to fp32", "TN", "bf16-f32add", "mm(out_dtype=float32), add_"),
         ("bf16 gradient of W, added to bf16", "TN", "bf16-bf16add", "addmm_"),
         ("bf16 + bias + GELU (tanh)", "NT", "bf16-bias-gelutanh", "addmm, gelu"),
         ("bf16 + residual", "NT", "bf16-residual", "addmm"), ("fp16 forward", "NT", "f16", "torch.matmul"),
         ("TF32 (opted in)", "NT", "tf32", "torch.matmul, allow_tf32"), ("fp32", "NT", "f32", "torch.matmul"),
         ("e4m3 tensorwise, fast accumulation", "NT", "e4m3-tensor", "_scaled_mm, fast"),
         ("e4m3 tensorwise, promoted", "NT", "e4m3-tensor-promote", "_scaled_mm"),
         ("e4m3 rowwise, fast accumulation", "NT", "e4m3-row", "_scaled_mm, fast"),
         ("e4m3 rowwise, promoted", "NT", "e4m3-row-promote", "_scaled_mm"),
         ("e4m3 1x128 · 128x128", "NT", "e4m3-block", "_scaled_mm"),
         ("e4m3 1x128 · 1x128, added to fp32", "NT", "e4m3-vector-f32add", "_scaled_mm(float32), add_")]
MAIN = ("bf16", "bf16-f32add", "e4m3-tensor", "e4m3-block")  # of --summary
SMALL = 1024  # rows of C: below and at it, few tiles


def geomean(values):
    return math.exp(statistics.fmean(map(math.log, values)))


def groups(rows):
    """(name, peer, rows) of each kind of work that was measured; small M of bf16 apart."""
    copied = [r for r in rows if r["config"].startswith("padded ")]
    rows = [r for r in rows if r not in copied]
    for name, layout, types, peer in WORKS:
        of_work = [r for r in rows if r["layout"] == layout and r["types"] == types]
        small = types == "bf16"
        large = [r for r in of_work if not (small and r["M"] <= SMALL)]
        if large:
            yield name, peer, large
    for m in (128, 256, 1024):
        some = [r for r in rows if r["types"] == "bf16" and r["M"] == m]
        if some:
            yield f"bf16, M = {m}", "torch.matmul", some
    for name, words, peer in (("bf16, rows off 16 bytes", "bf16", "torch.matmul"), ("e4m3, rows off 16 bytes", "e4m3", "_scaled_mm")):
        some = [r for r in copied if r["types"].split("-")[0] == words]
        if some:
            yield name, peer, some


def ratios(rows, protocol, peer):
    return [r[peer] for r in rows if r["protocol"] == protocol and r.get(peer)]


def summary_table(rows):
    lines = ["| work | shapes | against | over torch: sustained | flushed | over cuBLASLt's best of 24: sustained | flushed |",
             "|---|---|---|---|---|---|---|"]
    for name, peer, of_work in groups(rows):
        cells = []
        for column in ("ours_over_torch", "ours_over_lt_best"):
            for protocol in PROTOCOLS:
                values = ratios(of_work, protocol, column)
                cells.append(f"{geomean(values):.3f} ({min(values):.2f} to {max(values):.2f})" if values else "")
        shapes = len({(r["layout"], r["M"], r["N"], r["K"]) for r in of_work})
        lines.append(f"| {name} | {shapes} | {peer} | {' | '.join(cells)} |")
    return lines


def device_table(results):
    """One row per main kind of work, one column per device: sustained / flushed over PyTorch, and the smallest of all ratios."""
    lines = ["| over PyTorch, sustained / flushed cache (smallest) | " + " | ".join(r["environment"]["gpu"].removeprefix("NVIDIA ") for r in results) + " |",
             "|---" * (1 + len(results)) + "|"]
    for name, layout, types, _ in (work for work in WORKS if work[2] in MAIN):
        cells = []
        for result in results:
            of_work = [r for r in result["rows"] if r["layout"] == layout and r["types"] == types and not (types == "bf16" and r["M"] <= SMALL)
                       and not r["config"].startswith("padded ")]
            values = [ratios(of_work, protocol, "ours_over_torch") for protocol in PROTOCOLS]
            shapes = len({(r["M"], r["N"], r["K"]) for r in of_work})
            cells.append(f"{geomean(values[0]):.2f} / {geomean(values[1]):.2f} ({min(min(v) for v in values):.2f}), {shapes} shapes" if all(values) else "")
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return lines


def shape_table(rows, name, layout, types):
    lines = [f"{name}, TFLOP/s (ours / torch / cuBLASLt's best):", "", "| M,N,K | build | sustained | flushed |", "|---|---|---|---|"]
    by_shape = {}
    for r in rows:
        if r["layout"] == layout and r["types"] == types:
            by_shape.setdefault((r["M"], r["N"], r["K"]), {})[r["protocol"]] = r
    for shape, of_shape in by_shape.items():
        cells = [" / ".join(f"{r[w + '_tflops']:.0f}" if r.get(w + "_tflops") else "-" for w in CONTENDERS)
                 for r in (of_shape[p] for p in PROTOCOLS)]
        lines.append(f"| {','.join(map(str, shape))} | {of_shape['sustained']['config']} | {' | '.join(cells)} |")
    return lines + [""]


def tflops_of(row, who):
    """Median and standard deviation of TFLOP/s over the samples."""
    work = 2e-6 * row["M"] * row["N"] * row["K"]
    values = [work / us for us in row["samples_us"][who]]
    return statistics.median(values), statistics.stdev(values)


def frozen_row(who, label, forward, pair):
    """`pair`: rows of both gradients, as far as they were measured."""
    m, n, k = forward["M"], forward["N"], forward["K"]
    checked = who == "ours"  # only our results are held to float64 here; a wrong one stops the benchmark
    speed, spread = tflops_of(forward, who)
    line = [label, 1, m, n, k, "PASS" if checked else "", f"{speed:.1f}", f"{spread:.1f}"]
    complete = all(r and f"{who}_us" in r for r in pair)
    if complete:
        back_us, spreads = sum(r[f"{who}_us"] for r in pair), [tflops_of(r, who)[1] for r in pair]
        line += [f"{4e-6 * m * n * k / back_us:.1f}", f"{math.hypot(*spreads) / 2:.1f}"]
    else:
        line += ["", ""]
    line += [f"{forward[f'{who}_us'] / 1e3:.5f}", f"{back_us / 1e3:.5f}" if complete else ""]
    return line + [r["snr_db"] if r and checked else "" for r in (forward, *pair)]


def write_frozen(rows, folder):
    sustained = [r for r in rows if r["protocol"] == "sustained"]
    index = {(r["types"], r["layout"], r["M"], r["N"], r["K"]): r for r in sustained}
    for types in dict.fromkeys(r["types"] for r in sustained):
        for who, label in CONTENDERS.items():
            lines = []
            for (kind, layout, m, n, k), forward in index.items():
                if kind != types or f"{who}_us" not in forward or (types == "bf16" and layout != "NT"):
                    continue
                pair = [index.get((types, "NN", m, k, n)), index.get((types, "TN", n, k, m))] if layout == "NT" else [None, None]
                lines.append(frozen_row(who, label, forward, pair))
            if lines:
                with open(folder / f"gemm-{types}-{label}.csv", "w", newline="") as out:
                    csv.writer(out).writerows([HEADER, *lines])
    with open(folder / "gemm-ratios.csv", "w", newline="") as out:
        names = [key for key in max(rows, key=len) if key != "samples_us"]
        writer = csv.DictWriter(out, names, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)


def plot(rows, gpu):
    """Ratio to PyTorch of every shape as a dot, the geometric mean as a bar, one line per kind of work."""
    data = [(name, ratios(of_work, "sustained", "ours_over_torch"), ratios(of_work, "flushed", "ours_over_torch"))
            for name, _, of_work in groups(rows)]
    low, high, left, width, line = 0.75, 1.4, 250, 520, 30
    height = 70 + line * len(data)

    def x(ratio):
        return left + width * (min(max(ratio, low), high) - low) / (high - low)

    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{left + width + 30}" height="{height}" font-family="sans-serif" '
             f'font-size="12"><rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="18">Ridgeline over PyTorch, {gpu}: sustained (blue), cache flushed (orange)</text>']
    for tick in (0.8, 0.9, 1.0, 1.1, 1.2, 1.3):
        parts.append(f'<line x1="{x(tick):.1f}" x2="{x(tick):.1f}" y1="30" y2="{height - 25}" '
                     f'stroke="{"black" if tick == 1.0 else "lightgray"}"/>'
                     f'<text x="{x(tick):.1f}" y="{height - 8}" text-anchor="middle">{tick:.1f}</text>')
    for i, (name, *protocols) in enumerate(data):
        top = 40 + i * line
        parts.append(f'<text x="{left - 8}" y="{top + 13}" text-anchor="end">{name.replace("&", "&amp;")}</text>')
        for values, color, y in zip(protocols, ("steelblue", "darkorange"), (top + 4, top + 14)):
            parts += [f'<circle cx="{x(v):.1f}" cy="{y}" r="2" fill="{color}" fill-opacity="0.45"/>' for v in values]
            mean = x(geomean(values))
            parts.append(f'<line x1="{mean:.1f}" x2="{mean:.1f}" y1="{y - 5}" y2="{y + 5}" stroke="{color}" stroke-width="3"/>')
    return "\n".join(parts + ["</svg>", ""])


def put(page, lines, gpu):
    """Between the marks of a page: those of this GPU, else those without a name."""
    text, end = page.read_text(), "<!-- /measured -->"
    begin = f"<!-- measured {gpu} -->\n"
    if begin not in text:
        begin = "<!-- measured -->\n"
    head, rest = text.split(begin, 1)
    page.write_text(head + begin + "\n".join(lines).rstrip() + "\n" + end + rest.split(end, 1)[1])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("results", nargs="+")
    parser.add_argument("--csv", type=pathlib.Path)
    parser.add_argument("--svg", type=pathlib.Path)
    parser.add_argument("--markdown", type=pathlib.Path)
    parser.add_argument("--summary", type=pathlib.Path)
    arguments = parser.parse_args()
    everything = [json.loads(pathlib.Path(path).read_text()) for path in arguments.results]
    if arguments.summary:
        commits = ", ".join(f"{r['environment']['gpu'].removeprefix('NVIDIA ')} at {r['environment']['commit']}" for r in everything)
        version = everything[0]["environment"]["torch"].split("+")[0]
        put(arguments.summary, [*device_table(everything), "", f"Geometric means; PyTorch {version}; {commits}."], "")
        return
    results = everything[0]
    rows, environment = results["rows"], results["environment"]
    where = [f"{environment['gpu']}, driver {environment['driver']}, PyTorch {environment['torch']}, commit "
             f"{environment['commit']}. Geometric means, smallest and largest ratio in brackets.", ""]
    lines = [*where, *summary_table(rows), ""]
    for name, layout, types, _ in WORKS:
        if any(r["types"] == types and r["layout"] == layout for r in rows):
            lines += shape_table(rows, name, layout, types)
    if arguments.csv:
        write_frozen(rows, arguments.csv)
    if arguments.svg:
        arguments.svg.write_text(plot(rows, environment["gpu"]))
    if arguments.markdown:
        put(arguments.markdown, lines, environment["gpu"])
    if not (arguments.csv or arguments.svg or arguments.markdown):
        print("\n".join(lines))


if __name__ == "__main__":
    main()
