"""How a worker begins as one of several ranks: WORKER RANK RANKS STORE_FILE [WORD...].

Ranks talk over gloo, or where RIDGE_TORCH_DEVICE is cuda over NCCL, with a GPU each, on which tensors are then made unless a device is said.
"""

import datetime
import os
import sys

import torch
import torch.distributed as dist

DEVICE = torch.device(os.environ.get("RIDGE_TORCH_DEVICE", "cpu")).type
# Ranks cut the sums of a product of codes elsewhere than one process does. Processors add in fp32; the matrix unit of a GPU keeps
# about 14 bits (docs/operators/gemm_fp8.md): some 65 dB for sums of 256 terms, where another rounding of an operand is 25 to 40.
SAME_CODES = 100 if DEVICE == "cpu" else 50


def begin() -> tuple[int, int, str]:
    """Joins the others. Rank, ranks, and the path of the file through which they have met."""
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    if DEVICE == "cuda":
        torch.cuda.set_device(rank)
        torch.set_default_device(torch.device("cuda", rank))
    backend = "cpu:gloo,cuda:nccl" if DEVICE == "cuda" else "gloo"
    dist.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=ranks, timeout=datetime.timedelta(minutes=2))
    return rank, ranks, store


def generator(seed: int) -> torch.Generator:
    return torch.Generator(DEVICE).manual_seed(seed)
