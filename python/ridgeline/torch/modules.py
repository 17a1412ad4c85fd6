"""Linear layers."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from typing import Any, TypeVar

import torch
from torch.nn.utils import parametrize
from torch.optim.optimizer import register_optimizer_step_post_hook
from torch.overrides import handle_torch_function, has_torch_function_variadic

from .config import QuantConfig
from .kept import KeptWeights, factor
from .ops import gemm, gemm_fp8

Layer = TypeVar("Layer", bound=torch.nn.Linear)


def become(layer: torch.nn.Linear, kind: type[Layer]) -> Layer:
    """Makes ``layer`` one of ``kind`` by changing its class: parameters, buffers, hooks and attributes are what they were."""
    old = type(layer)
    if parametrize.is_parametrized(layer):  # its class is one that PyTorch made for it, with a property for each tensor
        members = {name: value for name, value in vars(old).items() if name not in ("__dict__", "__weakref__")}
        kind = type(f"Parametrized{kind.__name__}", (kind,), members)
    if issubclass(old, Fp8Linear):
        del layer.config
    layer.__class__ = kind
    return layer  # type: ignore[return-value]


def twin(layer: torch.nn.Linear) -> torch.nn.Linear:
    """Another module with the same parameters, buffers, hooks and attributes."""
    other = type(layer).__new__(type(layer))
    # Dictionaries and sets are copied, so that what one of the two gets later is not the other's.
    vars(other).update({name: copy.copy(value) if isinstance(value, (dict, set)) else value for name, value in vars(layer).items()})
    if parametrize.is_parametrized(layer):  # the lists are shared, and what holds them is not
        other._modules["parametrizations"] = torch.nn.ModuleDict(dict(layer.parametrizations.items()))
    return other


def _main_grad(weight: torch.Tensor) -> torch.Tensor | None:
    """Where a trainer keeps the gradient over micro-batches (Megatron's convention); it is told that we add there."""
    target = getattr(weight, "main_grad", None)
    if target is not None and weight.requires_grad and torch.is_grad_enabled():
        weight.grad_added_to_main_grad = True  # type: ignore[attr-defined]
        return target
    return None


def _readable(input: torch.Tensor, weight: torch.Tensor) -> torch.Tensor:
    """The input of a layer as the operators read it: at least a matrix, copied if it is expanded or has gaps."""
    width = weight.shape[-1]
    if input.dim() == 0 or input.shape[-1] != width:
        raise ValueError(
            f"linear: the last dimension of the input, of shape {tuple(input.shape)}, is not in_features={width} of the weight, of "
            f"shape {tuple(weight.shape)}; reshape or transpose the input, or make the layer with in_features="
            f"{input.shape[-1] if input.dim() else 1}"
        )
    if input.dim() == 1:
        input = input.unsqueeze(0)
    if input.is_contiguous():
        return input
    rows = input.flatten(0, -2)
    (row, col), count = rows.stride(), rows.shape[0]
    if not ((col == 1 and row >= width) or (row == 1 and col >= count)):
        rows = rows.contiguous()
    return rows.view(input.shape)


def linear(input: torch.Tensor, weight: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    """torch.nn.functional.linear with Ridgeline's product."""
    if has_torch_function_variadic(input, weight):
        return handle_torch_function(linear, (input, weight), input, weight, bias)
    out = gemm(_readable(input, weight), weight, trans_b=True, bias=bias, main_grad=_main_grad(weight))
    return out if input.dim() > 1 else out.squeeze(0)


def linear_fp8(
    input: torch.Tensor, weight: torch.Tensor, factor: torch.Tensor, bias: torch.Tensor | None, config: QuantConfig
) -> torch.Tensor:
    """``linear`` of 8-bit floats; ``factor`` is the weight, or its codes."""
    if has_torch_function_variadic(input, weight):
        return handle_torch_function(linear_fp8, (input, weight), input, weight, factor, bias, config)
    if bias is not None and bias.dtype != input.dtype:
        bias = bias.to(input.dtype)
    out = gemm_fp8(_readable(input, weight), factor, trans_b=True, config=config, bias=bias, main_grad=_main_grad(weight))
    return out if input.dim() > 1 else out.squeeze(0)


class Linear(torch.nn.Linear):
    """torch.nn.Linear with Ridgeline's product. A weight with ``main_grad`` gets its gradient added there."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        return linear(input, self.weight, self.bias)

    @classmethod
    def from_float(cls, module: torch.nn.Linear) -> Linear:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        return become(twin(module), cls)


class Fp8Linear(torch.nn.Linear):
    """torch.nn.Linear whose three products are made of 8-bit floats; parameters keep their dtype."""

    config: QuantConfig

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: torch.dtype | None = None,
        config: QuantConfig = QuantConfig(),
    ) -> None:
        super().__init__(in_features, out_features, bias, device, dtype)
        self.config = config

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        weight = self.weight  # read once: a parametrisation computes it
        return linear_fp8(input, weight, factor(self, weight, self.config), self.bias, self.config)

    @classmethod
    def from_float(cls, module: torch.nn.Linear, config: QuantConfig = QuantConfig()) -> Fp8Linear:
        """Another layer with the parameters, buffers, hooks and attributes of ``module``."""
        layer = become(twin(module), cls)
        layer.config = config
        return layer

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.config.format}, {self.config.granularity}"


@contextlib.contextmanager
def quantized_weights(module: torch.nn.Module, *, check: bool = False) -> Iterator[KeptWeights]:
    """Inside, the Fp8Linear layers of ``module`` quantise their weights once a step instead of in every call.

    For the micro-batches of a step: the same results and gradients, less work. A weight is quantised again after a step of any
    torch.optim.Optimizer, after an in-place change that PyTorch counts, and when its memory, recipe or autocast is another.
    After a change that moves none of these (through ``.data``, an optimiser that is compiled or not a torch.optim.Optimizer)
    call ``new_step()`` of what the block gives. ``check`` compares a sum of each weight's bits in every call, which waits for
    the device: RuntimeError with the layer's name for such a change.
    """
    kept = KeptWeights(((name, layer) for name, layer in module.named_modules() if isinstance(layer, Fp8Linear)), check)
    hook = register_optimizer_step_post_hook(lambda *_: kept.new_step())
    try:
        yield kept
    finally:
        hook.remove()
        kept._end()
