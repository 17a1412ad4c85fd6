"""Losses of DTensors: of logits whose vocabulary is in shards, and of a fused product whose tokens are."""

from __future__ import annotations

from typing import Any

import torch

from .losses import Reduction, Settings, ShardStatistics, linear_cross_entropy, shard_gradient
from .sharding import beside, is_dtensor


def _of_tokens(x: Any) -> list[Any]:
    """Where numbers of each row of x [tokens, ...] lie."""
    from torch.distributed.tensor import Replicate

    return [place if place.is_shard(0) else Replicate() for place in x.placements]


def _reduced(mine: torch.Tensor, logits: Any, how: str) -> torch.Tensor:
    """[..., tokens] of a shard, reduced over the ranks that share these tokens."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    last = mine.dim() - 1
    whole = [Shard(last) if place.is_shard(0) else Replicate() for place in logits.placements]
    partial = [Partial(how) if of.is_shard(1) else place for of, place in zip(logits.placements, whole, strict=True)]
    shape = torch.Size((*mine.shape[:-1], logits.shape[0]))
    placed = DTensor.from_local(mine, logits.device_mesh, partial, run_check=False, shape=shape, stride=mine.new_empty(shape, device="meta").stride())
    return placed.redistribute(logits.device_mesh, whole).to_local()


def _merged(mine: ShardStatistics, logits: Any) -> ShardStatistics:
    """``ShardStatistics.merge`` over the ranks: two reductions, of a maximum and of three sums of each token."""
    most = _reduced(mine.most, logits, "max")
    scaled = mine.sum * torch.exp(mine.most - torch.where(most.isinf(), torch.zeros_like(most), most))
    return ShardStatistics(most, *_reduced(torch.stack([scaled, mine.picked, mine.total]), logits, "sum").unbind())


def _statistics(local: torch.Tensor, target: torch.Tensor, first: int, whole: int, settings: Settings) -> ShardStatistics:
    if local.shape[1] > 0:
        return ShardStatistics.of(local, target, first, whole, ignore_index=settings[0], soft_cap=settings[3] or None)
    zeros = torch.zeros(local.shape[0], dtype=torch.float64 if local.dtype == torch.float64 else torch.float32, device=local.device)
    return ShardStatistics(torch.where(target == settings[0], 0.0, torch.full_like(zeros, -torch.inf)), zeros, zeros, zeros)


class _OverShards(torch.autograd.Function):
    """Losses of tokens, of which every rank has some classes."""

    @staticmethod
    def forward(ctx: Any, logits: Any, target: Any, settings: Settings) -> Any:
        from torch.distributed.tensor import DTensor
        from torch.distributed.tensor._utils import compute_local_shape_and_global_offset

        mesh, places = logits.device_mesh, _of_tokens(logits)
        local, here = logits.to_local().contiguous(), target.redistribute(mesh, places).to_local().contiguous()
        _, (_, first) = compute_local_shape_and_global_offset(logits.shape, mesh, logits.placements)
        ignored, smoothing, z_loss, _ = settings
        merged = _merged(_statistics(local, here, first, logits.shape[1], settings), logits)
        loss, lse = merged.loss(here, logits.shape[1], ignore_index=ignored, label_smoothing=smoothing, z_loss=z_loss)
        ctx.save_for_backward(local, here, lse)
        ctx.call = settings, first, mesh, places, logits.placements, logits.shape
        return DTensor.from_local(loss, mesh, places, run_check=False, shape=target.shape, stride=(1,))

    @staticmethod
    def backward(ctx: Any, upstream: Any) -> tuple[Any, None, None]:  # pyright: ignore[reportIncompatibleMethodOverride]
        from torch.distributed.tensor import DTensor

        if torch.is_grad_enabled():
            raise NotImplementedError("cross_entropy: no second derivative of shards of the vocabulary; gather the logits, or leave create_graph out")
        local, target, lse = ctx.saved_tensors
        (ignored, smoothing, z_loss, cap), first, mesh, places, placements, shape = ctx.call
        grad = upstream.redistribute(mesh, places).to_local().contiguous()
        made = torch.empty_like(local)
        if local.shape[1] > 0:
            made = shard_gradient(
                grad, local, target, lse, first, shape[1],
                ignore_index=ignored, label_smoothing=smoothing, z_loss=z_loss, soft_cap=cap or None,
            )  # fmt: skip
        return DTensor.from_local(made, mesh, placements, run_check=False, shape=shape, stride=(shape[1], 1)), None, None


def loss_over_shards(logits: Any, target: Any, settings: Settings) -> torch.Tensor:
    """Losses of tokens: logits [tokens, vocabulary], of which some placement is a shard of the vocabulary, target [tokens]."""
    from torch.distributed.tensor import Replicate, Shard

    places = [place if type(place) is Shard else Replicate() for place in logits.placements]
    if places != list(logits.placements):
        logits = logits.redistribute(logits.device_mesh, places)
    loss: torch.Tensor = _OverShards.apply(logits, target, settings)  # type: ignore[no-untyped-call]
    return loss


def linear_over_tokens(
    x: Any, weight: Any, target: Any, settings: Settings, reduction: Reduction, chunk: int | None, main_grad: torch.Tensor | None, wide_sums: bool
) -> torch.Tensor:
    """``linear_cross_entropy`` where each rank has tokens of its own, or all, and the whole weight."""
    from torch.distributed.tensor import DTensor, Partial, Replicate, Shard

    like = x if is_dtensor(x) else weight
    x, weight, target = (beside(like, each) for each in (x, weight, target))
    if main_grad is not None or not all(place.is_replicate() for place in weight.placements):
        raise NotImplementedError(
            f"linear_cross_entropy: of DTensors the weight is whole on every rank, not {tuple(weight.placements)}, and there is no main_grad; take "
            "cross_entropy(gemm(x, weight, trans_b=True), target), whose vocabulary may be in shards, or weight.redistribute(placements=[Replicate()])"
        )
    mesh, rows, flat = weight.device_mesh, x.flatten(0, -2) if x.dim() != 2 else x, target.reshape(-1)
    places = [place if type(place) is Shard and place.dim == 0 else Replicate() for place in rows.placements]
    rows, flat = rows.redistribute(mesh, places), flat.redistribute(mesh, places)
    sums = [Partial() if place.is_shard() else Replicate() for place in places]
    ignored, smoothing, z_loss, cap = settings
    local = linear_cross_entropy(
        rows.to_local(), weight.to_local(grad_placements=sums), flat.to_local(),
        ignore_index=ignored, reduction="none" if reduction == "none" else "sum", label_smoothing=smoothing, z_loss=z_loss,
        soft_cap=cap or None, chunk=chunk, wide_sums=wide_sums,
    )  # fmt: skip
    if reduction == "none":
        made: torch.Tensor = DTensor.from_local(local, mesh, places, run_check=False, shape=flat.shape, stride=(1,))
        return made.view(target.shape)
    total: torch.Tensor = DTensor.from_local(local, mesh, sums, run_check=False)
    return total if reduction == "sum" else total / (flat != ignored).sum()
