"""What a kernel refuses a trace refuses as well, where the call is made: the same exception under FakeTensor."""

import re

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx

import ridgeline.torch as rt

ops = torch.ops.ridgeline
E4M3 = torch.float8_e4m3fn


def gemm(change, trans_b=False, batch=(), dtype=torch.float32, activation=None, **options):
    """A case of gemm with one operand replaced by what `change` makes of it, as (function, operands)."""
    operands = {
        "a": torch.ones(*batch, 6, 8, dtype=dtype),
        "b": torch.ones(*batch, *((4, 8) if trans_b else (8, 4)), dtype=dtype),
        "bias": torch.ones(4, dtype=dtype),
        "residual": torch.ones(*batch, 6, 4, dtype=dtype),
    }
    operands.update(change)
    return lambda a, b, bias, residual: rt.gemm(
        a, b, trans_b=trans_b, bias=bias, activation=activation, residual=residual, **options
    ), list(operands.values())


def gemm_add(change, dtype=torch.float32):
    operands = {"c": torch.ones(6, 4, dtype=dtype), "a": torch.ones(6, 8, dtype=dtype), "b": torch.ones(8, 4, dtype=dtype)} | change
    return lambda c, a, b: ops.gemm_add_(c, a, b), list(operands.values())


def symmetric(change=None, out=None, alpha=1.0):
    operands = {"a": torch.ones(6, 8), "residual": torch.ones(6, 6)} | (change or {})
    return lambda a, residual: ops.symmetric_product(a, False, out, alpha, residual), list(operands.values())


def scaled(change, scaling="row", add=False, out=torch.float32):
    rows = {"row": (6, 4), "tensor": (1, 1)}.get(scaling)
    operands = {
        "a": torch.ones(6, 256).to(E4M3),
        "b": torch.ones(4, 256).to(E4M3),
        "scale_a": torch.ones(rows[0]) if rows else torch.ones(2, 6),
        "scale_b": torch.ones(rows[1]) if rows else (torch.ones(1, 2) if scaling == "block" else torch.ones(2, 4)),
        "c": torch.ones(6, 4, dtype=out),
    } | change
    if "bias" in operands:
        return lambda a, b, x, y, c, d: ops.gemm_fp8_scaled(a, b, x, y, False, True, out, scaling, bias=d), list(operands.values())
    if add:
        return lambda a, b, x, y, c: ops.gemm_fp8_scaled_add_(c, a, b, x, y, False, True, scaling), list(operands.values())
    return lambda a, b, x, y, c: ops.gemm_fp8_scaled(a, b, x, y, False, True, out, scaling), list(operands.values())


def quantize(x=None, format=E4M3, granularity="tensor", rule="exact", row=True, column=False, random=None):
    x = torch.ones(6, 8) if x is None else x
    if random is None:
        return lambda t: ops.quantize(t, format, granularity, rule, row, column), [x]
    return lambda t, words: ops.quantize(t, format, granularity, rule, row, column, words), [x, random]


def quantize_by(change=None, format=E4M3, rule="exact", row=True):
    operands = {"x": torch.ones(6, 8), "amax": torch.ones(()), "found": torch.zeros(1)} | (change or {})
    return lambda x, amax, found: ops.quantize_by(x, amax, found, format, rule, row), list(operands.values())


def grouped(x=None, offsets=None, granularity="1x128", align=128, row=True, column=True):
    given = [torch.ones(6, 8) if x is None else x, torch.tensor([0, 2, 6]) if offsets is None else offsets]
    return lambda t, at: ops.grouped_quantize(t, at, E4M3, granularity, "exact", align, row, column), given


def grouped_codes(x=None, of="rows", granularity="1x128", dy=None, probs=None, need_dprobs=False):
    given = [torch.ones(6, 8) if x is None else x, torch.tensor([0, 2, 6]), dy, probs]
    tensors = [t for t in given if t is not None]

    def call(t, at, *others):
        left = list(others)
        return ops.grouped_codes(t, at, E4M3, granularity, "exact", of, *(None if each is None else left.pop(0) for each in (dy, probs)), need_dprobs)

    return call, tensors


