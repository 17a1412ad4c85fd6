"""``suite``: every operator on several devices at once, a process for each, results merged."""

from __future__ import annotations

import argparse
import json
import os
import pathlib
import queue
import subprocess
import sys
import threading
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import torch

import ridgeline.torch as rt

from . import table
from .cases import EXIT_FAILED, add_how, add_what, benches, cases_of, protocol_of
from .measure import Found, Protocol, Result, Times, measure
from .operators import BENCHES, Bench, Case

_HELP = "every operator on one or more devices, a process for each device, results merged"
_EXAMPLES = """\
A device takes the next case when it has finished one. A process that dies gives an ERROR for its case and is started again.

examples:
  python -m ridgeline.bench suite --devices cpu --csv-dir results
  python -m ridgeline.bench suite --devices 0,1,2,3 --operators gemm,gemm_fp8 --dtype bf16 --granularity tensorwise,blockwise --json
"""


@dataclass(frozen=True)
class Job:
    operator: str
    label: str
    case: Case


def jobs_of(options: argparse.Namespace) -> list[Job]:
    jobs = []
    for name in options.operators or list(BENCHES):
        chosen = argparse.Namespace(**vars(options), shapes=None)
        jobs += [Job(name, label, case) for label, case in cases_of(BENCHES[name], chosen).items()]
    return jobs


# ---- The process of one device: a job a line in, a result a line out


def serve(options: argparse.Namespace) -> int:
    answers = os.fdopen(os.dup(sys.stdout.fileno()), "w")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())  # what libraries print is no answer
    for line in sys.stdin:
        asked = json.loads(line)
        case, protocol = asked["job"]["case"], Protocol(**asked["protocol"])
        if asked["threads"]:
            torch.set_num_threads(asked["threads"])
        bench = BENCHES[asked["job"]["operator"]]
        if asked["backend"]:
            rt.set_backend(bench.kernel, asked["backend"])
        result = measure(bench, Case(tuple(case["shape"]), case["dtype_name"], case["granularity"], case["format"]), protocol, asked["job"]["label"])
        device_name = torch.cuda.get_device_name(protocol.device) if protocol.device.startswith("cuda") else ""
        print(json.dumps({"result": asdict(result), "device_name": device_name}), file=answers, flush=True)
    return 0


def _read(text: str, device: str) -> tuple[Result, str]:
    answer = json.loads(text)
    fields = answer["result"]
    case = Case(**{**fields["case"], "shape": tuple(fields["case"]["shape"])})
    found = {which: {name: Found(**one) for name, one in fields[which].items()} for which in ("found", "peer_found")}
    times = {side: Times(**fields[side]) for side in ("ours", "peer")}
    return Result(**{**fields, "case": case, **found, **times, "device": device}), answer["device_name"]


# ---- The process that was called


