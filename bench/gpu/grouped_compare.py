#!/usr/bin/env python3
"""Times grouped_gemm, forward and both gradients, beside torch._grouped_mm and QuACK, contenders in turns.

    grouped_compare.py OUT [--configs all|A,B] [--cases 0,1,2] [--loads uniform,skewed] [--directions forward,dgrad,wgrad,add,swiglu,swiglu_backward]
                       [--repeats 15] [--peers torch,quack] [--top 0] [--commit ID]

bfloat16, random normal data, every matrix stored as PyTorch's layers do ([experts, out, in]); wgrad is the sum over the rows of each expert, and add the
same added to a bfloat16 matrix (torch adds what it made). swiglu is gate and up of an out of that many features each, with what SwiGLU makes of them and a factor of
each row; swiglu_backward is the gradient of that, with SwiGLU made again, from the product of the gradient of the layer behind it: `apart` is ours as a product and a call of `activation`, and torch its product and what
torch.compile makes of the rest. A skewed load gives
expert g a share that grows as u^3, and one expert nothing. Every call is between two events; before it a gibibyte is written, which displaces the L2. Contenders change
places from round to round; the median counts. TFLOP/s are 2 rows n k of all rows, of which every one has an expert. The first and the last result of every contender are
compared with float64, in memory that held NaN before. Writes OUT/grouped.json (with every sample) and .csv. Peers that cannot be imported are named and left out. QuACK runs as its
autotuner chooses. With --top the inputs of the layer, forward and in wgrad, are rows of so many times fewer tokens in an order of chance: ours finds them by
index, `copied` is ours behind a copy of them (combine_rows), and the peers take them by index_select. Exit status 1 on a wrong result of ours, 77 without PyTorch or a Hopper GPU. Needs PYTHONPATH=python RIDGELINE_LIBRARY_DIR=build/lib, or ridgeline installed.
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
if not torch.cuda.is_available() or torch.cuda.get_device_capability() != (9, 0):
    print("grouped_compare: skipped: needs a Hopper GPU", file=sys.stderr)
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

CASES = [(8, 8192, 14336, 4096), (32, 16384, 4096, 7168), (64, 16384, 1408, 2048)]  # experts, rows, out, in
DISPLACED_BYTES = 1 << 30


def offsets_of(load, experts, rows):
    if load == "uniform":
        return [rows * g // experts for g in range(experts + 1)]
    shares = [((g + 0.5) / experts) ** 3 for g in range(experts)]
    shares[experts // 3] = 0.0
    total, ends, sum_ = sum(shares), [0], 0.0
    for share in shares:
        sum_ += share
        ends.append(round(rows * sum_ / total))
    return ends


def parts(result):
    return result if isinstance(result, tuple) else (result,)


class Work:
    """The operands of one direction: c = a op(b) along rows, or the sums of a^T b."""

    def __init__(self, direction, experts, rows, n, k, ends, top=0):
        def draw(*sizes):
            return torch.randn(*sizes, device="cuda").bfloat16()

        self.adds, direction = direction == "add", "wgrad" if direction == "add" else direction
        self.start = draw(experts, n, k) if self.adds else None
        self.sums = self.start.clone() if self.adds else None
        self.direction, self.ends, self.offsets = direction, ends, torch.tensor(ends, dtype=torch.int32, device="cuda")
        self.weight = draw(experts, n, k) if direction != "wgrad" else None
        self.a = draw(rows, n if direction in ("dgrad", "wgrad") else k)
        self.b = draw(rows, k) if direction == "wgrad" else None
        self.index = self.tokens = None
        if top and direction != "dgrad" and not self.adds:
            self.index = (torch.randperm(rows, device="cuda") // top).int()
            self.tokens = draw(rows // top, k)
            self.put(self.tokens[self.index.long()])
        self.flop = 2.0 * rows * n * k

    def put(self, rows):
        """The layer's inputs, sorted by experts."""
        setattr(self, "b" if self.direction == "wgrad" else "a", rows)

    def right(self):
        """In float64, group by group, rounded to float32."""
        parts = []
        for g, (begin, end) in enumerate(zip(self.ends[:-1], self.ends[1:])):
            own = self.a[begin:end].double()
            if self.direction == "wgrad":
                parts.append((own.t() @ self.b[begin:end].double()).float())
            else:
                matrix = self.weight[g].double()
                parts.append((own @ (matrix.t() if self.direction == "forward" else matrix)).float())
        if self.adds:
            return torch.stack(parts) + self.start.float()
        return torch.stack(parts) if self.direction == "wgrad" else torch.cat(parts)

    def fresh(self, result):
        """Before the next call: memory that must be written, or what is added to."""
        if self.adds:
            result.copy_(self.start)
        else:
            for part in parts(result):
                part.fill_(math.nan)

    def ours(self):
        if self.index is not None and self.direction == "wgrad":
            return rt.grouped_gemm(self.a, self.tokens, self.offsets, trans_a=True, index_b=self.index)
        if self.index is not None:
            return rt.grouped_gemm(self.tokens, self.weight, self.offsets, trans_b=True, index_a=self.index)
        return self.of_rows()

    def copied(self):
        self.put(rt.combine_rows(self.tokens, self.index[:, None]))
        return self.of_rows()

    def taken(self):
        """For the peers: the rows of tokens, if that is what there is."""
        if self.index is not None:
            self.put(self.tokens.index_select(0, self.index))

    def of_rows(self):
        if self.adds:
            torch.ops.ridgeline.grouped_gemm_add_(self.sums, self.a, self.b, self.offsets)
            return self.sums
        if self.direction == "wgrad":
            return rt.grouped_gemm(self.a, self.b, self.offsets, trans_a=True)
        return rt.grouped_gemm(self.a, self.weight, self.offsets, self.direction == "forward")

    def torch(self):
        self.taken()
        ends = self.offsets[1:]
        if self.direction == "wgrad":
            made = torch._grouped_mm(self.a.t(), self.b, offs=ends)
            return self.sums.add_(made) if self.adds else made
        return torch._grouped_mm(self.a, self.weight.mT if self.direction == "forward" else self.weight, offs=ends)

    def quack(self):
        from quack.gemm_interface import gemm

        self.taken()
        if self.direction == "wgrad":
            made = gemm(self.a.t(), self.b, cu_seqlens_k=self.offsets)
            return self.sums.add_(made) if self.adds else made
        return gemm(self.a, self.weight.mT if self.direction == "forward" else self.weight, cu_seqlens_m=self.offsets)


