#!/usr/bin/env python3
"""Times a layer of experts, forward and backward, beside the same layer by torch._grouped_mm, contenders in turns.

    moe_compare.py OUT [--cases 0,1,2] [--loads uniform,skewed,balanced] [--contenders ridgeline,apart,torch,compile,ridgeline-fp8,...]
                   [--repeats 12] [--sustained 0.3] [--no-graph] [--commit ID]

bfloat16, random normal data; the routing is given (weights in float32, experts as numbers) and its order is made in every call. Ours is rt.MoE.mix, "apart" the
same with products and SwiGLU as calls of their own, whose result is kept, and "ridgeline-compile" what torch.compile makes of it; "torch" sorts choices, takes rows by index_select, multiplies by torch._grouped_mm and
adds up by index_add, and "compile" is torch.compile of that. "ridgeline-fp8" is the layer with recipe "blockwise" ("-apart": its layers called one by one, with
copies of the rows, activations and their gradients that are stored before they are coded; "-rowwise": with that recipe; "-kept": within rt.quantized_weights, as all micro-batches of
a step but the first, so that no weight is quantised in it), and "torchao-fp8" what "torch" is with torchao's products of
groups in 8 bits (scales of rows), "torchao-fp8-compile" torch.compile of that; they ask for groups of multiples of 16 rows. Gradients are those of x, of the weights of choices and of both matrices. A uniform load has every expert
alike likely, a skewed one expert g as often as ((g + 1/2) / experts)^3 says and one expert never; a balanced one gives each the same number of rows. Before every step a gibibyte is written, which displaces the L2; three
events time forward and backward. Contenders change places from round to round; the median counts. After these rounds come sustained ones, as in training: each contender takes
steps for --sustained seconds (0: none) without a pause, with nothing displaced, in another order of contenders for each of as many rounds as there are of them, at least four; the median of the rounds' mean steps counts. A GPU at its
limit of power is slower there, and those that take less of it are less so. TFLOP/s are 18 rows inner hidden of a step and 6 of its forward.
Memory is what forward keeps for backward, its result included, and the most that a step takes, gradients included, beside what was there before. First and last results are compared with float64 and must have 38 dB, those of 8-bit products 20; ours must have equal bits.

Then, unless --no-graph, steps of rt.MoE with its router are captured in a CUDA graph and replayed with other tokens, so with other routing: results and gradients must be
those of eager steps bit for bit.

Writes OUT/moe.json (with every sample) and moe.csv after each case. What cannot run is named and left out. Exit status 1 on a wrong result of ours, 77 without PyTorch or a
Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
"""
import argparse
import contextlib
import csv
import functools
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
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    print("moe_compare: skipped: needs a Hopper GPU", file=sys.stderr)
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

try:
    from torchao.prototype.moe_training.fp8_grouped_mm import _to_fp8_rowwise_then_scaled_grouped_mm as torchao_grouped_mm
except ImportError:
    torchao_grouped_mm = None

F = torch.nn.functional
CASES = [  # name, experts, top, hidden, inner, tokens
    ("Mixtral 8x7B", 8, 2, 4096, 14336, 8192),
    ("Qwen3-30B-A3B", 128, 8, 2048, 768, 16384),
    ("DeepSeek-V3, 1 of 64", 4, 1, 7168, 2048, 8192),
]
DISPLACED_BYTES = 1 << 30
FLOOR_DB, FLOOR_OF_CODES_DB = 38, 20


