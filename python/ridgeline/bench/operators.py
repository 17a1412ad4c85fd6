"""What is timed: for each operator of the front end its inputs, our call, PyTorch's own, and what must come out."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch

import ridgeline.torch as rt

from . import reference
from .reference import Operand, Output

Tensor = torch.Tensor

DTYPES = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}
ALIASES = {"fp32": "f32", "float32": "f32", "bfloat16": "bf16", "fp16": "f16", "float16": "f16"}
GRANULARITIES = ("tensorwise", "rowwise", "blockwise", "mx")
FORMATS = ("e4m3", "e5m2", "hybrid")


@dataclass(frozen=True)
class Case:
    """One row: sizes in the order of the operator's axes, the dtype of its tensors, and how 8-bit floats are made."""

    shape: tuple[int, ...]
    dtype_name: str
    granularity: str = ""
    format: str = ""

    @property
    def dtype(self) -> torch.dtype:
        return DTYPES[self.dtype_name]

    @property
    def config(self) -> rt.QuantConfig:
        return rt.QuantConfig(self.format, self.granularity)  # type: ignore[arg-type]

    @property
    def recipe(self) -> str:
        return " ".join(word for word in (self.format, self.granularity) if word)


@dataclass(frozen=True)
class Bench:
    """An operator. ``inputs`` come with float32 numbers of their own from a draw; those that take a gradient first."""

    name: str
    summary: str
    axes: tuple[str, ...]
    shapes: dict[str, str]  # the default ones, by device
    dtypes: tuple[str, ...]
    quantises: bool
    unit: str  # of rates: TFLOPS or GB/s
    kernel: str  # as rt.last_used() calls it
    peer_name: str
    inputs: Callable[[Case, Callable[..., Tensor]], list[Tensor]]
    leaves: int  # inputs that take a gradient; 0: there is no backward pass
    ours: Callable[..., Tensor]
    peer: Callable[..., Tensor]
    work: Callable[[Case], tuple[float, float]]
    # Of float64 copies of the inputs and of the gradient.
    expected: Callable[..., list[Output]]
    # Results of ours as `expected` names them.
    seen: Callable[[Tensor], list[Tensor]] = lambda out: [out]
    gradients: tuple[str, ...] = ()  # of all but products, as `expected` names them
    output_size: Callable[[Case], tuple[int, ...]] = lambda case: (case.shape[0], case.shape[1])

    @property
    def scale(self) -> float:
        return 1e12 if self.unit == "TFLOPS" else 1e9


def _item(case: Case) -> int:
    return case.dtype.itemsize


# ---- Products: y [M, N] = a [M, K] b [N, K]^T, as torch.nn.functional.linear


