#!/usr/bin/env python3
"""Times the router of a mixture of experts, the sorted index of its choices, and its backward, beside PyTorch and torch.compile, contenders in turns.

    route_compare.py OUT [--shapes 16384x256x8,...] [--works forward,index,both,backward] [--configs IMPLEMENTATION/CONFIG,...]
                     [--repeats 30] [--no-compile] [--device cuda] [--commit ID]

A shape is tokens x experts x top; logits are random normal bfloat16. `softmax`: softmax over the experts and renormalised weights; `groups`: DeepSeek-V3's sigmoid with a bias
for the choice, 8 groups of which 4 can be chosen, and renormalised weights. forward is rt.route; index rt.expert_order of its choices (offsets, and where each row goes and comes
from); both is one after the other; backward the gradient of the logits through autograd. `ridgeline graph` is the same call captured in a CUDA graph, which is replayed. Every
call is between two events; before it a gibibyte is written eight times, or more often, until that takes longer than the host code of the call (80 times at most, which is said): it
displaces the L2, and events show the device's time alone. Contenders change places from round to round; the median counts.

The first and the last result of every contender are compared with float64 and, of the choices, with a stable sort by the contract's rule; of peers, which order ties as they
like, weights and gradients alone, in fp32's or bfloat16's last steps. Memory held NaN or -1 before. --configs also times configurations of our kernels ("cuda_route/large_blocks"). Writes OUT/route.json (with every sample) and OUT/route.csv. Exit status 1
if a result of ours is wrong, 77 without PyTorch or, with --device cuda, without a Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
"""
import argparse
import csv
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
from rows_compare import MOST_DISPLACED, WARM_ROUNDS, Clock, poison  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

SHAPES = ["16384x256x8", "8192x128x8", "16384x8x2", "16384x512x8"]
FORMS = {"softmax": {"renormalize": True}, "groups": {"score": "sigmoid", "groups": 8, "group_top": 4, "renormalize": True, "scale": 2.5}}
WORKS = ["forward", "index", "both", "backward"]


# ---- The router by PyTorch, as models write it


def torch_route(logits, bias, top, form):
    if form == "softmax":
        weights, experts = torch.softmax(logits.float(), -1).topk(top, -1)
        return weights / weights.sum(-1, keepdim=True), experts
    scores = torch.sigmoid(logits.float())
    biased = scores + bias
    parts = biased.view(len(logits), 8, -1)
    groups = parts.topk(2, -1)[0].sum(-1).topk(4, -1)[1]
    mask = torch.zeros(len(logits), 8, device=logits.device, dtype=torch.bool).scatter_(1, groups, True)
    experts = parts.masked_fill(~mask[..., None], -math.inf).flatten(1).topk(top, -1)[1]
    weights = scores.gather(1, experts)
    return weights / (weights.sum(-1, keepdim=True) + 1e-20) * 2.5, experts


