"""Quantised tensors and the products made of them."""

import copy
import io

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig

CONFIGS = [
    QuantConfig(format, granularity)
    for format in ("e4m3", "e5m2", "hybrid")
    for granularity in ("tensorwise", "rowwise", "blockwise", "mx")
]
FLOOR = {"e4m3": 25, "e5m2": 20, "hybrid": 20}
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]


@pytest.mark.parametrize("config", CONFIGS, ids=lambda c: f"{c.format}-{c.granularity}")
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_the_three_products_of_a_step(device, config, trans_a, trans_b):
    m, n, k = 96, 80, 272
    a = torch.randn((k, m) if trans_a else (m, k), device=device, requires_grad=True)
    b = torch.randn((n, k) if trans_b else (k, n), device=device, requires_grad=True)
    upstream = torch.randn(m, n, device=device)
    out = rt.gemm_fp8(a, b, trans_a, trans_b, config=config)
    out.backward(upstream)
    x, w = a.detach().cpu().double().requires_grad_(), b.detach().cpu().double().requires_grad_()
    expected = (x.t() if trans_a else x) @ (w.t() if trans_b else w)
    expected.backward(upstream.cpu().double())
    floor = FLOOR[config.format]
    testing.assert_snr(expected, out, floor)
    testing.assert_snr(x.grad, a.grad, floor)
    testing.assert_snr(w.grad, b.grad, floor)
    assert a.grad.shape == a.shape and b.grad.shape == b.shape


@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_column_major_operands_give_the_gradients_of_row_major_ones(device, trans_a, trans_b):
    config = QuantConfig("hybrid", "blockwise")
    a = torch.randn((272, 96) if trans_a else (96, 272), device=device)
    b = torch.randn((80, 272) if trans_b else (272, 80), device=device)

    def step(x, w):
        x, w = x.requires_grad_(), w.requires_grad_()
        out = rt.gemm_fp8(x, w, trans_a, trans_b, config=config)
        return out, *torch.autograd.grad(out.square().sum(), (x, w))

    column_major = [t.t().contiguous().t() for t in (a, b)]
    for want, have in zip(step(a.clone(), b.clone()), step(*column_major), strict=True):
        assert torch.equal(want, have)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_empty_products(device, granularity, shape):
    m, n, k = shape
    a = torch.randn(m, k, device=device, requires_grad=True)
    b = torch.randn(n, k, device=device, requires_grad=True)
    out = rt.gemm_fp8(a, b, trans_b=True, config=QuantConfig(granularity=granularity))
    assert out.shape == (m, n) and not out.any()
    out.sum().backward()
    assert a.grad.shape == a.shape and b.grad.shape == b.shape


def test_backward_keeps_8_bit_copies_only(device):
    a = torch.randn(64, 96, device=device, requires_grad=True)
    b = torch.randn(32, 96, device=device, requires_grad=True)
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        rt.gemm_fp8(a, b, trans_b=True)
    assert sum(t.nbytes for t in saved) < a.numel() + b.numel() + 64
    saved.clear()
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        rt.gemm_fp8(a, b.detach(), trans_b=True)
    assert sum(t.nbytes for t in saved) < b.numel() + 64


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
def test_main_grad_collects_micro_batches(device, granularity):
    config = QuantConfig(granularity=granularity)
    weight = torch.randn(80, 96, device=device, dtype=torch.bfloat16, requires_grad=True)
    main_grad = torch.zeros(80, 96, device=device)
    expected = torch.zeros(80, 96, dtype=torch.float64)
    for _ in range(2):
        x = torch.randn(160, 96, device=device, dtype=torch.bfloat16)
        upstream = torch.randn(160, 80, device=device, dtype=torch.bfloat16)
        rt.gemm_fp8(x, weight, trans_b=True, config=config, main_grad=main_grad).backward(upstream)
        expected += upstream.cpu().double().t() @ x.cpu().double()
    assert weight.grad is None
    testing.assert_snr(expected, main_grad, 25)


@pytest.mark.deterministic
def test_stochastic_rounding_is_unbiased_and_repeats_with_its_seed(device):
    x = torch.full((64, 64), 1.03, device=device)
    x[0, 0] = 448
    config = QuantConfig(rounding="stochastic")
    seed = torch.tensor([7, 0], dtype=torch.int64, device=device)
    first, second = (rt.quantize(x, config, seed=seed).dequantize() for _ in range(2))
    assert torch.equal(first, second)
    other = rt.quantize(x, config, seed=torch.tensor([8, 0], dtype=torch.int64, device=device)).dequantize()
    assert not torch.equal(first, other)
    inner = first.flatten()[1:]
    assert set(inner.unique().tolist()) == {1.0, 1.125}
    assert abs(inner.mean().item() - 1.03) < 0.01
    assert set(rt.quantize(x).dequantize().flatten()[1:].unique().tolist()) == {1.0}
    unsigned = torch.tensor([7, 0], dtype=torch.uint64, device=device)  # the words that the operator declares
    assert torch.equal(first, rt.quantize(x, config, seed=unsigned).dequantize())


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("weight", [False, True])
def test_codes_stand_for_what_was_quantised(device, granularity, weight):
    x = torch.randn(200, 304, device=device, dtype=torch.bfloat16)
    q = rt.quantize(x, QuantConfig(granularity=granularity), weight=weight, transpose=True)
    testing.assert_snr(x, q.dequantize(), 28)
    across = rt.QuantizedTensor(None, None, q.q_t, q.scale_t, q.grouping, q.dtype)
    testing.assert_snr(x, across.dequantize(), 28)
    assert across.shape == x.shape and q.dequantize(torch.float32).dtype == torch.float32


