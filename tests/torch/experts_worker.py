"""One rank of test_experts.py: a MoE whose experts several ranks share, against the same layer in one process.

experts_worker.py RANK RANKS STORE_FILE
"""

import copy
import os

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor
from torch.nn.parallel import DistributedDataParallel

import ranks as processes
import ridgeline.testing as testing
import ridgeline.torch as rt

HIDDEN, INNER, EXPERTS, TOP = 32, 24, 6, 2
SAME = 100 if processes.DEVICE == "cpu" else 45  # float32 of a GPU may be TF32


def layers(rank, ranks, dtype, **form):
    """The layer of one process, and this rank's, with the same weights."""
    torch.manual_seed(1)
    whole = rt.MoE(HIDDEN, INNER, EXPERTS, TOP, dtype=dtype, **form)
    own = rt.MoE(HIDDEN, INNER, EXPERTS, TOP, dtype=dtype, process_group=dist.group.WORLD, **form)
    state = whole.state_dict()
    for name in ("gate_up.weight", "down.weight"):
        state[name] = state[name].chunk(ranks)[rank].contiguous()
    own.load_state_dict(state)
    return whole, own


def everywhere(x):
    """The sum over ranks."""
    total = x.clone()
    dist.all_reduce(total)
    return total


def check(rank, ranks, sizes, dtype=torch.float32, floor=SAME, skew=False, **form):
    """Tokens of ``sizes`` on the ranks: results, losses and gradients are those of all tokens in one process."""
    whole, own = layers(rank, ranks, dtype, **form)
    x = torch.randn(sum(sizes), HIDDEN, generator=processes.generator(5)).to(dtype)
    if skew:  # nearly all tokens to the last expert, so that the first rank's have few
        with torch.no_grad():
            x.abs_()
            for each in (whole, own):
                each.router.weight[-1] = 1
    part = x.split(sizes)[rank].clone().requires_grad_()
    x.requires_grad_()
    target = torch.randn(sum(sizes), HIDDEN, generator=processes.generator(6))
    found, want = own(part), whole(x)
    count = max(sum(sizes), 1)
    loss = (found.y.float() - target.split(sizes)[rank]).square().sum() / count + 0.1 * found.z_loss * part.shape[0] / count
    right = (want.y.float() - target).square().sum() / count + 0.1 * want.z_loss
    loss.backward()
    right.backward()
    assert torch.equal(found.experts, want.experts.split(sizes)[rank])
    torch.testing.assert_close(everywhere(loss.detach()), right.detach(), rtol=1e-5 if dtype == torch.float32 else 1e-2, atol=0)
    pairs = [(found.y, want.y.split(sizes)[rank]), (part.grad, x.grad.split(sizes)[rank])]
    pairs += [(everywhere(own.router.weight.grad), whole.router.weight.grad)]
    pairs += [(getattr(own, name).weight.grad, getattr(whole, name).weight.grad.chunk(ranks)[rank]) for name in ("gate_up", "down")]
    if own.shared_down is not None:
        pairs += [(everywhere(getattr(own, name).weight.grad.float()), getattr(whole, name).weight.grad) for name in ("shared_gate_up", "shared_down")]
    for have, wanted in pairs:
        assert have.shape == wanted.shape
        if wanted.numel() > 0 and wanted.any():
            testing.assert_snr(wanted.double(), have.double(), floor)
        else:
            assert not have.any()
    again = own(part)
    assert torch.equal(again.y, found.y)


def check_capacity(rank, ranks):
    """Choices without room stay at home: a rank's capacity is of its own tokens, as if these were all of one process."""
    whole, own = layers(rank, ranks, torch.float32, capacity_factor=0.6, shared=16)
    x = torch.randn(20 + 17 * rank, HIDDEN, generator=processes.generator(9 + rank))
    found, want = own(x).y, whole(x).y
    testing.assert_snr(want.double(), found.double(), SAME)
    found.square().sum().backward()
    want.square().sum().backward()
    for name in ("gate_up", "down"):
        gradient = everywhere(getattr(whole, name).weight.grad).chunk(ranks)[rank]
        testing.assert_snr(gradient.double(), getattr(own, name).weight.grad.double(), SAME)


def check_bits(rank, ranks):
    """A NaN of one rank's token is in its own result alone."""
    _, own = layers(rank, ranks, torch.bfloat16)
    x = torch.randn(20, HIDDEN, generator=processes.generator(7 + rank)).bfloat16()
    clean = own(x).y
    if rank == 0:
        x[3] = float("nan")
    dirty = own(x).y
    others = torch.arange(20) != (3 if rank == 0 else 20)
    assert torch.equal(dirty[others], clean[others]) and bool(dirty[3].isnan().all()) == (rank == 0)


def check_sharded(rank, ranks):
    """FSDP2 and DDP around a whole layer: gradients are those of all tokens in one process, means over ranks."""
    torch.manual_seed(1)
    whole = rt.MoE(HIDDEN, INNER, EXPERTS, TOP, shared=16, renormalize=True)
    sharded, replica = copy.deepcopy(whole), DistributedDataParallel(copy.deepcopy(whole))
    fully_shard(sharded, mesh=init_device_mesh(processes.DEVICE, (ranks,)))
    x = torch.randn(48, HIDDEN, generator=processes.generator(8))
    whole(x).y.square().mean().backward()
    for model in (sharded, replica):
        model(x.chunk(ranks)[rank]).y.square().mean().backward()
        for have, want in zip(model.parameters(), whole.parameters(), strict=True):
            testing.assert_snr(want.grad, have.grad.full_tensor() if isinstance(have.grad, DTensor) else have.grad, SAME)


class Block(torch.nn.Module):
    """A block of Mixtral, by its structure."""

    def __init__(self, whole):
        super().__init__()
        self.gate, self.experts, self.top_k = torch.nn.Linear(HIDDEN, EXPERTS, bias=False), torch.nn.Module(), TOP
        self.gate.weight = whole.router.weight
        self.experts.gate_up_proj, self.experts.down_proj = whole.gate_up.weight, whole.down.weight


def check_copies(rank, ranks):
    """A rank copies its own experts of a block."""
    whole, own = layers(rank, ranks, torch.float32, renormalize=True)
    found = rt.MoE.from_block(Block(whole), process_group=dist.group.WORLD)
    assert all(torch.equal(one, other) for one, other in zip(found.parameters(), own.parameters(), strict=True))


def main():
    rank, ranks, _ = processes.begin()
    check(rank, ranks, [30, 30], renormalize=True)
    check(rank, ranks, [50, 7], shared=16, score="sigmoid", renormalize=True, groups=3, group_top=2)
    check(rank, ranks, [0, 40], renormalize=True)
    check(rank, ranks, [40, 0], shared=16, recompute=True)
    check(rank, ranks, [0, 0])
    check(rank, ranks, [25, 31], skew=True)
    check(rank, ranks, [64, 33], torch.bfloat16, 34, renormalize=True)
    check(rank, ranks, [64, 33], torch.bfloat16, 20, recipe="blockwise", renormalize=True)
    check_capacity(rank, ranks)
    check_bits(rank, ranks)
    check_sharded(rank, ranks)
    check_copies(rank, ranks)
    try:
        rt.MoE(8, 8, ranks + 1, 1, process_group=dist.group.WORLD)
    except ValueError as error:
        assert f"num_experts is {ranks + 1}, of {ranks} ranks" in str(error)
    else:
        raise AssertionError("experts that ranks cannot share alike were taken")
    dist.barrier()
    print("experts agree", flush=True)
    os._exit(0)  # as in distributed_worker.py


main()
