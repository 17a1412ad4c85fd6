#!/usr/bin/env python3
"""Times the operators that are bound by memory beside PyTorch, torch.compile, QuACK and Liger, contenders in turns.

    rows_compare.py OUT [--works NAME,...] [--shapes SHAPE,...] [--configs IMPLEMENTATION/CONFIG,...] [--repeats 30] [--budget 15]
                    [--quick] [--no-compile] [--no-peers] [--no-host] [--device cuda] [--commit ID]

A work is an operator in one direction: rmsnorm.forward, rmsnorm.backward, ..., adamw.step, quantise.both; --works takes it, or the operator for
all of its directions, and --list prints them with their shapes. Every timed call is one forward or one backward pass through autograd (of cross
entropy both in one call), or one step, between two events, in bfloat16 (AdamW: float32) on random normal data. Before it a gibibyte is written
eight times, or more often, until that takes longer than the host code of the call (80 times at most, which is said): it displaces the L2, and
events show the device's time alone.
Contenders change places from round to round; the median counts. TB/s are of compulsory bytes, every operand once: of cross entropy with its
gradient the logits and the gradient, two passes (other tables count three).

The first and the last timed call of every contender are compared with fp64 everywhere, in units of what the dtype leaves of a result; of the
calls between them ours must give the same bits, and others the same sums of magnitudes. Memory held NaN before. A call that works in place has
its inputs restored before each. --configs also times configurations of our kernels ("cuda_rmsnorm/ring"), where they fit. A work takes --budget
seconds: shapes that are left get at least ten rounds without torch.compile. `host` rows are the time that the host needs for a call with 512 rows,
back to back.

Writes OUT/rows.json (with every sample) and OUT/rows.csv. Peers that cannot be imported or cannot do a work are named and left out, and so are
works that we have no kernel for. Exit status 1 if a result of ours is wrong, 77 without PyTorch or, with --device cuda, without a Hopper GPU.
Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed. --device cpu --quick takes tiny shapes and tests the script.
"""
import argparse
import csv
import importlib.metadata
import json
import math
import pathlib
import statistics
import sys
import time

try:
    import torch
except ImportError:
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from rows_works import WORKS, load_peers  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

LEAST_ROUNDS, WARM_ROUNDS = 10, 2
DISPLACED_BYTES, DISPLACED_TIMES, MOST_DISPLACED = 1 << 30, 8, 80


# ---- Measuring


