#include "campaign/quick_script.h"

#include "base/error.h"
#include "campaign/columns.h"

namespace ridge::campaign {
namespace {

constexpr const char* kHead = R"py(#!/usr/bin/env python3
"""The kernel of this campaign, checked and timed: the one accepted last, or a source of yours.

  python3 quick_test_bench.py [--summary-csv PATH] [--shapes LABEL]... [--kernel FILE [--define NAME=VALUE]...]

`ridge bench` makes fresh inputs and verifies every timed call. The table has the header of rounds/*/artifacts/benchmark.csv; a cell
that is not known reads nan. Exit code 1: a shape failed. The campaign's decisions are made by its own paired sessions, never from here.
RIDGE names the program where it is not on the path.
"""
import argparse
import csv
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

)py";

constexpr const char* kBody = R"py(

def accepted():
    """The kernel in src/ with the values of its tunables."""
    folder = pathlib.Path(__file__).resolve().parent / "src"
    candidate = json.loads((folder / "candidate.json").read_text())
    defines = [f"{name}={value}" for name, value in candidate.get("defines", {}).items()]
    return folder / candidate["sources"][0]["path"], defines


def bench(kernel, defines, labels):
    with tempfile.TemporaryDirectory() as folder:
        report = pathlib.Path(folder) / "bench.json"
        command = [os.environ.get("RIDGE", "ridge"), "bench", OP, *labels, "--candidate", str(kernel), *FLAGS, "--out", str(report)]
        for define in defines:
            command += ["-D", define]
        code = subprocess.run(command, check=False).returncode
        if code not in (0, 1) or not report.exists():
            sys.exit(f"{' '.join(command)} exited with {code}")
        rows = json.loads(report.read_text())["bench"]
    # Labels of ridge bench name every parameter of a case.
    return {label: row for label in labels for row in rows if set(label.split()) <= set(row["label"].split())}


def cells(label, row):
    known = dict.fromkeys(COLUMNS, "nan") | {"label": label, "Check": "ERROR"} | SHAPES[label]
    if row is None:
        return known
    known["Check"] = "PASS" if row["outcome"] == "PASS" else "FAIL"
    if row["outcome"] != "PASS" or not row["samples"]:
        return known
    known["Forward Time (ms)"] = 1e3 * row["median"]
    for column, rate, unit in (("Forward TFLOPS", row["flops"], 1e12), ("Forward GB/s", row["bandwidth"], 1e9)):
        if column in known:
            known[column] = rate / unit
            known[column + "_stddev"] = statistics.pstdev(rate * row["median"] / sample / unit for sample in row["samples"])
    return known


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary-csv", help="where the table goes (default: nowhere, and it is only printed as ridge bench does)")
    parser.add_argument("--shapes", action="append", choices=list(SHAPES), help="one label; may be repeated (default: all)")
    parser.add_argument("--kernel", help="a source instead of the one accepted last")
    parser.add_argument("--define", "-D", action="append", default=[], metavar="NAME=VALUE", help="of its tunables")
    options = parser.parse_args()
    kernel, defines = (options.kernel, options.define) if options.kernel else accepted()
    labels = options.shapes or list(SHAPES)
    rows = bench(kernel, defines, labels)
    table = [cells(label, rows.get(label)) for label in labels]
    if options.summary_csv:
        with open(options.summary_csv, "w", newline="") as file:
            writer = csv.DictWriter(file, COLUMNS)
            writer.writeheader()
            writer.writerows(table)
    return 0 if all(row["Check"] == "PASS" for row in table) else 1


if __name__ == "__main__":
    sys.exit(main())
)py";

std::string python_text(const std::string& text) {
  std::string quoted = "\"";
  for (const char c : text) quoted += c == '"' || c == '\\' ? std::string{'\\', c} : std::string(1, c);
  return quoted + "\"";
}

std::string shape_line(const record::Case& one, const std::vector<ShapeColumn>& columns, bool product) {
  std::string cells = product ? "\"B\": 1" : "";
  for (const ShapeColumn& column : columns) {
    cells += fmt::format("{}{}: {}", cells.empty() ? "" : ", ", python_text(column.title),
                         python_text(one.get(column.param)));
  }
  return fmt::format("    {}: {{{}}},\n", python_text(one.label()), cells);
}

}  // namespace

std::string render_quick_script(const record::CampaignSpec& spec) {
  const std::vector<record::Case>& cases = spec.target_cases;
  const std::vector<ShapeColumn> columns = shape_columns(cases);
  std::string text = kHead;
  text += fmt::format("OP = {}\n", python_text(spec.op));
  text += spec.protocol.threads == 1 ? std::string("FLAGS = []\n")
                                     : fmt::format("FLAGS = [\"--threads\", \"{}\"]\n", spec.protocol.threads);
  text += fmt::format("COLUMNS = {}.split(\",\")\n", python_text(benchmark_header(cases)));
  text += "SHAPES = {  # label: its columns\n";
  for (const record::Case& one : cases) text += shape_line(one, columns, are_products(cases));
  return text + "}\n" + kBody;
}

}  // namespace ridge::campaign
