#!/usr/bin/env python3
"""Times calls beside a kernel that holds multiprocessors, with and without a budget, contenders taking turns.

    share_compare.py OUT [--repeats 20] [--held 0,8,16,32] [--commit ID]

Blocks that take a multiprocessor's shared memory each stand for communication. A contender is a call without a budget, or with one that
leaves so many multiprocessors to others (`rt.set_sm_budget`, for PyTorch its carve-out). Every timed call is one launch sequence between two
events on random normal data, after a gibibyte was written; contenders change places from round to round, the median counts. `ratio` is to the same contender with
nothing held and no budget; what the multiprocessors that are left allow is 132 / (132 - held).
Writes OUT/share.json (with every sample) and OUT/share.csv. Exit status 1 if a result with a budget differs from the one without by more than its
dtype leaves, 77 without PyTorch or a GPU. Needs nvcc, PYTHONPATH=python and RIDGELINE_LIBRARY_DIR.
"""
import argparse
import csv
import ctypes
import json
import pathlib
import statistics
import subprocess
import sys
import tempfile
import time

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)
import ridgeline.torch as rt  # noqa: E402
from turns import in_turn  # noqa: E402
from versions import versions  # noqa: E402

HERE = pathlib.Path(__file__).parent
DISPLACED_BYTES, WARM_ROUNDS = 1 << 30, 2
MOST_DIFFERENCE = 0.01  # of the RMS, in bf16


class Holder:
    """Some multiprocessors, from start() to stop()."""

    def __init__(self):
        folder = pathlib.Path(tempfile.mkdtemp())
        subprocess.run(["nvcc", "-O2", "-arch=native", "-shared", "-Xcompiler", "-fPIC", "-cudart", "shared", "-o", folder / "hold.so", HERE / "hold.cu"],
                       check=True)
        self.library = ctypes.CDLL(str(folder / "hold.so"))
        self.flags = torch.zeros(2, dtype=torch.int32, device="cuda")
        self.stream, self.beside = torch.cuda.Stream(), torch.cuda.Stream()

    def start(self, blocks):
        self.flags.zero_()
        torch.cuda.synchronize()
        if blocks == 0:
            return
        failed = self.library.start_holding(blocks, ctypes.c_void_p(self.flags.data_ptr()), ctypes.c_void_p(self.stream.cuda_stream))
        if failed:
            raise RuntimeError(f"hold.cu: CUDA error {failed}")
        with torch.cuda.stream(self.beside):
            while int(self.flags[1]) < blocks:
                time.sleep(1e-4)

    def stop(self):
        with torch.cuda.stream(self.beside):
            self.flags[0] = 1
        torch.cuda.synchronize()


def works():
    normal = lambda *shape: torch.randn(*shape, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    x, w = normal(4096, 4096), normal(14336, 4096)
    tall, wide = normal(8192, 8192), normal(8192, 8192)
    rows, weight = normal(16384, 8192), normal(8192)
    q, kv = normal(1, 8192, 32, 128), normal(1, 8192, 8, 128)
    by_head = [t.transpose(1, 2) for t in (q, kv, kv)]
    logits, labels = normal(4096, 128256), torch.randint(128256, (4096,), device="cuda")
    yield "gemm 4096 x 14336 x 4096", {"ridgeline": lambda: rt.gemm(x, w, trans_b=True), "torch": lambda: x @ w.T}
    yield "gemm 8192 x 8192 x 8192", {"ridgeline": lambda: rt.gemm(tall, wide, trans_b=True), "torch": lambda: tall @ wide.T}
    yield "rmsnorm 16384 x 8192", {"ridgeline": lambda: rt.rms_norm(rows, (8192,), weight, 1e-6)}
    yield "attention 8192 causal", {
        "ridgeline": lambda: rt.attention(q, kv, kv, causal=True),
        "torch": lambda: torch.nn.functional.scaled_dot_product_attention(*by_head, is_causal=True, enable_gqa=True)}
    yield "cross_entropy 4096 x 128256", {"ridgeline": lambda: rt.cross_entropy(logits, labels)}


def set_budget(name, left):
    """Leaves so many multiprocessors to others."""
    rt.set_sm_budget(-left if name == "ridgeline" else None)
    torch._C._set_sm_carveout_experimental(left if name == "torch" and left else None)


def as_tensor(result):
    return (result[0] if isinstance(result, tuple) else result).float()


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--repeats", type=int, default=20)
    parser.add_argument("--held", default="0,8,16,32")
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    holder, all_of_it = Holder(), torch.cuda.get_device_properties(0).multi_processor_count
    displaced = torch.empty(DISPLACED_BYTES // 4, device="cuda", dtype=torch.int32)
    rows, wrong = [], False

    def timed(call):
        displaced.fill_(1)
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        call()
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) * 1e3

    for work, contenders in works():
        alone = {}
        for name, call in contenders.items():
            set_budget(name, 0)
            right = as_tensor(call())
            for left in (8, 100):
                set_budget(name, left)
                off = ((as_tensor(call()) - right).square().mean().sqrt() / right.square().mean().sqrt()).item()
                if not off <= MOST_DIFFERENCE:
                    print(f"{work}, {name} with {left} left: off by {off:.3g} of the RMS", file=sys.stderr)
                    wrong = True
        for held in map(int, options.held.split(",")):
            turns = [(name, left) for name in contenders for left in sorted({0, held})]
            samples = {turn: [] for turn in turns}
            for round_ in range(WARM_ROUNDS + options.repeats):
                for name, left in in_turn(turns, round_):
                    set_budget(name, left)
                    torch.cuda.synchronize()
                    holder.start(held)
                    took = timed(contenders[name])
                    holder.stop()
                    if round_ >= WARM_ROUNDS:
                        samples[name, left].append(took)
            for (name, left), taken in samples.items():
                median = statistics.median(taken)
                if held == 0:
                    alone[name] = median
                rows.append({"work": work, "contender": name, "held": held, "left": left, "us": round(median, 1),
                             "ratio": round(median / alone[name], 3), "allowed": round(all_of_it / (all_of_it - held), 3), "samples": taken})
                print({k: v for k, v in rows[-1].items() if k != "samples"}, flush=True)
        rt.set_sm_budget(None)
        torch._C._set_sm_carveout_experimental(None)
    with open(options.out / "share.json", "w") as file:
        json.dump({"commit": options.commit, "versions": versions(), "protocol": __doc__, "rows": rows}, file)
    with open(options.out / "share.csv", "w", newline="") as file:
        table = csv.DictWriter(file, [k for k in rows[0] if k != "samples"], extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
