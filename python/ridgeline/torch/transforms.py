"""torch.func.vmap of a product: one product of a batch, and no loop."""

from __future__ import annotations

from typing import Any

import torch

_ACTIVATIONS = {"gelu": "none", "gelu_tanh": "tanh"}


def _activate(x: torch.Tensor, activation: str | None) -> torch.Tensor:
    if activation is None:
        return x
    if activation == "silu":
        return torch.nn.functional.silu(x)
    return torch.nn.functional.gelu(x, approximate=_ACTIVATIONS[activation])


def _samples(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """x with the samples first; one that they share is expanded."""
    return x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)


def _one_batch(x: torch.Tensor) -> torch.Tensor:
    """[samples, ..., rows, cols] as one batch of matrices whose memory an operator reads: rows or columns dense."""
    batch = x.flatten(0, -3)
    dense = batch.is_contiguous() or batch.transpose(-1, -2).is_contiguous()
    return batch if dense else batch.contiguous()


def _one_sample(x: torch.Tensor | None, dim: int | None) -> torch.Tensor | None:
    """What the operator would be called with for one sample, without its contents."""
    if x is None:
        return None
    shape = [n for i, n in enumerate(x.shape) if dim is None or i != dim % x.dim()]
    return torch.empty(shape, dtype=x.dtype, device="meta")


def _gemm_of_samples(
    info: Any,
    in_dims: tuple[Any, ...],
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = False,
    out_dtype: torch.dtype | None = None,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    main_grad: torch.Tensor | None = None,
    residual: torch.Tensor | None = None,
) -> tuple[torch.Tensor, int]:
    dims = dict(zip(("a", "b", "trans_a", "trans_b", "out_dtype", "bias", "activation", "main_grad", "residual"), in_dims))
    size = info.batch_size
    gemm = torch.ops.ridgeline.gemm.default
    one = {name: _one_sample(x, dims.get(name)) for name, x in (("a", a), ("b", b), ("bias", bias), ("residual", residual))}
    gemm(one["a"], one["b"], trans_a, trans_b, out_dtype, one["bias"], activation, None, one["residual"])  # refuses what it refuses
    rank = a.dim() - (dims["a"] is not None)
    each_bias = bias is not None and dims.get("bias") is not None
    if residual is not None:
        residual = _samples(residual, dims.get("residual"), size)
    if dims["b"] is None and not trans_a and not each_bias and rank == 2:  # rows of all samples against one matrix
        rows = _samples(a, dims["a"], size)
        flat = None if residual is None else residual.flatten(0, 1)
        out = gemm(rows.flatten(0, 1), b, False, trans_b, out_dtype, bias, activation, main_grad, flat)
        return out.reshape(size, rows.shape[1], out.shape[-1]), 0
    if main_grad is not None:
        raise NotImplementedError(
            "gemm: main_grad under torch.func.vmap takes one matrix b for all samples and no bias for each; leave main_grad out"
        )
    left, right = (_samples(x, dims[name], size) for name, x in (("a", a), ("b", b)))
    shape = left.shape[:-2]
    if each_bias:  # the operator has one for all: added after the product
        out = gemm(_one_batch(left), _one_batch(right), trans_a, trans_b, out_dtype)
        out = out.reshape(*shape, *out.shape[-2:])
        each = bias.movedim(dims["bias"], 0)  # type: ignore[union-attr]
        out = _activate(out + each.reshape(size, *[1] * (out.dim() - 2), -1), activation)
        return (out if residual is None else out + residual), 0
    flat = None if residual is None else _one_batch(residual).contiguous()
    out = gemm(_one_batch(left), _one_batch(right), trans_a, trans_b, out_dtype, bias, activation, None, flat)
    return out.reshape(*shape, *out.shape[-2:]), 0


def register() -> None:
    torch.library.register_vmap("ridgeline::gemm", _gemm_of_samples)
