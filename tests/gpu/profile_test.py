#!/usr/bin/env python3
"""`ridge profile` on four kernels of known character: four right answers, with ncu on a CUDA GPU.

    tests/gpu/profile_test.py RIDGE PROFILE_KERNELS [--out FOLDER] [--answers FOLDER]

--out keeps each kernel's report as ncu printed it (<kernel>.csv) and what was made of it (<kernel>.json). --answers judges
reports that lie in a folder as <kernel>.csv or <kernel>.json instead of running anything: what the script demands can then be
tested without a device. Exit status 77: no profiler here."""
import argparse
import json
import pathlib
import subprocess
import sys
import tempfile

# kernel: bottleneck, the unit that the verdict must name, a hypothesis that must be there, one that must not
WANTED = {
    "copy": ("memory", "memory at", None, "uncoalesced loads"),
    "strided_copy": ("memory", "is not used", "uncoalesced loads", None),
    "fma_chain": ("compute", "multiply-add pipes at", "matrix units idle", "uncoalesced loads"),
    "matrix_chain": ("compute", "matrix units at", None, "matrix units idle"),
}
UNSUPPORTED = 3  # ridge's exit code for a tool that is not there


def problems(kernel, report):
    bottleneck, verdict, needed, forbidden = WANTED[kernel]
    names = [h["name"] for h in report["hypotheses"]]
    if kernel + "(" not in report["kernel"] and report["kernel"] != kernel:
        yield f"the target is {report['kernel']}"
    if report["bottleneck"] != bottleneck:
        yield f"bottleneck {report['bottleneck']}, wanted {bottleneck}: {report['verdict']}"
    if verdict not in report["verdict"]:
        yield f"the verdict does not say \"{verdict}\": {report['verdict']}"
    if needed and needed not in names:
        yield f"{needed} is not among {names}"
    if forbidden in names:
        yield f"{forbidden} is claimed"


def run(arguments, options, kernel):
    """The report of one kernel, or the exit code and what was said."""
    command = [arguments.ridge, "profile", "--kernel", kernel + "(", "--json", *options]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=arguments.timeout)
    except subprocess.TimeoutExpired:
        return None, 1, f"not done after {arguments.timeout} s"
    if done.returncode != 0:
        return None, done.returncode, done.stderr.strip() or done.stdout.strip()
    return json.loads(done.stdout), 0, ""


def report_of(arguments, kernel):
    if arguments.answers:
        judged = arguments.answers / f"{kernel}.json"
        if judged.exists():
            return json.loads(judged.read_text()), 0, ""
        return run(arguments, ["--from", arguments.answers / f"{kernel}.csv"], kernel)
    keep = ["--keep", arguments.out / f"{kernel}.csv"] if arguments.out else []
    return run(arguments, ["--tool", "ncu", *keep, "--", arguments.program, kernel], kernel)


def report_file_problems(arguments):
    """A report file of ncu's own, opened by ridge: the same answer as from the run."""
    folder = arguments.out or pathlib.Path(tempfile.mkdtemp())
    record = ["ncu", "--set", "full", "--clock-control", "none", "--launch-skip", "1", "--launch-count", "1", "--force-overwrite",
              "--export", folder / "matrix_chain.ncu-rep", arguments.program, "matrix_chain"]
    try:
        done = subprocess.run(record, capture_output=True, text=True, timeout=arguments.timeout)
    except (OSError, subprocess.TimeoutExpired) as error:
        return [str(error)]
    if done.returncode != 0:
        return [f"ncu: exit code {done.returncode}: {(done.stderr or done.stdout).strip()[-400:]}"]
    report, code, said = run(arguments, ["--from", folder / "matrix_chain.ncu-rep"], "matrix_chain")
    return [f"exit code {code}: {said}"] if report is None else list(problems("matrix_chain", report))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("ridge", type=pathlib.Path, nargs="?")
    parser.add_argument("program", type=pathlib.Path, nargs="?")
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--answers", type=pathlib.Path)
    parser.add_argument("--timeout", type=float, default=120, help="seconds for one kernel")
    arguments = parser.parse_args()
    if arguments.out:
        arguments.out.mkdir(parents=True, exist_ok=True)
    failed = 0
    for kernel in WANTED:
        report, code, said = report_of(arguments, kernel)
        if code == UNSUPPORTED:
            print(f"{kernel}: {said}", file=sys.stderr)
            return 77
        found = [f"exit code {code}: {said}"] if report is None else list(problems(kernel, report))
        if report and arguments.out:
            (arguments.out / f"{kernel}.json").write_text(json.dumps(report, indent=1) + "\n")
        failed += bool(found)
        print(f"{kernel}: {'WRONG: ' + '; '.join(found) if found else 'right: ' + report['verdict']}", flush=True)
    print(f"{len(WANTED) - failed} of {len(WANTED)} right")
    if not arguments.answers:
        found = report_file_problems(arguments)
        failed += bool(found)
        print(f"a .ncu-rep: {'WRONG: ' + '; '.join(found) if found else 'right'}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
