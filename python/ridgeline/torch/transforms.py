"""torch.func.vmap of products and of attention: one call of a batch, and no loop."""

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


def _samples(x: torch.Tensor, dim: int, missing: int) -> torch.Tensor:
    """x with the samples first, and as many leading dimensions of 1 after them as a sample of the other operand has more."""
    first = x.movedim(dim, 0)
    return first.reshape(first.shape[0], *[1] * missing, *first.shape[1:])


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
    dims: dict[str, Any] = dict(zip(("a", "b", "trans_a", "trans_b", "out_dtype", "bias", "activation", "main_grad", "residual"), in_dims))
    size = info.batch_size
    gemm = torch.ops.ridgeline.gemm.default
    one = {name: _one_sample(x, dims.get(name)) for name, x in (("a", a), ("b", b), ("bias", bias), ("residual", residual))}
    gemm(one["a"], one["b"], trans_a, trans_b, out_dtype, one["bias"], activation, None, one["residual"])  # refuses what it refuses
    each_bias = bias is not None and dims.get("bias") is not None
    # Samples are the first leading dimension, and those of one operand line up with those of another.
    ranks = [x.dim() - (dims[name] is not None) for name, x in (("a", a), ("b", b))]
    left, right = (
        x if dims[name] is None else _samples(x, dims[name], max(ranks) - rank) for (name, x), rank in zip((("a", a), ("b", b)), ranks)
    )
    if dims["a"] is None and dims["b"] is None:
        left = left.expand(size, *[1] * (max(ranks) - ranks[0]), *left.shape)
    if residual is not None:
        at = dims.get("residual")
        residual = (residual.expand(size, *residual.shape) if at is None else residual.movedim(at, 0)).contiguous()
    if main_grad is not None and (each_bias or dims["b"] is not None):
        raise NotImplementedError(
            "gemm: main_grad under torch.func.vmap takes one matrix b for all samples and no bias for each; leave main_grad out"
        )
    if not each_bias:
        return gemm(left, right, trans_a, trans_b, out_dtype, bias, activation, main_grad, residual), 0
    out = gemm(left, right, trans_a, trans_b, out_dtype)  # the operator has one for all: added after the product
    each = bias.movedim(dims["bias"], 0)  # type: ignore[union-attr]
    out = _activate(out + each.reshape(size, *[1] * (out.dim() - 2), -1), activation)
    return (out if residual is None else out + residual), 0


def _as_batch(x: torch.Tensor, dim: int | None, size: int) -> torch.Tensor:
    """Samples [size, batch, ...] as one batch; what they share is copied for each."""
    samples = x.expand(size, *x.shape) if dim is None else x.movedim(dim, 0)
    made = samples.flatten(0, 1)  # a view of what is shared, where each sample is a batch of 1
    apart = made.dim() == 4 and made.stride(-1) == 1 and all(made.stride(d) >= made.shape[-1] for d in range(3) if made.shape[d] > 1)
    return made if apart else made.contiguous()


def _of_heads(op: Any, tensors: int) -> Any:
    """The rule of an operator whose first arguments are tensors with the batch in front, as are its results. Sinks have no batch: with them each
    sample is a call."""

    def rule(info: Any, in_dims: tuple[Any, ...], *args: Any) -> tuple[tuple[torch.Tensor, ...], tuple[int | None, ...]]:
        size = info.batch_size
        if any(isinstance(x, torch.Tensor) for x in args[tensors:]):
            dims = [*in_dims, *[None] * (len(args) - len(in_dims))]
            each = [op(*(x if dim is None else x.select(dim, i).contiguous() for x, dim in zip(args, dims))) for i in range(size)]
            return tuple(torch.stack(x) for x in zip(*each)), (0,) * len(each[0])
        together = [_as_batch(x, dim, size) for x, dim in zip(args[:tensors], in_dims)]
        made = op(*together, *args[tensors:])
        samples = tuple(x.reshape(size, x.shape[0] // size if size else 0, *x.shape[1:]) for x in made)
        return samples, (0,) * len(made)

    return rule


def register() -> None:
    torch.library.register_vmap("ridgeline::gemm", _gemm_of_samples)
    torch.library.register_vmap("ridgeline::attention", _of_heads(torch.ops.ridgeline.attention.default, 3))
    torch.library.register_vmap("ridgeline::attention_backward", _of_heads(torch.ops.ridgeline.attention_backward.default, 6))
