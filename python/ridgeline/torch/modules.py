"""Linear layers, and exchanging those of a model."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any, Callable, TypeVar

import torch

from .config import QuantConfig
from .ops import autocast, gemm, gemm_fp8
from .quantized import QuantizedTensor, quantize

Module = TypeVar("Module", bound=torch.nn.Module)


def _main_grad(weight: torch.Tensor) -> torch.Tensor | None:
    """Where a trainer keeps the gradient over micro-batches (Megatron's convention); it is told that we add there."""
    target = getattr(weight, "main_grad", None)
    if target is not None and weight.requires_grad and torch.is_grad_enabled():
        weight.grad_added_to_main_grad = True  # type: ignore[attr-defined]
        return target
    return None


class Linear(torch.nn.Linear):
    """torch.nn.Linear with Ridgeline's product. A weight with ``main_grad`` gets its gradient added there."""

    def forward(self, input: torch.Tensor) -> torch.Tensor:
        rows = input.reshape(-1, self.in_features)
        out = gemm(rows, self.weight, trans_b=True, bias=self.bias, main_grad=_main_grad(self.weight))
        return out.view(*input.shape[:-1], self.out_features)

    @classmethod
    def from_float(cls, module: torch.nn.Linear) -> Linear:
        """The same layer, sharing its parameters."""
        return _adopt(cls.__new__(cls), module)


class Fp8Linear(torch.nn.Linear):
    """torch.nn.Linear whose three products are made of 8-bit floats; parameters keep their dtype."""

    config: QuantConfig
    _keeps_codes = False  # between calls: quantized_weights
    _codes: tuple[int, QuantizedTensor] | None = None  # with the weight's version

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
        rows = input.reshape(-1, self.in_features)
        weight = self._quantized_weight() if self._keeps_codes else self.weight
        out = gemm_fp8(rows, weight, trans_b=True, config=self.config, main_grad=_main_grad(self.weight))
        if self.bias is not None:
            out = out + self.bias.to(out.dtype)
        return out.view(*input.shape[:-1], self.out_features)

    def _quantized_weight(self) -> QuantizedTensor:
        wanted = torch.is_grad_enabled() and self.weight.requires_grad
        if self._codes is None or self._codes[0] != self.weight._version or (wanted and not self._codes[1].requires_grad):
            codes = quantize(autocast(self.weight), self.config, weight=True, transpose=torch.is_grad_enabled())
            self._codes = self.weight._version, codes
        return self._codes[1]

    @classmethod
    def from_float(cls, module: torch.nn.Linear, config: QuantConfig = QuantConfig()) -> Fp8Linear:
        """The same layer, sharing its parameters."""
        layer = _adopt(cls.__new__(cls), module)
        layer.config = config
        return layer

    def extra_repr(self) -> str:
        return f"{super().extra_repr()}, {self.config.format}, {self.config.granularity}"


Layer = TypeVar("Layer", bound=torch.nn.Linear)


def _adopt(layer: Layer, module: torch.nn.Linear) -> Layer:
    torch.nn.Module.__init__(layer)
    layer.in_features, layer.out_features = module.in_features, module.out_features
    layer.weight, layer.bias = module.weight, module.bias
    layer.training = module.training
    return layer


@contextlib.contextmanager
def quantized_weights(module: torch.nn.Module) -> Iterator[None]:
    """Inside, the Fp8Linear layers of ``module`` quantise their weights once instead of in every call.

    For the micro-batches of a step: the same results and gradients, less work. An in-place change of a weight is noticed and
    quantises it again; a change that PyTorch does not count (through ``.data``, or sharding that replaces its memory) is not.
    """
    layers = [layer for layer in module.modules() if isinstance(layer, Fp8Linear)]
    try:
        for layer in layers:
            layer._keeps_codes = True
        yield
    finally:
        for layer in layers:
            layer._keeps_codes, layer._codes = False, None


def swap_linears(
    module: Module,
    config: QuantConfig | None = None,
    keep: Callable[[str, torch.nn.Linear], bool] = lambda name, layer: False,
) -> Module:
    """Every torch.nn.Linear inside ``module`` becomes a Linear, or with ``config`` an Fp8Linear, sharing its parameters.

    ``keep(name, layer)`` leaves those alone for which it is true: output heads, say. Works in place; returns the module,
    or its replacement when it is such a layer itself.
    """

    def replacement(name: str, layer: torch.nn.Linear) -> torch.nn.Linear:
        if keep(name, layer):
            return layer
        return Linear.from_float(layer) if config is None else Fp8Linear.from_float(layer, config)

    if isinstance(module, torch.nn.Linear) and type(module) is torch.nn.Linear:
        return replacement("", module)  # type: ignore[return-value]
    for name, layer in list(module.named_modules()):
        for child_name, child in list(layer.named_children()):
            if isinstance(child, torch.nn.Linear) and type(child) is torch.nn.Linear:  # not those that are ours already
                setattr(layer, child_name, replacement(f"{name}.{child_name}" if name else child_name, child))
    return module
