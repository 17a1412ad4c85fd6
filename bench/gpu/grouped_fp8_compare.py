#!/usr/bin/env python3
"""Times grouped_gemm_fp8 beside a loop of torch._scaled_mm and products in bfloat16, contenders in turns.

    grouped_fp8_compare.py OUT [--scalings block,row,tensor] [--configs all|A,B] [--cases 0,1,2,3] [--loads uniform,skewed] [--directions forward,wgrad,add]
                           [--repeats 11] [--peers loop,scaled_grouped,bf16,torch] [--commit ID]

Codes are e4m3 of random normal data. Scaling block: forward x by 1x128 and the stack of weights by 128x128, wgrad both by 1x128 along the rows of each expert, whose number is a
multiple of 128 there (forward of 16, which torch._scaled_mm asks for); add is wgrad added to a bfloat16 matrix, and every contender but ours adds what it made (`made` is ours that does). Scaling row: a scale for each row of both operands, wgrad of each expert apart; tensor: one for each
operand of each expert. A skewed load gives expert g a share that grows as u^3, and one expert nothing. `loop` is torch._scaled_mm of each expert, whose offsets the host knows, its
scales laid out as it wants them before the clock starts; where the version of PyTorch refuses such scales it is left out and the reason is printed. `scaled_grouped` is
torch._scaled_grouped_mm, of scales of rows alone. `bf16` is our grouped_gemm and `torch` torch._grouped_mm, of bfloat16. Every call is between two events; before it a gibibyte is written, which displaces the L2. Contenders change places from round to round;
the median counts. TFLOP/s are 2 rows n k of all rows, of which every one has an expert. The first and the last result of every contender of 8 bits are compared with float64 of
what the codes stand for, in memory that held NaN before. Writes OUT/grouped-fp8.json (with every sample) and .csv. Exit status 1 on a wrong result of ours, 77 without
PyTorch or a Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
"""
import argparse
import csv
import itertools
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
    print("grouped_fp8_compare: skipped: needs a Hopper GPU", file=sys.stderr)
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

CASES = [(8, 8192, 14336, 4096), (32, 16384, 4096, 7168), (64, 16384, 1408, 2048), (256, 32768, 4096, 7168)]  # experts, rows, out, in
DISPLACED_BYTES = 1 << 30
OP = "grouped_gemm_fp8"
BLOCKS = rt.QuantConfig(granularity="blockwise")