def torch_index(experts, count):
    flat = experts.flatten()
    ordered, order = flat.sort(stable=True)
    offsets = torch.searchsorted(ordered, torch.arange(count + 1, device=flat.device, dtype=ordered.dtype))
    rows = torch.empty_like(order).scatter_(0, order, torch.arange(len(flat), device=flat.device))
    return offsets.int(), (order // experts.shape[1]).int()[:, None], rows.int().view(experts.shape), order.int()[:, None]


# ---- What is right


def right_choice(logits, bias, top, form):
    x = logits.double()
    keys = logits.float() if form == "softmax" else torch.sigmoid(x).float() + bias
    if form == "groups":
        parts = keys.view(len(keys), 8, -1)
        best = parts.sort(-1, descending=True)[0]
        groups = (best[..., 0] + best[..., 1]).sort(dim=-1, descending=True, stable=True)[1][:, :4]
        closed = torch.ones(len(keys), 8, device=keys.device, dtype=torch.bool).scatter_(1, groups, False)
        keys = parts.masked_fill(closed[..., None], -math.inf).flatten(1)
    return keys.sort(dim=-1, descending=True, stable=True)[1][:, :top]


def right_weights(x, experts, form):
    """In the dtype of x, differentiable."""
    picked = (torch.softmax(x, -1) if form == "softmax" else torch.sigmoid(x)).gather(1, experts.long())
    return FORMS[form].get("scale", 1.0) * picked / picked.sum(-1, keepdim=True)


class Work:
    def __init__(self, name, shape, form, device):
        self.name, self.form, self.device = name, form, device
        self.tokens, self.count, self.top = map(int, shape.split("x"))
        self.logits = torch.randn(self.tokens, self.count, device=device).bfloat16().requires_grad_(name == "backward")
        self.bias = 0.1 * torch.randn(self.count, device=device) if form == "groups" else None
        self.experts = right_choice(self.logits.detach(), self.bias, self.top, form).int()
        self.slope = torch.randn(self.tokens, self.top, device=device)
        self.want_index = torch_index(self.experts, self.count)
        wide = self.logits.detach().double().requires_grad_()
        weights = right_weights(wide, self.experts, form)
        self.want_weights = weights.detach()
        (self.want_gradient,) = torch.autograd.grad(weights, wide, self.slope.double())
        self.bytes = self.logits.numel() * 2 * (2 if name == "backward" else 0 if name == "index" else 1)
        self.bytes += self.experts.numel() * 4 * {"forward": 2, "index": 4, "both": 6, "backward": 2}[name]

    def call(self, route, index):
        if self.name == "forward":
            return lambda: list(route(self.logits))
        if self.name == "index":
            return lambda: list(index(self.experts))
        if self.name == "both":

            def both():
                weights, experts = route(self.logits)
                return [weights, experts, *index(experts)]

            return both
        weights = route(self.logits)[0]
        return lambda: list(torch.autograd.grad(weights, self.logits, self.slope, retain_graph=True))

    def ops(self):
        return {"forward": ["route"], "index": ["expert_order"], "both": ["route", "expert_order"], "backward": ["route_backward"]}[self.name]

    def ours(self):
        options = FORMS[self.form]
        return lambda x: rt.route(x, self.top, bias=self.bias, **options), lambda experts: rt.expert_order(experts, self.count)

    def torch(self):
        return lambda x: torch_route(x, self.bias, self.top, self.form), lambda experts: torch_index(experts, self.count)

    def error(self, results, ours):
        """In units of what is allowed: 8 steps of fp32 of a weight, 2 of bfloat16 of a gradient beside the largest of a row; choices and indices are equal or infinitely wrong."""
        if self.name == "backward":
            size = self.want_gradient.abs().amax(-1, keepdim=True)
            return self.worst((results[0].double() - self.want_gradient).abs() / (size * 2**-8))
        found = 0.0
        if self.name in ("forward", "both"):
            if ours and not torch.equal(results[1].int(), self.experts):
                return math.inf
            found = self.worst((results[0].double() - self.want_weights).abs() / (self.want_weights * 2**-20))
        if self.name in ("index", "both") and (ours or self.name == "index"):
            index = results[-4:]
            found = found if all(torch.equal(one.int(), want) for one, want in zip(index, self.want_index)) else math.inf
        return found

    @staticmethod
    def worst(ratios):
        ratio = ratios.max().item()
        return math.inf if math.isnan(ratio) else ratio


class Graph:
    """A call captured once, replayed in its own memory."""

    def __init__(self, call):
        stream = torch.cuda.Stream()
        with torch.cuda.stream(stream):
            call()
        stream.synchronize()
        self.graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(self.graph):
            self.results = call()

    def __call__(self):
        self.graph.replay()
        return self.results


class Contender:
    def __init__(self, name, work, call, clock, choice):
        self.name, self.ours, self.work, self.call, self.choice, self.samples, self.worst = name, name.startswith("ridgeline"), work, call, choice, [], 0.0
        self.run()
        self.times = clock.times_for(self)

    def prepare(self):
        pass

    def run(self):
        if self.choice is None:
            return self.call()
        rt.set_backend(*self.choice)
        try:
            return self.call()
        finally:
            rt.set_backend(self.choice[0], None)

    def measure(self, clock, count, whole):
        seconds, results = clock.timed(self.run, self.times)
        if count:
            self.samples.append(seconds)
        if whole:
            self.worst = max(self.worst, self.work.error(results, self.ours))
        poison(results)


def contenders_of(work, options, clock):
    offered = {"ridgeline": lambda: work.call(*work.ours()), "torch": lambda: work.call(*work.torch())}
    if options.device == "cuda" and work.name != "backward":
        offered["ridgeline graph"] = lambda: Graph(work.call(*work.ours()))
    if not options.no_compile:
        offered["compile"] = lambda: work.call(*(torch.compile(one, dynamic=False) for one in work.torch()))
    found, failed, choices = [], False, {}
    for one in filter(None, options.configs.split(",")):
        for op in work.ops():
            if one.split("/")[0] in rt.backends(op):
                offered[f"ridgeline {one}"], choices[f"ridgeline {one}"] = offered["ridgeline"], (op, one)
    for name, make in offered.items():
        try:
            found.append(Contender(name, work, make(), clock, choices.get(name)))
        except Exception as reason:  # noqa: BLE001
            failed = failed or name.startswith("ridgeline")
            print(f"{work.name}: {name} is left out: {type(reason).__name__}: {str(reason)[:300]}", flush=True)
    return found, failed


def measure(work, shape, options, clock):
    contenders, failed = contenders_of(work, options, clock)
    rounds = options.repeats + WARM_ROUNDS
    for turn in range(rounds):
        for one in in_turn(contenders, turn):
            one.measure(clock, turn >= WARM_ROUNDS, turn in (0, WARM_ROUNDS, rounds - 1))
    rows = []
    for one in contenders:
        median = statistics.median(one.samples)
        rows.append({"work": work.name, "shape": shape, "form": work.form, "contender": one.name, "median_us": median * 1e6, "best_us": min(one.samples) * 1e6,
                     "tb_per_s": work.bytes / median * 1e-12, "error": one.worst, "displaced_times": one.times,
                     "samples_us": [round(s * 1e6, 3) for s in one.samples]})
        mark = "" if one.worst <= 1 else "   WRONG" if one.ours else "   beyond what is allowed"
        mark += "   (with host time)" if one.times == MOST_DISPLACED else ""
        print(f"{work.name:9s} {shape:12s} {work.form:8s} {one.name:28s} {median * 1e6:9.2f} us  error {one.worst:.3g}{mark}", flush=True)
    return rows, not failed and all(one.worst <= 1 for one in contenders if one.ours)


def write(options, rows, seconds):
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(options.device), "seconds": round(seconds, 1), "rows": rows}
    (options.out / "route.json").write_text(json.dumps(record, indent=1) + "\n")
    with open(options.out / "route.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["work", "shape", "form", "contender", "median_us", "best_us", "tb_per_s", "error"])
        for row in rows:
            writer.writerow([row["work"], row["shape"], row["form"], row["contender"], *(f"{row[key]:.3f}" for key in ("median_us", "best_us", "tb_per_s", "error"))])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--shapes", default=",".join(SHAPES))
    parser.add_argument("--works", default=",".join(WORKS))
    parser.add_argument("--configs", default="")
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--no-compile", action="store_true")
    parser.add_argument("--device", default="cuda", choices=("cuda", "cpu"))
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    if options.device == "cuda" and not (torch.cuda.is_available() and torch.cuda.get_device_capability() == (9, 0)):
        print("route_compare: skipped: needs a Hopper GPU", file=sys.stderr)
        return 77
    torch.manual_seed(1)
    clock, rows, right, began = Clock(options.device), [], True, time.time()
    for shape in options.shapes.split(","):
        for form in FORMS:
            if form == "groups" and int(shape.split("x")[1]) < 64:  # more than a choice of four groups has
                continue
            for name in options.works.split(","):
                if name == "index" and form == "groups":  # the same work
                    continue
                more, well = measure(Work(name, shape, form, options.device), shape, options, clock)
                rows, right = rows + more, right and well
                write(options, rows, time.time() - began)  # what there is, should a later work end the program
    return 0 if right else 1


if __name__ == "__main__":
    sys.exit(main())
