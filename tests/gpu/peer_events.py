#!/usr/bin/env python3
"""Holds a vendor's product timed by our chain against the same product timed by PyTorch's events.

    peer_events.py MEASURING_CSV OUT_CSV

MEASURING_CSV has the row cublaslt_8192 of bench/cuda_figures: single cold launches behind a gate, at low duty. The same here:
torch.matmul, bf16, C = A B^T of 8192^3, fresh random operands every fifth launch, and before every launch a read of 2 GiB that
displaces the L2 and lets the host enqueue everything before the first event passes. Exit status 1 where the medians differ by
more than 2 %, 77 without PyTorch or a GPU.
"""
import csv
import statistics
import sys

try:
    import torch
except ImportError:
    torch = None
if torch is None or not torch.cuda.is_available():
    print("peer_events: python3 has no PyTorch that sees a GPU", file=sys.stderr)
    sys.exit(77)

SIZE, LAUNCHES = 8192, 30
rows = {row["figure"]: row for row in csv.DictReader(open(sys.argv[1]))}
if "cublaslt_8192" not in rows:
    sys.exit(f"peer_events: {sys.argv[1]} has no row cublaslt_8192 (bench_cuda_figures ... peer writes it)")
ours = float(rows["cublaslt_8192"]["value"])

swept = torch.ones(1 << 29, device="cuda")
samples = []
for launch in range(LAUNCHES + 1):
    if launch % 5 == 0:
        a, b = (torch.randn(SIZE, SIZE, device="cuda").to(torch.bfloat16) for _ in range(2))
    begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
    torch.cuda.synchronize()
    swept.sum()
    begin.record()
    torch.matmul(a, b.T)
    end.record()
    torch.cuda.synchronize()
    samples.append(1e3 * begin.elapsed_time(end))
theirs = statistics.median(samples[1:])
ratio = ours / theirs
with open(sys.argv[2], "w") as out:
    out.write("figure,value,unit,detail\n")
    out.write(f'torch_8192,{theirs:.6g},us,"torch.matmul bf16 NT 8192^3, PyTorch {torch.__version__} events, median of {LAUNCHES}"\n')
    out.write(f'cublaslt_over_torch,{ratio:.5f},-,"our chain over PyTorch events"\n')
print(f"cuBLASLt 8192^3: {ours:.1f} us by our chain, {theirs:.1f} us by PyTorch's events, ratio {ratio:.4f}")
sys.exit(0 if abs(ratio - 1) <= 0.02 else 1)
