#!/usr/bin/env python3
"""Checks and times ops.matmul for Ridgeline, in the frozen table.  Written by `ridge handoff init`; yours to change.

  quick_test_bench.py --summary-csv PATH --shapes small,large [--fresh] [--seed N] [--outputs PATH]
  quick_test_bench.py --test                             the focused test: prints passed=N failed=N
  quick_test_bench.py --verify PATH --shapes ... --seed N     checks kept outputs without importing the kernel

Every call is checked against float64, from copies of its operands that the kernel never sees. Both modes draw a new
tensor before every timed call, --fresh also uses it, and then the caches are flushed: the two may differ in nothing but
having been seen. Outputs are copied as soon as the call is over, and the copies are judged. A kernel fails its Check when
an element is off by more than rounding explains, is NaN, or was not written (new memory holds NaN), when it changes its
inputs or the gradient that it is given, when it answers from what it kept of an earlier call, and when it leaves work on
another stream; on a GPU the wall time of such work counts as time of the call.
"""
import argparse
import csv
import hashlib
import importlib
import math
import os
import statistics
import sys
import time

import torch

KERNEL = "ops", "matmul"  # module, function
DTYPE = torch.float32
BACKWARD = True  # whether the gradients are checked and timed
ROUNDING = 2.0**-24  # of the sums inside the kernel: 2**-24 for f32, 2**-11 for TF32 or f16
SHAPES = {
    "small": (96, 96, 128),
    "large": (160, 128, 192),
}
REPEATS, WARM_UPS = 7, 1  # benchmark.launches of ridge-project.toml is their sum + 1
THREADS = 1  # of PyTorch, for a kernel that runs on a CPU

INTERPRETED = os.environ.get("TRITON_INTERPRET") == "1"
DEVICE = "cuda" if torch.cuda.is_available() and not INTERPRETED else "cpu"
OUTPUT_ROUNDING = torch.finfo(DTYPE).eps / 2


# What a form may say otherwise.
ACTIONS = {}  # --NAME: function


def kernel_of(shape, label, seed):
    return getattr(importlib.import_module(KERNEL[0]), KERNEL[1])


def closer_results_of(case):
    """results_of once more where what is allowed is an estimate, a better one; nothing where it is none."""
    return []


def gradient_tensors(case):
    """The tensors of the reference whose gradients are checked."""
    return [one for one in case.own_inputs if one.is_floating_point()]


def parameters_of(kernel):
    """What it owns, and has gradients besides those of its inputs."""
    return []


def results_of(case, wide, gradients):
    """Name (its first word is the column), exact values and allowed error of every output, then of every gradient."""
    rows = [("out", *forward_reference(case.shape, *wide))]
    return rows + gradients_reference(case.shape, *gradients, *wide) if BACKWARD else rows


# out = a b, with a of [M, K] and b of [K, N]; d_a = d_out b^T, d_b = a^T d_out. A shape is (M, N, K).
UNIT, SCALE = "TFLOPS", 1e12
COLUMNS = ["label", "B", "M", "N", "K", "Check", "Forward TFLOPS", "Forward TFLOPS_stddev", "Backward TFLOPS",
           "Backward TFLOPS_stddev", "Forward Time (ms)", "Backward Time (ms)", "out_snr", "da_snr", "db_snr"]
EDGE_SHAPES = [(1, 1, 1), (1, 7, 3), (5, 1, 9), (17, 33, 65), (33, 17, 1)]


def inputs_of(shape, stream):
    m, n, k = shape
    return [uniform(stream, m, k), uniform(stream, k, n)]


def outputs_of(shape):
    return [(shape[:2], DTYPE)]


def product(a, b):
    """A product in float64, and how far a right kernel may be off: rounding of its sums and of its result."""
    exact = a @ b
    return exact, (1.01 * ROUNDING * (a.shape[-1] + 2)) * (a.abs() @ b.abs()) + 2 * OUTPUT_ROUNDING * exact.abs()


def forward_reference(shape, a, b):
    return product(a, b)


def gradients_reference(shape, gradient, a, b):
    return [("da", *product(gradient, b.T)), ("db", *product(a.T, gradient))]


def work_of(shape):
    m, n, k = shape
    return 2 * m * n * k, 4 * m * n * k


def shape_columns(shape):
    return {"B": 1, "M": shape[0], "N": shape[1], "K": shape[2]}


def generator(*key):
    """Of a stream that only the key gives: the same in the process that checks what this one left."""
    digest = hashlib.sha256("/".join(map(str, key)).encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:7], "big"))


def uniform(stream, *size):
    return (2 * torch.rand(size, generator=stream, dtype=torch.float32) - 1).to(DTYPE).to(DEVICE)


