"""Attention: the function, and a module without parameters. What stands in for torch's own function is sdpa.py."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, overload

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .sharding import attention_refusal, is_dtensor

Layout = Literal["bshd", "bhsd"]
Window = tuple[int | None, int | None]

_attention: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.ops.ridgeline.attention.default
_varlen_attention: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.ops.ridgeline.varlen_attention.default


@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    layout: Layout = ...,
    return_lse: Literal[False] = ...,
    deterministic: bool | None = ...,
    window: Window | None = ...,
    sinks: torch.Tensor | None = ...,
    softcap: float | None = ...,
    alibi_slopes: torch.Tensor | None = ...,
) -> torch.Tensor: ...
@overload
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    layout: Layout = ...,
    return_lse: Literal[True],
    deterministic: bool | None = ...,
    window: Window | None = ...,
    sinks: torch.Tensor | None = ...,
    softcap: float | None = ...,
    alibi_slopes: torch.Tensor | None = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    deterministic: bool | None = None,
    window: Window | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """softmax(scale q k^T) v of every head, with scores and sums in float32 and one rounding of the result.

    q              [batch, length, heads, dim], bfloat16 or float16 (float64: on the CPU, by torch); dim from 1 to 256
    k              [batch, length of the keys, kv_heads, dim], of q's dtype; heads is a multiple of kv_heads, and query head h reads
                   head h // (heads // kv_heads): grouped and multi-query attention without copies
    v              as k, with heads of any size from 1 to 256, which those of the result have, too
    causal         query i of n sees keys up to i + m - n of m: the last query sees all of them (bottom-right). One that sees none is 0
    scale          of the scores; None: 1 / sqrt(dim)
    layout         "bhsd": all three, and the result, are [batch, heads, length, dim] instead
    return_lse     (result, log-sum-exp of the scores): float32 [batch, heads, length], -inf where a query sees no key. It has no gradient:
                   NotImplementedError if one is asked for; .detach() it
    deterministic  gradients have equal bits in every run, also on a GPU, where that of q is slower; None: what
                   torch.are_deterministic_algorithms_enabled() says. On a CPU they always have

    window         (left, right): query i of n sees the keys from i + m - n - left to i + m - n + right of m and no others; None and -1: as many
                   as there are. With causal the right end is at most 0: causal=True and window=(1023, 0) are the last 1024 keys. Blocks of
                   keys outside of it are not computed

    sinks          [heads]: a logit of each head beside the scores of each of its rows, not scaled, that takes part in the softmax's sum and has no
                   value, as in GPT-OSS. Float32 inside; its gradient has its own dtype. A row that sees no key is 0, and its log-sum-exp the sink
    softcap        softcap tanh(score / softcap) in place of a score, before masks and beside sinks, as in Gemma 2; None and 0: without
    alibi_slopes   [heads]: query i of n has slope |i + m - n - j| taken off its score with key j of m, behind the softcap (ALiBi). Float32
                   inside. They have no gradient: NotImplementedError for slopes that require one

    Tensors are read where they lie: any strides but within a head, so parts of a packed qkv and transposed views are not copied; elements of
    a head that are not adjacent, and expanded tensors, are a ValueError. The result lies in memory as [batch, length, heads, dim] in either
    layout. There are no masks but these and no dropout: ``sdpa`` hands what it is asked of these to torch.

    DTensors may be sharded along batch and heads (as many heads of q, and of k and v, in every shard; one head of k and v may be whole), and
    without causal and window q along its length. Other placements are a NotImplementedError.
    """
    if has_torch_function_variadic(q, k, v, sinks, alibi_slopes):
        traced: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = handle_torch_function(
            attention,
            (q, k, v, sinks, alibi_slopes),
            q,
            k,
            v,
            causal=causal,
            scale=scale,
            layout=layout,
            return_lse=return_lse,
            deterministic=deterministic,
            window=window,
            sinks=sinks,
            softcap=softcap,
            alibi_slopes=alibi_slopes,
        )
        return traced
    q, k, v = heads_in_front("attention", layout, q, k, v)
    left, right = window_ends(window, "attention")
    _no_shards("attention", alibi_slopes, q, k, v, sinks)
    if any(is_dtensor(x) for x in (q, k, v, sinks)):
        refusal = attention_refusal(q, k, v, causal, (left, right), sinks)
        if refusal is not None:
            raise NotImplementedError(f"attention: {refusal}; redistribute them first: whole, or along batch or heads")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    of_heads = _of_sums(sinks, q), softcap or 0.0, _of_sums(alibi_slopes, q)
    o, lse = _attention(q, k, v, causal, scale, deterministic, left, right, *of_heads)
    if layout == "bhsd":
        o = o.transpose(1, 2)
    return (o, lse) if return_lse else o


def heads_in_front(name: str, layout: Layout, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
    """q, k and v as [batch, length, heads, dim]."""
    if layout not in ("bshd", "bhsd"):
        raise ValueError(f"{name}: layout={layout!r} is unknown; use 'bshd' or 'bhsd'")
    if layout == "bshd":
        return tensors
    if not all(x.dim() == 4 for x in tensors):
        shapes = ", ".join(f"{each} {tuple(x.shape)}" for each, x in zip("qkv", tensors))
        raise ValueError(f"{name}: the shapes are {shapes}; give [batch, heads, length, dim]")
    return tuple(x.transpose(1, 2) for x in tensors)


def _no_shards(name: str, slopes: torch.Tensor | None, *others: torch.Tensor | None) -> None:
    if slopes is not None and any(is_dtensor(x) for x in (slopes, *others)):
        raise NotImplementedError(f"{name}: alibi_slopes beside DTensors; call it with the heads of each rank")


def _of_sums(of_heads: torch.Tensor | None, q: torch.Tensor) -> torch.Tensor | None:
    """As the operator takes it, in the dtype of the log-sum-exp."""
    return None if of_heads is None else of_heads.to(torch.float64 if q.dtype == torch.float64 else torch.float32).contiguous()


def window_ends(window: Window | None, name: str) -> tuple[int, int]:
    """Of what a caller gives, as the operator takes it."""
    if window is None:
        return -1, -1
    if not (isinstance(window, (tuple, list)) and len(window) == 2 and all(end is None or isinstance(end, int) for end in window)):
        raise ValueError(f"{name}: window={window!r}; give (left, right), the keys before and behind its place that a query sees, or None")
    left, right = (-1 if end is None else end for end in window)
    return left, right


@overload
def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    return_lse: Literal[False] = ...,
    deterministic: bool | None = ...,
    window: Window | None = ...,
    sinks: torch.Tensor | None = ...,
    softcap: float | None = ...,
    alibi_slopes: torch.Tensor | None = ...,
) -> torch.Tensor: ...
@overload
def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    return_lse: Literal[True],
    deterministic: bool | None = ...,
    window: Window | None = ...,
    sinks: torch.Tensor | None = ...,
    softcap: float | None = ...,
    alibi_slopes: torch.Tensor | None = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def varlen_attention(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    cu_seqlens_q: torch.Tensor,
    cu_seqlens_k: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    return_lse: bool = False,
    deterministic: bool | None = None,
    window: Window | None = None,
    sinks: torch.Tensor | None = None,
    softcap: float | None = None,
    alibi_slopes: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``attention`` of documents that lie behind each other: queries see keys of their own document alone.

    q              [tokens, heads, dim], of the dtypes and strides of ``attention``
    k              [tokens of the keys, kv_heads, dim]
    v              as k, with heads of any size from 1 to 256, which those of the result have, too
    cu_seqlens_q   int32 [documents + 1], on q's device: where the queries of each document begin, and where the last ones end. Documents
                   may be empty and of other lengths than their keys; queries before the first and behind the last one are 0
    cu_seqlens_k   the same of the keys
    causal, window  of every document by its own lengths: its last query is at its last key
    sinks, softcap, alibi_slopes  as of ``attention``; distances are those within a document
    return_lse     the log-sum-exp is [heads, tokens]

    The offsets are never read by the host of a GPU, and longest lengths need not be given: calls do not wait for the device, and a CUDA graph
    takes other offsets in the same memory. Offsets that fall or leave the tokens are a ValueError on the CPU; a GPU takes the nearest that are
    possible. DTensors may be sharded along heads.
    """
    if has_torch_function_variadic(q, k, v, sinks, alibi_slopes):
        traced: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = handle_torch_function(
            varlen_attention,
            (q, k, v, sinks, alibi_slopes),
            q,
            k,
            v,
            cu_seqlens_q,
            cu_seqlens_k,
            causal=causal,
            scale=scale,
            return_lse=return_lse,
            deterministic=deterministic,
            window=window,
            sinks=sinks,
            softcap=softcap,
            alibi_slopes=alibi_slopes,
        )
        return traced
    left, right = window_ends(window, "varlen_attention")
    if deterministic is None:
        deterministic = torch.are_deterministic_algorithms_enabled()
    _no_shards("varlen_attention", alibi_slopes, q, k, v, sinks)
    of_heads = _of_sums(sinks, q), softcap or 0.0, _of_sums(alibi_slopes, q)
    o, lse = _varlen_attention(q, k, v, cu_seqlens_q, cu_seqlens_k, causal, scale, deterministic, left, right, *of_heads)
    return (o, lse) if return_lse else o


