"""Activations and norms whose results are 8-bit codes with scales, rounded once and stored in nothing wider."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .config import QuantConfig
from .ops import ActivationFunction, normalised_dims, row_factors, rows_of, wide
from .quantized import QuantizedTensor

_activation_quantize: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.activation_quantize.default
_activation_backward: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.activation_backward.default
_rmsnorm_quantize: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.rmsnorm_quantize.default
_rmsnorm_backward: Callable[..., tuple[torch.Tensor, ...]] = torch.ops.ridgeline.rmsnorm_backward.default


class _Coding(NamedTuple):
    """How a result is coded: a config, whether the transpose is, too, and the words of stochastic rounding."""

    config: QuantConfig
    transpose: bool
    random: torch.Tensor | None

    @staticmethod
    def of(op: str, x: torch.Tensor, config: QuantConfig, transpose: bool, seed: torch.Tensor | None) -> _Coding:
        if not isinstance(config, QuantConfig):
            raise ValueError(f"{op}: config={config!r}; give a QuantConfig")
        return _Coding(config, transpose, config.random_words(x.device, seed))

    def words(self) -> tuple[Any, ...]:
        return self.config.forward_dtype, self.config.grouping(), self.config.rule, True, self.transpose, self.random

    def tensor(self, parts: Sequence[torch.Tensor], dtype: torch.dtype) -> QuantizedTensor:
        q, scale, q_t, scale_t = parts[:4]
        grouping = self.config.grouping()
        return QuantizedTensor(q, scale, q_t, scale_t, grouping, dtype) if self.transpose else QuantizedTensor(q, scale, None, None, grouping, dtype)


class _Carried(torch.autograd.Function):
    """Codes that stand for the tensor that carries their gradient. Apart from where that goes on, because torch.compile traces a backward
    with gradients of the kind of the results, and no operator takes a QuantizedTensor."""

    @staticmethod
    def forward(ctx: Any, carrier: torch.Tensor, coding: _Coding, *parts: torch.Tensor) -> QuantizedTensor:
        ctx.set_materialize_grads(False)  # there is none where a product added it to main_grad
        ctx.none = (None,) * (1 + len(parts))
        return coding.tensor(parts, carrier.dtype)

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return grad, *ctx.none


def _carrier(x: torch.Tensor, columns: int) -> torch.Tensor:
    """Stands for a result that was never stored, as far as its gradient is concerned: one number of memory."""
    return x.new_empty(()).expand(x.shape[0], columns)


class _Activated(torch.autograd.Function):
    """The codes of an activation, behind what carries their gradient."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        up: torch.Tensor | None,
        probs: torch.Tensor | None,
        mask: torch.Tensor | None,
        words: tuple[Any, ...],
        coding: _Coding,
    ) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        ctx.save_for_backward(x, up, probs, mask)
        ctx.words = words
        parts = _activation_quantize(x, up, probs, mask, *words, *coding.words())
        ctx.mark_non_differentiable(*parts)
        _, packed, _, _ = words
        return _carrier(x, x.shape[1] // 2 if packed else x.shape[1]), *parts

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        need = ctx.needs_input_grad[:3]
        if grad is None or not any(need):
            return (None,) * 6
        x, up, probs, mask = ctx.saved_tensors
        found = _activation_backward(grad.contiguous(), x, up, probs, mask, *ctx.words, *need)
        return *(each if wanted else None for each, wanted in zip(found, need)), None, None, None


class _Normalised(torch.autograd.Function):
    """The codes of a norm, behind what carries their gradient and, where there is a residual, the sum that was normalised."""

    @staticmethod
    def forward(
        ctx: Any,
        x: torch.Tensor,
        residual: torch.Tensor | None,
        weight: torch.Tensor | None,
        eps: float,
        zero_centred: bool,
        coding: _Coding,
    ) -> tuple[torch.Tensor, ...]:
        ctx.set_materialize_grads(False)
        *parts, total, rstd = _rmsnorm_quantize(x, residual, weight, eps, zero_centred, *coding.words())
        ctx.save_for_backward(x if residual is None else total, weight, rstd)
        ctx.call = eps, zero_centred
        if residual is None:
            ctx.mark_non_differentiable(total, *parts)
        else:
            ctx.mark_non_differentiable(*parts)
        return _carrier(x, x.shape[1]), total, *parts

    @staticmethod
    def backward(ctx: Any, grad: torch.Tensor | None, of_sum: torch.Tensor | None, *_: Any) -> tuple[torch.Tensor | None, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        need_x, need_residual, need_weight = ctx.needs_input_grad[:3]
        dx, dweight = of_sum, None
        if grad is not None:
            x, weight, rstd = ctx.saved_tensors
            eps, zero_centred = ctx.call
            need_dx = need_x or need_residual
            if torch.is_grad_enabled():  # differentiated again: the factor of a row follows from x
                rstd = torch.rsqrt(x.float().square().mean(-1) + eps)
            of_sum = None if of_sum is None or not need_dx else of_sum.contiguous()
            dx, dweight = _rmsnorm_backward(grad.contiguous(), x, rstd, weight, zero_centred, of_sum, need_dx, need_weight)
        return dx if need_x else None, dx if need_residual else None, dweight if need_weight else None, None, None, None


def activation_quantize(
    x: torch.Tensor,
    function: ActivationFunction = "silu",
    config: QuantConfig = QuantConfig(),
    *,
    up: torch.Tensor | None = None,
    packed: bool = False,
    probs: torch.Tensor | None = None,
    mask: torch.Tensor | None = None,
    alpha: float = 1.702,
    limit: float = 7.0,
    transpose: bool = False,
    seed: torch.Tensor | None = None,
) -> QuantizedTensor:
    """``quantize`` of ``activation``, each code rounded once from float32: the result is stored in 8 bits alone.

    x          [rows, columns], float32, bfloat16 or float16
    function, up, packed, probs, mask, alpha, limit  as for ``activation``
    transpose  also codes of the transpose, which backward products read
    seed       as for ``quantize``

    A gradient of the result is one of the activation, and goes on to x, up and probs.
    """
    if has_torch_function_variadic(x, up, probs, mask) and not isinstance(x, torch.Tensor):  # torch.fx
        traced: QuantizedTensor = handle_torch_function(
            activation_quantize, (x, up, probs, mask), x, function, config, up=up, packed=packed, probs=probs, mask=mask, alpha=alpha,
            limit=limit, transpose=transpose, seed=seed,
        )
        return traced
    coding = _Coding.of("activation_quantize", x, config, transpose, seed)
    words = function, packed, alpha, limit
    if x.dim() == 2:
        x, up = rows_of(x), None if up is None else rows_of(up)
    operands = x, up, *row_factors(x, probs, mask)
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in operands):
        carrier, *parts = _Activated.apply(*operands, words, coding)  # type: ignore[no-untyped-call]
        made: QuantizedTensor = _Carried.apply(carrier, coding, *parts)  # type: ignore[no-untyped-call]
        return made
    return coding.tensor(_activation_quantize(*operands, *words, *coding.words()), x.dtype)


def rms_norm_quantize(
    input: torch.Tensor,
    normalized_shape: int | Sequence[int],
    weight: torch.Tensor | None = None,
    eps: float | None = None,
    config: QuantConfig = QuantConfig(),
    *,
    residual: torch.Tensor | None = None,
    zero_centred: bool = False,
    transpose: bool = False,
    seed: torch.Tensor | None = None,
) -> QuantizedTensor | tuple[QuantizedTensor, torch.Tensor]:
    """``quantize`` of ``rms_norm``, each code rounded once from float32: the norm is stored in 8 bits alone.

    input      [rows, columns], float32, bfloat16 or float16
    normalized_shape, weight, eps, zero_centred  as for ``rms_norm``
    residual   of the input's shape and dtype: input + residual is normalised, and the result is (codes, sum)
    transpose  also codes of the transpose, which backward products read
    seed       as for ``quantize``

    A gradient of the result is one of the norm, and goes on to input, residual and weight.
    """
    if has_torch_function_variadic(input, weight, residual) and not isinstance(input, torch.Tensor):  # torch.fx
        traced: QuantizedTensor | tuple[QuantizedTensor, torch.Tensor] = handle_torch_function(
            rms_norm_quantize, (input, weight, residual), input, normalized_shape, weight, eps, config, residual=residual,
            zero_centred=zero_centred, transpose=transpose, seed=seed,
        )
        return traced
    normalised_dims("rms_norm_quantize", input, normalized_shape, weight=weight)
    coding = _Coding.of("rms_norm_quantize", input, config, transpose, seed)
    if eps is None:
        eps = torch.finfo(torch.float32).eps
    if input.dim() == 2:
        input, residual = rows_of(input), None if residual is None else rows_of(residual)
    if weight is not None and weight.dtype != input.dtype:
        weight = wide(weight, input.dtype)
    operands = input, residual, weight
    if torch.is_grad_enabled() and any(each is not None and each.requires_grad for each in operands):
        carrier, total, *parts = _Normalised.apply(*operands, eps, zero_centred, coding)  # type: ignore[no-untyped-call]
        codes: QuantizedTensor = _Carried.apply(carrier, coding, *parts)  # type: ignore[no-untyped-call]
    else:
        *parts, total, _ = _rmsnorm_quantize(*operands, eps, zero_centred, *coding.words())
        codes = coding.tensor(parts, input.dtype)
    return codes if residual is None else (codes, total)