def snr_db(noise, signal):
    if math.isnan(noise) or math.isinf(noise):
        return -math.inf
    return math.inf if noise == 0 else 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def judged(name, out, dtype, exact, allowed):
    """What is wrong with an output, or "", and the squares of its noise and of its signal."""
    if type(out) is not torch.Tensor:  # a subclass may compute when it is looked at
        return f"{name} is a {type(out).__name__}, and must be a torch.Tensor itself", (math.inf, 0)
    if out.shape != exact.shape or out.dtype != dtype:
        return f"{name} is {tuple(out.shape)} {out.dtype}, not {tuple(exact.shape)} {dtype}", (math.inf, 0)
    error = (out.double() - exact).abs()
    bad = ~(error <= allowed)  # NaN is bad
    squares = float((out.double() - exact).square().sum()), float(exact.square().sum())
    if not bool(bad.any()):
        return "", squares
    at = tuple(int(i) for i in bad.nonzero()[0])
    return f"{name}{list(at)} is {float(out[at])}, {float(exact[at])} is right: {int(bad.sum())} elements are wrong", squares


def judgements(case, outputs, rows):
    """The name of every output, what is wrong with it, or "", and its squares. Where it seems wrong it is judged once more
    by a closer look, if the form has one."""
    closer = None
    for number, (out, dtype, (name, exact, allowed)) in enumerate(zip(outputs, case.dtypes(), rows)):
        problem, squares = judged(name, out, dtype, exact, allowed)
        if problem:
            closer = closer_results_of(case) if closer is None else closer
            if closer:
                problem, squares = judged(name, out, dtype, *closer[number][1:])
        yield name, problem, squares


class Case:
    """One set of inputs with what must come out of it."""

    def __init__(self, shape, key):
        stream = generator(*key)
        self.key, self.shape = key, shape
        self.inputs = inputs_of(shape, stream)
        self.outputs = outputs_of(shape)
        self.gradients = [uniform(stream, *size).to(dtype) for size, dtype in self.outputs if dtype.is_floating_point]
        self.own_inputs = [one.clone() for one in self.inputs]  # that the kernel never sees
        self.own_gradients = [one.clone() for one in self.gradients]

    def exact(self):
        wide = [one.double() if one.is_floating_point() else one for one in self.own_inputs]
        return results_of(self, wide, [one.double() for one in self.own_gradients])

    def room(self, parameters):
        """Memory for copies of what comes out and of the gradients, there before the clock starts."""
        outputs = [torch.zeros(size, dtype=dtype, device=DEVICE) for size, dtype in self.outputs]
        return outputs, [torch.zeros_like(one) for one in [*self.own_inputs, *parameters] if one.is_floating_point()]

    def dtypes(self):
        """Of the outputs, then of the gradients, which have the tensors' own."""
        return [dtype for _, dtype in self.outputs] + [one.dtype for one in gradient_tensors(self)]

    def changed(self):
        """What the kernel changed of what it was given, or ""."""
        if not all(torch.equal(now, then) for now, then in zip(self.inputs, self.own_inputs)):
            return "it changes its inputs"
        same = all(torch.equal(now, then) for now, then in zip(self.gradients, self.own_gradients))
        return "" if same else "it changes the gradient that it is given"

    def copy_from(self, other):
        """Other numbers at the same addresses."""
        mine = *self.inputs, *self.gradients, *self.own_inputs, *self.own_gradients
        theirs = *other.inputs, *other.gradients, *other.own_inputs, *other.own_gradients
        for to, numbers in zip(mine, theirs):
            to.copy_(numbers)


FLUSH = None


def kept_call(seed, label):
    """The timed call whose outputs the reference process checks."""
    return int(torch.randint(REPEATS, (1,), generator=generator(seed, label, "kept")))


def flush_caches():
    """Leaves nothing of the operands in the caches of the device, in both modes alike."""
    global FLUSH
    if FLUSH is None:
        size = 64 << 20
        if DEVICE == "cuda":
            size = 2 * getattr(torch.cuda.get_device_properties(0), "L2_cache_size", 128 << 20)
        FLUSH = torch.empty(size, dtype=torch.int8, device=DEVICE)
    FLUSH.zero_()


def snapshot(results, room):
    """The results as they are now, in memory that the kernel never had; what is no such tensor stays itself."""
    taken = []
    with torch.no_grad():
        for one, place in zip(results, room):
            fits = type(one) is torch.Tensor and one.shape == place.shape and one.dtype == place.dtype
            taken.append(place.copy_(one) if fits else one)
    return taken


def sequence(result):
    """Of outputs; a type of the kernel's own may compute when it is looked at, and is no sequence here."""
    return result if type(result) in (tuple, list) else (result,)


