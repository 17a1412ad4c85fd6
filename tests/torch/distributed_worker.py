"""One rank of test_modules.py: DDP and FSDP around our layers, against the same model with the whole batch.

distributed_worker.py RANK RANKS STORE_FILE
"""

import copy
import os
import sys

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig


def gradients(model, x):
    model(x).square().mean().backward()
    return [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in model.parameters()]


def main():
    rank, ranks, store = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    dist.init_process_group("gloo", init_method=f"file://{store}", rank=rank, world_size=ranks)
    for config, floor in ((None, 100), (QuantConfig(granularity="rowwise"), 18)):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16))
        whole = rt.swap_linears(copy.deepcopy(layers), config)
        x = torch.randn(64, 32)
        expected = gradients(whole, x)
        part = x.chunk(ranks)[rank]
        ddp = DistributedDataParallel(rt.swap_linears(copy.deepcopy(layers), config))
        sharded = rt.swap_linears(copy.deepcopy(layers), config)
        fully_shard(sharded, mesh=init_device_mesh("cpu", (ranks,)))
        for found in (gradients(ddp, part), gradients(sharded, part)):
            for want, have in zip(expected, found, strict=True):
                testing.assert_snr(want, have, floor)
    dist.barrier()
    print("gradients agree", flush=True)
    # Not through the interpreter's end: a thread of torch's process groups that is still running there calls terminate() now and then.
    os._exit(0)


main()
