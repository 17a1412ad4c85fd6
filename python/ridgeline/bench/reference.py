"""The operators in float64 and how far a right result may be off. Shares no code with the library: PyTorch's float64 alone.

An output is (name, exact, allowed): ``allowed`` holds for every element, from the rounding of inputs to codes, of sums and of the result.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch

Tensor = torch.Tensor
_UNIT = 2.0**-24  # rounding of sums in float32
_SHORT = 2.0**-13  # of those that a matrix unit adds up in about 14 bits (docs/operators/gemm_fp8.md)


@dataclass(frozen=True)
class Output:
    """What must come out, how far each element may be off, and the least ratio of signal to noise."""

    name: str
    exact: Tensor
    allowed: Tensor
    least_snr_db: float


LEAST_SNR_DB = {torch.float32: 90.0, torch.float16: 45.0, torch.bfloat16: 35.0, torch.float8_e4m3fn: 25.0, torch.float8_e5m2: 20.0}


def least_snr(exact: Tensor, format: torch.dtype) -> float:
    """What codes and sums that cancel are held to beside the error of each element; of fewer elements the ratio is chance."""
    return LEAST_SNR_DB[format] if exact.numel() >= 1024 else -math.inf


def rounding(exact: Tensor, dtype: torch.dtype) -> Tensor:
    """Of a result to its dtype."""
    return 0.5 * torch.finfo(dtype).eps * exact.abs() + torch.finfo(dtype).smallest_normal


def product(name: str, a: Tensor, b: Tensor, dtype: torch.dtype) -> Output:
    """a b of factors that are exact."""
    exact = a @ b
    sums = 1.01 * _UNIT * (a.shape[-1] + 2) * (a.abs() @ b.abs())
    return Output(name, exact, sums + 2 * rounding(exact, dtype), LEAST_SNR_DB[dtype])


# ---- 8-bit floats

_LARGEST = {torch.float8_e4m3fn: 448.0, torch.float8_e5m2: 57344.0}
_MX_EXPONENT = {torch.float8_e4m3fn: 8, torch.float8_e5m2: 15}


def _blocks(x: Tensor, rows: int, cols: int) -> Tensor:
    """The largest magnitude of the block that each element lies in."""
    height, width = x.shape
    padded = torch.zeros(-(-height // rows) * rows, -(-width // cols) * cols, dtype=x.dtype, device=x.device)
    padded[:height, :width] = x.abs()
    largest = padded.view(padded.shape[0] // rows, rows, padded.shape[1] // cols, cols).amax(dim=(1, 3))
    return largest.repeat_interleave(rows, 0).repeat_interleave(cols, 1)[:height, :width]


def scales(x: Tensor, format: torch.dtype, granularity: str, weight: bool = False) -> Tensor:
    """What each element of x [rows, cols] is divided by, with groups along the columns; 1 where a group is all zeros."""
    height, width = x.shape
    if granularity == "mx":
        largest = _blocks(x, 1, 32)
        exponent = torch.frexp(largest).exponent - 1 - _MX_EXPONENT[format]
        return torch.where(largest > 0, torch.ldexp(torch.ones_like(x), exponent), torch.ones_like(x))
    block = {"tensorwise": (height, width), "rowwise": (1, width), "blockwise": (128, 128) if weight else (1, 128)}[granularity]
    largest = _blocks(x, *block)
    return torch.where(largest > 0, largest / _LARGEST[format], torch.ones_like(x))


def quantisation(x: Tensor, format: torch.dtype, scale: Tensor) -> Tensor:
    """How far an element may be moved when it is rounded to a code times its scale."""
    relative = 0.5 * torch.finfo(format).eps * x.abs()
    least = 0.5 * torch.finfo(format).smallest_normal * torch.finfo(format).eps * scale
    above = (x.abs() - _LARGEST[format] * scale).clamp(min=0)  # with mx's scales the largest are cut off
    return torch.maximum(torch.maximum(relative, least), above) + 4 * _UNIT * x.abs()


@dataclass(frozen=True)
class Operand:
    """A matrix, the format of its codes, and its scales; ``scale`` has the matrix's shape."""

    exact: Tensor
    format: torch.dtype
    scale: Tensor

    @property
    def moved(self) -> Tensor:
        return quantisation(self.exact, self.format, self.scale)


def product_of_codes(name: str, a: Operand, b: Operand, dtype: torch.dtype) -> Output:
    """a b of factors that are rounded to codes; what it is held to is the product of the factors themselves."""
    exact = a.exact @ b.exact
    left, right = a.exact.abs() + a.moved, b.exact.abs() + b.moved
    codes = left @ right - a.exact.abs() @ b.exact.abs()
    sums = _SHORT * left @ right
    least = min(least_snr(exact, a.format), least_snr(exact, b.format))
    return Output(name, exact, codes + sums + 2 * rounding(exact, dtype), least)