def seconds_to_wait():
    before = time.perf_counter()
    torch.cuda.synchronize()
    return time.perf_counter() - before


def timed(call, room):
    """Seconds of one call that returns a sequence, what it returned, copies of that as it was when the call was over,
    and whether it left work behind on another stream, which counts as time."""
    flush_caches()
    if DEVICE == "cpu":
        before = time.perf_counter()
        results = call()
        after = time.perf_counter()
        return after - before, results, snapshot(results, room), False
    first, last, copied = (torch.cuda.Event(enable_timing=True) for _ in range(3))
    stream = torch.cuda.current_stream()
    torch.cuda.synchronize()
    first.record(stream)
    results = call()
    last.record(stream)
    with torch.cuda.stream(stream):
        taken = snapshot(results, room)
    copied.record(stream)
    copied.synchronize()
    late = max(0.0, seconds_to_wait() - seconds_to_wait())  # the second time for nothing
    seconds = first.elapsed_time(last) * 1e-3
    return seconds + late, results, taken, late > max(2e-4, 0.5 * seconds)


def poisoned(call):
    """Runs it while new memory of PyTorch holds NaN, so that an element that nothing wrote shows."""
    before = torch.get_deterministic_debug_mode()
    torch.set_deterministic_debug_mode("warn")  # use_deterministic_algorithms imports PyTorch's compiler, for seconds
    torch.utils.deterministic.fill_uninitialized_memory = True
    try:
        return call()
    finally:
        torch.set_deterministic_debug_mode(before)


class Run:
    """The calls of one shape, each checked, with their times."""

    def __init__(self, shape, label, seed):
        self.kernel, self.shape, self.label, self.seed = kernel_of(shape, label, seed), shape, label, seed
        self.times, self.problem, self.snr, self.kept = ([], []), "", {}, {}

    def case(self, number):
        return Case(self.shape, (self.seed, self.label, number))

    def call(self, case, keep=False, memory=lambda call: call()):
        """Forward and backward, each timed by itself; what it is given must come back as it went in."""
        leaves = [one.requires_grad_(BACKWARD) if one.is_floating_point() else one for one in case.inputs]
        wanted = [*(one for one in leaves if one.requires_grad), *parameters_of(self.kernel)]
        for_outputs, for_gradients = case.room(parameters_of(self.kernel))
        ahead, results, outputs, behind = memory(lambda: timed(lambda: sequence(self.kernel(*leaves)), for_outputs))
        back = math.nan
        if BACKWARD:
            ends = [one for one, (_, dtype) in zip(results, case.outputs) if dtype.is_floating_point]
            back, _, gradients, late = memory(
                lambda: timed(lambda: torch.autograd.grad(ends, wanted, case.gradients), for_gradients))
            outputs, behind = [*outputs, *gradients], behind or late
        for one in leaves:
            if one.is_floating_point():
                one.requires_grad_(False)
        if behind:
            self.fail("it leaves work on another stream after the call")
        if len(results) != len(case.outputs):
            self.fail(f"it gives {len(results)} outputs, not {len(case.outputs)}")
        self.fail(case.changed())
        self.check(case, outputs, keep)
        return ahead, back

    def check(self, case, outputs, keep):
        columns = {}
        for name, problem, squares in judgements(case, outputs, case.exact()):
            self.fail(problem)
            columns.setdefault(name.split()[0], []).append(squares)
        for column, squares in columns.items():
            self.snr[column] = min(self.snr.get(column, math.inf), snr_db(*map(sum, zip(*squares))))
        if keep:
            self.kept = {"case": case.key[-1], "outputs": [one.cpu() if torch.is_tensor(one) else one for one in outputs]}

    def fail(self, problem):
        self.problem = self.problem or problem

    def measure(self, fresh):
        used = self.case(0)
        for number in range(-WARM_UPS, REPEATS):
            drawn = self.case(number + WARM_UPS + 1)
            if fresh:
                used = drawn
            ahead, back = self.call(used, keep=number == kept_call(self.seed, self.label))
            if number >= 0:
                self.times[0].append(ahead)
                self.times[1].append(back)
        used.copy_from(self.case(-1))  # what was kept under an address is now wrong
        self.call(used, memory=poisoned)

    def row(self):
        ahead, back = statistics.median(self.times[0]), statistics.median(self.times[1])
        work = work_of(self.shape)
        row = {"label": self.label, "Check": "FAIL" if self.problem else "PASS"}
        row.update(shape_columns(self.shape))
        passes = [("Forward", ahead, work[0], self.times[0]), ("Backward", back, work[1], self.times[1])]
        for name, seconds, amount, all_times in passes if BACKWARD else passes[:1]:
            row[f"{name} {UNIT}"] = amount / seconds / SCALE
            row[f"{name} {UNIT}_stddev"] = statistics.pstdev([amount / one / SCALE for one in all_times])
            row[f"{name} Time (ms)"] = seconds * 1e3
        row.update({f"{name}_snr": ratio for name, ratio in self.snr.items()})
        return row


