"""A matrix as 8-bit codes with scales, as one tensor."""

from __future__ import annotations

from typing import Any

import torch
from torch.overrides import handle_torch_function, has_torch_function_unary

from .config import QuantConfig

_PARTS = ("q", "scale", "q_t", "scale_t")
_aten = torch.ops.aten


class QuantizedTensor(torch.Tensor):
    """What ``quantize`` makes: ``q * scale`` stands for the matrix.

    ``q``, ``scale``      codes of the matrix, and scales along its columns (None: not made)
    ``q_t``, ``scale_t``  codes and scales of its transpose, rounded from the same high-precision values (None: not made)
    ``grouping``          elements that share a scale: "tensor", "row", "1x128", "128x128", "mx"

    Shape and dtype are the matrix's. It can be cloned, detached, moved, pickled, saved and loaded, and goes into
    ``gemm_fp8``, whose gradient it hands on to what was quantised; other arithmetic on it is refused, because what it would
    lose is for the caller to decide: ``dequantize()``.
    """

    q: torch.Tensor | None
    scale: torch.Tensor | None
    q_t: torch.Tensor | None
    scale_t: torch.Tensor | None
    grouping: str

    @staticmethod
    def __new__(
        cls,
        q: torch.Tensor | None,
        scale: torch.Tensor | None,
        q_t: torch.Tensor | None,
        scale_t: torch.Tensor | None,
        grouping: str,
        dtype: torch.dtype,
    ) -> QuantizedTensor:
        codes = q if q is not None else q_t
        if codes is None:
            raise ValueError("QuantizedTensor: give codes and scales of the matrix, of its transpose, or of both")
        shape = codes.shape if q is not None else codes.shape[::-1]
        self = torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device=codes.device)
        self.q, self.scale, self.q_t, self.scale_t, self.grouping = q, scale, q_t, scale_t, grouping
        return self

    def dequantize(self, dtype: torch.dtype | None = None) -> torch.Tensor:
        """What the codes stand for, in ``dtype`` (default: this tensor's)."""
        out = dtype or self.dtype
        if self.q is not None:
            return torch.ops.ridgeline.dequantize(self.q, self.scale, self.grouping, out)
        return torch.ops.ridgeline.dequantize(self.q_t, self.scale_t, self.grouping, out).t()

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        codes = self.q if self.q is not None else self.q_t
        assert codes is not None
        copies = " and its transpose" if self.q is not None and self.q_t is not None else ""
        return (
            f"QuantizedTensor({tuple(self.shape)}, {self.dtype}, codes {codes.dtype}{copies}, "
            f"grouping {self.grouping!r}, device {str(self.device)!r})"
        )

    def _parts(self) -> tuple[torch.Tensor | None, ...]:
        return self.q, self.scale, self.q_t, self.scale_t

    def _map(self, function: Any, dtype: torch.dtype | None = None) -> QuantizedTensor:
        q, scale, q_t, scale_t = (None if part is None else function(part) for part in self._parts())
        return QuantizedTensor(q, scale, q_t, scale_t, self.grouping, dtype or self.dtype)

    def __tensor_flatten__(self) -> tuple[list[str], tuple[str, torch.dtype]]:
        return [name for name in _PARTS if getattr(self, name) is not None], (self.grouping, self.dtype)

    @staticmethod
    def __tensor_unflatten__(
        inner: dict[str, torch.Tensor], context: tuple[str, torch.dtype], outer_size: Any, outer_stride: Any
    ) -> QuantizedTensor:
        q, scale, q_t, scale_t = (inner.get(name) for name in _PARTS)
        return QuantizedTensor(q, scale, q_t, scale_t, *context)

    def __reduce_ex__(self, protocol: Any) -> tuple[Any, ...]:
        return QuantizedTensor, (*self._parts(), self.grouping, self.dtype)

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]
        cls, func: Any, types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        kwargs = kwargs or {}
        if func in (_aten.clone.default, _aten.detach.default, _aten.alias.default):
            return args[0]._map(lambda part: func(part))
        if func is _aten._to_copy.default:
            moved = {key: kwargs[key] for key in ("device", "non_blocking") if kwargs.get(key) is not None}
            return args[0]._map(lambda part: func(part, **moved), kwargs.get("dtype"))
        if func is _aten.copy_.default and all(isinstance(arg, cls) for arg in args[:2]):
            target, source = args[:2]
            if target.__tensor_flatten__()[0] != source.__tensor_flatten__()[0] or target.grouping != source.grouping:
                raise ValueError(f"cannot copy {source} into {target}: make both with one config, weight and transpose")
            for ours, theirs in zip(target._parts(), source._parts()):
                if ours is not None:
                    ours.copy_(theirs)
            return target
        raise NotImplementedError(
            f"{func} of a QuantizedTensor: 8-bit codes have no arithmetic of their own; call .dequantize() first, or "
            "multiply with ridgeline.torch.gemm_fp8"
        )


class _PassGradient(torch.autograd.Function):
    """x -> a QuantizedTensor; the gradient of the one is that of the other (straight through the rounding)."""

    @staticmethod
    def forward(ctx: Any, x: torch.Tensor, make: Any) -> QuantizedTensor:
        ctx.set_materialize_grads(False)  # there is none where a product added it to main_grad
        return make(x)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, None]:
        return grad, None


def quantize(
    x: torch.Tensor,
    config: QuantConfig = QuantConfig(),
    *,
    weight: bool = False,
    transpose: bool = False,
    seed: torch.Tensor | None = None,
) -> QuantizedTensor:
    """x [rows, cols] (float32, bfloat16 or float16) as 8-bit codes with scales along the columns.

    weight     with granularity "blockwise": scales of 128 x 128 instead of 1 x 128
    transpose  also of the transpose, which backward products read; one rounding from x, never a copy of the codes
    seed       for rounding="stochastic": two int64 words {seed, offset} on x's device; None draws them from PyTorch's
               generator

    A gradient of the result is one of x, unchanged.
    """
    if has_torch_function_unary(x) and not isinstance(x, torch.Tensor):  # torch.fx
        return handle_torch_function(quantize, (x,), x, config, weight=weight, transpose=transpose, seed=seed)
    if config.rounding == "stochastic" and seed is None:
        seed = torch.randint(1 << 62, (2,), dtype=torch.int64, device=x.device)
    random = seed if config.rounding == "stochastic" else None
    grouping = config.grouping(weight)

    def make(matrix: torch.Tensor) -> QuantizedTensor:
        q, scale, q_t, scale_t = torch.ops.ridgeline.quantize(
            matrix, config.forward_dtype, grouping, config.rule, True, transpose, random
        )
        return QuantizedTensor(q, scale, q_t if transpose else None, scale_t if transpose else None, grouping, matrix.dtype)

    return _PassGradient.apply(x, make) if torch.is_grad_enabled() and x.requires_grad else make(x)


def dequantize(x: QuantizedTensor, dtype: torch.dtype | None = None) -> torch.Tensor:
    """What the codes stand for, in ``dtype`` (default: that of the tensor that was quantised)."""
    return x.dequantize(dtype)


torch.serialization.add_safe_globals([QuantizedTensor])
