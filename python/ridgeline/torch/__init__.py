"""Ridgeline's operators for PyTorch: functions, modules, and which implementation runs (docs/pytorch.md)."""

from __future__ import annotations

from . import _library

_library.load()

from .config import QuantConfig  # noqa: E402
from .control import autotune, backends, explain, last_used, set_backend  # noqa: E402
from .modules import Fp8Linear, Linear, quantized_weights, swap_linears  # noqa: E402
from .ops import gemm, gemm_fp8  # noqa: E402
from .quantized import QuantizedTensor, dequantize, quantize  # noqa: E402

__all__ = [
    "Fp8Linear",
    "Linear",
    "QuantConfig",
    "QuantizedTensor",
    "autotune",
    "backends",
    "dequantize",
    "explain",
    "gemm",
    "gemm_fp8",
    "last_used",
    "quantize",
    "quantized_weights",
    "set_backend",
    "swap_linears",
]