def test_power_of_two_scales(device):
    x = torch.randn(32, 160, device=device)
    scale = rt.quantize(x, QuantConfig(granularity="rowwise", scale_dtype=torch.float8_e8m0fnu)).scale
    assert torch.equal(scale, torch.exp2(torch.log2(scale).round()))


def parts(q):
    return [None if p is None else p.cpu().view(torch.uint8) for p in (q.q, q.scale, q.q_t, q.scale_t)]


def assert_same_codes(x, y):
    assert type(y) is rt.QuantizedTensor and x.grouping == y.grouping and x.shape == y.shape
    for p, q in zip(parts(x), parts(y)):
        assert (p is None and q is None) or torch.equal(p, q)


@pytest.mark.parametrize("granularity", ["tensorwise", "blockwise", "mx"])
@pytest.mark.parametrize("transpose", [False, True])
def test_a_quantized_tensor_survives_what_tensors_go_through(device, granularity, transpose):
    x = torch.randn(64, 160, device=device, dtype=torch.bfloat16)
    q = rt.quantize(x, QuantConfig(granularity=granularity), transpose=transpose)
    for same in (q.clone(), q.detach(), q.to(device), q.to("cpu"), q.cpu(), copy.copy(q), copy.deepcopy(q), q.to(torch.bfloat16)):
        assert_same_codes(q, same)
        assert same.dtype == torch.bfloat16
    assert q.to(torch.float32).dtype == torch.float32 and q.float().dequantize().dtype == torch.float32
    clone = q.clone()
    clone.q.view(torch.uint8).zero_()
    assert q.q.view(torch.uint8).any()
    for weights_only in (True, False):
        file = io.BytesIO()
        torch.save({"weight": q}, file)
        file.seek(0)
        assert_same_codes(q, torch.load(file, weights_only=weights_only)["weight"])
    module = torch.nn.Module()
    module.register_buffer("weight", q)
    file = io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other = torch.nn.Module()
    other.register_buffer("weight", rt.quantize(torch.zeros_like(x), QuantConfig(granularity=granularity), transpose=transpose))
    other.load_state_dict(torch.load(file))
    assert_same_codes(q, other.weight)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_products_of_quantized_tensors_equal_those_of_plain_ones(device, granularity, trans_a, trans_b):
    config = QuantConfig(granularity=granularity)
    a = torch.randn((96, 32) if trans_a else (32, 96), device=device, dtype=torch.bfloat16)
    b = torch.randn((48, 96) if trans_b else (96, 48), device=device, dtype=torch.bfloat16)
    expected = rt.gemm_fp8(a, b, trans_a, trans_b, config=config)
    q_a = rt.quantize(a, config, transpose=trans_a)
    q_b = rt.quantize(b, config, weight=True, transpose=not trans_b)
    for left, right in ((q_a, q_b), (a, q_b), (q_a, b)):
        assert torch.equal(rt.gemm_fp8(left, right, trans_a, trans_b, config=config), expected)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_gradients_pass_quantized_tensors_as_they_pass_plain_ones(device, granularity, trans_a, trans_b):
    config = QuantConfig("hybrid", granularity)
    a = torch.randn((96, 160) if trans_a else (160, 96), device=device, dtype=torch.bfloat16)
    b = torch.randn((48, 96) if trans_b else (96, 48), device=device, dtype=torch.bfloat16)
    upstream = torch.randn(160, 48, device=device, dtype=torch.bfloat16)

    def run(quantize_a, quantize_b):
        x, w = a.clone().requires_grad_(), b.clone().requires_grad_()
        left = rt.quantize(x, config, transpose=True) if quantize_a else x
        right = rt.quantize(w, config, weight=True, transpose=True) if quantize_b else w
        out = rt.gemm_fp8(left, right, trans_a, trans_b, config=config)
        out.backward(upstream)
        return out, x.grad, w.grad

    expected = run(False, False)
    for quantized in ((True, True), (True, False), (False, True)):
        for want, have in zip(expected, run(*quantized), strict=True):
            assert torch.equal(want, have)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("out_dtype", [None, torch.float32])
