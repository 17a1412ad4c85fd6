"""References and measures of error for tests of products and quantisation, here and in programs that use them."""

from __future__ import annotations

import math

import torch

_ACTIVATIONS = {
    "gelu": lambda x: torch.nn.functional.gelu(x),
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": lambda x: torch.nn.functional.silu(x),
}


def _op(x: torch.Tensor, transposed: bool) -> torch.Tensor:
    x = x.detach().to("cpu", torch.float64)
    return x.transpose(-1, -2) if transposed else x


def gemm_reference(
    a: torch.Tensor,
    b: torch.Tensor,
    trans_a: bool = False,
    trans_b: bool = False,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    residual: torch.Tensor | None = None,
) -> torch.Tensor:
    """What ``ridgeline.torch.gemm`` approximates, in float64 on the CPU, from the inputs as stored."""
    out = _op(a, trans_a) @ _op(b, trans_b)
    if bias is not None:
        out = out + _op(bias, False)
    if activation is not None:
        out = _ACTIVATIONS[activation](out)
    return out if residual is None else out + _op(residual, False)


def gemm_bound(
    a: torch.Tensor, b: torch.Tensor, out: torch.Tensor, trans_a: bool = False, trans_b: bool = False
) -> torch.Tensor:
    """How far each element of a plain product ``out`` may be off: 8 u sqrt(k) S + half an ulp (docs/operators/gemm.md)."""
    left, right = _op(a, trans_a).abs(), _op(b, trans_b).abs()
    exact = out.detach().to("cpu", torch.float64).abs()
    ulp = torch.finfo(out.dtype).eps * torch.exp2(torch.floor(torch.log2(exact.clamp(min=torch.finfo(out.dtype).tiny))))
    return 8 * 2.0**-24 * math.sqrt(left.shape[-1]) * (left @ right) + 0.5 * ulp + torch.finfo(out.dtype).smallest_normal


def snr_db(reference: torch.Tensor, x: torch.Tensor) -> float:
    """Signal to noise, 10 log10(sum reference^2 / sum (reference - x)^2); infinite when they are equal."""
    expected = reference.detach().to("cpu", torch.float64)
    noise = (expected - x.detach().to("cpu", torch.float64)).square().sum().item()
    signal = expected.square().sum().item()
    if noise == 0:
        return math.inf
    return 10 * math.log10(signal / noise) if signal > 0 else -math.inf


def assert_snr(reference: torch.Tensor, x: torch.Tensor, at_least_db: float) -> None:
    """Fails with the value when x is further from the reference than that, or not finite."""
    found = snr_db(reference, x)
    if not found >= at_least_db:  # also when it is NaN
        raise AssertionError(f"signal to noise is {found:.2f} dB, which is less than {at_least_db:g} dB")