def _factors(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    m, n, k = case.shape
    return [draw(m, k), draw(n, k)]


def _product_work(case: Case) -> tuple[float, float]:
    m, n, k = case.shape
    return 2.0 * m * n * k, 4.0 * m * n * k


def _product_expected(case: Case, grad: Tensor, a: Tensor, b: Tensor) -> list[Output]:
    return [
        reference.product("out", a, b.t(), case.dtype),
        reference.product("da", grad, b, case.dtype),
        reference.product("db", grad.t(), a, case.dtype),
    ]


def _fp8_expected(case: Case, grad: Tensor, a: Tensor, b: Tensor) -> list[Output]:
    """Each factor has scales along the sum of its product; b is the weight, but beside an activation's transpose."""
    config = case.config

    def codes(x: Tensor, gradient: bool = False, weight: bool = False) -> Operand:
        format = config.grad_dtype if gradient else config.forward_dtype
        return Operand(x, format, reference.scales(x, format, case.granularity, weight))

    def times(name: str, left: Operand, right: Operand) -> Output:
        turned = Operand(right.exact.t(), right.format, right.scale.t())
        return reference.product_of_codes(name, left, turned, case.dtype)

    return [
        times("out", codes(a), codes(b, weight=True)),
        times("da", codes(grad, gradient=True), codes(b.t(), weight=True)),
        times("db", codes(grad.t(), gradient=True), codes(a.t())),
    ]


# ---- Codes


def _matrix(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    return [draw(*case.shape)]


def _scale_bytes(case: Case) -> float:
    m, n = case.shape
    groups = {"tensorwise": 1, "rowwise": m, "blockwise": m * math.ceil(n / 128), "mx": m * math.ceil(n / 32)}
    return groups[case.granularity] * (1.0 if case.granularity == "mx" else 4.0)


def _quantise_work(case: Case) -> tuple[float, float]:
    m, n = case.shape
    return m * n * (_item(case) + 1.0) + _scale_bytes(case), 0.0


def _by_element(codes: Tensor, scale: Tensor, granularity: str) -> Tensor:
    """The scale of each element, in float64, from how the operator lays scales out."""
    rows, cols = codes.shape
    wide = scale.to(torch.float64)
    if granularity == "tensorwise":
        return wide.reshape(1, 1).expand(rows, cols)
    if granularity == "rowwise":
        return wide.reshape(rows, 1).expand(rows, cols)
    return wide.t().repeat_interleave(128 if granularity == "blockwise" else 32, 1)[:, :cols]


def _codes_seen(out: Tensor) -> list[Tensor]:
    assert isinstance(out, rt.QuantizedTensor) and out.q is not None and out.scale is not None
    granularity = {"tensor": "tensorwise", "row": "rowwise", "1x128": "blockwise", "mx": "mx"}[out.grouping]
    scale = _by_element(out.q, out.scale, granularity)
    return [out.q.to(torch.float64) * scale, scale]


def _codes_expected(case: Case, grad: Tensor, x: Tensor) -> list[Output]:
    format = case.config.forward_dtype
    scale = reference.scales(x, format, case.granularity)
    moved = reference.quantisation(x, format, scale)
    exactly = 0 if case.granularity == "mx" else 2.0**-22
    all_zero = x.abs().amax() == 0  # whatever the scale of zeros is
    return [
        Output("out", x, moved, reference.least_snr(x, format)),
        Output("scale", scale, scale.abs() * (torch.inf if all_zero else exactly), 100.0),
    ]


def _quantise_by_torch(case: Case, x: Tensor) -> Tensor:
    format = case.config.forward_dtype
    largest = torch.finfo(format).max
    if case.granularity == "tensorwise":
        return (x * (largest / x.abs().amax().float())).clamp(-largest, largest).to(format)
    if case.granularity == "rowwise":
        return (x * (largest / x.abs().amax(1, keepdim=True).float())).clamp(-largest, largest).to(format)
    width = 128 if case.granularity == "blockwise" else 32
    grouped = torch.nn.functional.pad(x, (0, -x.shape[1] % width)).reshape(x.shape[0], -1, width).float()
    scale = largest / grouped.abs().amax(2, keepdim=True)
    if case.granularity == "mx":
        scale = torch.exp2(torch.floor(torch.log2(scale)))
    made: Tensor = (grouped * scale).clamp(-largest, largest).to(format).flatten(1)[:, : x.shape[1]]
    return made


def _codes(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    made = rt.quantize(draw(*case.shape), case.config)
    assert made.q is not None and made.scale is not None
    return [made.q, made.scale]


def _wrapped(case: Case, q: Tensor, scale: Tensor) -> Tensor:
    return rt.QuantizedTensor(q, scale, None, None, case.config.grouping(), case.dtype).dequantize()


def _dequantise_expected(case: Case, grad: Tensor, q: Tensor, scale: Tensor) -> list[Output]:
    exact = q * _by_element(q, scale, case.granularity)
    return [Output("out", exact, 2 * reference.rounding(exact, case.dtype), reference.LEAST_SNR_DB[case.dtype])]


def _dequantise_by_torch(case: Case, q: Tensor, scale: Tensor) -> Tensor:
    if case.granularity in ("tensorwise", "rowwise"):
        return (q.float() * (scale if case.granularity == "tensorwise" else scale[:, None])).to(case.dtype)
    width = 128 if case.granularity == "blockwise" else 32
    wide = scale.float().t().repeat_interleave(width, 1)[:, : q.shape[1]]
    return (q.float() * wide).to(case.dtype)


# ---- Rows

_EPS = 1e-6


def _rows(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    return [draw(*case.shape), draw(case.shape[1])]


def _rows_work(case: Case) -> tuple[float, float]:
    m, n = case.shape
    return _item(case) * (2.0 * m * n + n), _item(case) * (3.0 * m * n + 2 * n)


def _norm(case: Case, x: Tensor, weight: Tensor) -> Tensor:
    out = rt.rms_norm(x, case.shape[1], weight, _EPS)
    assert isinstance(out, Tensor)
    return out


def _centred_rows(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    return [draw(*case.shape), draw(case.shape[1]), draw(case.shape[1])]


def _centred_work(case: Case) -> tuple[float, float]:
    m, n = case.shape
    return _item(case) * (2.0 * m * n + 2 * n), _item(case) * (3.0 * m * n + 3 * n)


def _layer_norm(case: Case, x: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    out = rt.layer_norm(x, case.shape[1], weight, bias, _EPS)
    assert isinstance(out, Tensor)
    return out


def _shares_work(case: Case) -> tuple[float, float]:
    m, n = case.shape
    return _item(case) * 2.0 * m * n, _item(case) * 3.0 * m * n


def _gate_and_up(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    return [draw(*case.shape), draw(*case.shape)]


def _gated_work(case: Case) -> tuple[float, float]:
    m, n = case.shape
    return _item(case) * 3.0 * m * n, _item(case) * 5.0 * m * n


# ---- Attention: q [B, S, H, D] with k and v [B, S, G, D], causal


def _heads(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    batch, length, heads, kv_heads, dim = case.shape
    return [draw(batch, length, heads, dim), draw(batch, length, kv_heads, dim), draw(batch, length, kv_heads, dim)]


def _attention_work(case: Case) -> tuple[float, float]:
    """Two and five products of the pairs of a query and a key that it sees."""
    batch, length, heads, _, dim = case.shape
    pairs = batch * heads * length * (length + 1) / 2
    return 4.0 * pairs * dim, 10.0 * pairs * dim


def _attention_by_torch(case: Case, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    shared = k.shape[2] != q.shape[2]
    out = torch.nn.functional.scaled_dot_product_attention(
        q.transpose(1, 2), k.transpose(1, 2), v.transpose(1, 2), is_causal=True, enable_gqa=shared
    )
    return out.transpose(1, 2)


def _coded_heads(case: Case, draw: Callable[..., Tensor]) -> list[Tensor]:
    """Codes and scales, and the numbers that they stand for, which torch gets."""
    made = [rt.quantize_heads(x) for x in _heads(case, draw)]
    return [*(codes for codes, _ in made), *(scale for _, scale in made), *((codes.float() * scale[:, None, :, None]).to(case.dtype) for codes, scale in made)]


def _attention_of_codes(case: Case, *given: Tensor) -> Tensor:
    q, k, v, q_scale, k_scale, v_scale = given[:6]
    return rt.attention_fp8(q, k, v, q_scale, k_scale, v_scale, causal=True, out_dtype=case.dtype)


def _attention_of_codes_expected(case: Case, grad: Tensor, *given: Tensor) -> list[Output]:
    return reference.attention_of_codes((given[0], given[1], given[2]), (given[3], given[4], given[5]), True, case.dtype)[:1]


_PRODUCTS = {
    "cpu": "256x192x160,64x64x64,512x512x512",
    "cuda": "4096x4096x4096,8192x4096x4096,8192x14336x4096,4096x4096x14336,8192x8192x8192",
}
_MATRICES = {"cpu": "192x288,512x512,1024x4096", "cuda": "4096x4096,8192x8192,16384x7168"}

BENCHES = {
    one.name: one
    for one in (
        Bench(
            "gemm",
            "a [M, K] b [N, K]^T and its two gradients, beside torch.matmul",
            ("M", "N", "K"),
            _PRODUCTS,
            ("bf16", "f16", "f32"),
            False,
            "TFLOPS",
            "gemm",
            "torch.matmul",
            _factors,
            2,
            lambda case, a, b: rt.gemm(a, b, trans_b=True),
            lambda case, a, b: torch.matmul(a, b.t()),
            _product_work,
            _product_expected,
        ),
        Bench(
            "gemm_fp8",
            "the same of 8-bit floats, quantisation included, beside torch.matmul in the dtype of the inputs",
            ("M", "N", "K"),
            _PRODUCTS,
            ("bf16", "f16", "f32"),
            True,
            "TFLOPS",
            "gemm_fp8",
            "torch.matmul",
            _factors,
            2,
            lambda case, a, b: rt.gemm_fp8(a, b, trans_b=True, config=case.config),
            lambda case, a, b: torch.matmul(a, b.t()),
            _product_work,
            _fp8_expected,
        ),
        Bench(
            "quantize",
            "a matrix [M, N] to 8-bit floats and scales, beside operators of torch that do it",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            True,
            "GB/s",
            "quantize",
            "torch: amax, multiply, to",
            _matrix,
            0,
            lambda case, x: rt.quantize(x, case.config),
            _quantise_by_torch,
            _quantise_work,
            _codes_expected,
            _codes_seen,
        ),
        Bench(
            "dequantize",
            "8-bit floats [M, N] and their scales back to the dtype, beside operators of torch that do it",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            True,
            "GB/s",
            "dequantize",
            "torch: to, multiply",
            _codes,
            0,
            _wrapped,
            _dequantise_by_torch,
            _quantise_work,
            _dequantise_expected,
        ),
        Bench(
            "rms_norm",
            "rows of [M, N] by their root mean square and a weight, with both gradients, beside torch's rms_norm",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            False,
            "GB/s",
            "rmsnorm",
            "torch.nn.functional.rms_norm",
            _rows,
            2,
            _norm,
            lambda case, x, w: torch.nn.functional.rms_norm(x, (case.shape[1],), w, _EPS),
            _rows_work,
            lambda case, grad, x, w: reference.rms_norm(x, w, grad, _EPS, case.dtype),
            gradients=("dx", "dweight"),
        ),
        Bench(
            "layer_norm",
            "rows of [M, N] less their mean by their deviation, a weight and a bias, with all gradients, beside torch's layer_norm",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            False,
            "GB/s",
            "layernorm",
            "torch.nn.functional.layer_norm",
            _centred_rows,
            3,
            _layer_norm,
            lambda case, x, w, b: torch.nn.functional.layer_norm(x, (case.shape[1],), w, b, _EPS),
            _centred_work,
            lambda case, grad, x, w, b: reference.layer_norm(x, w, b, grad, _EPS, case.dtype),
            gradients=("dx", "dweight", "dbias"),
        ),
        Bench(
            "softmax",
            "the shares of the numbers of rows of [M, N] with their gradient, beside torch's softmax",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            False,
            "GB/s",
            "softmax",
            "torch.softmax",
            _matrix,
            1,
            lambda case, x: rt.softmax(x),
            lambda case, x: torch.softmax(x, -1),
            _shares_work,
            lambda case, grad, x: reference.softmax(x, grad, case.dtype),
            gradients=("dx",),
        ),
        Bench(
            "activation",
            "silu(x) up of two matrices [M, N] (SwiGLU), with both gradients, beside torch's silu and product",
            ("M", "N"),
            _MATRICES,
            ("bf16", "f16", "f32"),
            False,
            "GB/s",
            "activation",
            "torch: silu, multiply",
            _gate_and_up,
            2,
            lambda case, x, up: rt.activation(x, "silu", up=up),
            lambda case, x, up: torch.nn.functional.silu(x) * up,
            _gated_work,
            lambda case, grad, x, up: reference.swiglu(x, up, grad, case.dtype),
            gradients=("dx", "dup"),
        ),
        Bench(
            "attention",
            "causal attention of q [B, S, H, D] and k, v [B, S, G, D] with all gradients, beside torch's scaled_dot_product_attention",
            ("B", "S", "H", "G", "D"),
            {
                "cpu": "1x128x4x2x64,1x512x8x2x64,2x256x4x4x128",
                "cuda": "1x2048x32x8x128,1x8192x32x8x128,2x4096x64x8x128,4x2048x32x32x64,32x512x32x8x128",
            },
            ("bf16", "f16"),
            False,
            "TFLOPS",
            "attention",
            "torch: scaled_dot_product_attention",
            _heads,
            3,
            lambda case, q, k, v: rt.attention(q, k, v, causal=True),
            _attention_by_torch,
            _attention_work,
            lambda case, grad, q, k, v: reference.attention(q, k, v, grad, True, case.dtype)[:4],
            gradients=("dq", "dk", "dv"),
            output_size=lambda case: (*case.shape[:3], case.shape[4]),
        ),
        Bench(
            "attention_fp8",
            "causal attention of codes q [B, S, H, D] and k, v [B, S, G, D], beside torch's scaled_dot_product_attention of the numbers they stand for",
            ("B", "S", "H", "G", "D"),
            {"cpu": "1x128x4x2x64,1x512x8x2x64", "cuda": "1x2048x32x8x128,1x8192x32x8x128,1x16384x16x16x64"},
            ("bf16", "f16"),
            False,
            "TFLOPS",
            "attention_fp8",
            "torch: scaled_dot_product_attention",
            _coded_heads,
            0,
            _attention_of_codes,
            lambda case, *given: _attention_by_torch(case, *given[6:]),
            _attention_work,
            _attention_of_codes_expected,
            output_size=lambda case: (*case.shape[:3], case.shape[4]),
        ),
    )
}