class Attention(torch.nn.Module):
    """``attention`` with its settings; without sinks there are no parameters.

    sinks         the number of heads of q: a parameter ``sinks`` of that many, 0 at first
    alibi_slopes  a number for each head of q: a buffer ``alibi_slopes``, in float32 and not in the state dict
    """

    alibi_slopes: torch.Tensor | None

    def __init__(
        self,
        *,
        causal: bool = False,
        scale: float | None = None,
        layout: Layout = "bshd",
        deterministic: bool | None = None,
        window: Window | None = None,
        sinks: int | None = None,
        softcap: float | None = None,
        alibi_slopes: Sequence[float] | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        super().__init__()
        if layout not in ("bshd", "bhsd"):
            raise ValueError(f"Attention: layout={layout!r} is unknown; use 'bshd' or 'bhsd'")
        window_ends(window, "Attention")
        self.causal, self.scale, self.deterministic, self.window = causal, scale, deterministic, window
        self.layout: Layout = layout
        self.softcap = softcap
        slopes = None if alibi_slopes is None else torch.tensor(alibi_slopes, dtype=torch.float32, device=device)
        self.register_buffer("alibi_slopes", slopes, persistent=False)
        self.sinks = None if sinks is None else torch.nn.Parameter(torch.zeros(sinks, device=device, dtype=dtype))

    def forward(self, q: torch.Tensor, k: torch.Tensor, v: torch.Tensor) -> torch.Tensor:
        return attention(
            q,
            k,
            v,
            causal=self.causal,
            scale=self.scale,
            layout=self.layout,
            deterministic=self.deterministic,
            window=self.window,
            sinks=self.sinks,
            softcap=self.softcap,
            alibi_slopes=self.alibi_slopes,
        )

    def extra_repr(self) -> str:
        words = [f"causal={self.causal}", f"layout={self.layout!r}"]
        sinks = None if self.sinks is None else len(self.sinks)
        given = (("scale", self.scale), ("deterministic", self.deterministic), ("window", self.window), ("sinks", sinks), ("softcap", self.softcap))
        words += [f"{name}={value}" for name, value in given if value is not None]
        words += [] if self.alibi_slopes is None else [f"{len(self.alibi_slopes)} alibi_slopes"]
        return ", ".join(words)
