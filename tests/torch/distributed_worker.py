"""One rank of test_modules.py: DDP and FSDP around our layers, against the same model with the whole batch.

distributed_worker.py RANK RANKS STORE_FILE
"""

import contextlib
import copy
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.nn.parallel import DistributedDataParallel

import ranks as processes
import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig


def swapped(layers, config):
    layers = copy.deepcopy(layers)
    rt.swap_linears(layers, config)
    return layers


def gradients(model, x):
    model(x).square().mean().backward()
    return [p.grad.full_tensor() if hasattr(p.grad, "full_tensor") else p.grad for p in model.parameters()]


def sharded_training(ranks):
    """FSDP2 gathers new weights into memory whose version it does not move: kept codes must not outlive a step."""

    def losses(keep):
        torch.manual_seed(1)
        model = swapped(torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16)), QuantConfig())
        fully_shard(model, mesh=init_device_mesh(processes.DEVICE, (ranks,)))
        optimizer, x, y = torch.optim.AdamW(model.parameters(), lr=1e-2), torch.randn(32, 32), torch.randn(32, 16)
        history = []
        with rt.quantized_weights(model) if keep else contextlib.nullcontext():
            for _ in range(6):
                for _ in range(2):
                    loss = torch.nn.functional.mse_loss(model(x), y)
                    loss.backward()
                optimizer.step()
                optimizer.zero_grad()
                history.append(loss.item())
        return history

    expected = losses(False)
    assert losses(True) == expected and expected[-1] < 0.97 * expected[0], expected


def codes_as_the_only_weights(rank, ranks):
    """DDP around codes, whose masters step by the gradients of both ranks: no rank moves away, and both go where one process goes."""

    def trained(part, wrap):
        torch.manual_seed(1)
        model = swapped(torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16)), QuantConfig())
        optimizer = rt.MasterWeights(model, lambda named: torch.optim.SGD(named, lr=0.1))
        model = wrap(model)
        for step in range(3):
            optimizer.zero_grad()
            model(part(torch.randn(32, 32, generator=processes.generator(step)))).square().mean().backward()
            optimizer.step()
        return optimizer.state_dict()["masters"]

    alone = trained(lambda x: x, lambda model: model)
    found = trained(lambda x: x.chunk(ranks)[rank], lambda model: DistributedDataParallel(model, init_sync=False))
    for name, master in found.items():
        both = [torch.empty_like(master) for _ in range(ranks)]
        dist.all_gather(both, master)
        assert torch.equal(*both)
        testing.assert_snr(alone[name].double(), master.double(), 40)


def main():
    rank, ranks, _ = processes.begin()
    for config, floor in ((None, 100), (QuantConfig(granularity="rowwise"), 18)):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16))
        whole = swapped(layers, config)
        x = torch.randn(64, 32)
        expected = gradients(whole, x)
        part = x.chunk(ranks)[rank]
        ddp = DistributedDataParallel(swapped(layers, config))
        sharded = swapped(layers, config)
        fully_shard(sharded, mesh=init_device_mesh(processes.DEVICE, (ranks,)))
        for found in (gradients(ddp, part), gradients(sharded, part)):
            for want, have in zip(expected, found, strict=True):
                testing.assert_snr(want, have, floor)
    sharded_training(ranks)
    codes_as_the_only_weights(rank, ranks)
    dist.barrier()
    print("gradients agree", flush=True)
    # Not through the interpreter's end: a thread of torch's process groups that is still running there calls terminate() now and then.
    os._exit(0)


main()