class _Device:
    """A process on one device, and the thread that gives it jobs."""

    def __init__(self, name: str, options: argparse.Namespace, threads: int) -> None:
        self.name, self.options, self.threads = name, options, threads
        self.protocol = replace(protocol_of(options), device="cpu" if name.startswith("cpu") else "cuda")
        self.process: subprocess.Popen[str] | None = None
        self.device_name = ""

    def _start(self) -> subprocess.Popen[str]:
        environment = dict(os.environ)
        if self.protocol.device == "cuda":
            environment["CUDA_VISIBLE_DEVICES"] = self.name
        command = [sys.executable, "-m", "ridgeline.bench", "serve"]
        return subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment)

    def _ask(self, job: Job) -> str:
        if self.process is None:
            self.process = self._start()
        asked = {"job": asdict(job), "protocol": asdict(self.protocol), "threads": self.threads, "backend": self.options.backend}
        assert self.process.stdin is not None and self.process.stdout is not None
        try:
            self.process.stdin.write(json.dumps(asked) + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            return ""
        return self.process.stdout.readline()

    def run(self, job: Job) -> Result:
        answer = self._ask(job)
        if answer:
            result, self.device_name = _read(answer, self.name)
            return result
        assert self.process is not None
        status = self.process.wait()
        self.process = None
        return Result(job.label, job.operator, job.case, ours=Times(problem=f"the process on device {self.name} ended with status {status}"), device=self.name)

    def close(self) -> None:
        if self.process is None:
            return
        assert self.process.stdin is not None
        self.process.stdin.close()
        self.process.wait()


def _run_all(jobs: Sequence[Job], devices: Sequence[_Device], quiet: bool) -> list[Result]:
    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(len(jobs)):
        waiting.put(number)
    results: dict[int, Result] = {}

    def work(device: _Device) -> None:
        try:
            while True:
                number = waiting.get_nowait()
                results[number] = device.run(jobs[number])
                if not quiet:
                    print(f"{len(results)}/{len(jobs)} {device.name}: {jobs[number].operator} {jobs[number].label} {results[number].check}", file=sys.stderr)
        except queue.Empty:
            device.close()

    threads = [threading.Thread(target=work, args=(device,)) for device in devices]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return [results[number] for number in range(len(jobs))]


def devices_of(text: str) -> list[str]:
    """"0,1", "cpu"; GPUs by the names that CUDA_VISIBLE_DEVICES takes."""
    names = text.split(",")
    gpus = [name for name in names if name != "cpu"]
    if gpus and len(gpus) != len(names):
        raise argparse.ArgumentTypeError(f"devices {text!r}: give GPUs or cpu, not both in one table")
    if not all(gpus) or len(set(gpus)) != len(gpus):
        raise argparse.ArgumentTypeError(f"devices {text!r}: name each once, for instance 0,1 (cpu may be there twice: its processors are shared out)")
    count = torch.cuda.device_count()
    for name in gpus:
        if name.isdecimal() and int(name) >= count or not count:
            raise argparse.ArgumentTypeError(f"device {name!r}: PyTorch {torch.__version__} sees {count} CUDA devices here; use --devices cpu")
    return [f"cpu:{i}" for i in range(len(names))] if not gpus and len(names) > 1 else names


def _write_tables(folder: pathlib.Path, bench: Bench, results: Sequence[Result], names: dict[str, str]) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    with open(folder / f"{bench.name}.csv", "w", newline="") as file:
        table.write_csv(file, table.header(bench), [table.row_of(one) for one in results])
    with open(folder / f"{bench.name}-full.csv", "w", newline="") as file:
        rows = [table.full_row_of(number, one, names.get(one.device, "")) for number, one in enumerate(results)]
        table.write_csv(file, table.full_header(bench), rows)


def run(options: argparse.Namespace) -> int:
    options.device = "cpu" if options.devices[0].startswith("cpu") else "cuda"
    jobs = jobs_of(options)
    threads = options.threads or (max(1, torch.get_num_threads() // len(options.devices)) if options.device == "cpu" else 0)
    devices = [_Device(name, options, threads) for name in options.devices]
    results = _run_all(jobs, devices, options.json)
    names = {device.name: device.device_name or "CPU" for device in devices}
    for bench in BENCHES.values():
        own = [one for one in results if one.operator == bench.name]
        if own and options.csv_dir:
            _write_tables(pathlib.Path(options.csv_dir), bench, own, names)
        if own and not options.json:
            print(f"{bench.name}; peer: {bench.peer_name}\n{table.text(bench, own)}\n")
    if not options.json:
        print(table.summary(results))
    else:
        facts = {"ridgeline": rt.__version__, "torch": torch.__version__, "devices": names, "threads": threads}
        print(json.dumps({"environment": facts, "rows": [table.json_of(one) for one in results]}, indent=1))
    for line in table.problems(results):
        print(line, file=sys.stderr)
    return EXIT_FAILED if any(one.check != "PASS" for one in results) else 0


def add_parser(parsers: Any) -> None:
    parser = parsers.add_parser(
        "suite", help=_HELP, description=f"{_HELP[0].upper()}{_HELP[1:]}.", epilog=_EXAMPLES, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=devices_of, default=["cpu"], metavar="LIST", help="GPUs by number, with commas between; or cpu (the default)")
    parser.add_argument("--operators", type=benches, metavar="LIST", help=f"of {', '.join(BENCHES)}; default all")
    add_what(parser)
    add_how(parser)
    parser.add_argument("--csv-dir", metavar="DIR", help="writes OPERATOR.csv, the frozen table, and OPERATOR-full.csv for each")
    parser.add_argument("--json", action="store_true", help="print everything, with all samples, as JSON")
    parser.set_defaults(run=run)
    parsers.add_parser("serve", add_help=False).set_defaults(run=serve)