# ---- Rows


def rms_norm(x: Tensor, weight: Tensor, grad: Tensor, eps: float, dtype: torch.dtype) -> list[Output]:
    """The norm of rows and its gradients, written out."""
    rows, cols = x.shape
    rstd = (x.square().mean(-1, keepdim=True) + eps).rsqrt()
    normal, through = x * rstd, grad * weight
    mean = (through * normal).mean(-1, keepdim=True)
    out, dx, dweight = normal * weight, rstd * (through - normal * mean), (grad * normal).sum(0)
    sums = 2 * _UNIT * (cols + 16)
    terms = rstd * (through.abs() + normal.abs() * (through * normal).abs().mean(-1, keepdim=True))
    columns = 2 * _UNIT * (rows + cols + 16) * (grad * normal).abs().sum(0)
    return [
        Output("out", out, sums * out.abs() + 2 * rounding(out, dtype), least_snr(out, dtype)),
        Output("dx", dx, sums * terms + 2 * rounding(dx, dtype), least_snr(dx, dtype)),
        Output("dweight", dweight, columns + 2 * rounding(dweight, dtype), least_snr(dweight, dtype)),
    ]


def layer_norm(x: Tensor, weight: Tensor, bias: Tensor, grad: Tensor, eps: float, dtype: torch.dtype) -> list[Output]:
    """The norm of rows less their mean, and its gradients, written out."""
    rows, cols = x.shape
    centred = x - x.mean(-1, keepdim=True)
    rstd = (centred.square().mean(-1, keepdim=True) + eps).rsqrt()
    normal, through = centred * rstd, grad * weight
    plain, mean = through.mean(-1, keepdim=True), (through * normal).mean(-1, keepdim=True)
    out, dx = normal * weight + bias, rstd * (through - plain - normal * mean)
    dweight, dbias = (grad * normal).sum(0), grad.sum(0)
    sums = 2 * _UNIT * (cols + 16)
    # What a mean is off by, in units of the deviation, that of all distances too.
    distance = normal.abs() + rstd * x.abs() + (rstd * x.abs()).mean(-1, keepdim=True)
    terms = rstd * (through.abs() + through.abs().mean(-1, keepdim=True) + distance * (through.abs() * distance).mean(-1, keepdim=True))
    columns = 2 * _UNIT * (rows + cols + 16)
    return [
        Output("out", out, sums * (distance * weight.abs() + bias.abs()) + 2 * rounding(out, dtype), least_snr(out, dtype)),
        Output("dx", dx, sums * terms + 2 * rounding(dx, dtype), least_snr(dx, dtype)),
        Output("dweight", dweight, columns * (grad.abs() * distance).sum(0) + 2 * rounding(dweight, dtype), least_snr(dweight, dtype)),
        Output("dbias", dbias, columns * grad.abs().sum(0) + 2 * rounding(dbias, dtype), least_snr(dbias, dtype)),
    ]


def softmax(x: Tensor, grad: Tensor, dtype: torch.dtype) -> list[Output]:
    """The shares of rows and their gradient, which is made of the shares as they are stored."""
    out = torch.softmax(x, -1)
    dx = out * (grad - (grad * out).sum(-1, keepdim=True))
    # A difference of numbers of this size is rounded before it becomes an exponent.
    distance = x.amax(-1, keepdim=True) - x
    of_out = _UNIT * (2 * distance + 2 * x.shape[-1] ** 0.5 + 32) * out + 2 * rounding(out, dtype)
    of_sum = (grad.abs() * of_out).sum(-1, keepdim=True) + _UNIT * (x.shape[-1] + 16) * (grad * out).abs().sum(-1, keepdim=True)
    of_dx = of_out * (grad.abs() + (grad * out).sum(-1, keepdim=True).abs()) + out * of_sum + 8 * _UNIT * dx.abs()
    return [
        Output("out", out, of_out, least_snr(out, dtype)),
        Output("dx", dx, of_dx + 2 * rounding(dx, dtype), least_snr(dx, dtype)),
    ]