def failed_row(label):
    return {"label": label, "Check": "ERROR", **shape_columns(SHAPES[label])}


def bench(options):
    kept, good = {}, True
    with open(options.summary_csv, "w", newline="") as file:
        table = csv.DictWriter(file, COLUMNS, restval="nan", extrasaction="ignore")
        table.writeheader()
        for label in options.shapes.split(","):
            run = Run(SHAPES[label], label, options.seed)
            try:
                run.measure(options.fresh)
                row = run.row()
            except Exception as error:  # whatever a kernel raises
                run.fail(f"{type(error).__name__}: {error}")
                row = failed_row(label)
            if run.problem:
                print(f"{label}: {run.problem}", file=sys.stderr)
            good, kept[label] = good and not run.problem, run.kept
            table.writerow(row)
    if options.outputs:
        torch.save(kept, options.outputs)
    return 0 if good else 1


def verify(options):
    """In a process that has no kernel: what one timed call of every shape left, which the seed picks."""
    kept = torch.load(options.verify, weights_only=True)
    for label in options.shapes.split(","):
        one = kept.get(label) or {}
        if one.get("case") not in (0, kept_call(options.seed, label) + WARM_UPS + 1):
            print(f"{label}: no outputs of the timed call that the seed picks")
            return 1
        case = Case(SHAPES[label], (options.seed, label, one["case"]))
        rows = case.exact()
        if len(rows) != len(one["outputs"]):
            print(f"{label}: {len(one['outputs'])} outputs, not {len(rows)}")
            return 1
        outputs = [out.to(DEVICE) if torch.is_tensor(out) else out for out in one["outputs"]]
        for _, problem, _ in judgements(case, outputs, rows):
            if problem:
                print(f"{label}: {problem}")
                return 1
    return 0


def remembers(label):
    """Whether numbers that it has seen are answered sooner than new ones: the fastest of several of either kind, three
    looks, since a busy machine only adds time."""
    run, used = Run(SHAPES[label], label, "seen"), Case(SHAPES[label], ("seen", label, 0))
    ratio = math.inf
    for look in range(3):
        seen, new = [], []
        for repeat in range(REPEATS):
            drawn = run.case(1 + look * REPEATS + repeat)
            new.append(sum(one for one in run.call(drawn) if not math.isnan(one)))
            run.case(0)  # drawn, and not used: the memory is as warm
            seen.append(sum(one for one in run.call(used) if not math.isnan(one)))
        ratio = min(ratio, min(new) / min(seen))
        if ratio <= 1.25:
            return ""
    return f"new numbers take {ratio:.2f} times as long as those it has seen"


def test():
    """Edge shapes in poisoned memory, then whether the kernel remembers."""
    results = []
    for number, shape in enumerate(EDGE_SHAPES + list(SHAPES.values())):
        run = Run(shape, f"test {number}", os.urandom(8).hex())
        try:
            run.call(run.case(0), memory=poisoned)
            run.call(run.case(1))
        except Exception as error:  # whatever a kernel raises
            run.fail(f"{type(error).__name__}: {error}")
        results.append((str(shape), run.problem))
    largest = max(SHAPES, key=lambda label: work_of(SHAPES[label])[0])
    if not any(problem for _, problem in results):
        results.append((f"{largest}, seen before", remembers(largest)))
    for shape, problem in results:
        if problem:
            print(f"{shape}: {problem}")
    failed = sum(bool(problem) for _, problem in results)
    print(f"passed={len(results) - failed} failed={failed}")
    return 1 if failed else 0


def main():
    torch.set_num_threads(THREADS)
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--summary-csv")
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--seed", default="0")
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--outputs")
    parser.add_argument("--verify")
    parser.add_argument("--test", action="store_true")
    for name in ACTIONS:
        parser.add_argument(f"--{name}", action="store_true")
    options = parser.parse_args()
    unknown = [label for label in options.shapes.split(",") if label not in SHAPES]
    if unknown:
        parser.error(f"no shape {unknown[0]}; there are {', '.join(SHAPES)}")
    for name, action in ACTIONS.items():
        if getattr(options, name):
            return action()
    if options.test:
        return test()
    if options.verify:
        return verify(options)
    if not options.summary_csv:
        parser.error("--summary-csv, --verify or --test")
    return bench(options)


if __name__ == "__main__":
    sys.exit(main())
