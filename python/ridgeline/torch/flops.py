"""What torch.utils.flop_counter counts for our operators."""

from __future__ import annotations

import math
from typing import Any

import torch

Shape = torch.Size


def _product(a: Shape, b: Shape, trans_a: bool, trans_b: bool) -> int:
    """2 m n k for each pair of matrices."""
    k, m = (a[-2], a[-1]) if trans_a else (a[-1], a[-2])
    batch: Shape = torch.broadcast_shapes(a[:-2], b[:-2])  # type: ignore[no-untyped-call]
    return 2 * m * b[-2 if trans_b else -1] * k * math.prod(batch)


def _gemm(a: Shape, b: Shape, trans_a: bool = False, trans_b: bool = False, *_: Any, **__: Any) -> int:
    return _product(a, b, trans_a, trans_b)


def _gemm_add(c: Shape, a: Shape, b: Shape, trans_a: bool = False, trans_b: bool = False, **_: Any) -> int:
    return _product(a, b, trans_a, trans_b)


def _grouped(
    a: Shape,
    b: Shape,
    offsets: Shape,
    trans_a: bool = False,
    trans_b: bool = False,
    out_dtype: Any = None,
    main_grad: Any = None,
    index_a: Shape | None = None,
    *_: Any,
    **__: Any,
) -> int:
    """As if every row had a group."""
    rows = a[0] if index_a is None else index_a[0]
    return 2 * rows * a[1] * b[-2 if trans_b else -1]


def _grouped_add(c: Shape, a: Shape, b: Shape, offsets: Shape, index_a: Shape | None = None, *_: Any, **__: Any) -> int:
    return 2 * (a[0] if index_a is None else index_a[0]) * a[1] * b[1]


def _grouped_swiglu(
    a: Shape,
    b: Shape,
    offsets: Shape,
    trans_b: bool = False,
    probs: Shape | None = None,
    main_grad: Any = None,
    index_a: Shape | None = None,
    *_: Any,
    **__: Any,
) -> int:
    return _grouped(a, b, offsets, False, trans_b, index_a=index_a)


def _grouped_swiglu_backward(dy: Shape, b: Shape, offsets: Shape, gate_up: Shape, trans_b: bool = False, *_: Any, **__: Any) -> int:
    return _grouped(dy, b, offsets, False, trans_b)


def _grouped_fp8(
    a: Shape,
    b: Shape,
    scale_a: Shape,
    scale_b: Shape,
    offsets: Shape,
    out_dtype: Any = None,
    along_sums: bool = False,
    scaling: str = "block",
    index_a: Shape | None = None,
    *_: Any,
    **__: Any,
) -> int:
    """As if every row had a group; of sums over the rows a and b have these as their columns."""
    return 2 * (a[0] if index_a is None else index_a[0]) * a[1] * b[-2]


def _grouped_fp8_add(c: Shape, a: Shape, b: Shape, *_: Any, **__: Any) -> int:
    return 2 * a[0] * a[1] * b[-2]


def _scaled(a: Shape, b: Shape, scale_a: Shape, scale_b: Shape, trans_a: bool, trans_b: bool, *_: Any, **__: Any) -> int:
    return _product(a, b, trans_a, trans_b)


def _scaled_add(
    c: Shape, a: Shape, b: Shape, scale_a: Shape, scale_b: Shape, trans_a: bool, trans_b: bool, *_: Any, **__: Any
) -> int:
    return _product(a, b, trans_a, trans_b)


def _symmetric(a: Shape, trans_a: bool = False, *_: Any, **__: Any) -> int:
    """What is computed: half of the products of all rows with all rows, and the diagonal."""
    *batch, rows, columns = a
    n, k = (columns, rows) if trans_a else (rows, columns)
    return math.prod(batch) * n * (n + 1) * k


def _attention(q: Shape, k: Shape, v: Shape, *_: Any, **__: Any) -> int:
    """Two products of every query with every key; a causal mask leaves as many, as torch counts its own."""
    batch, length, heads, dim = q
    return 2 * batch * heads * length * k[1] * (dim + v[-1])


def _attention_backward(d_o: Shape, q: Shape, k: Shape, v: Shape, *_: Any, **__: Any) -> int:
    batch, length, heads, dim = q
    return 2 * batch * heads * length * k[1] * (3 * dim + 2 * v[-1])


def _varlen_attention(q: Shape, k: Shape, v: Shape, q_offsets: Shape, *_: Any, **__: Any) -> int:
    """As if documents were of one length, which only the device knows."""
    return _attention(*(Shape((1, *x)) for x in (q, k, v))) // max(q_offsets[0] - 1, 1)


def _varlen_attention_backward(d_o: Shape, q: Shape, k: Shape, v: Shape, o: Shape, lse: Shape, q_offsets: Shape, *_: Any, **__: Any) -> int:
    return _attention_backward(*(Shape((1, *x)) for x in (d_o, q, k, v))) // max(q_offsets[0] - 1, 1)


def register() -> None:
    from torch.utils.flop_counter import register_flop_formula

    ops = torch.ops.ridgeline
    register_flop_formula([ops.gemm, ops.gemm_fp8])(_gemm)
    register_flop_formula(ops.gemm_add_)(_gemm_add)
    register_flop_formula(ops.grouped_gemm)(_grouped)
    register_flop_formula(ops.grouped_gemm_add_)(_grouped_add)
    register_flop_formula(ops.grouped_swiglu)(_grouped_swiglu)
    register_flop_formula(ops.grouped_swiglu_backward)(_grouped_swiglu_backward)
    register_flop_formula(ops.grouped_gemm_fp8)(_grouped_fp8)
    register_flop_formula(ops.grouped_gemm_fp8_add_)(_grouped_fp8_add)
    register_flop_formula(ops.symmetric_product)(_symmetric)
    register_flop_formula(ops.gemm_fp8_scaled)(_scaled)
    register_flop_formula(ops.gemm_fp8_scaled_add_)(_scaled_add)
    register_flop_formula([ops.attention, ops.attention_fp8])(_attention)
    register_flop_formula(ops.attention_backward)(_attention_backward)
    register_flop_formula(ops.varlen_attention)(_varlen_attention)
    register_flop_formula(ops.varlen_attention_backward)(_varlen_attention_backward)