def swiglu(x: Tensor, up: Tensor, grad: Tensor, dtype: torch.dtype) -> list[Output]:
    """silu(x) up and its gradients, written out; e^x in float32 is off by a few of its steps, and so is all that follows from it."""
    share = 1 / (1 + torch.exp(-x))
    silu, through = x * share, grad * up * share
    out, dx, dup = silu * up, through * (1 + x * (1 - share)), grad * silu
    off = 32 * _UNIT
    terms = through.abs() * (1 + x.abs() * (1 - share))
    return [
        Output("out", out, off * out.abs() + 2 * rounding(out, dtype), least_snr(out, dtype)),
        Output("dx", dx, off * terms + 2 * rounding(dx, dtype), least_snr(dx, dtype)),
        Output("dup", dup, off * dup.abs() + 2 * rounding(dup, dtype), least_snr(dup, dtype)),
    ]


# ---- Attention


def _seen(length: int, keys: int, causal: bool, window: tuple[int, int], device: torch.device) -> Tensor:
    """Which keys each query sees: the last query is at the last key."""
    before = torch.arange(keys, device=device) - (torch.arange(length, device=device)[:, None] + keys - length)  # of a query's place
    left, right = window
    seen = torch.ones_like(before, dtype=torch.bool)
    if causal:
        seen &= before <= 0
    if left >= 0:
        seen &= before >= -left
    if right >= 0:
        seen &= before <= right
    return seen


def _attention_of_group(
    q: Tensor, k: Tensor, v: Tensor, grad: Tensor, causal: bool, window: tuple[int, int], dtype: torch.dtype, scale: float
) -> list[tuple[Tensor, Tensor]]:
    """Heads [group, length, dim] that share one of keys [keys, dim] and values [keys, v_dim]: the result, its gradients and the log-sum-exp of scores."""
    (group, length, dim), keys = q.shape, k.shape[0]
    half = 0.5 * torch.finfo(dtype).eps
    least = max(2.0**-126, 0.5 * torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps)
    seen = _seen(length, keys, causal, window, q.device)
    scores = scale * q @ k.t()
    total = scores.masked_fill(~seen, -torch.inf).logsumexp(-1, keepdim=True)
    empty = total == -torch.inf
    known = total.masked_fill(empty, 0)
    weights = torch.exp(scores - known) * seen
    out = weights @ v

    def largest(x: Tensor) -> Tensor:
        most: Tensor = (x * seen).amax(-1, keepdim=True) if keys else torch.zeros_like(known)
        return most

    of_score = 16 * _UNIT * dim**0.5 * largest(scale * q.abs() @ k.abs().t()) + 2.0**-20 * (1 + largest(scores.abs()))
    top = scores.masked_fill(~seen, -torch.inf).amax(-1, keepdim=True).masked_fill(empty, 0) if keys else known
    flushed = least / (torch.exp(scores - top) * seen).sum(-1, keepdim=True).clamp(min=1)
    of_out = (half + 2 * of_score + 8 * _UNIT * keys**0.5) * (weights @ v.abs()) + flushed * (seen.to(v.dtype) @ v.abs())
    of_out = of_out + rounding(out.abs() + of_out, dtype)
    of_total = of_score + 2.0**-20 + 4 * _UNIT * known.abs()

    d_weights, row = grad @ v.t(), (grad * out).sum(-1, keepdim=True)
    d_scores = weights * (d_weights - row)
    of_row = 16 * _UNIT * v.shape[1]**0.5 * (grad.abs() @ v.abs().t() + (grad * out).abs().sum(-1, keepdim=True)) + (grad.abs() * of_out).sum(-1, keepdim=True)
    relative = 2 * (of_score + 2.0**-20 * known.abs()) + of_total + half + 4 * _UNIT

    def of_scores(terms: int) -> Tensor:
        moved: Tensor = (relative + 8 * _UNIT * terms**0.5) * d_scores.abs() + seen * (least + 2.0**-126 * (d_weights - row).abs())
        moved = moved + weights * of_row
        return moved

    terms = length * group
    of_weights = (relative + 8 * _UNIT * terms**0.5) * weights + seen * least
    gradients = [
        (scale * d_scores @ k, scale * of_scores(keys) @ k.abs()),
        ((scale * d_scores.mT @ q).sum(0), (scale * of_scores(terms).mT @ q.abs()).sum(0)),
        ((weights.mT @ grad).sum(0), (of_weights.mT @ grad.abs()).sum(0)),
    ]
    rounded = [(exact, allowed + rounding(exact.abs() + allowed, dtype)) for exact, allowed in gradients]
    return [(out, of_out), *rounded, (total.squeeze(-1), of_total.masked_fill(empty, 0).squeeze(-1))]