def offsets_of(load, experts, rows, step):
    """Multiples of step."""
    if load == "uniform":
        return [rows // step * g // experts * step for g in range(experts + 1)]
    shares = [((g + 0.5) / experts) ** 3 for g in range(experts)]
    shares[experts // 3] = 0.0
    total, ends, sum_ = sum(shares), [0], 0.0
    for share in shares:
        sum_ += share
        ends.append(round(rows / step * sum_ / total) * step)
    return ends


class Coded:
    """Codes of matrices beside or below each other, and their scales: one for each row of each matrix, or for each matrix."""

    def __init__(self, matrices, scaling, dim):
        self.scales = [self.scale(one, scaling) for one in matrices]
        codes = [(one.float() / scale).to(torch.float8_e4m3fn).view(torch.uint8) for one, scale in zip(matrices, self.scales)]
        self.q = (torch.stack(codes) if dim is None else torch.cat(codes, dim)).view(torch.float8_e4m3fn)
        whole = torch.cat if dim == 0 and scaling == "row" else torch.stack  # below each other each row has its own
        self.scale = whole([scale.reshape(-1) if scaling == "row" else scale.reshape(()) for scale in self.scales])

    @staticmethod
    def scale(matrix, scaling):
        """[rows, 1] or [1, 1]; 1 where nothing has it."""
        if matrix.numel() == 0:
            return torch.ones(matrix.shape[0] if scaling == "row" else 1, 1, device=matrix.device)
        most = matrix.abs().amax(1 if scaling == "row" else (0, 1), keepdim=True)
        return most.float() / torch.finfo(torch.float8_e4m3fn).max


class Work:
    """The operands of one direction: c = a b[g]^T along rows, or sums of a^T b over the rows of each expert."""

    def __init__(self, direction, experts, rows, n, k, load, scaling):
        def draw(*sizes):
            return torch.randn(*sizes, device="cuda").bfloat16()

        self.adds, direction = direction == "add", "wgrad" if direction == "add" else direction
        self.start = draw(experts, n, k) if self.adds else None
        self.sums = self.start.clone() if self.adds else None
        self.direction, self.scaling = direction, scaling
        self.ends = offsets_of(load, experts, rows, 128 if direction == "wgrad" else 16)
        self.offsets = torch.tensor(self.ends, dtype=torch.int32, device="cuda")
        self.x = draw(rows, k)
        if direction == "wgrad":
            self.dy = draw(rows, n)
        else:
            self.weight = draw(experts, n, k)
        if scaling != "block":
            self.a, self.b = self.coded()
        elif direction == "wgrad":
            self.a, self.b = (rt.quantize(t, BLOCKS, transpose=True) for t in (self.dy, self.x))
        else:
            self.a, self.b = rt.quantize(self.x, BLOCKS), rt.quantize(self.weight, BLOCKS, weight=True)
        self.flop = 2.0 * rows * n * k
        self.parts = []

    def coded(self):
        spans = [slice(begin, end) for _, (begin, end) in self.groups()]
        if self.direction == "wgrad":
            return (Coded([t.t()[:, span] for span in spans], self.scaling, 1) for t in (self.dy, self.x))
        return Coded([self.x[span] for span in spans], self.scaling, 0), Coded(list(self.weight), self.scaling, None)

    def groups(self):
        return enumerate(zip(self.ends[:-1], self.ends[1:]))

    def error(self, found):
        """The largest error of some experts' parts, in units of what bfloat16 and the matrix unit leave: two roundings of the element, or a part of the tensor's own size."""
        worst = 0.0
        live = [g for g, (begin, end) in self.groups() if end > begin]
        for g in {live[0], live[len(live) // 2], live[-1]}:
            begin, end = self.ends[g], self.ends[g + 1]
            left, right = self.stands_for(g, begin, end)
            part = found[g] if self.direction == "wgrad" else found[begin:end]
            wanted = left @ right.t() + (self.start[g].double() if self.adds else 0)
            size = wanted.square().mean().sqrt()
            ratio = ((part.double() - wanted).abs() / (wanted.abs() * 2**-7 + size * 2**-8)).max().item()
            worst = max(worst, math.inf if math.isnan(ratio) else ratio)
        return worst

    def stands_for(self, g, begin, end):
        """What the codes of an expert stand for, in float64, what is summed over along the columns."""
        if self.scaling != "block":
            a, b = self.codes(g, begin, end)
            return a.double() * self.a.scales[g], b.double() * self.b.scales[g]
        if self.direction == "wgrad":
            return (rt.dequantize(t, torch.float32)[begin:end].double().t() for t in (self.columns_a(), self.columns_b()))
        one = torch.ops.ridgeline.dequantize(self.b.q[g], self.b.scale[g], "128x128", torch.float32)
        return rt.dequantize(self.a, torch.float32)[begin:end].double(), one.double()

    def codes(self, g, begin, end):
        """Of an expert, with scales of rows or of the expert."""
        if self.direction == "wgrad":
            return self.a.q[:, begin:end], self.b.q[:, begin:end]
        return self.a.q[begin:end], self.b.q[g]

    def columns_a(self):
        return rt.QuantizedTensor(None, None, self.a.q_t, self.a.scale_t, "1x128", torch.bfloat16)

    def columns_b(self):
        return rt.QuantizedTensor(None, None, self.b.q_t, self.b.scale_t, "1x128", torch.bfloat16)

    def fresh(self, result):
        """Before the next call: memory that must be written, or what is added to."""
        if self.adds:
            result.copy_(self.start)
        else:
            result.fill_(math.nan)

    def added(self, made):
        return self.sums.add_(made) if self.adds else made

    def ours(self):
        if self.adds and self.scaling != "block":
            torch.ops.ridgeline.grouped_gemm_fp8_add_(self.sums, self.a.q, self.b.q, self.a.scale, self.b.scale, self.offsets, self.scaling)
            return self.sums
        if self.adds:
            return rt.grouped_gemm_fp8(self.a, self.b, self.offsets, trans_a=True, add_to=self.sums)
        return self.product()

    def made(self):
        return self.added(self.product())

    def product(self):
        if self.scaling != "block":
            call = torch.ops.ridgeline.grouped_gemm_fp8
            return call(self.a.q, self.b.q, self.a.scale, self.b.scale, self.offsets, torch.bfloat16, self.direction == "wgrad", self.scaling)
        return rt.grouped_gemm_fp8(self.a, self.b, self.offsets, self.direction == "forward", torch.bfloat16, trans_a=self.direction == "wgrad")

    def prepare_loop(self):
        """Operands of torch._scaled_mm: scales of 1x128 [rows, blocks] with rows contiguous, of 128x128 [blocks of k, blocks of n], of rows [rows, 1] and [1, columns], of experts one number."""
        out = torch.empty((len(self.ends) - 1, self.dy.shape[1], self.x.shape[1]) if self.direction == "wgrad" else (self.x.shape[0], self.weight.shape[1]), dtype=torch.bfloat16, device="cuda")
        for g, (begin, end) in self.groups():
            if end == begin:
                if self.direction == "wgrad":
                    out[g].zero_()
                continue
            if self.scaling != "block":
                a, b = (one.contiguous() for one in self.codes(g, begin, end))
                s, t = (one.scales[g] if self.scaling == "row" else one.scales[g].reshape(()) for one in (self.a, self.b))
                self.parts.append((a, b.t(), s, t.t(), out[g] if self.direction == "wgrad" else out[begin:end]))
            elif self.direction == "wgrad":
                a, b = self.a.q_t[:, begin:end].contiguous(), self.b.q_t[:, begin:end].contiguous()
                s, t = (scale[begin // 128 : end // 128].contiguous().t() for scale in (self.a.scale_t, self.b.scale_t))
                self.parts.append((a, b.t(), s, t.t(), out[g]))
            else:
                s = self.a.scale[:, begin:end].contiguous().t()
                self.parts.append((self.a.q[begin:end], self.b.q[g].t(), s, self.b.scale[g].contiguous().t(), out[begin:end]))
        self.out = out

    def loop(self):
        if not self.parts:
            self.prepare_loop()
        for a, b, scale_a, scale_b, out in self.parts:
            torch._scaled_mm(a, b, scale_a, scale_b, out_dtype=torch.bfloat16, out=out)
        return self.added(self.out)

    def scaled_grouped(self):
        if self.scaling != "row":
            raise NotImplementedError("scales of rows alone")
        b = self.b.q.t() if self.direction == "wgrad" else self.b.q.mT
        scales = (one.scale.reshape(-1) if self.direction == "wgrad" else one.scale for one in (self.a, self.b))
        return self.added(torch._scaled_grouped_mm(self.a.q, b, *scales, offs=self.offsets[1:], out_dtype=torch.bfloat16))

    def bf16(self):
        if self.direction == "wgrad":
            return self.added(rt.grouped_gemm(self.dy, self.x, self.offsets, trans_a=True))
        return rt.grouped_gemm(self.x, self.weight, self.offsets, True)

    def torch(self):
        if self.direction == "wgrad":
            return self.added(torch._grouped_mm(self.dy.t(), self.x, offs=self.offsets[1:]))
        return torch._grouped_mm(self.x, self.weight.mT, offs=self.offsets[1:])


class Contender:
    def __init__(self, name, call, work, configuration=None):
        self.name, self.call, self.work, self.configuration = name, call, work, configuration
        self.samples, self.worst, self.eight_bits = [], 0.0, name not in ("bf16", "torch")

    def run(self):
        if self.configuration is not None:
            rt.set_backend(OP, self.configuration)
        result = self.call()
        if self.configuration is not None:
            rt.set_backend(OP, None)
        return result

    def renew(self, result):
        if self.work.adds or self.name != "loop" or self.work.direction != "wgrad":  # its empty experts are cleared once
            self.work.fresh(result)


def configurations(wanted):
    if wanted != "all":
        return ["", *(one for one in wanted.split(",") if one)]
    source = pathlib.Path(__file__).resolve().parents[2] / "src/ops/grouped_gemm_fp8/cuda_groups_fp8.cu"
    lines = source.read_text().split("[configs]\n")[1].split("[variants]")[0].splitlines()
    return [line.split(" =")[0] for line in lines if " = {" in line]


def measure(case, load, direction, scaling, options, displaced):
    experts, rows, n, k = case
    work = Work(direction, experts, rows, n, k, load, scaling)
    contenders = []
    offered = [(f"ridgeline{'/' if name else ''}{name}", work.ours, f"cuda_groups_fp8{'/' if name else ''}{name}") for name in configurations(options.configs)]
    if work.adds:
        offered.append(("made", work.made, None))
    offered += [(name, getattr(work, name), None) for name in options.peers.split(",") if name]
    for name, call, configuration in offered:
        one = Contender(name, call, work, configuration)
        try:
            one.renew(one.run())
            torch.cuda.synchronize()
            contenders.append(one)
        except Exception as reason:  # noqa: BLE001
            rt.set_backend(OP, None)
            print(f"{name} {case} {load} {direction} {scaling}: {type(reason).__name__}: {str(reason)[:300]}", flush=True)
    for turn in range(options.repeats + 2):
        for one in in_turn(contenders, turn):
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            displaced.fill_(1)
            start.record()
            result = one.run()
            end.record()
            end.synchronize()
            if turn >= 2:
                one.samples.append(start.elapsed_time(end) * 1e-3)
            if one.eight_bits and turn in (0, options.repeats + 1):
                one.worst = max(one.worst, work.error(result))
            one.renew(result)
    found, well = [], True
    for one in sorted(contenders, key=lambda c: statistics.median(c.samples)):
        median = statistics.median(one.samples)
        well = well and (one.configuration is None or one.worst <= 1)
        found.append({"case": "x".join(map(str, case)), "load": load, "direction": direction, "scaling": scaling, "contender": one.name, "median_us": median * 1e6,
                      "tflops": work.flop / median * 1e-12, "error": one.worst, "samples_us": [round(s * 1e6, 2) for s in one.samples]})
        mark = "" if one.worst <= 1 else f"   WRONG by {one.worst:.3g}"
        print(f"{'x'.join(map(str, case)):22s} {load:8s} {direction:8s} {scaling:7s} {one.name:34s} {median * 1e6:9.1f} us {work.flop / median * 1e-12:7.1f} TFLOP/s{mark}", flush=True)
    return found, well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--scalings", default="block")
    parser.add_argument("--configs", default="")
    parser.add_argument("--cases", default="0,1,2,3")
    parser.add_argument("--loads", default="uniform,skewed")
    parser.add_argument("--directions", default="forward,wgrad")
    parser.add_argument("--repeats", type=int, default=11)
    parser.add_argument("--peers", default="loop,scaled_grouped,bf16,torch")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    displaced = torch.empty(DISPLACED_BYTES // 4, device="cuda", dtype=torch.int32)
    rows, right, began = [], True, time.time()
    for case in (CASES[int(one)] for one in options.cases.split(",")):
        for load in options.loads.split(","):
            for direction, scaling in itertools.product(options.directions.split(","), options.scalings.split(",")):
                found, well = measure(case, load, direction, scaling, options, displaced)
                rows += found
                right = right and well
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(), "seconds": round(time.time() - began, 1), "rows": rows}
    (options.out / "grouped-fp8.json").write_text(json.dumps(record, indent=1) + "\n")
    with open(options.out / "grouped-fp8.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "load", "direction", "scaling", "contender", "median_us", "tflops", "error"])
        for row in rows:
            writer.writerow([row["case"], row["load"], row["direction"], row["scaling"], row["contender"], *(f"{row[key]:.3f}" for key in ("median_us", "tflops", "error"))])
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