def dequantize(q=None, scale=None, granularity="row", out=torch.float32):
    q, scale = torch.ones(6, 8).to(E4M3) if q is None else q, torch.ones(6) if scale is None else scale
    return lambda q, scale: ops.dequantize(q, scale, granularity, out), [q, scale]


def normed(change=None, eps=1e-5):
    operands = {"x": torch.ones(6, 8), "weight": torch.ones(8)} | (change or {})
    return lambda x, weight: ops.rmsnorm(x, weight, eps), list(operands.values())


def activated(change=None, function="silu", packed=False):
    operands = {"x": torch.ones(6, 8), "up": torch.ones(6, 8), "probs": torch.ones(6), "mask": torch.ones(6, dtype=torch.uint8)} | (change or {})
    return lambda x, up, probs, mask: ops.activation(x, up, probs, mask, function, packed, 1.0, 1.0), list(operands.values())


def activated_codes(change=None, packed=False, granularity="1x128", rule="exact", row=True):
    operands = {"x": torch.ones(6, 8), "up": torch.ones(6, 8), "probs": torch.ones(6), "mask": torch.ones(6, dtype=torch.uint8)} | (change or {})
    return lambda x, up, probs, mask: ops.activation_quantize(
        x, up, probs, mask, "silu", packed, 1.0, 1.0, E4M3, granularity, rule, row, True
    ), list(operands.values())


def differentiated_codes(change=None, packed=False, granularity="mx", rule="even"):
    operands = {"dy": torch.ones(6, 8), "x": torch.ones(6, 8), "up": torch.ones(6, 8)} | (change or {})
    if packed:
        operands = {"dy": operands["dy"], "x": torch.ones(6, 16)}
        return lambda dy, x: ops.activation_quantize_backward(dy, x, None, None, None, "silu", True, 1.0, 1.0, E4M3, granularity, rule, True, True), list(operands.values())
    return lambda dy, x, up: ops.activation_quantize_backward(dy, x, up, None, None, "silu", False, 1.0, 1.0, E4M3, granularity, rule), list(operands.values())


def normed_codes(change=None, eps=1e-5, format=E4M3, rule="exact"):
    operands = {"x": torch.ones(6, 8), "residual": torch.ones(6, 8), "weight": torch.ones(8)} | (change or {})
    return lambda x, residual, weight: ops.rmsnorm_quantize(x, residual, weight, eps, False, format, "row", rule), list(operands.values())


def loss(change=None, smoothing=0.0, z_loss=0.0, soft_cap=0.0):
    operands = {"logits": torch.ones(6, 8), "target": torch.zeros(6, dtype=torch.int64)} | (change or {})
    return lambda logits, target: ops.cross_entropy(logits, target, -100, smoothing, z_loss, soft_cap), list(operands.values())


def shared(change=None, form="softmax", scale=1.0, out=None):
    operands = {"x": torch.ones(6, 8)} | (change or {})
    return lambda x: ops.softmax(x, form, scale, out), list(operands.values())


def taken(change=None, index=torch.int64):
    operands = {"weight": torch.ones(6, 8)} | (change or {})
    return lambda weight: ops.embedding(torch.zeros(3, 2, dtype=index), weight), list(operands.values())


def gathered(change=None):
    operands = {"dy": torch.ones(3, 2, 8)} | (change or {})
    return lambda dy: ops.embedding_backward(dy, torch.zeros(3, 2, dtype=torch.int64), 6), list(operands.values())


def turned(change=None, offset=0, positions=True):
    operands = {"q": torch.ones(2, 3, 4, 8), "k": torch.ones(2, 3, 1, 8), "cos": torch.ones(5, 4), "sin": torch.ones(5, 4)} | (change or {})
    if positions:
        operands = operands | {"positions": (change or {}).get("positions", torch.zeros(2, 3, dtype=torch.int64))}
        return lambda q, k, cos, sin, positions: ops.rope(q, k, cos.detach(), sin.detach(), positions), list(operands.values())
    return lambda q, k, cos, sin: ops.rope(q, k, cos.detach(), sin.detach(), None, offset), list(operands.values())