class Clock:
    """Displaces caches and times a call, on a GPU by events."""

    def __init__(self, device):
        self.gpu = device == "cuda"
        self.displaced = torch.empty((DISPLACED_BYTES if self.gpu else 1 << 20) // 4, device=device, dtype=torch.int32)
        self.flush(DISPLACED_TIMES)
        self.once = self.timed(lambda: self.displaced.fill_(1), 0)[0]

    def flush(self, times):
        for _ in range(times):
            self.displaced.fill_(1)

    def synchronize(self):
        if self.gpu:
            torch.cuda.synchronize()

    def timed(self, run, times):
        if not self.gpu:
            self.flush(min(times, 1))
            start = time.perf_counter()
            results = run()
            return time.perf_counter() - start, results
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        self.flush(times)
        start.record()
        results = run()
        end.record()
        end.synchronize()
        return start.elapsed_time(end) * 1e-3, results

    def times_for(self, call):
        """How often memory must be written to take longer than the host code of a call."""
        call.prepare()
        self.synchronize()
        start = time.perf_counter()
        call.run()
        host = time.perf_counter() - start
        self.synchronize()
        return min(MOST_DISPLACED, max(DISPLACED_TIMES, math.ceil(1.5 * host / self.once)))


def poison(results):
    for one in results:
        if one.is_floating_point() and one.itemsize > 1:
            one.data.fill_(math.nan)
        else:
            one.data.view(torch.uint8).fill_(255)


def same_bits(one, other):
    if one.itemsize == 1:
        one, other = one.view(torch.uint8), other.view(torch.uint8)
    return torch.equal(one, other)


def sum_of(one):
    if one.itemsize == 1:
        return float(one.view(torch.uint8).sum(dtype=torch.int64))
    return torch.linalg.vector_norm(one, 1, dtype=torch.float32).item()


class Contender:
    def __init__(self, name, work, direction, call, choice=None):
        self.name, self.work, self.direction, self.call, self.choice = name, work, direction, call, choice
        self.ours, self.ops = name.startswith("ridgeline"), call.ops or work.ops[direction]
        self.samples, self.worst, self.times, self.first, self.ran = [], 0.0, DISPLACED_TIMES, None, ""

    def choose(self):
        if self.choice is not None:
            rt.set_backend(*self.choice)

    def release(self):
        if self.choice is not None:
            rt.set_backend(self.choice[0], None)

    def try_it(self, clock):
        """A warm call; raises where this contender cannot do the work."""
        self.choose()
        try:
            self.call.prepare()
            self.call.run()
            self.times = clock.times_for(self.call)
            self.ran = "+".join(map(rt.last_used, self.ops)) if self.ours else ""
        finally:
            self.release()

    def measure(self, clock, count, whole):
        """One timed call; `whole`: compared with fp64 everywhere."""
        self.choose()
        self.call.prepare()
        seconds, results = clock.timed(self.call.run, self.times)
        results = [one.detach() for one in results]
        if count:
            self.samples.append(seconds)
        if whole:
            self.worst = max(self.worst, self.work.worst(self.direction, results))
        if whole and self.first is None:
            self.first = [one.clone() for one in results] if self.ours else [sum_of(one) for one in results]
        elif self.first is not None and self.ours:
            same = all(same_bits(one, right) for one, right in zip(results, self.first))
            self.worst = self.worst if same else math.inf
        elif self.first is not None:
            near = all(abs(sum_of(one) - right) <= 1e-3 * right for one, right in zip(results, self.first))
            self.worst = self.worst if near else math.inf
        poison(results)  # the next result that is put there must be written
        self.release()


def missing(reason):
    """Whether it says that we have no kernel, or no function, for a work."""
    return isinstance(reason, NotImplementedError) or (isinstance(reason, AttributeError) and reason.obj is rt)


def contenders_of(work, direction, peers, options, clock, late):
    """Those that can do the work, and whether one of ours failed."""
    found, failed = [], False

    def add(name, make, choice=None):
        nonlocal failed
        try:
            one = Contender(name, work, direction, make(), choice)
            one.try_it(clock)
            found.append(one)
        except Exception as reason:  # noqa: BLE001
            failed = failed or (name.startswith("ridgeline") and choice is None and not missing(reason))
            print(f"{work.name}.{direction} {work.shape}: {name} is left out: {type(reason).__name__}: {str(reason)[:300]}", flush=True)

    try:
        ours = work.ours(direction)
    except Exception as reason:  # noqa: BLE001
        print(f"{work.name}.{direction} {work.shape} is left out: {type(reason).__name__}: {str(reason)[:300]}", flush=True)
        return [], not missing(reason)
    for more, call in ours.items():
        add("ridgeline" + more, lambda call=call: call)
    for choice in filter(None, options.configs.split(",")):
        for op in work.ops[direction]:
            if choice.split("/")[0] in rt.backends(op):
                add(f"ridgeline {choice}", lambda: ours[""], (op, choice))
    if not found:
        return [], failed
    for name, make in work.peers(direction, peers).items():
        if name == "compile" and late:
            print(f"{work.name}.{direction} {work.shape}: compile is left out: the time of the work is spent", flush=True)
            continue
        add(name, make)
    return found, failed


def measure(work, direction, contenders, options, clock, until):
    turn, last = 0, False
    while contenders and not last:
        last = turn + 1 >= options.repeats + WARM_ROUNDS or (turn + 1 >= LEAST_ROUNDS + WARM_ROUNDS and time.monotonic() > until)
        for one in in_turn(contenders, turn):
            one.measure(clock, turn >= WARM_ROUNDS, whole=turn in (0, WARM_ROUNDS) or last)
        turn += 1
    size, rows = work.bytes(direction), []
    for one in contenders:
        median = statistics.median(one.samples)
        rows.append({"work": f"{work.name}.{direction}", "shape": work.shape, "contender": one.name, "ran": one.ran, "median_us": median * 1e6,
                     "tb_per_s": size / median * 1e-12, "best_us": min(one.samples) * 1e6, "worst_us": max(one.samples) * 1e6,
                     "error": one.worst, "displaced_times": one.times, "samples_us": [round(s * 1e6, 3) for s in one.samples]})
        mark = "" if one.worst <= 1 else "   WRONG" if one.ours else "   beyond what is allowed"
        mark += "   (with host time)" if one.times == MOST_DISPLACED else ""
        print(f"{work.name + '.' + direction:22s} {work.shape:16s} {one.name:28s} {median * 1e6:10.2f} us {size / median * 1e-12:6.3f} TB/s  "
              f"error {one.worst:.3g}{mark}", flush=True)
    return rows, all(one.worst <= 1 for one in contenders if one.ours)


def host_costs(kinds, options, clock):
    """Time that the host needs for a call with 512 rows, calls back to back."""
    rows = []
    batch, batches = (100, 30) if clock.gpu else (2, 3)
    for kind in kinds:
        if kind.rows_of_host is None:
            continue
        work = kind(kind.rows_of_host if clock.gpu else kind.tiny[0], options.device)
        for direction in kind.directions:
            calls = {"ridgeline": lambda: work.call(direction, work.function()), "torch": lambda: work.call(direction, work.plain)}
            for name, make in calls.items():
                if name == "torch" and options.no_peers:
                    continue
                try:
                    call = make()
                    call.run()
                except Exception as reason:  # noqa: BLE001
                    print(f"host {work.name}.{direction}: {name} is left out: {type(reason).__name__}: {str(reason)[:200]}", flush=True)
                    continue
                samples = []
                for _ in range(batches):
                    clock.synchronize()
                    start = time.perf_counter()
                    for _ in range(batch):
                        call.run()
                    samples.append((time.perf_counter() - start) / batch)
                rows.append({"work": f"{work.name}.{direction}", "shape": work.shape, "contender": name, "host_us": statistics.median(samples) * 1e6,
                             "samples_us": [round(s * 1e6, 3) for s in samples]})
                print(f"host {work.name + '.' + direction:22s} {work.shape:12s} {name:12s} {rows[-1]['host_us']:8.2f} us a call", flush=True)
    return rows


# ---- The program


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path, nargs="?")
    parser.add_argument("--works", default="")
    parser.add_argument("--shapes", default="")
    parser.add_argument("--configs", default="")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--budget", type=float, default=15)
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--commit", default="")
    for flag in ("--quick", "--no-compile", "--no-peers", "--no-host", "--list"):
        parser.add_argument(flag, action="store_true")
    options = parser.parse_args()
    if not options.list and options.out is None:
        parser.error("give the folder for rows.json and rows.csv")
    names = {f"{kind.name}.{direction}" for kind in WORKS for direction in kind.directions} | {kind.name for kind in WORKS}
    shapes = {one for kind in WORKS for one in kind.shapes}
    if unknown := set(filter(None, options.shapes.split(","))) - shapes:
        parser.error(f"no work has the shape {', '.join(sorted(unknown))}; --list prints those there are")
    options.works = [one for one in options.works.split(",") if one] or [kind.name for kind in WORKS]
    if unknown := set(options.works) - names:
        parser.error(f"no work is called {', '.join(sorted(unknown))}; there are {', '.join(sorted(names))}")
    return options