def test_a_bias_is_added_before_the_one_rounding(device, granularity, out_dtype):
    config = QuantConfig("hybrid", granularity)
    a, b, bias = (torch.randn(shape, device=device).to(torch.bfloat16) for shape in ((2, 48, 64), (40, 64), (40,)))
    bias = bias.to(out_dtype or torch.bfloat16)
    product = rt.gemm_fp8(a, b, trans_b=True, config=config, out_dtype=torch.float32)
    expected = (product + bias.float()).to(out_dtype or torch.bfloat16)
    upstream = torch.randn(2, 48, 40, device=device).to(expected.dtype)

    def run(quantised):
        x, w, c = (t.clone().requires_grad_() for t in (a, b, bias))
        factor = rt.quantize(w, config, weight=True, transpose=True) if quantised else w
        out = rt.gemm_fp8(x, factor, trans_b=True, config=config, out_dtype=out_dtype, bias=c)
        out.backward(upstream)
        return out.detach(), x.grad, w.grad, c.grad

    found = run(False)
    if out_dtype == torch.float32:  # a kernel may scale and add in one rounding: `product` has had one of its own
        exact = product.double() + bias.double()
        assert ((found[0] - exact).abs() <= 1.01 * 2.0**-24 * (product.double().abs() + exact.abs())).all()
    else:
        assert torch.equal(found[0], expected)
    assert found[3].dtype == bias.dtype
    testing.assert_snr(upstream.double().sum((0, 1)), found[3], 45)
    for want, have in zip(found, run(True), strict=True):
        assert torch.equal(want, have)
    with torch.no_grad():
        assert torch.equal(rt.gemm_fp8(a, b, trans_b=True, config=config, out_dtype=out_dtype, bias=bias), found[0])


def test_a_bias_alone_gets_its_gradient_and_its_tangent(device):
    a, b, bias = (torch.randn(shape, device=device) for shape in ((48, 64), (40, 64), (40,)))
    leaf = bias.clone().requires_grad_()
    rt.gemm_fp8(a, b, trans_b=True, bias=leaf).sum().backward()
    assert torch.equal(leaf.grad, torch.full_like(bias, 48))
    _, tangent = torch.func.jvp(lambda c: rt.gemm_fp8(a, b, trans_b=True, bias=c), (bias,), (2 * bias,))
    assert torch.equal(tangent, (2 * bias).expand(48, 40))
    with torch.autocast(device.type, dtype=torch.bfloat16):
        for factor in (b, rt.quantize(b.bfloat16(), weight=True)):
            assert rt.gemm_fp8(a, factor, trans_b=True, bias=bias).dtype == torch.bfloat16


def test_what_the_gradient_of_a_quantized_tensor_needs_is_said_in_the_forward_call(device):
    x = torch.randn(32, 32, device=device, requires_grad=True)
    blockwise = QuantConfig(granularity="blockwise")
    with pytest.raises(ValueError, match="a's gradient; make it with transpose=True"):
        rt.gemm_fp8(x, rt.quantize(x.detach()), trans_b=True)
    q, w = rt.quantize(x, blockwise, transpose=True), rt.quantize(x, blockwise, weight=True, transpose=True)
    with pytest.raises(ValueError, match="give that config"):
        rt.gemm_fp8(q, w, trans_b=True)


def test_a_quantized_weight_adds_its_gradient_to_main_grad(device):
    weight = torch.randn(48, 96, device=device, dtype=torch.bfloat16, requires_grad=True)
    x = torch.randn(64, 96, device=device, dtype=torch.bfloat16)
    main_grad, expected = torch.ones(48, 96, device=device), torch.ones(48, 96, device=device)
    rt.gemm_fp8(x, weight, trans_b=True, main_grad=expected).sum().backward()
    codes = rt.quantize(weight, weight=True, transpose=True)
    rt.gemm_fp8(x, codes, trans_b=True, main_grad=main_grad).sum().backward()
    assert torch.equal(main_grad, expected) and weight.grad is None


def test_what_a_quantized_tensor_cannot_do_is_said(device):
    q = rt.quantize(torch.randn(32, 32, device=device))
    with pytest.raises(NotImplementedError, match=r"call \.dequantize\(\) first"):
        q + 1
    with pytest.raises(ValueError, match="transpose=True"):
        rt.gemm_fp8(q, q)
    other = rt.quantize(torch.randn(32, 32, device=device), QuantConfig(granularity="rowwise"))
    with pytest.raises(ValueError, match="make both with one config"):
        q.copy_(other)
    with pytest.raises(ValueError, match="quantize both with one config"):
        rt.gemm_fp8(q, other, trans_b=True)


@pytest.mark.parametrize(
    "arguments,message",
    [
        ({"format": "e3m4"}, "use one of 'e4m3'"),
        ({"granularity": "block"}, "use one of 'tensorwise'"),
        ({"rounding": "up"}, "use one of 'nearest'"),
        ({"granularity": "blockwise", "block_size": 64}, "use block_size=128"),
        ({"block_size": 128}, "leave block_size out"),
        ({"granularity": "mx", "scale_dtype": torch.float32}, "leave scale_dtype out"),
        ({"scale_dtype": torch.float16}, "use one of None"),
    ],
)
def test_bad_configurations_are_refused_with_the_way_out(arguments, message):
    with pytest.raises(ValueError, match=message):
        QuantConfig(**arguments)
