"""Rotary position embedding: the function, its tables, and a module that keeps them."""

from __future__ import annotations

from typing import Any, Literal, overload

import torch

from .sharding import beside, is_dtensor

Scaling = Literal["none", "linear", "llama3", "yarn"]

_rope = torch.ops.ridgeline.rope.default
_rope_in_place = torch.ops.ridgeline.rope_.default
_rope_norm = torch.ops.ridgeline.rope_norm.default
_table = torch.ops.ridgeline.rope_table_.default


def rope_table(
    length: int,
    rotary: int,
    *,
    base: float = 10000.0,
    scaling: Scaling = "none",
    factor: float = 1.0,
    original_length: int = 8192,
    low_factor: float = 1.0,
    high_factor: float = 4.0,
    beta_fast: float = 32.0,
    beta_slow: float = 1.0,
    attention: float | None = None,
    device: Any = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """cos and sin, float32 [length, rotary / 2], of the angles position * base^(-2 i / rotary), made in float64 on the host.

    scaling  "linear" divides frequencies by factor; "llama3" those of waves longer than original_length / low_factor, with a ramp down to
             original_length / high_factor; "yarn" those of pairs that turn less than beta_slow times in original_length, with a ramp up to beta_fast, and
             multiplies cos and sin by ``attention`` (None: 0.1 ln(factor) + 1)
    """
    if rotary < 2 or rotary % 2 != 0 or length < 0:
        raise ValueError(f"rope_table: length={length}, rotary={rotary}; give a length from 0 and an even rotary dimension from 2")
    cos, sin = (torch.empty(length, rotary // 2, dtype=torch.float32, device="cpu") for _ in range(2))
    _table(cos, sin, base, scaling, factor, original_length, low_factor, high_factor, beta_fast, beta_slow, attention or 0.0)
    device = torch.get_default_device() if device is None else device
    return cos.to(device), sin.to(device)


@overload
def rope(
    q: torch.Tensor,
    k: torch.Tensor,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = ...,
    *,
    offset: int = ...,
    interleaved: bool = ...,
    in_place: bool = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def rope(
    q: torch.Tensor,
    k: None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = ...,
    *,
    offset: int = ...,
    interleaved: bool = ...,
    in_place: bool = ...,
) -> torch.Tensor: ...
def rope(
    q: torch.Tensor,
    k: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    offset: int = 0,
    interleaved: bool = False,
    in_place: bool = False,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """Pairs of elements of every head turned by the angles of their positions, q and k in one call, in float32 and rounded once.

    q, k         [batch, length, heads, dim], of any strides but within a head (x.transpose(1, 2) of [batch, heads, length, dim]); k may
                 have other heads than q, or be None: then q alone is returned
    cos, sin     [rows, rotary / 2], float32 (``rope_table``); elements of a head from ``rotary`` on are copied
    positions    [batch, length] or [length], int64 or int32: rows of the table; None: offset, offset + 1, ...
    interleaved  pairs are neighbours (2 i, 2 i + 1), not (i, i + rotary / 2)
    in_place     q and k are overwritten and returned; not where a gradient is recorded

    DTensors q and k may be sharded along batch, length and heads; what else is no DTensor is the same on every rank.
    """
    if is_dtensor(q):
        if in_place:
            raise NotImplementedError("rope: in_place=True does not take DTensors; leave it out, or give q.to_local() and positions of these tokens")
        cos, sin, positions = _beside(q, cos, sin, positions, offset)
    positions = _of_every_sequence(positions, q)
    if in_place:
        _rope_in_place(q, k, cos, sin, positions, offset, interleaved)
        return q if k is None else (q, k)
    q, k = _with_whole_heads(q), None if k is None else _with_whole_heads(k)
    both = _rope(q, k, cos, sin, positions, offset, interleaved)
    return both[0] if k is None else (both[0], both[1])


@overload
def rope_norm(
    q: torch.Tensor,
    k: torch.Tensor,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = ...,
    *,
    offset: int = ...,
    interleaved: bool = ...,
    zero_centred: bool = ...,
    eps: float = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...
@overload
def rope_norm(
    q: torch.Tensor,
    k: None,
    q_weight: torch.Tensor | None,
    k_weight: None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = ...,
    *,
    offset: int = ...,
    interleaved: bool = ...,
    zero_centred: bool = ...,
    eps: float = ...,
) -> torch.Tensor: ...
def rope_norm(
    q: torch.Tensor,
    k: torch.Tensor | None,
    q_weight: torch.Tensor | None,
    k_weight: torch.Tensor | None,
    cos: torch.Tensor,
    sin: torch.Tensor,
    positions: torch.Tensor | None = None,
    *,
    offset: int = 0,
    interleaved: bool = False,
    zero_centred: bool = False,
    eps: float = 1e-6,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``rms_norm`` over every head of q and k and ``rope`` behind it, in one pass: in float32, rounded once.

    q_weight, k_weight   [dim], of q's dtype or float32, both or neither; None: 1
    zero_centred         a weight counts as 1 + weight
    eps                  added to the mean of the squares of a head

    The others are as ``rope`` has them. Gradients arrive at q, k and the weights.
    """
    if is_dtensor(q):
        cos, sin, positions = _beside(q, cos, sin, positions, offset)
        q_weight, k_weight = (None if weight is None else beside(q, weight) for weight in (q_weight, k_weight))
    q, k, positions = _with_whole_heads(q), None if k is None else _with_whole_heads(k), _of_every_sequence(positions, q)
    both = _rope_norm(q, k, q_weight, k_weight, cos, sin, positions, offset, interleaved, zero_centred, eps)
    return both[0] if k is None else (both[0], both[1])


def _of_every_sequence(positions: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor | None:
    """Positions [length] stand for those of each sequence of q."""
    return positions.expand(q.shape[0], -1) if positions is not None and positions.dim() == 1 else positions


def _with_whole_heads(x: torch.Tensor) -> torch.Tensor:
    """x, or a copy of it where the elements of a head are apart."""
    return x if x.dim() != 4 or x.stride(3) == 1 else x.contiguous()


def _beside(
    q: Any, cos: torch.Tensor, sin: torch.Tensor, positions: torch.Tensor | None, offset: int
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor | None]:
    """What belongs to a DTensor q. Shards of its length do not know where they begin, unless they have positions."""
    if positions is None and q.dim() == 4 and any(place.is_shard(1) for place in q.placements):
        positions = torch.arange(offset, offset + q.shape[1], device=q.device)
    if positions is not None:
        positions = beside(q, positions.expand(q.shape[0], -1) if positions.dim() == 1 else positions)
    return beside(q, cos), beside(q, sin), positions


def _how_both_normalise(of_q: torch.nn.RMSNorm, of_k: torch.nn.RMSNorm, q: torch.Tensor) -> tuple[float, bool]:
    """eps and zero_centred of two norms of heads, which one call does alike."""

    def how(norm: torch.nn.RMSNorm) -> tuple[tuple[int, ...], float, bool]:
        eps = norm.eps if norm.eps is not None else torch.finfo(torch.float64 if q.dtype == torch.float64 else torch.float32).eps
        return tuple(norm.normalized_shape), eps, bool(getattr(norm, "zero_centred", False))

    if how(of_q) != how(of_k) or how(of_q)[0] != (q.shape[-1],):
        raise ValueError(f"RotaryEmbedding: norms=({of_q}, {of_k}) for heads of {q.shape[-1]}; give two of that shape, with one eps and one zero_centred")
    return how(of_q)[1:]


class RotaryEmbedding(torch.nn.Module):
    """Keeps the table of ``rope_table`` and turns q and k by it.

    The table is no part of the state and stays float32 whatever the module is cast to. One on device "meta" is made where ``to_empty`` puts the module,
    or by ``reset_parameters``.
    """

    cos: torch.Tensor
    sin: torch.Tensor

    def __init__(
        self,
        dim: int,
        length: int,
        *,
        rotary: int | None = None,
        interleaved: bool = False,
        device: Any = None,
        **table: Any,
    ) -> None:
        super().__init__()
        self.rotary, self.interleaved = rotary or dim, interleaved
        if self.rotary > dim:
            raise ValueError(f"RotaryEmbedding: rotary={self.rotary} is more than dim={dim}")
        self.length, self._settings = length, table
        cos, sin = rope_table(length, self.rotary, device=device, **table)
        self.register_buffer("cos", cos, persistent=False)
        self.register_buffer("sin", sin, persistent=False)

    def reset_parameters(self) -> None:
        """Makes the table anew, on its device."""
        self.cos, self.sin = rope_table(self.length, self.rotary, device=self.cos.device, **self._settings)

    def _apply(self, fn: Any, recurse: bool = True) -> RotaryEmbedding:
        kept = self.cos, self.sin
        super()._apply(fn, recurse)  # type: ignore[no-untyped-call]
        if kept[0].is_meta and not self.cos.is_meta:
            self.reset_parameters()
        elif self.cos is not kept[0]:  # a cast would have rounded it, and to_empty left it out
            self.cos, self.sin = (table.to(self.cos.device) for table in kept)
        return self

    def forward(
        self,
        q: torch.Tensor,
        k: torch.Tensor | None = None,
        positions: torch.Tensor | None = None,
        *,
        offset: int = 0,
        norms: tuple[torch.nn.RMSNorm, torch.nn.RMSNorm] | None = None,
    ) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
        """``norms``: those of the heads of q and of k, which are made in the same pass (``rope_norm``)."""
        if norms is None:
            return rope(q, k, self.cos, self.sin, positions, offset=offset, interleaved=self.interleaved)
        of_q, of_k = norms
        eps, zero_centred = _how_both_normalise(of_q, of_k, q)
        how: dict[str, Any] = {"offset": offset, "interleaved": self.interleaved, "zero_centred": zero_centred, "eps": eps}
        if k is None:
            return rope_norm(q, None, of_q.weight, None, self.cos, self.sin, positions, **how)
        return rope_norm(q, k, of_q.weight, of_k.weight, self.cos, self.sin, positions, **how)

    def extra_repr(self) -> str:
        return f"rotary={self.rotary}, length={self.cos.shape[0]}" + (", interleaved=True" if self.interleaved else "")
