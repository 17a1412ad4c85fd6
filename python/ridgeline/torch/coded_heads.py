"""Attention of 8-bit codes: the function, and what makes codes with a scale for each head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, overload

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .heads import Layout, Window, heads_in_front, window_ends
from .quantized import cast
from .sharding import attention_refusal, is_dtensor

_attention_fp8: Callable[..., tuple[torch.Tensor, torch.Tensor]] = torch.ops.ridgeline.attention_fp8.default


def quantize_heads(x: torch.Tensor, *, layout: Layout = "bshd") -> tuple[torch.Tensor, torch.Tensor]:
    """Codes of x [batch, length, heads, dim] in float8_e4m3fn, and a scale for each head of each sequence, float32 [batch, heads].

    A scale is the largest magnitude of its head over 448, and 1 where the head is all zeros; x is about codes x scale. A head that is not finite
    has a scale that is not, so that ``attention_fp8`` gives NaN. Made of operators of torch, in the layout and order of memory of x.

    layout   "bhsd": x is [batch, heads, length, dim]
    """
    if x.dim() != 4 or layout not in ("bshd", "bhsd"):
        raise ValueError(f"quantize_heads: x has shape {tuple(x.shape)} and layout={layout!r}; give four dimensions, 'bshd' or 'bhsd'")
    over = (1, 3) if layout == "bshd" else (2, 3)
    if x.numel() == 0:
        return x.to(torch.float8_e4m3fn), torch.ones(x.shape[0], x.shape[2 if layout == "bshd" else 1], device=x.device)
    largest = x.abs().amax(over, keepdim=True).float()
    scale = torch.where(largest == 0, 1.0, largest / 448)
    return cast(x, x.float() / scale, torch.float8_e4m3fn), scale.flatten(1).contiguous()


@overload
def attention_fp8(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    layout: Layout = ...,
    return_lse: Literal[False] = ...,
    window: Window | None = ...,
    out_dtype: torch.dtype = ...,
) -> torch.Tensor: ...
@overload
def attention_fp8(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    *,
    causal: bool = ...,
    scale: float | None = ...,
    layout: Layout = ...,
    return_lse: Literal[True],
    window: Window | None = ...,
    out_dtype: torch.dtype = ...,
) -> tuple[torch.Tensor, torch.Tensor]: ...
def attention_fp8(
    q: torch.Tensor,
    k: torch.Tensor,
    v: torch.Tensor,
    q_scale: torch.Tensor,
    k_scale: torch.Tensor,
    v_scale: torch.Tensor,
    *,
    causal: bool = False,
    scale: float | None = None,
    layout: Layout = "bshd",
    return_lse: bool = False,
    window: Window | None = None,
    out_dtype: torch.dtype = torch.bfloat16,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """``attention`` of 8-bit codes with a scale for each head, forward: a code times its head's scale is the number it stands for.

    q         [batch, length, heads, dim], float8_e4m3fn; dim from 1 to 256
    k, v      [batch, length of the keys, kv_heads, dim] and [.., v_dim], as those of ``attention``
    q_scale   [batch, heads], float32, zero or more; ``quantize_heads`` makes codes and scales
    k_scale   [batch, kv_heads], as v_scale
    causal, scale, layout, window, return_lse   as ``attention`` has them
    out_dtype of the result: bfloat16 or float16

    The weights of the softmax are rounded to 8 bits before they multiply v, their sum is not; sums are those of the 8-bit matrix unit for at most
    128 keys, then float32 (docs/operators/attention_fp8.md). A scale that is not finite makes results of its head NaN. There are no sinks, softcap,
    slopes or documents: ``attention`` and ``varlen_attention`` have them. There is no gradient: NotImplementedError where one is asked for.

    DTensors may be sharded as those of ``attention``, scales with their heads.
    """
    tensors = (q, k, v, q_scale, k_scale, v_scale)
    if has_torch_function_variadic(*tensors):
        traced: torch.Tensor | tuple[torch.Tensor, torch.Tensor] = handle_torch_function(
            attention_fp8, tensors, *tensors, causal=causal, scale=scale, layout=layout, return_lse=return_lse, window=window, out_dtype=out_dtype
        )
        return traced
    q, k, v = heads_in_front("attention_fp8", layout, q, k, v)
    left, right = window_ends(window, "attention_fp8")
    if any(is_dtensor(x) for x in tensors):
        refusal = attention_refusal(q, k, v, causal, (left, right))
        if refusal is None and not all(is_dtensor(x) for x in (q_scale, k_scale, v_scale)):
            refusal = "q, k and v are DTensors and the scales are not all"
        if refusal is not None:
            raise NotImplementedError(f"attention_fp8: {refusal}; redistribute them first: whole, or along batch or heads")
    o, lse = _attention_fp8(q, k, v, q_scale, k_scale, v_scale, out_dtype, causal, scale, left, right)
    if layout == "bhsd":
        o = o.transpose(1, 2)
    return (o, lse) if return_lse else o