def shapes_of(kind, options):
    if options.device == "cpu":
        return kind.tiny
    wanted = [one for one in options.shapes.split(",") if one]
    known = [one for one in kind.shapes if not wanted or one in wanted]
    return known[:1] if options.quick else known


def write(options, rows, host, seconds):
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(options.device), "seconds": round(seconds, 1), "rows": rows, "host": host}
    (options.out / "rows.json").write_text(json.dumps(record, indent=1) + "\n")
    columns = ("median_us", "tb_per_s", "best_us", "worst_us", "error")
    with open(options.out / "rows.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["work", "shape", "contender", "ran", *columns])
        for row in rows:
            writer.writerow([row["work"], row["shape"], row["contender"], row["ran"], *(f"{row[key]:.3f}" for key in columns)])
        for row in host:
            writer.writerow([f"host {row['work']}", row["shape"], row["contender"], "", f"{row['host_us']:.3f}"])


def main():
    options = arguments()
    kinds = {kind: [one for one in kind.directions if {kind.name, f"{kind.name}.{one}"} & set(options.works)] for kind in WORKS}
    kinds = {kind: directions for kind, directions in kinds.items() if directions}
    if options.list:
        for kind, directions in kinds.items():
            print(*(f"{kind.name}.{one}" for one in directions), "  ".join(kind.shapes), sep="  ")
        return 0
    if options.device == "cuda" and not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)):
        print("rows_compare: skipped: needs a Hopper GPU", file=sys.stderr)
        return 77
    if options.quick:
        options.repeats = min(options.repeats, LEAST_ROUNDS)
    torch.manual_seed(1)
    peers, clock = load_peers(options), Clock(options.device)
    rows, host, right, began = [], [], True, time.time()
    for kind, directions in kinds.items():
        spent, shapes = dict.fromkeys(directions, 0.0), shapes_of(kind, options)
        for at, shape in enumerate(shapes):
            work = kind(shape, options.device)
            for direction in directions:
                start = time.monotonic()
                share = max(0.0, options.budget - spent[direction]) / (len(shapes) - at)
                found, failed = contenders_of(work, direction, peers, options, clock, late=at > 0 and share == 0)
                more, well = measure(work, direction, found, options, clock, start + share)
                rows, right = rows + more, right and well and not failed
                spent[direction] += time.monotonic() - start
                del found
            del work
            if clock.gpu:
                torch.cuda.empty_cache()
            write(options, rows, host, time.time() - began)  # what there is, should a later work end the program
    if not options.no_host:
        host = host_costs(kinds, options, clock)
        write(options, rows, host, time.time() - began)
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