def _lost_in_matrix_unit(magnitude: Tensor, squares: Tensor, steps: float) -> Tensor:
    """Of sums of products of codes, from those of their magnitudes and of their squares, as src/ops/matmul/matrix_unit.h has it where single terms
    are not known: in each of ``steps`` of 32 terms one unit of the sum, and of 33 addends that of the largest."""
    lost: Tensor = _SHORT * ((1 + steps**0.5 / 4) * magnitude + 33 * steps**0.5 * squares.sqrt())
    return lost


def attention_of_codes(
    codes: tuple[Tensor, Tensor, Tensor],
    scales: tuple[Tensor, Tensor, Tensor],
    causal: bool,
    dtype: torch.dtype,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
) -> list[Output]:
    """Attention of codes q and k [batch, length, heads, dim] and v [.., v_dim] with scales [batch, heads], and its log-sum-exp, written out; what is
    allowed is the error model of src/ops/attention/fp8/contract.h."""
    q, k, v = (x * s[:, None, :, None] for x, s in zip(codes, scales))
    group = q.shape[2] // k.shape[2]
    q, k, v = (x.transpose(1, 2) for x in (q, k.repeat_interleave(group, 2), v.repeat_interleave(group, 2)))
    factor, keys = q.shape[-1] ** -0.5 if scale is None else scale, k.shape[2]
    seen = _seen(q.shape[2], keys, causal, window, q.device)
    scores = (factor * q @ k.mT).masked_fill(~seen, -torch.inf)
    total = scores.logsumexp(-1, keepdim=True)
    empty = total == -torch.inf
    known = total.masked_fill(empty, 0)
    weights = torch.exp(scores - known)
    out, magnitude = weights @ v, weights @ v.abs()
    known_scores = scores.masked_fill(~seen, 0)
    lost = _lost_in_matrix_unit(q.abs() @ k.abs().mT, q.square() @ k.square().mT, q.shape[-1] / 32 + 4)
    lost = factor * (lost * seen).amax(-1, keepdim=True) if keys else torch.zeros_like(known)
    of_score = lost + 2.0**-20 * (1 + known_scores.abs().amax(-1, keepdim=True) if keys else 1)
    sums = 8 * _UNIT * keys**0.5
    relative = 0.5 * torch.finfo(dtype).eps + 2.0**-4 + 2 * of_score + sums
    least = 2.0**-16 * (weights.amax(-1, keepdim=True) if keys else torch.zeros_like(known)) * (seen.to(v.dtype) @ v.abs())
    of_out = relative * magnitude + least + _lost_in_matrix_unit(magnitude, weights.square() @ v.square(), 8)  # of 128 keys at a time
    of_out = of_out + rounding(out.abs() + of_out, dtype)
    of_total = (of_score + 2.0**-20 + 4 * _UNIT * known.abs() + sums).masked_fill(empty, 0)
    return [
        Output("out", out.transpose(1, 2), of_out.transpose(1, 2), least_snr(out, torch.float8_e4m3fn)),
        Output("lse", total.squeeze(-1), of_total.squeeze(-1), -math.inf),
    ]


def attention(
    q: Tensor,
    k: Tensor,
    v: Tensor,
    grad: Tensor,
    causal: bool,
    dtype: torch.dtype,
    scale: float | None = None,
    window: tuple[int, int] = (-1, -1),
) -> list[Output]:
    """Attention of q and k [batch, length, heads, dim] and v [.., v_dim], its gradients and its log-sum-exp [batch, heads, length], written out.

    What is allowed is the error models of src/ops/attention/contract.h and backward/contract.h, the errors of o and of the log-sum-exp, which
    backward reads, added to those of backward.
    """
    (batch, _, heads, dim), kv_heads = q.shape, k.shape[2]
    group = heads // kv_heads
    results = [(torch.empty_like(x), torch.empty_like(x)) for x in (grad, q, k, v, grad[..., 0].transpose(1, 2))]
    for b in range(batch):
        for h in range(kv_heads):
            own = slice(h * group, (h + 1) * group)
            of_q, of_grad = (x[b, :, own].transpose(0, 1) for x in (q, grad))
            made = _attention_of_group(of_q, k[b, :, h], v[b, :, h], of_grad, causal, window, dtype, dim**-0.5 if scale is None else scale)
            for at, (whole, part) in enumerate(zip(results, made)):
                for there, here in zip(whole, part):
                    if at < 2:
                        there[b, :, own] = here.transpose(0, 1)
                    elif at < 4:
                        there[b, :, h] = here
                    else:
                        there[b, own] = here
    outputs = [Output(name, *pair, -math.inf) for name, pair in zip(("out", "dq", "dk", "dv", "lse"), results)]
    # The terms of gradients cancel: the error of each counts.
    return [Output("out", *results[0], least_snr(results[0][0], dtype)), *outputs[1:]]
