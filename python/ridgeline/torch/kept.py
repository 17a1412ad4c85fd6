"""Codes of weights that are kept between calls: what ``quantized_weights`` is made of."""

from __future__ import annotations

import weakref
from collections.abc import Iterable
from dataclasses import replace

import torch

from ._recipe import Config, Recipe
from .config import QuantConfig
from .ops import autocast, transformed
from .products import weight_config
from .quantized import QuantizedTensor, quantize

_BITS = {2: torch.int16, 4: torch.int32}


def _sum_of_bits(weight: torch.Tensor) -> int:
    """Of the bits of all elements, weighted by row and by column: rows or columns that change places change it. A stack's rows are those of all."""
    bits = weight.detach().flatten(0, -2).view(_BITS[weight.element_size()])
    total = torch.zeros((), dtype=torch.int64, device=weight.device)
    for dim, factor in ((1, 1), (0, 0x9E3779B1)):
        sums = bits.sum(dim, dtype=torch.int64)
        total += factor * (sums * (2 * torch.arange(sums.numel(), device=weight.device) + 1)).sum()
    return int(total.item())


class _Slot:
    """The codes of one layer's weight, with all that they depend on."""

    def __init__(self, name: str) -> None:
        self.name, self.blocks, self.checks = name, 0, 0
        self.key: tuple[object, ...] = ()
        self.weight: torch.Tensor | None = None  # held, so that no other tensor gets its identity
        self.codes: QuantizedTensor | None = None
        self.bits: int | None = None  # of the weight that the codes are of, where a block checks

    def forget(self) -> None:
        self.weight = self.codes = None

    def codes_of(self, weight: torch.Tensor, config: QuantConfig) -> QuantizedTensor:
        used = autocast(weight)
        version = 0 if weight.is_inference() else weight._version
        key = version, weight.data_ptr(), used.dtype, config
        grad = torch.is_grad_enabled()
        codes = self.codes if self.weight is weight and self.key == key else None
        if codes is not None and self.checks and self.bits is None:
            codes = None  # made before the block that checks: made anew, with a sum
        if codes is not None and self.checks and self.bits != _sum_of_bits(weight):
            raise RuntimeError(
                f"quantized_weights: the weight of {self.name or 'the layer'} has changed in a way that PyTorch does not count, and "
                "its codes are old; call new_step() of what quantized_weights() gives after such a change"
            )
        if codes is not None and grad and (codes.q_t is None or (weight.requires_grad and not codes.requires_grad)):
            codes = None  # made without a gradient
        if codes is None:
            nearest = replace(config, rounding="nearest")  # gradients alone are rounded at random
            codes = quantize(used, nearest, weight=True, transpose=grad)
            self.weight, self.key, self.codes = weight, key, codes
            self.bits = _sum_of_bits(weight) if self.checks else None
        return codes


# Beside the layers and not in them: a copy of a layer, a checkpoint or a changed class takes nothing along.
_slots: weakref.WeakKeyDictionary[torch.nn.Module, _Slot] = weakref.WeakKeyDictionary()


def factor(layer: torch.nn.Module, weight: torch.Tensor, config: Config) -> torch.Tensor:
    """The weight, or a stack of them, as a factor of an 8-bit product: kept codes inside ``quantized_weights``, else the weight itself.

    Traced code, forward mode, transforms of torch.func, subclasses of tensors and recipes whose products read the weight in more
    than one format get the weight: the same result, made anew.
    """
    if torch.compiler.is_compiling() or not _slots:
        return weight
    slot = _slots.get(layer)
    plain = type(weight) in (torch.Tensor, torch.nn.Parameter)
    if slot is None or not plain or transformed():
        return weight
    if isinstance(config, Recipe):
        one = weight_config(config)
        if one is None:
            return weight
        config = one
    return slot.codes_of(weight, config)


class KeptWeights:
    """What a ``with quantized_weights(...)`` block gives."""

    def __init__(self, layers: Iterable[tuple[str, torch.nn.Module]], check: bool) -> None:
        self._held, self._check = [], check
        for name, layer in layers:
            slot = _slots.setdefault(layer, _Slot(name))
            slot.blocks += 1
            slot.checks += check
            self._held.append((layer, slot))

    def new_step(self) -> None:
        """The weights are new: every one is quantised again when it is next needed."""
        for _, slot in self._held:
            slot.forget()

    def _end(self) -> None:
        for layer, slot in self._held:
            slot.blocks -= 1
            slot.checks -= self._check
            if slot.blocks == 0:
                _slots.pop(layer, None)