def attended(change=None, causal=True, scale=None, window=(-1, -1)):
    shapes = {"q": (2, 3, 4, 8), "k": (2, 5, 2, 8), "v": (2, 5, 2, 8)}
    operands = {name: torch.ones(shape).bfloat16() for name, shape in shapes.items()} | (change or {})
    return lambda q, k, v: ops.attention(q, k, v, causal, scale, False, *window)[0], list(operands.values())


ones = torch.ones
REFUSED = {
    "bias of another length": gemm({"bias": ones(5)}),
    "bias of one element": gemm({"bias": ones(1)}),
    "bias of another dtype": gemm({"bias": ones(4).bfloat16()}),
    "bias as a matrix": gemm({"bias": ones(1, 4)}),
    "bias with gaps": gemm({"bias": ones(8)[::2]}),
    "bias of another length in float64": gemm({"bias": ones(1).double()}, dtype=torch.float64),
    "residual of another shape": gemm({"residual": ones(5, 4)}),
    "residual of one row": gemm({"residual": ones(1, 4)}),
    "residual of one row after an activation": gemm({"residual": ones(1, 4)}, activation="silu"),
    "residual of another dtype": gemm({"residual": ones(6, 4).half()}),
    "residual column-major": gemm({"residual": ones(4, 6).t()}),
    "residual expanded": gemm({"residual": ones(4).expand(6, 4)}),
    "residual of one row in float64": gemm({"residual": ones(1, 4).double()}, dtype=torch.float64),
    "residual without the batch": gemm({"residual": ones(6, 4)}, batch=(3,)),
    "another batch": gemm({"b": ones(2, 8, 4)}, batch=(3,)),
    "another batch in float64": gemm({"b": ones(2, 8, 4).double()}, batch=(3,), dtype=torch.float64),
    "expanded a": gemm({"a": ones(8).expand(6, 8)}),
    "a with gaps": gemm({"a": ones(6, 16)[:, ::2]}),
    "another k": gemm({"b": ones(7, 4)}),
    "another dtype": gemm({"b": ones(8, 4).bfloat16()}),
    "narrower result": gemm({}, out_dtype=torch.bfloat16),
    "result of another format": gemm({}, out_dtype=torch.int32),
    "c of another shape": gemm_add({"c": ones(1, 4)}),
    "c of another shape in float64": gemm_add({"c": ones(6, 1).double().expand(6, 4)[:, :1]}, torch.float64),
    "c too narrow": gemm_add({"c": ones(6, 4).bfloat16()}),
    "c column-major": gemm_add({"c": ones(4, 6).t()}),
    "c with another k": gemm_add({"b": ones(7, 4)}),
    "codes in float32": scaled({"a": ones(6, 256)}),
    "a scale short": scaled({"scale_a": ones(5)}),
    "a scale in bfloat16": scaled({"scale_b": ones(4).bfloat16()}),
    "one scale for rows": scaled({"scale_a": ones(1)}),
    "scales as a column": scaled({"scale_a": ones(6, 1)}),
    "scales with gaps": scaled({"scale_a": ones(12)[::2]}),
    "scales of a block": scaled({"scale_b": ones(2, 4)}, "block"),
    "scales of a vector": scaled({"scale_a": ones(6, 2)}, "vector"),
    "scales of mx in float32": scaled({"scale_a": ones(8, 6), "scale_b": ones(8, 4)}, "mx"),
    "result in float64": scaled({}, out=torch.float64),
    "result in 8 bits": scaled({}, out=E4M3),
    "codes with a bias of another length": scaled({"bias": ones(5)}),
    "codes with a bias of another dtype": scaled({"bias": ones(4).bfloat16()}),
    "codes with a bias with gaps": scaled({"bias": ones(8)[::2]}),
    "codes with gaps": scaled({"b": ones(4, 512).to(E4M3)[:, ::2]}),
    "sum of another shape": scaled({"c": ones(6, 5)}, add=True),
    "sum in int32": scaled({"c": ones(6, 4).int()}, add=True),
    "sum of another k": scaled({"b": ones(4, 128).to(E4M3)}, add=True),
    "quantize a vector": quantize(ones(8)),
    "quantize column-major": quantize(ones(8, 6).t()),
    "quantize expanded": quantize(ones(8).expand(6, 8)),
    "quantize integers": quantize(ones(6, 8).long()),
    "quantize to float16": quantize(format=torch.float16),
    "quantize to mx exactly": quantize(granularity="mx"),
    "quantize to nothing": quantize(row=False),
    "quantize with one word": quantize(random=torch.ones(1, dtype=torch.int64)),
    "quantize with words of 32 bits": quantize(random=torch.ones(2, dtype=torch.int32)),
    "quantize by two magnitudes": quantize_by({"amax": ones(2)}),
    "quantize by a magnitude in float64": quantize_by({"amax": ones(()).double()}),
    "quantize by a magnitude into three": quantize_by({"found": torch.zeros(3)}),
    "quantize by a magnitude a vector": quantize_by({"x": ones(8)}),
    "quantize by a magnitude to nothing": quantize_by(row=False),
    "quantize by a magnitude and no rule": quantize_by(rule="round"),
    "quantize groups of integers": grouped(ones(6, 8).long()),
    "quantize groups of a vector": grouped(ones(8)),
    "quantize groups by numbers": grouped(offsets=ones(3)),
    "quantize groups by one offset": grouped(offsets=torch.zeros(1, dtype=torch.int32)),
    "quantize groups by offsets with gaps": grouped(offsets=torch.zeros(6, dtype=torch.int32)[::2]),
    "quantize groups at no multiple": grouped(align=0),
    "quantize groups within a scale": grouped(align=64),
    "quantize groups within a block": grouped(granularity="128x128", align=64, column=False),
    "quantize groups with scales of columns within a step": grouped(granularity="row", align=64),
    "codes of groups of an odd width": grouped_codes(ones(6, 7), "swiglu"),
    "codes of groups by rows": grouped_codes(granularity="row"),
    "codes of groups of something": grouped_codes(of="gelu"),
    "codes of groups of gradients without dy": grouped_codes(of="swiglu_backward"),
    "codes of groups of gradients of another shape": grouped_codes(of="swiglu_backward", dy=ones(6, 8)),
    "codes of groups of rows with dy": grouped_codes(dy=ones(6, 4)),
    "codes of groups with a gradient of no factors": grouped_codes(of="swiglu_backward", dy=ones(6, 4), need_dprobs=True),
    "codes of groups of SwiGLU with a gradient of factors": grouped_codes(of="swiglu", probs=ones(6), need_dprobs=True),
    "codes of groups of rows with probs": grouped_codes(probs=ones(6)),
    "codes of groups with probs of another length": grouped_codes(of="swiglu", probs=ones(5)),
    "dequantize float32": dequantize(q=ones(6, 8)),
    "dequantize with a scale short": dequantize(scale=ones(5)),
    "dequantize with scales in float16": dequantize(scale=ones(6).half()),
    "dequantize to float64": dequantize(out=torch.float64),
    "dequantize to int8": dequantize(out=torch.int8),
    "dequantize column-major": dequantize(q=ones(8, 6).to(E4M3).t()),
    "norm with a weight of another length": normed({"weight": ones(5)}),
    "norm with a weight as a matrix": normed({"weight": ones(1, 8)}),
    "norm with a weight with gaps": normed({"weight": ones(16)[::2]}),
    "norm of gaps": normed({"x": ones(6, 16)[:, ::2]}),
    "norm of integers": normed({"x": ones(6, 8).long()}),
    "norm of a negative eps": normed(eps=-1.0),
    "activation of another shape": activated({"up": ones(6, 4)}),
    "activation of another dtype": activated({"up": ones(6, 8).half()}),
    "activation with probs of another length": activated({"probs": ones(5)}),
    "activation with probs in bfloat16": activated({"probs": ones(6).bfloat16()}),
    "activation with a mask of integers": activated({"mask": ones(6).long()}),
    "activation of gaps": activated({"x": ones(6, 16)[:, ::2]}),
    "activation without a name": activated(function="swish"),
    "activation packed beside a gate": activated(packed=True),
    "codes of an activation of another shape": activated_codes({"up": ones(6, 4)}),
    "codes of an activation of a vector": activated_codes({"x": ones(8), "up": ones(8), "probs": ones(())}),
    "codes of an activation of float64": activated_codes({"x": ones(6, 8).double()}),
    "codes of an activation packed beside a gate": activated_codes(packed=True),
    "codes of an activation to mx exactly": activated_codes(granularity="mx"),
    "codes of an activation by no rule": activated_codes(rule="round"),
    "codes of gradients of another shape": differentiated_codes({"dy": ones(6, 4)}),
    "codes of packed gradients of another shape": differentiated_codes({"dy": ones(6, 16)}, packed=True),
    "codes of gradients of another dtype": differentiated_codes({"dy": ones(6, 8).half()}),
    "codes of gradients of gaps": differentiated_codes({"dy": ones(6, 16)[:, ::2]}),
    "codes of gradients of float64": differentiated_codes({name: ones(6, 8).double() for name in ("dy", "x", "up")}),
    "codes of gradients to mx exactly": differentiated_codes(rule="exact"),
    "codes of a norm of another residual": normed_codes({"residual": ones(6, 4)}),
    "codes of a norm of three dimensions": normed_codes({"x": ones(1, 6, 8), "residual": ones(1, 6, 8)}),
    "codes of a norm of float64": normed_codes({"x": ones(6, 8).double()}),
    "codes of a norm of gaps": normed_codes({"x": ones(6, 16)[:, ::2]}),
    "codes of a norm of an infinite eps": normed_codes(eps=float("inf")),
    "codes of a norm to float16": normed_codes(format=torch.float16),
    "loss with a target short": loss({"target": torch.zeros(5, dtype=torch.int64)}),
    "loss with a target of 16 bits": loss({"target": torch.zeros(6, dtype=torch.int16)}),
    "loss with a target of gaps": loss({"target": torch.zeros(12, dtype=torch.int64)[::2]}),
    "loss of a vector": loss({"logits": ones(6)}),
    "loss of gaps": loss({"logits": ones(6, 16)[:, ::2]}),
    "loss without classes": loss({"logits": ones(6, 0)}),
    "loss of integers": loss({"logits": ones(6, 8).long()}),
    "loss smoothed beyond one": loss(smoothing=1.5),
    "loss with a negative z_loss": loss(z_loss=-1.0),
    "loss with an infinite cap": loss(soft_cap=float("inf")),
    "symmetric product of a vector": symmetric({"a": ones(6)}),
    "symmetric product of integers": symmetric({"a": ones(6, 8).long()}),
    "symmetric product of gaps": symmetric({"a": ones(6, 16)[:, ::2]}),
    "symmetric product with a residual of another shape": symmetric({"residual": ones(8, 8)}),
    "symmetric product with a residual of another dtype": symmetric({"residual": ones(6, 6).half()}),
    "symmetric product to another dtype": symmetric(out=torch.bfloat16),
    "symmetric product times infinity": symmetric(alpha=float("inf")),
    "softmax of gaps": shared({"x": ones(6, 16)[:, ::2]}),
    "softmax of integers": shared({"x": ones(6, 8).long()}),
    "softmax without a name": shared(form="softmin"),
    "softmax of an infinite scale": shared(scale=float("inf")),
    "softmax to integers": shared(out=torch.int64),
    "softmax to another dtype of 16 bits": shared({"x": ones(6, 8).half()}, out=torch.bfloat16),
    "logsumexp to 16 bits": shared({"x": ones(6, 8).half()}, "logsumexp", out=torch.float16),
    "embedding by integers of 16 bits": taken(index=torch.int16),
    "embedding of a vector": taken({"weight": ones(6)}),
    "gradient of an embedding of other tokens": gathered({"dy": ones(2, 2, 8)}),
    "rope of three dimensions": turned({"q": ones(2, 3, 8)}),
    "rope of another length": turned({"k": ones(2, 4, 1, 8)}),
    "rope of another dtype": turned({"k": ones(2, 3, 1, 8).half()}),
    "rope of gaps": turned({"q": ones(2, 3, 4, 16)[..., ::2]}),
    "rope by a table in float16": turned({"cos": ones(5, 4).half(), "sin": ones(5, 4).half()}),
    "rope by a sine of another length": turned({"sin": ones(4, 4)}),
    "rope by a table that is wider than heads": turned({"cos": ones(5, 8), "sin": ones(5, 8)}),
    "rope at positions of another length": turned({"positions": torch.zeros(2, 4, dtype=torch.int64)}),
    "rope at positions in float32": turned({"positions": torch.zeros(2, 3)}),
    "rope beyond its table": turned(positions=False, offset=3),
    "rope before its table": turned(positions=False, offset=-1),
    "attention of float32": attended({"q": ones(2, 3, 4, 8), "k": ones(2, 5, 2, 8), "v": ones(2, 5, 2, 8)}),
    "attention of two dtypes": attended({"v": ones(2, 5, 2, 8).half()}),
    "attention of three dimensions": attended({"q": ones(3, 4, 8).bfloat16()}),
    "attention of another batch": attended({"q": ones(1, 3, 4, 8).bfloat16()}),
    "attention of keys and values that differ": attended({"v": ones(2, 4, 2, 8).bfloat16()}),
    "attention of heads that cannot be shared": attended({"q": ones(2, 3, 5, 8).bfloat16()}),
    "attention of gaps": attended({"q": ones(2, 3, 4, 16)[..., ::2].bfloat16().mT.contiguous().mT}),
    "attention of expanded keys": attended({"k": ones(2, 5, 1, 8).bfloat16().expand(2, 5, 2, 8)}),
    "attention of wide heads": attended({name: ones(2, 3, 2, 257).bfloat16() for name in "qkv"}),
    "attention by a scale of 0": attended(scale=0.0),
    "attention in a window of less than nothing": attended(window=(0, -2)),
}


