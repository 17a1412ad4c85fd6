"""Rows of tokens to the ranks that have their experts, and back: the reference path of expert parallelism."""

from __future__ import annotations

from typing import Any

import torch
import torch.distributed as dist


class _Exchanged(torch.autograd.Function):
    """Rows in parts, of which every rank gets one from each; the gradient goes the other way."""

    @staticmethod
    def forward(ctx: Any, rows: torch.Tensor, given: list[int], taken: list[int], group: Any) -> torch.Tensor:
        ctx.call = given, taken, group
        out = rows.new_empty(sum(taken), rows.shape[1])
        # As bytes, because backends differ in the dtypes that they have.
        as_bytes, bytes_of_out = (each.view(torch.uint8) for each in (rows.contiguous(), out))
        dist.all_to_all_single(bytes_of_out, as_bytes, taken, given, group=group)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: torch.Tensor) -> Any:
        given, taken, group = ctx.call
        return _Exchanged.apply(grads[0], taken, given, group), None, None, None  # type: ignore[no-untyped-call]


class Exchange:
    """Where rows sorted by the experts of all ranks go. All ranks of the group make one together, and the host waits for the sizes.

    offsets  [experts + 1], where the rows of each expert begin and the last end
    rows     how many there are, those of no expert among them
    """

    def __init__(self, offsets: torch.Tensor, rows: int, group: Any) -> None:
        self.rows, self.group = rows, group
        counts = offsets.diff().view(dist.get_world_size(group), -1)
        received = torch.empty_like(counts)  # of every rank and own expert
        dist.all_to_all_single(received, counts, group=group)
        given, taken = torch.stack((counts.sum(1), received.sum(1))).tolist()
        self.given: list[int] = given
        self.taken: list[int] = taken
        own = torch.arange(counts.shape[1], device=counts.device, dtype=torch.int32).repeat(counts.shape[0])
        self.experts = own.repeat_interleave(received.flatten(), output_size=sum(taken))[:, None]
        """[rows that come, 1], int32: which of the rank's own experts each is for."""

    def there(self, rows: torch.Tensor) -> torch.Tensor:
        """The rows for this rank's experts, by ranks, of rows [rows, columns] of each rank."""
        made: torch.Tensor = _Exchanged.apply(rows[: sum(self.given)], self.given, self.taken, self.group)  # type: ignore[no-untyped-call]
        return made

    def back(self, rows: torch.Tensor) -> torch.Tensor:
        """What the experts made of them, where they came from; rows of no expert are 0."""
        made: torch.Tensor = _Exchanged.apply(rows, self.taken, self.given, self.group)  # type: ignore[no-untyped-call]
        return torch.nn.functional.pad(made, (0, 0, 0, self.rows - made.shape[0]))
