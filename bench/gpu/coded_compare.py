#!/usr/bin/env python3
"""Times the operators that end in 8-bit codes beside what torch.compile makes of them.

    coded_compare.py PROGRAM OUT [--works NAME,...] [--blocks 25] [--commit ID]

PROGRAM is build/bin/bench_call_times (cmake --build build --target bench_call_times): ours, all cases in turns. The peer is a function of PyTorch with the same results (codes with a
scale for 128 columns of a row, of a weight for 128 x 128, of the matrix and of its transpose), compiled for its shapes. Both by the same protocol, in two processes one after the other: four sets of
inputs in turn, each larger than the L2, blocks of calls of 3 ms between two events, the median over the blocks. TB/s are of compulsory bytes: inputs, sums, codes and scales once.
`apart` is ours without fusing: activation, rmsnorm or adamw, then quantize; of grouped rows quantize alone, of a matrix in which they already begin at multiples of 128. --works takes works by the
beginning of their name. Writes OUT/coded.csv and OUT/coded.json. Exit status 77 without PyTorch or a GPU.
"""
import argparse
import csv
import json
import pathlib
import statistics
import subprocess
import sys

try:
    import torch
except ImportError:
    sys.exit(77)
if not torch.cuda.is_available():
    sys.exit(77)

SETS, BLOCK_SECONDS, WARM = 4, 3e-3, 3
CODED, BLOCKS = "scaling=1x128 copies=both", "scaling=128x128 copies=both"
WORKS = {  # name: cases of ours, of the two calls, the peer's inputs, and how codes are made
    "swiglu 8192 x 14336": ("activation_quantize rows=8192 cols=14336", ("activation rows=8192 cols=14336", "quantize rows=8192 cols=14336"), (8192, 14336), CODED),
    "swiglu 16384 x 2048": ("activation_quantize rows=16384 cols=2048", ("activation rows=16384 cols=2048", "quantize rows=16384 cols=2048"), (16384, 2048), CODED),
    "rmsnorm + residual 8192 x 8192": ("rmsnorm_quantize rows=8192 cols=8192 residual=1", ("rmsnorm rows=8192 cols=8192 residual=1", "quantize rows=8192 cols=8192"),
                                       (8192, 8192), CODED),
    "rmsnorm + residual 16384 x 4096": ("rmsnorm_quantize rows=16384 cols=4096 residual=1", ("rmsnorm rows=16384 cols=4096 residual=1", "quantize rows=16384 cols=4096"),
                                        (16384, 4096), CODED),
    "adamw f32 14336 x 4096": ("adamw_quantize rows=14336 cols=4096 dtype=f32", ("adamw count=58720256 dtype=f32", "quantize rows=14336 cols=4096 dtype=f32"),
                               (14336, 4096), BLOCKS),
    "adamw f32 4096 x 4096": ("adamw_quantize rows=4096 cols=4096 dtype=f32", ("adamw count=16777216 dtype=f32", "quantize rows=4096 cols=4096 dtype=f32"),
                              (4096, 4096), BLOCKS),
    "grouped 16384 x 7168, 32 groups": ("grouped_quantize rows=16384 cols=7168 groups=32", ("quantize rows=20352 cols=7168",), (16384, 7168, 32), CODED),
    "grouped 32768 x 2048, 128 groups": ("grouped_quantize rows=32768 cols=2048 groups=128", ("quantize rows=48896 cols=2048",), (32768, 2048, 128), CODED),
}


def coded(y):
    groups = y.unflatten(1, (-1, 128))
    scale = groups.abs().amax(-1) / 448
    return (groups / scale[..., None]).flatten(1).to(torch.float8_e4m3fn), scale


def both(y):
    q, scale = coded(y.t())
    return *coded(y), q.contiguous(), scale.contiguous()


def swiglu(x, up):
    return both(torch.nn.functional.silu(x.float()) * up.float())


def rmsnorm(x, residual, weight):
    h = x + residual
    wide = h.float()
    rstd = torch.rsqrt(wide.square().mean(-1, keepdim=True) + 1e-6)
    return h, rstd, *both(wide * rstd * weight.float())


def adamw(param, grad, mean, square):
    """A step by the usual scalars of our case, whose corrections are a half, and codes with a scale for 128 x 128."""
    mean.lerp_(grad, 0.1)
    square.mul_(0.999).addcmul_(grad, grad, value=0.001)
    param.mul_(1 - 1e-5).sub_(2e-3 * mean / (square.sqrt() * 2**0.5 + 1e-8))
    tiles = param.unflatten(0, (-1, 128)).unflatten(2, (-1, 128))
    scale = tiles.abs().amax((1, 3)) / 448
    q = (tiles / scale[:, None, :, None]).flatten(2).flatten(0, 1).to(torch.float8_e4m3fn)
    return q, scale, q.t().contiguous(), scale.t().contiguous()