def swiglu_of(both, probs):
    gate, up = both.float().chunk(2, -1)
    return (torch.nn.functional.silu(gate) * up * probs[:, None]).bfloat16()


def swiglu_gradients_of(d, both, probs):
    gate, up = both.float().chunk(2, -1)
    slope = torch.sigmoid(gate)
    silu = gate * slope
    scaled = d.float() * probs[:, None]
    made = torch.cat((scaled * up * (slope + silu * (1 - slope)), scaled * silu), -1).to(d.dtype)
    return made, (silu * up * probs[:, None]).to(d.dtype), (d.float() * silu * up).sum(-1)


class Gated(Work):
    """Gate and up with their SwiGLU, from inputs of the layer; or the gradients, from those of what the next layer makes of it."""

    def __init__(self, direction, experts, rows, n, k, ends, top=0):
        super().__init__("forward" if direction == "swiglu" else "dgrad", experts, rows, n if direction == "swiglu" else k, k if direction == "swiglu" else n, ends, top)
        self.probs = torch.rand(rows, device="cuda")
        self.backward = direction == "swiglu_backward"
        if self.backward:
            self.both = torch.randn(rows, 2 * n, device="cuda").bfloat16()
        else:
            self.weight = torch.randn(experts, 2 * n, k, device="cuda").bfloat16() * k**-0.5
            self.flop *= 2
        self.compiled = torch.compile(swiglu_gradients_of if self.backward else swiglu_of, dynamic=False)

    def right(self):
        made = []
        for g, (begin, end) in enumerate(zip(self.ends[:-1], self.ends[1:])):
            own, matrix, probs = self.a[begin:end].double(), self.weight[g].double(), self.probs[begin:end].double()[:, None]
            if self.backward:
                d = own @ matrix
                gate, up = self.both[begin:end].double().chunk(2, -1)
                slope = torch.sigmoid(gate)
                silu = gate * slope
                made.append((torch.cat((probs * d * up * (slope + silu * (1 - slope)), probs * d * silu), -1).float(), (probs * silu * up).float(), (d * silu * up).sum(-1).float()))
            else:
                both = own @ matrix.t()
                gate, up = both.bfloat16().double().chunk(2, -1)
                made.append(((probs * torch.nn.functional.silu(gate) * up).float(), both.float()))
        return tuple(torch.cat(each) for each in zip(*made))

    def ours(self):
        ops = torch.ops.ridgeline
        if self.backward:
            return ops.grouped_swiglu_backward(self.a, self.weight, self.offsets, self.both, False, self.probs)
        if self.index is not None:
            return ops.grouped_swiglu(self.tokens, self.weight, self.offsets, True, self.probs, None, self.index)
        return ops.grouped_swiglu(self.a, self.weight, self.offsets, True, self.probs)

    def apart(self):
        if self.backward:
            d = rt.grouped_gemm(self.a, self.weight, self.offsets)
            made = torch.ops.ridgeline.activation_backward(d, self.both, None, self.probs, None, "silu", True, 1.0, 1.0, True, False, True)
            return made[0], rt.swiglu(self.both, probs=self.probs), made[2]
        of = (self.a, None) if self.index is None else (self.tokens, self.index)
        both = rt.grouped_gemm(of[0], self.weight, self.offsets, True, index_a=of[1])
        return rt.swiglu(both, probs=self.probs), both

    def quack(self):
        raise NotImplementedError("gated products of groups are not measured")

    def torch(self):
        self.taken()
        product = torch._grouped_mm(self.a, self.weight if self.backward else self.weight.mT, offs=self.offsets[1:])
        return self.compiled(product, self.both, self.probs) if self.backward else (self.compiled(product, self.probs), product)


