"""How 8-bit floats and their scales are made."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch

Format = Literal["e4m3", "e5m2", "hybrid"]
Granularity = Literal["tensorwise", "rowwise", "blockwise", "mx"]
Rounding = Literal["nearest", "stochastic"]
Sums = Literal["f32", "promoted", "fast"]

_BLOCKS: dict[str, int] = {"blockwise": 128, "mx": 32}


def random_words(device: torch.device) -> torch.Tensor:
    """Two words of stochastic rounding, from torch's generator."""
    return torch.randint(1 << 62, (2,), dtype=torch.int64, device=device)


def _one_of(name: str, value: object, allowed: tuple[object, ...]) -> None:
    if value not in allowed:
        raise ValueError(f"QuantConfig: {name}={value!r} is unknown; use one of {', '.join(map(repr, allowed))}")


@dataclass(frozen=True)
class QuantConfig:
    """What is quantised to which format, with which scales.

    format       "e4m3" (largest value 448), "e5m2" (57344), or "hybrid": e4m3 forward, e5m2 for gradients
    granularity  who shares a scale: "tensorwise" all elements, "rowwise" a row, "blockwise" 1 x 128 of activations and
                 gradients and 128 x 128 of weights, "mx" 1 x 32
    scale_dtype  torch.float32: the largest element becomes the largest value. torch.float8_e8m0fnu: powers of two (stored
                 as float32 but for mx, which has no others). Default: float32, for mx float8_e8m0fnu
    block_size   128 (blockwise) or 32 (mx): what there is; None takes it
    rounding     "nearest", or "stochastic", which rounds gradients up with the probability of what would be lost
    sums         the least exact sums that will do: "fast" (all of k in the matrix unit, about 14 bits on Hopper), "promoted" (moved
                 to float32 every 128 of k), "f32" (never in the matrix unit). None: "fast" for forward products with one scale for
                 all of k, else "promoted". On a CPU all sums are float32
    """

    format: Format = "e4m3"
    granularity: Granularity = "tensorwise"
    scale_dtype: torch.dtype | None = None
    block_size: int | None = None
    rounding: Rounding = "nearest"
    sums: Sums | None = None

    def __post_init__(self) -> None:
        _one_of("format", self.format, ("e4m3", "e5m2", "hybrid"))
        _one_of("granularity", self.granularity, ("tensorwise", "rowwise", "blockwise", "mx"))
        _one_of("rounding", self.rounding, ("nearest", "stochastic"))
        _one_of("sums", self.sums, (None, "f32", "promoted", "fast"))
        _one_of("scale_dtype", self.scale_dtype, (None, torch.float32, torch.float8_e8m0fnu))
        if self.granularity == "mx" and self.scale_dtype == torch.float32:
            raise ValueError("QuantConfig: mx scales are torch.float8_e8m0fnu; leave scale_dtype out")
        block = _BLOCKS.get(self.granularity)
        if self.block_size not in (None, block):
            wanted = f"use block_size={block}" if block else "leave block_size out"
            raise ValueError(f"QuantConfig: block_size={self.block_size} with granularity={self.granularity!r}; {wanted}")

    @property
    def rule(self) -> str:
        """How a scale follows from the largest element, in the words of ridge/scaling.h."""
        if self.granularity == "mx":
            return "floor"
        return "ceil" if self.scale_dtype == torch.float8_e8m0fnu else "exact"

    @property
    def words(self) -> tuple[str, str, str, str]:
        """As torch.ops.ridgeline.gemm_fp8 takes them."""
        return self.format, self.granularity, self.rule, self.rounding

    @property
    def forward_dtype(self) -> torch.dtype:
        return torch.float8_e5m2 if self.format == "e5m2" else torch.float8_e4m3fn

    @property
    def grad_dtype(self) -> torch.dtype:
        return torch.float8_e4m3fn if self.format == "e4m3" else torch.float8_e5m2

    def random_words(self, device: torch.device, seed: torch.Tensor | None = None) -> torch.Tensor | None:
        """What codes are rounded by at random: ``seed``, or words that are drawn; None where they are rounded to nearest."""
        if self.rounding != "stochastic":
            return None
        return random_words(device) if seed is None else seed

    def grouping(self, weight: bool = False) -> str:
        """The elements that share a scale, in the words of torch.ops.ridgeline.quantize."""
        if self.granularity == "blockwise":
            return "128x128" if weight else "1x128"
        return {"tensorwise": "tensor", "rowwise": "row", "mx": "mx"}[self.granularity]