def chosen(load, experts, top, tokens):
    """[tokens, top], different experts for a token."""
    if load == "balanced":
        return torch.arange(tokens * top, device="cuda", dtype=torch.int32).view(tokens, top) % experts
    places = torch.arange(experts, device="cuda", dtype=torch.float32)
    shares = torch.ones_like(places) if load == "uniform" else ((places + 0.5) / experts) ** 3
    if load != "uniform":
        shares[experts // 3] = 0
    noise = -torch.log(-torch.log(torch.rand(tokens, experts, device="cuda")))
    return (shares.log() + noise).topk(top, -1).indices.int()


def by_torchao(x, weights, experts, gate_up, down):
    if torchao_grouped_mm is None:
        raise ImportError("torchao has no products of groups in 8 bits here")
    product = functools.partial(torchao_grouped_mm, pad_token_groups_for_grouped_mm=False)
    return by_torch(x, weights, experts, gate_up, down, product)


def by_torch(x, weights, experts, gate_up, down, product=torch._grouped_mm):
    flat = experts.flatten()
    order = torch.argsort(flat, stable=True)
    ends = torch.searchsorted(flat[order], torch.arange(1, gate_up.shape[0] + 1, device=x.device, dtype=torch.int32)).int()
    source = order // experts.shape[1]
    both = product(x.index_select(0, source), gate_up.mT, offs=ends)
    gate, up = both.chunk(2, -1)
    made = product(F.silu(gate) * up, down.mT, offs=ends)
    made = made * weights.flatten().index_select(0, order)[:, None].to(made.dtype)
    return torch.zeros_like(x).index_add(0, source, made)


class Apart(rt.MoE):
    def _experts(self, x, factors, order):
        return rt.unpermute(self._down(self._gate_up(x, order), factors, order.offsets), order)


class Work:
    def __init__(self, case, load):
        self.name, self.experts, self.top, self.hidden, self.inner, self.tokens = case
        self.layer = rt.MoE(self.hidden, self.inner, self.experts, self.top, device="cuda", dtype=torch.bfloat16)
        self.parts = Apart(self.hidden, self.inner, self.experts, self.top, device="meta", dtype=torch.bfloat16)
        self.parts.gate_up, self.parts.down = self.layer.gate_up, self.layer.down
        self.coded, self.apart, self.kept, self.rowwise = (self.coded_by(recipe) for recipe in ("blockwise", "blockwise", "blockwise", "rowwise"))
        self.apart.down.register_forward_hook(lambda *_: None)  # both layers are then called one by one
        self.x = torch.randn(self.tokens, self.hidden, device="cuda").bfloat16().requires_grad_()
        self.dy = torch.randn(self.tokens, self.hidden, device="cuda").bfloat16()
        self.choice = chosen(load, self.experts, self.top, self.tokens)
        self.weights = torch.rand(self.tokens, self.top, device="cuda", requires_grad=True)
        self.inputs = (self.x, self.weights, self.layer.gate_up.weight, self.layer.down.weight)
        self.codes = contextlib.ExitStack()
        self.codes.enter_context(rt.quantized_weights(self.kept))
        self.flop = 18.0 * self.tokens * self.top * self.inner * self.hidden

    def coded_by(self, recipe):
        layer = rt.MoE(self.hidden, self.inner, self.experts, self.top, recipe=recipe, device="meta", dtype=torch.bfloat16)
        layer.gate_up.weight, layer.down.weight = self.layer.gate_up.weight, self.layer.down.weight
        return layer

    def calls(self):
        matrices = self.inputs[2:]
        compiled, of_torchao, ours = (torch.compile(each, dynamic=False) for each in (by_torch, by_torchao, self.layer.mix))
        return {
            "ridgeline": lambda: self.layer.mix(self.x, self.weights, self.choice),
            "apart": lambda: self.parts.mix(self.x, self.weights, self.choice),
            "ridgeline-compile": lambda: ours(self.x, self.weights, self.choice),
            "torch": lambda: by_torch(self.x, self.weights, self.choice, *matrices),
            "compile": lambda: compiled(self.x, self.weights, self.choice, *matrices),
            "ridgeline-fp8": lambda: self.coded.mix(self.x, self.weights, self.choice),
            "ridgeline-fp8-apart": lambda: self.apart.mix(self.x, self.weights, self.choice),
            "ridgeline-fp8-kept": lambda: self.kept.mix(self.x, self.weights, self.choice),
            "ridgeline-fp8-rowwise": lambda: self.rowwise.mix(self.x, self.weights, self.choice),
            "torchao-fp8": lambda: by_torchao(self.x, self.weights, self.choice, *matrices),
            "torchao-fp8-compile": lambda: of_torchao(self.x, self.weights, self.choice, *matrices),
        }

    @torch.no_grad()
    def right(self):
        """y and the gradients of the inputs, in float64 expert by expert, kept in float32."""
        x, weights, gate_up, down = self.inputs
        y, dx = (torch.zeros(self.x.shape, device="cuda", dtype=torch.float64) for _ in range(2))
        dweights, dgate_up, ddown = (torch.zeros(each.shape, device="cuda") for each in (weights, gate_up, down))
        for e in range(self.experts):
            tokens, k = torch.where(self.choice == e)
            rows, first, last, dy = x[tokens].double(), gate_up[e].double(), down[e].double(), self.dy[tokens].double()
            factor = weights[tokens, k][:, None].double()
            gate, up = (rows @ first.t()).chunk(2, -1)
            slope = torch.sigmoid(gate)
            silu = gate * slope
            made = (silu * up) @ last.t()
            y.index_add_(0, tokens, factor * made)
            dweights[tokens, k] = (dy * made).sum(1).float()
            ddown[e] = ((factor * dy).t() @ (silu * up)).float()
            inner = (factor * dy) @ last
            both = torch.cat((inner * up * (slope + silu * (1 - slope)), inner * silu), -1)
            dgate_up[e] = (both.t() @ rows).float()
            dx.index_add_(0, tokens, both @ first)
        return [y.float(), dx.float(), dweights, dgate_up, ddown]


def least_db(found, right):
    """Of all results the smallest signal to noise; NaN is none at all."""
    worst = math.inf
    for one, wanted in zip(found, right):
        noise = (one.float() - wanted).double().square().sum() / wanted.double().square().sum()
        worst = min(worst, -10 * math.log10(max(noise.item(), 1e-30)) if noise.isfinite() else -math.inf)
    return worst


class Contender:
    def __init__(self, name, call, work):
        self.name, self.call, self.work, self.ours = name, call, work, name.startswith("ridgeline") or name == "apart"
        self.floor_db = FLOOR_OF_CODES_DB if "fp8" in name else FLOOR_DB
        self.forward, self.step, self.db, self.first, self.kept, self.most = [], [], math.inf, None, 0, 0
        self.sustained = []

    def run(self, displaced, right, count, whole):
        start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        before = torch.cuda.memory_allocated()
        torch.cuda.reset_peak_memory_stats()
        displaced.fill_(1)
        start.record()
        y = self.call()
        middle.record()
        self.kept = torch.cuda.memory_allocated() - before
        grads = torch.autograd.grad(y, self.work.inputs, self.work.dy)
        end.record()
        end.synchronize()
        if count:
            self.forward.append(start.elapsed_time(middle) * 1e-3)
            self.step.append(start.elapsed_time(end) * 1e-3)
        self.most = torch.cuda.max_memory_allocated() - before
        results = [y.detach(), *grads]
        if whole:
            self.db = min(self.db, least_db(results, right))
            sums = [each.view(torch.uint8).sum(dtype=torch.int64).item() for each in results] if self.ours else None
            if self.first not in (None, sums):
                self.db = -math.inf
            self.first = sums
        for each in results:
            each.fill_(math.nan)  # the next result that is put there must be written

    def sustain(self, seconds):
        steps = max(3, round(seconds / statistics.median(self.step)))
        start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        start.record()
        for _ in range(steps):
            torch.autograd.grad(self.call(), self.work.inputs, self.work.dy)
        end.record()
        end.synchronize()
        self.sustained.append(start.elapsed_time(end) * 1e-3 / steps)


def measure(case, load, options, displaced):
    work = Work(case, load)
    right, contenders, offered = work.right(), [], work.calls()
    for name in options.contenders.split(","):
        one = Contender(name, offered[name], work)
        try:
            one.run(displaced, right, False, True)
            contenders.append(one)
        except Exception as reason:  # noqa: BLE001
            print(f"{name} {case[0]} {load}: {type(reason).__name__}: {str(reason)[:300]}", flush=True)
    for turn in range(options.repeats + 1):
        for one in in_turn(contenders, turn):
            one.run(displaced, right, turn >= 1, turn == options.repeats)
    for turn in range(max(4, len(contenders)) if options.sustained > 0 else 0):
        for one in in_turn(contenders, turn):
            one.sustain(options.sustained)
    found, well = [], True
    for one in sorted(contenders, key=lambda c: statistics.median(c.step)):
        step, forward = statistics.median(one.step), statistics.median(one.forward)
        sustained = statistics.median(one.sustained) if one.sustained else math.nan
        well = well and (not one.ours or one.db >= one.floor_db)
        found.append({"case": case[0], "sizes": "x".join(map(str, case[1:])), "load": load, "contender": one.name, "step_us": step * 1e6, "forward_us": forward * 1e6,
                      "step_tflops": work.flop / step * 1e-12, "sustained_us": sustained * 1e6, "sustained_tflops": work.flop / sustained * 1e-12, "forward_tflops": work.flop / 3 / forward * 1e-12, "kept_mib": one.kept / 2**20, "most_mib": one.most / 2**20, "db": one.db,
                      "step_samples_us": [round(s * 1e6, 2) for s in one.step], "sustained_samples_us": [round(s * 1e6, 2) for s in one.sustained], "forward_samples_us": [round(s * 1e6, 2) for s in one.forward]})
        row = found[-1]
        mark = "" if one.db >= one.floor_db else f"   WRONG: {one.db:.1f} dB"
        print(f"{case[0]:20s} {load:8s} {one.name:18s} step {row['step_us']:9.1f} us {row['step_tflops']:6.1f} TFLOP/s   sustained {row['sustained_us']:9.1f} us {row['sustained_tflops']:6.1f} TFLOP/s   forward {row['forward_us']:9.1f} us "
              f"{row['forward_tflops']:6.1f} TFLOP/s   {row['kept_mib']:6.0f} MiB kept, {row['most_mib']:6.0f} at most   {one.db:.1f} dB{mark}", flush=True)
    return found, well


def replay(case, turns=4):
    """Steps in a graph, with other tokens in every replay, beside eager ones."""
    name, experts, top, hidden, inner, tokens = case
    layer = rt.MoE(hidden, inner, experts, top, renormalize=True, device="cuda", dtype=torch.bfloat16)
    dy = torch.randn(tokens, hidden, device="cuda").bfloat16()
    given = torch.randn(tokens, hidden, device="cuda").bfloat16().requires_grad_()
    inputs = (given, *layer.parameters())

    def step():
        found = layer(given)
        loss = (found.y.float() * dy).mean() + 0.001 * found.z_loss + 0.01 * found.balance_loss
        return [found.y, found.experts, *torch.autograd.grad(loss, inputs)]

    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        step()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    equal, times, routings = True, {"eager": [], "graph": []}, []
    for _ in range(turns):
        with torch.no_grad():
            given.normal_()
        start, middle, end = (torch.cuda.Event(enable_timing=True) for _ in range(3))
        torch.cuda.synchronize()
        start.record()
        graph.replay()
        middle.record()
        eager = step()
        end.record()
        torch.cuda.synchronize()
        equal = equal and all(torch.equal(one, other) for one, other in zip(captured, eager))
        routings.append(eager[1].clone())
        times["graph"].append(start.elapsed_time(middle) * 1e3)
        times["eager"].append(middle.elapsed_time(end) * 1e3)
    others = all(not torch.equal(routings[0], one) for one in routings[1:])
    found = {"case": name, "equal_bits": equal, "other_routing": others, **{f"{key}_us": statistics.median(value) for key, value in times.items()}}
    print(f"{name}: {turns} steps of a graph, each with other routing ({others}): equal to eager bit for bit: {equal}; graph {found['graph_us']:.1f} us, eager {found['eager_us']:.1f} us", flush=True)
    return found, equal and others


def write(out, record):
    out.mkdir(parents=True, exist_ok=True)
    (out / "moe.json").write_text(json.dumps(record, indent=1) + "\n")
    columns = ["case", "sizes", "load", "contender", "step_us", "step_tflops", "sustained_us", "sustained_tflops", "forward_us", "forward_tflops", "kept_mib", "most_mib", "db"]
    with open(out / "moe.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        for row in record["rows"]:
            writer.writerow([row[key] if isinstance(row[key], str) else f"{row[key]:.3f}" for key in columns])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--cases", default="0,1,2")
    parser.add_argument("--loads", default="uniform,skewed")
    parser.add_argument("--contenders", default="ridgeline,apart,torch,compile")
    parser.add_argument("--repeats", type=int, default=12)
    parser.add_argument("--sustained", type=float, default=0.3)
    parser.add_argument("--no-graph", action="store_true")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    displaced = torch.empty(DISPLACED_BYTES // 4, device="cuda", dtype=torch.int32)
    began = time.time()
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(), "seconds": 0.0, "rows": [], "graphs": []}
    right = True
    for case in (CASES[int(one)] for one in options.cases.split(",")):
        for load in options.loads.split(","):
            found, well = measure(case, load, options, displaced)
            record["rows"] += found
            right = right and well
        if not options.no_graph:
            found, well = replay(case)
            record["graphs"].append(found)
            right = right and well
        record["seconds"] = round(time.time() - began, 1)
        write(options.out, record)
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