def error(found, right):
    """The largest error in units of what bfloat16 leaves: two roundings of the element, or a part of the tensor's own size."""
    if isinstance(found, tuple):  # SwiGLU, the first, of rounded numbers, whose exponential has four times their errors where it is not yet small
        return max(error(one, wanted) / (4 if i == 0 and len(found) == 2 else 1) for i, (one, wanted) in enumerate(zip(found, right)))
    size = right.square().mean().sqrt()
    ratio = ((found.float() - right).abs() / (right.abs() * 2**-7 + size * 2**-8)).max().item()
    return math.inf if math.isnan(ratio) else ratio


class Contender:
    def __init__(self, name, call, configuration=None):
        self.name, self.call, self.configuration = name, call, configuration
        self.samples, self.worst = [], 0.0

    def run(self):
        if self.configuration is not None:
            rt.set_backend("grouped_gemm", self.configuration)
        result = self.call()
        if self.configuration is not None:
            rt.set_backend("grouped_gemm", None)
        return result


def configurations(wanted):
    if wanted != "all":
        return ["", *(one for one in wanted.split(",") if one)]
    source = pathlib.Path(__file__).resolve().parents[2] / "src/ops/grouped_gemm/cuda_groups.cu"
    lines = source.read_text().split("[configs]\n")[1].split("[variants]")[0].splitlines()
    return [line.split(" =")[0] for line in lines if " = {" in line]


def measure(case, load, direction, options, displaced):
    experts, rows, n, k = case
    kind = Gated if direction.startswith("swiglu") else Work
    work = kind(direction, experts, rows, n, k, offsets_of(load, experts, rows), options.top)
    right = work.right()
    contenders = []
    offered = [(f"ridgeline{'/' if name else ''}{name}", work.ours, f"cuda_groups{'/' if name else ''}{name}") for name in configurations(options.configs)]
    if kind is Gated:
        offered.append(("apart", work.apart, None))
    elif work.index is not None:
        offered.append(("copied", work.copied, None))
    offered += [(name, getattr(work, name), None) for name in options.peers.split(",") if name]
    for name, call, configuration in offered:
        one = Contender(name, call, configuration)
        try:
            work.fresh(one.run())
            torch.cuda.synchronize()
            contenders.append(one)
        except Exception as reason:  # noqa: BLE001
            rt.set_backend("grouped_gemm", None)
            print(f"{name} {case} {load} {direction}: {type(reason).__name__}: {str(reason)[:160]}", flush=True)
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
            if turn in (0, options.repeats + 1):
                one.worst = max(one.worst, error(result, right))
            work.fresh(result)
    found, well = [], True
    for one in sorted(contenders, key=lambda c: statistics.median(c.samples)):
        median = statistics.median(one.samples)
        ours = one.configuration is not None
        well = well and (not ours or one.worst <= 1)
        found.append({"case": "x".join(map(str, case)), "load": load, "direction": direction, "top": options.top, "contender": one.name, "median_us": median * 1e6,
                      "tflops": work.flop / median * 1e-12, "error": one.worst, "samples_us": [round(s * 1e6, 2) for s in one.samples]})
        mark = "" if one.worst <= 1 else f"   WRONG by {one.worst:.3g}"
        print(f"{'x'.join(map(str, case)):22s} {load:8s} {direction:8s} {one.name:28s} {median * 1e6:9.1f} us {work.flop / median * 1e-12:7.1f} TFLOP/s{mark}", flush=True)
    return found, well


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--configs", default="")
    parser.add_argument("--cases", default="0,1,2")
    parser.add_argument("--loads", default="uniform,skewed")
    parser.add_argument("--directions", default="forward,dgrad,wgrad")
    parser.add_argument("--repeats", type=int, default=15)
    parser.add_argument("--peers", default="torch,quack")
    parser.add_argument("--top", type=int, default=0)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    torch.manual_seed(1)
    displaced = torch.empty(DISPLACED_BYTES // 4, device="cuda", dtype=torch.int32)
    rows, right, began = [], True, time.time()
    for case in (CASES[int(one)] for one in options.cases.split(",")):
        for load in options.loads.split(","):
            for direction in options.directions.split(","):
                found, well = measure(case, load, direction, options, displaced)
                rows += found
                right = right and well
    options.out.mkdir(parents=True, exist_ok=True)
    record = {"commit": options.commit, "protocol": __doc__, "versions": versions(), "seconds": round(time.time() - began, 1), "rows": rows}
    (options.out / "grouped.json").write_text(json.dumps(record, indent=1) + "\n")
    with open(options.out / "grouped.csv", "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["case", "load", "direction", "contender", "median_us", "tflops", "error"])
        for row in rows:
            writer.writerow([row["case"], row["load"], row["direction"], row["contender"], *(f"{row[key]:.3f}" for key in ("median_us", "tflops", "error"))])
    sys.exit(0 if right else 1)


if __name__ == "__main__":
    main()
