"""One rank of test_delayed_scaling.py: histories are those of all ranks' batches together.

delayed_worker.py RANK RANKS STORE_FILE
"""

import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ranks as processes
import ridgeline.torch as rt
from ridgeline.torch import DelayedScaling, QuantConfig, Recipe


def recipe(reduce=True):
    config = QuantConfig("hybrid")
    return Recipe(config, config, config, DelayedScaling(history=3, reduce=reduce))


def model_of(settings):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16))
    rt.convert(model, settings)
    return model


def train(model, steps, part):
    """The buffers after each step."""
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    seen = []
    for step in range(steps):
        x = (step + 1) * torch.randn(64, 32, generator=processes.generator(step))
        optimizer.zero_grad()
        model(part(x)).square().sum().backward()
        optimizer.step()
        seen.append([b.clone() for b in model.buffers()])
    return seen


def main():
    rank, ranks, _ = processes.begin()
    mine = lambda x: x.chunk(ranks)[rank]

    # One step with current scales, which are of each rank's part; the histories of it are of the whole.
    plain = train(model_of(recipe(reduce=False)), 1, mine)
    gathered = [torch.empty(ranks, *b.shape) for b in plain[0]]
    for out, b in zip(gathered, plain[0], strict=True):
        parts = [torch.empty_like(b) for _ in range(ranks)]
        dist.all_gather(parts, b)
        out.copy_(torch.stack(parts))
    assert any(not torch.equal(each[0], each[1]) for each in gathered), "both ranks have seen the same: this shows nothing"
    model = model_of(recipe())
    found = train(model, 1, mine)
    for want, have in zip(gathered, found[0], strict=True):
        assert torch.equal(want.amax(0), have), (want, have)

    # Later steps: every rank has the same histories, and so the same scales.
    train(model, 3, mine)
    for b in model.buffers():
        parts = [torch.empty_like(b) for _ in range(ranks)]
        dist.all_gather(parts, b)
        assert torch.equal(parts[0], parts[1])

    # DDP gives all ranks the buffers of the first before each forward call: what the second has seen in this step must stay.
    ddp_model = model_of(recipe())
    ddp = DistributedDataParallel(ddp_model)
    optimizer = torch.optim.SGD(ddp.parameters(), lr=0.0)
    largest = torch.zeros(())
    for micro, size in enumerate((1.0, 0.1)):
        x = size * (1 + rank) * torch.randn(16, 32, generator=processes.generator(10 * rank + micro))
        largest = torch.maximum(largest, x.abs().max())
        ddp(x).square().sum().backward()
    optimizer.step()
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    assert ddp_model[0].amax_history[0, 0] == largest, (ddp_model[0].amax_history, largest)

    # FSDP2: the parameters are DTensors, and the optimiser's are the layers'.
    sharded = model_of(recipe())
    fully_shard(sharded, mesh=init_device_mesh(processes.DEVICE, (ranks,)))
    seen = train(sharded, 2, mine)
    want = train(model_of(recipe()), 2, mine)
    for one, other in zip(seen, want, strict=True):
        assert all(torch.allclose(a, b, rtol=1e-6) for a, b in zip(one, other, strict=True))
    dist.barrier()
    print("histories agree", flush=True)
    os._exit(0)  # as in distributed_worker.py


main()
