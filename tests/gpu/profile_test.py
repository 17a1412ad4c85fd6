#!/usr/bin/env python3
"""`ridge profile` on four kernels of known character: four right answers, with ncu on a CUDA GPU.

    tests/gpu/profile_test.py RIDGE PROFILE_KERNELS [--out FOLDER] [--answers FOLDER]

--answers judges reports that lie in a folder as <kernel>.json instead of running anything: what the script demands can then be
tested without a device."""
import argparse
import json
import pathlib
import subprocess
import sys

# kernel: bottleneck, the unit that the verdict must name, a hypothesis that must be there, one that must not
WANTED = {
    "copy": ("memory", "memory at", None, "uncoalesced loads"),
    "strided_copy": ("memory", "is not used", "uncoalesced loads", None),
    "fma_chain": ("compute", "multiply-add pipes at", "matrix units idle", "uncoalesced loads"),
    "matrix_chain": ("compute", "matrix units at", None, "matrix units idle"),
}


def problems(kernel, report):
    bottleneck, verdict, needed, forbidden = WANTED[kernel]
    names = [h["name"] for h in report["hypotheses"]]
    if kernel + "(" not in report["kernel"] and report["kernel"] != kernel:
        yield f"the target is {report['kernel']}"
    if report["bottleneck"] != bottleneck:
        yield f"bottleneck {report['bottleneck']}, wanted {bottleneck}: {report['verdict']}"
    if verdict not in report["verdict"]:
        yield f"the verdict does not say \"{verdict}\": {report['verdict']}"
    if needed and (not names or needed not in names):
        yield f"{needed} is not among {names}"
    if forbidden in names:
        yield f"{forbidden} is claimed"


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge", type=pathlib.Path, nargs="?")
    parser.add_argument("program", type=pathlib.Path, nargs="?")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--answers", type=pathlib.Path)
    arguments = parser.parse_args()
    failed = 0
    for kernel in WANTED:
        if arguments.answers:
            report = json.loads((arguments.answers / f"{kernel}.json").read_text())
        else:
            run = subprocess.run([arguments.ridge, "profile", "--tool", "ncu", "--kernel", kernel + "(", "--json", "--", arguments.program, kernel],
                                 capture_output=True, text=True)
            if run.returncode != 0:
                print(f"{kernel}: {run.stderr.strip()}", file=sys.stderr)
                return 77 if run.returncode == 3 else 1
            report = json.loads(run.stdout)
            if arguments.out:
                arguments.out.mkdir(parents=True, exist_ok=True)
                (arguments.out / f"profile-{kernel}.json").write_text(json.dumps(report, indent=1) + "\n")
        found = list(problems(kernel, report))
        failed += bool(found)
        print(f"{kernel}: {'; '.join(found) if found else 'right: ' + report['verdict']}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