# What types are called in C++, and by the kernels.
FOREIGN = r"\b(Float|Double|Half|BFloat16|Int|Long|Char|Float8_\w+|f32|f16|bf16|e4m3fn|std::|c10::|at::|Scalar\w*|TensorView)\b"


def raised(call):
    with pytest.raises((ValueError, TypeError, NotImplementedError)) as info:
        call()
    foreign = re.search(FOREIGN, str(info.value).replace("torch.float8_e4m3fn", ""))
    assert foreign is None, f"{foreign[0]!r} in {info.value}"
    return type(info.value)


@pytest.mark.parametrize("case", list(REFUSED))
def test_a_trace_refuses_what_a_call_refuses(case):
    call, operands = REFUSED[case]
    expected = raised(lambda: call(*operands))
    with FakeTensorMode() as mode:
        fake = [mode.from_tensor(t) for t in operands]
        assert raised(lambda: call(*fake)) is expected
    assert raised(lambda: make_fx(call, tracing_mode="symbolic")(*operands)) is expected


@pytest.mark.parametrize("case", [name for name in REFUSED if not name.startswith(("c ", "sum ", "quantize by "))])
def test_recording_a_gradient_refuses_what_a_call_refuses(case):
    call, operands = REFUSED[case]
    expected = raised(lambda: call(*operands))
    floating = [t.requires_grad_() if t.dtype in (torch.float32, torch.float64) else t for t in (t.detach() for t in operands)]
    assert raised(lambda: call(*floating)) is expected