def grouped(x, offsets):
    """Rows of x, group by group from multiples of 128 rows on, and codes of these."""
    groups = offsets.numel() - 1
    capacity = (x.shape[0] + groups * 127) // 128 * 128
    padded = torch.cat([offsets[:1] * 0, ((offsets.diff() + 127) // 128 * 128).cumsum(0)])
    rows = torch.arange(capacity, device=x.device)
    group = torch.searchsorted(padded, rows, right=True).clamp(max=groups) - 1
    source = offsets[group] + rows - padded[group]
    y = torch.where((source < offsets[group + 1])[:, None], x[source.clamp(max=x.shape[0] - 1)], 0)
    return padded, *both(y)


def inputs_of(work, shape):
    if work.startswith("adamw"):
        return [torch.rand(shape, device="cuda") for _ in range(4)]
    normal = lambda *sizes: torch.randn(*sizes, device="cuda", dtype=torch.bfloat16)  # noqa: E731
    if work.startswith("grouped"):
        rows, columns, groups = shape
        inside = torch.randint(rows + 1, (groups - 1,), device="cuda").sort().values
        return [normal(rows, columns), torch.cat([inside.new_zeros(1), inside, inside.new_full((1,), rows)])]
    return [normal(*shape), normal(*shape)] + ([normal(shape[1])] if work.startswith("rmsnorm") else [])


def timed_by(program, cases):
    """Microseconds and compulsory bytes by case."""
    said = subprocess.run([program, *cases], capture_output=True, text=True)
    if said.returncode != 0:
        sys.exit(f"{program}: {said.stderr or said.returncode}")
    found = {}
    for line in said.stdout.splitlines():
        taken, size, _, case = line.split(" ", 3)
        found[case] = float(taken), float(size)
    return found


def peer_blocks(work, shape, blocks):
    """Microseconds of a call, of every block."""
    sets = [inputs_of(work, shape) for _ in range(SETS)]
    peer = next(each for each in (swiglu, rmsnorm, adamw, grouped) if work.startswith(each.__name__))
    function = torch.compile(peer, dynamic=False)

    def block(calls):
        begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        begin.record()
        for i in range(calls):
            function(*sets[i % SETS])
        end.record()
        end.synchronize()
        return begin.elapsed_time(end) / calls

    for _ in range(WARM):
        once = block(1)
    calls = max(1, round(BLOCK_SECONDS * 1e3 / once))
    return [1e3 * block(calls) for _ in range(blocks)]


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("program")
    parser.add_argument("out", type=pathlib.Path)
    parser.add_argument("--works", type=lambda text: tuple(text.split(",")), default=("",))
    parser.add_argument("--blocks", type=int, default=25)
    parser.add_argument("--commit", default="")
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    coded_case = lambda case, how: f"{case} {how}" if "quantize" in case else case  # noqa: E731
    works = {work: of for work, of in WORKS.items() if work.startswith(options.works)}
    ours = timed_by(options.program, [coded_case(case, how) for fused, apart, _, how in works.values() for case in (fused, *apart)])
    rows = []
    for work, (fused, apart, shape, how) in works.items():
        took, size = ours[coded_case(fused, how)]
        peer = peer_blocks(work, shape, options.blocks)
        theirs = statistics.median(peer)
        rows.append({"work": work, "us": round(took, 1), "tb_per_s": round(size / took / 1e6, 3),
                     "apart_us": round(sum(ours[coded_case(case, how)][0] for case in apart), 1), "compile_us": round(theirs, 1),
                     "over_compile": round(theirs / took, 3), "compile_blocks": peer})
        print({k: v for k, v in rows[-1].items() if k != "compile_blocks"}, flush=True)
    smi = subprocess.run(["nvidia-smi", "--query-gpu=name,driver_version", "--format=csv,noheader"], capture_output=True, text=True).stdout.strip()
    with open(options.out / "coded.json", "w") as file:
        json.dump({"commit": options.commit, "device": smi, "torch": torch.__version__, "protocol": __doc__, "rows": rows}, file)
    with open(options.out / "coded.csv", "w", newline="") as file:
        table = csv.DictWriter(file, [k for k in rows[0] if k != "compile_blocks"], extrasaction="ignore")
        table.writeheader()
        table.writerows(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