ALLOWED = {
    "epilogue": gemm({}, activation="gelu"),
    "layout": gemm({}, trans_b=True),
    "batch": gemm({}, batch=(3,)),
    "float64": gemm({}, dtype=torch.float64, batch=(3,)),
    "batch of one against three": gemm({"b": ones(1, 8, 4)}, batch=(3,)),
    "one matrix for a batch": gemm({"b": ones(8, 4)}, batch=(2, 3)),
    "broadcast in float64": gemm({"b": ones(1, 8, 4).double()}, batch=(3,), dtype=torch.float64),
    "expanded batch": gemm({"b": ones(8, 4).expand(3, 8, 4)}, batch=(3,)),
    "column-major": gemm({"a": ones(8, 6).t(), "b": ones(4, 8).t()}),
    "padded": gemm({"a": ones(6, 12)[:, :8], "residual": ones(6, 7)[:, :4]}),
    "sum": gemm_add({}),
    "wider sum": gemm_add({"a": ones(6, 8).bfloat16(), "b": ones(8, 4).bfloat16()}),
    "empty": gemm({"a": ones(0, 8), "residual": ones(0, 4)}),
    **{f"scales {name}": scaled({}, name) for name in ("row", "tensor", "block", "vector")},
    "sum of codes": scaled({}, add=True),
    "codes with a bias": scaled({"bias": ones(4)}),
    "quantize": quantize(granularity="128x128", row=True, column=True, random=torch.ones(2, dtype=torch.int64)),
    "quantize by a magnitude": quantize_by(),
    "dequantize": dequantize(),
    "norm": normed(),
    "activation": activated(),
    "codes of an activation": activated_codes({"x": ones(6, 16)[:, :8]}),
    "codes of an activation across": activated_codes({"x": ones(200, 8), "up": ones(200, 8), "probs": ones(200), "mask": torch.ones(200, dtype=torch.uint8)}, row=False),
    "codes of gradients": differentiated_codes({"dy": ones(6, 16)[:, :8]}),
    "codes of packed gradients": differentiated_codes(packed=True, granularity="128x128"),
    "codes of a norm": normed_codes({"x": ones(6, 8).half(), "residual": ones(6, 8).half()}),
    "loss": loss({"target": torch.zeros(6, dtype=torch.int32)}, 0.1, 1e-3, 30.0),
    "symmetric product": symmetric({"a": ones(8, 6).half().t(), "residual": ones(6, 6)}, torch.float32),
    "symmetric products": symmetric({"a": ones(3, 6, 8), "residual": ones(3, 6, 6)}),
    "softmax of 16 bits to 32": shared({"x": ones(2, 6, 8).half()}, "log_softmax", 0.5, torch.float32),
    "softmax of nothing": shared({"x": ones(6, 0)}),
    "softmax of float64": shared({"x": ones(6, 8).double()}),
    "logsumexp": shared({"x": ones(6, 16)[:, :8].half()}, "logsumexp"),
    "embedding": taken({"weight": ones(6, 8).half()}),
    "gradient of an embedding": gathered(),
    "rope": turned({"q": ones(2, 4, 3, 8).transpose(1, 2)}),
    "rope up to the end of its table": turned(positions=False, offset=2),
    "attention": attended({"q": ones(2, 4, 3, 8).bfloat16().transpose(1, 2)}),
    "attention in a window": attended(window=(1, 0)),
    "attention of float64": attended({"q": ones(2, 3, 4, 8).double(), "k": ones(2, 5, 2, 8).double(), "v": ones(2, 5, 2, 8).double()}),
}


@pytest.mark.parametrize("case", list(ALLOWED))
def test_a_trace_allows_what_a_call_allows_and_says_its_shape(case):
    call, operands = ALLOWED[case]
    out = call(*[t.clone() if t.is_contiguous() else t for t in operands])
    traced = make_fx(call, tracing_mode="symbolic")(*operands)
    with FakeTensorMode() as mode:
        fake = call(*[mode.from_tensor(t) for t in operands])
    flat = lambda value: [value] if isinstance(value, torch.Tensor) else list(value or [])  # noqa: E731
    for real, told in zip(flat(out), flat(fake), strict=True):
        assert (real.shape, real.dtype, real.stride()) == (told.shape, told.dtype, told.stride())
    assert traced is not None
