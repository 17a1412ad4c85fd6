"""activation_quantize and rms_norm_quantize against the operators that they are made of."""

import pytest
import torch

import ridgeline.torch as rt
from ridgeline.torch import QuantConfig

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
CONFIGS = [
    QuantConfig("e4m3", "tensorwise"),
    QuantConfig("e5m2", "rowwise"),
    QuantConfig("e4m3", "blockwise"),
    QuantConfig("e4m3", "blockwise", torch.float8_e8m0fnu),
    QuantConfig("e5m2", "mx"),
]
PARTS = ("q", "scale", "q_t", "scale_t")
ops = torch.ops.ridgeline


def words(config):
    return f"{config.format}-{config.granularity}-{config.rule}"


def leaf(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


def bits(tensor):
    return tensor.detach().cpu().contiguous().view(torch.uint8)


def same_codes(device, made, wanted):
    """Bit for bit on a processor; on a GPU numbers are within the operator's error model, which moves few of them across a middle."""
    assert (made.grouping, made.shape) == (wanted.grouping, wanted.shape)
    for name in PARTS:
        have, want = getattr(made, name), getattr(wanted, name)
        assert (have is None) == (want is None), name
        if have is None:
            continue
        assert (have.shape, have.dtype) == (want.shape, want.dtype)
        if device.type == "cpu":
            assert torch.equal(bits(have), bits(want)), name
        elif name.startswith("q"):
            assert (bits(have) == bits(want)).float().mean() > 0.99, name
        else:
            torch.testing.assert_close(have.float(), want.float(), rtol=1e-5 if have.dtype == torch.float32 else 0, atol=0)


def wide(tensor):
    return None if tensor is None else tensor.detach().float()


# ---- activation_quantize


@pytest.mark.parametrize("config", CONFIGS, ids=words)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_are_those_of_the_activation_in_float32(device, dtype, config):
    x, up = leaf(131, 300, dtype=dtype, device=device).detach(), leaf(131, 300, dtype=dtype, device=device).detach()
    probs, mask = torch.rand(131, device=device), torch.arange(131, device=device) % 3 != 0
    for given in ({}, {"up": up}, {"packed": True}, {"up": up, "probs": probs, "mask": mask}):
        for transpose in (False, True):
            made = rt.activation_quantize(x, "gelu", config, **given, transpose=transpose)
            exact = {name: wide(one) if name == "up" else one for name, one in given.items()}
            same_codes(device, made, rt.quantize(rt.activation(x.float(), "gelu", **exact), config, transpose=transpose))
            assert made.dtype == dtype and not made.requires_grad


@pytest.mark.parametrize("function", ["silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"])
def test_every_function_and_its_constants(device, function):
    x, up = torch.randn(40, 96, device=device), torch.randn(40, 96, device=device)
    made = rt.activation_quantize(x, function, up=up, alpha=1.25, limit=0.75)
    same_codes(device, made, rt.quantize(rt.activation(x, function, up=up, alpha=1.25, limit=0.75)))


def test_nothing_is_rounded_to_16_bits_in_between(device):
    x = torch.randn(128, 512, device=device, dtype=torch.bfloat16)
    assert not torch.equal(bits(rt.activation_quantize(x, packed=True).q), bits(rt.quantize(rt.swiglu(x)).q))
    norm = rt.rms_norm(x, 512)
    assert not torch.equal(bits(rt.rms_norm_quantize(x, 512).q), bits(rt.quantize(norm).q))


@pytest.mark.parametrize("dtype", DTYPES)
def test_gradients_are_those_of_the_activation(device, dtype):
    upstream = torch.randn(20, 48, device=device).to(dtype)
    mask = torch.arange(20, device=device) % 4 != 1

    def inputs():
        torch.manual_seed(3)
        return [leaf(20, 48, dtype=dtype, device=device), leaf(20, 48, dtype=dtype, device=device), leaf(20, device=device)]

    def found(call, count):
        given = inputs()
        return torch.autograd.grad(call(*given), given[:count], upstream)

    for call, plain, count in (
        (lambda x, up, probs: rt.activation_quantize(x, "gelu", up=up, probs=probs, mask=mask), lambda x, up, probs: rt.activation(x, "gelu", up=up, probs=probs, mask=mask), 3),
        (lambda x, up, probs: rt.activation_quantize(x), lambda x, up, probs: rt.activation(x), 1),
    ):
        for have, want in zip(found(lambda *given: call(*given).dequantize(), count), found(plain, count), strict=True):
            assert torch.equal(have, want)
    packed = leaf(20, 96, dtype=dtype, device=device)
    (have,) = torch.autograd.grad(rt.activation_quantize(packed, packed=True).dequantize(), packed, upstream)
    (want,) = torch.autograd.grad(rt.swiglu(packed), packed, upstream)
    assert torch.equal(have, want)
    only = inputs()[2]
    (of_probs,) = torch.autograd.grad(rt.activation_quantize(packed.detach(), packed=True, probs=only).dequantize(), only, upstream)
    (want,) = torch.autograd.grad(rt.swiglu(packed.detach(), probs=only), only, upstream)
    assert torch.equal(of_probs, want)


def test_a_product_reads_the_codes_and_backward_keeps_no_wide_result(device):
    x, weight = leaf(64, 256, device=device, dtype=torch.bfloat16), leaf(32, 128, device=device, dtype=torch.bfloat16)
    upstream = torch.randn(64, 32, device=device).bfloat16()
    saved = []
    with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t) or t, lambda t: t):
        made = rt.activation_quantize(x, packed=True, transpose=True)
        out = rt.gemm_fp8(made, weight, trans_b=True)
    assert not any(t.shape == (64, 128) and t.element_size() > 1 for t in saved) and any(t is x for t in saved)
    dx, dw = torch.autograd.grad(out, (x, weight), upstream)
    y = rt.swiglu(x.detach().float()).requires_grad_()  # what is rounded, in float32
    codes = rt.quantize(y, transpose=True)
    again = weight.detach().requires_grad_()
    expected = rt.gemm_fp8(codes, again, trans_b=True, out_dtype=torch.bfloat16)
    dy, dw_expected = torch.autograd.grad(expected, (y, again), upstream)
    torch.testing.assert_close(out, expected)
    torch.testing.assert_close(dw, dw_expected)
    (dx_expected,) = torch.autograd.grad(rt.swiglu(x), x, dy.bfloat16())
    if device.type == "cpu":
        assert torch.equal(out, expected) and torch.equal(dw, dw_expected)
    torch.testing.assert_close(dx, dx_expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("config", CONFIGS, ids=words)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_of_gradients_are_those_of_both_side_by_side_in_float32(device, dtype, config):
    dy, x, up = (torch.randn(131, 150, device=device).to(dtype) for _ in range(3))
    probs, mask = torch.rand(131, device=device), (torch.arange(131, device=device) % 3 != 0).to(torch.uint8)
    coding = config.grad_dtype, config.grouping(), config.rule
    for more in ((None, None), (probs, mask)):
        exact = ops.activation_backward(dy.float(), x.float(), up.float(), *more, "gelu", False, 1.0, 1.0, True, True, False)
        want = ops.quantize(torch.cat(exact[:2], 1), *coding, True, True)
        both = torch.cat((x, up), 1)
        for operands, packed in (((x, up), False), ((both, None), True)):
            have = ops.activation_quantize_backward(dy, *operands, *more, "gelu", packed, 1.0, 1.0, *coding, True, True)
            shape = config.grouping(), dtype
            same_codes(device, rt.QuantizedTensor(*have, *shape), rt.QuantizedTensor(*want, *shape))
    alone = ops.activation_backward(dy.float(), x.float(), None, None, None, "relu2", False, 1.0, 1.0, True, False, False)[0]
    have = ops.activation_quantize_backward(dy, x, None, None, None, "relu2", False, 1.0, 1.0, *coding)
    same_codes(device, rt.QuantizedTensor(*have[:2], None, None, *shape), rt.QuantizedTensor(*ops.quantize(alone, *coding)[:2], None, None, *shape))


def test_gradients_are_differentiated_again(device):
    upstream = torch.randn(6, 12, device=device)

    def twice(call, *inputs):
        first = torch.autograd.grad(call(*inputs), inputs, upstream, create_graph=True)
        return torch.autograd.grad(sum(each.square().sum() for each in first), inputs)

    x, r, w = leaf(6, 12, device=device), leaf(6, 12, device=device), leaf(12, device=device)
    both = leaf(6, 24, device=device)
    pairs = [
        (lambda t: rt.activation_quantize(t, packed=True).dequantize(), lambda t: rt.swiglu(t), (both,)),
        (lambda x, w: rt.rms_norm_quantize(x, 12, w, 1e-3).dequantize(), lambda x, w: rt.rms_norm(x, 12, w, 1e-3), (x, w)),
        (lambda x, r, w: rt.rms_norm_quantize(x, 12, w, 1e-3, residual=r)[0].dequantize(), lambda x, r, w: rt.rms_norm(x, 12, w, 1e-3, residual=r)[0], (x, r, w)),
    ]
    for call, plain, inputs in pairs:
        for have, want in zip(twice(call, *inputs), twice(plain, *inputs), strict=True):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)


# ---- rms_norm_quantize


@pytest.mark.parametrize("config", CONFIGS, ids=words)
@pytest.mark.parametrize("dtype", DTYPES)
def test_codes_are_those_of_the_norm_in_float32(device, dtype, config):
    x, residual = leaf(131, 300, dtype=dtype, device=device).detach(), leaf(131, 300, dtype=dtype, device=device).detach()
    narrow, factor = torch.randn(300, device=device).to(dtype), torch.randn(300, device=device)
    for weight, zero_centred in ((None, False), (narrow, False), (factor, True)):
        for transpose in (False, True):
            made = rt.rms_norm_quantize(x, 300, weight, 1e-3, config, zero_centred=zero_centred, transpose=transpose)
            plain = rt.rms_norm(x.float(), 300, wide(weight), 1e-3, zero_centred=zero_centred)
            same_codes(device, made, rt.quantize(plain, config, transpose=transpose))
        made, total = rt.rms_norm_quantize(x, 300, weight, 1e-3, config, residual=residual, zero_centred=zero_centred)
        assert torch.equal(total, x + residual) and made.dtype == dtype
        same_codes(device, made, rt.quantize(rt.rms_norm(total.float(), 300, wide(weight), 1e-3, zero_centred=zero_centred), config))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("zero_centred", [False, True])
def test_gradients_are_those_of_the_norm(device, dtype, zero_centred):
    x, r, w = leaf(20, 48, dtype=dtype, device=device), leaf(20, 48, dtype=dtype, device=device), leaf(48, device=device)
    upstream, of_sum = torch.randn(20, 48, device=device).to(dtype), torch.randn(20, 48, device=device).to(dtype)

    def gradients(norm):
        alone = norm(x, w)
        yield from torch.autograd.grad(alone, (x, w), upstream)
        y, total = norm(x, w, r)
        yield from torch.autograd.grad((y, total), (x, r, w), (upstream, of_sum), retain_graph=True)
        yield from torch.autograd.grad(y, (r, w), upstream, retain_graph=True)
        found = torch.autograd.grad(total, (x, r, w), of_sum, allow_unused=True)
        yield from found[:2]
        assert found[2] is None or not found[2].any()

    def coded(x, w, r=None):
        made = rt.rms_norm_quantize(x, 48, w, 1e-4, residual=r, zero_centred=zero_centred)
        return made.dequantize() if r is None else (made[0].dequantize(), made[1])

    def plain(x, w, r=None):
        return rt.rms_norm(x, 48, w, 1e-4, residual=r, zero_centred=zero_centred)

    for have, want in zip(gradients(coded), gradients(plain), strict=True):
        assert have.dtype == want.dtype
        if device.type == "cpu":
            assert torch.equal(have, want)
        torch.testing.assert_close(have, want, rtol=2e-2 if dtype != torch.float32 else 1e-4, atol=1e-3)


# ---- Both


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiled_without_a_break(device, dynamic):
    torch._dynamo.reset()
    weight, factor = leaf(24, 64, device=device), leaf(64, device=device)

    def block(x, r):
        made, total = rt.rms_norm_quantize(x, 64, factor, 1e-5, residual=r, transpose=True)
        up = rt.gemm_fp8(made, weight.repeat(2, 1), trans_b=True)
        down = rt.gemm_fp8(rt.activation_quantize(up, packed=True, transpose=True), weight[:, :24].contiguous(), trans_b=True)
        return down + total[:, :24]

    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (32, 48):
        x, r, upstream = leaf(rows, 64, device=device), leaf(rows, 64, device=device), torch.randn(rows, 24, device=device)
        inputs = (x, r, weight, factor)
        want, have = block(x, r), compiled(x, r)
        torch.testing.assert_close(have, want)
        for ours, theirs in zip(torch.autograd.grad(have, inputs, upstream), torch.autograd.grad(want, inputs, upstream), strict=True):
            torch.testing.assert_close(ours, theirs)
        with torch.no_grad():
            torch.testing.assert_close(compiled(x, r), want)


def opcheck_arguments(device):
    x, up = torch.randn(6, 40, device=device), torch.randn(6, 40, device=device)
    probs, mask = torch.rand(6, device=device), torch.ones(6, dtype=torch.uint8, device=device)
    random = torch.tensor([3, 5], device=device)
    e4m3, e5m2 = torch.float8_e4m3fn, torch.float8_e5m2
    yield ops.activation_quantize.default, (x, up, probs, mask, "silu", False, 1.0, 1.0, e4m3, "1x128", "exact", True, True)
    yield ops.activation_quantize.default, (x.bfloat16(), None, None, None, "gelu", True, 1.0, 1.0, e5m2, "mx", "floor", False, True, random)
    yield ops.activation_quantize.default, (x.half(), None, None, None, "relu2", False, 1.0, 1.0, e5m2, "128x128")
    yield ops.activation_quantize_backward.default, (x, x.clone(), up, probs, mask, "silu", False, 1.0, 1.0, e5m2, "1x128", "exact", True, True)
    yield ops.activation_quantize_backward.default, (x[:, :20].bfloat16(), x.bfloat16(), None, None, None, "gelu", True, 1.0, 1.0, e4m3, "mx", "even", True, False, random)
    yield ops.rmsnorm_quantize.default, (x, None, None, 1e-5, False, e4m3, "tensor", "ceil", True, True)
    yield ops.rmsnorm_quantize.default, (x, up, probs.new_ones(40), 1e-5, True, e4m3, "row", "exact", True, False, random)
    yield ops.rmsnorm_quantize.default, (x.bfloat16(), up.bfloat16(), probs.new_ones(40), 1e-5, False, e5m2, "mx", "even", False, True)


@pytest.mark.parametrize("index", range(8))
def test_opcheck(device, index):
    op, arguments = list(opcheck_arguments(device))[index]
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")  # the rest compares 8-bit floats, for which torch has no allclose
    torch.library.opcheck(op, arguments, test_utils=tests)


@pytest.mark.deterministic
def test_stochastic_rounding_repeats_with_its_seed_and_differs_without(device):
    config = QuantConfig(rounding="stochastic")
    x = torch.randn(64, 96, device=device)
    seed = torch.tensor([7, 11], device=device)
    for call in (lambda **more: rt.activation_quantize(x, config=config, **more), lambda **more: rt.rms_norm_quantize(x, 96, config=config, **more)):
        first, second = bits(call(seed=seed).q), bits(call().q)
        assert torch.equal(first, bits(call(seed=seed).q)) and not torch.equal(first, second) and not torch.equal(second, bits(call().q))


@pytest.mark.parametrize("config", CONFIGS, ids=words)
def test_no_rows_and_operands_that_are_not_dense(device, config):
    empty = torch.empty(0, 32, device=device, requires_grad=True)
    made = rt.activation_quantize(empty, config=config, packed=True, transpose=True)
    assert made.shape == (0, 16) and made.q_t.shape == (16, 0)
    made.dequantize().sum().backward()
    norm = rt.rms_norm_quantize(empty, 32, config=config, transpose=True)
    assert norm.shape == (0, 32)
    norm.dequantize().sum().backward()
    whole = torch.randn(40, 160, device=device)
    for x in (whole[:, :64], whole[:, ::2], whole[:1, :64].expand(40, 64), whole.t()):
        same_codes(device, rt.activation_quantize(x, config=config), rt.activation_quantize(x.contiguous(), config=config))
        width = x.shape[1]
        same_codes(device, rt.rms_norm_quantize(x, width, config=config), rt.rms_norm_quantize(x.contiguous(), width, config=config))
    same_codes(device, rt.activation_quantize(whole[:, :80], config=config, up=whole[:, 80:]), rt.activation_quantize(whole, config=config, packed=True))


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: rt.activation_quantize(x, "swish"), ValueError, 'activation_quantize: function="swish" is unknown; use one of silu, gelu'),
        (lambda x: rt.activation_quantize(x[None]), ValueError, r"activation_quantize: the input has 3 dimensions; give a matrix, for instance x.flatten\(0, -2\)"),
        (lambda x: rt.activation_quantize(x.double()), TypeError, "activation_quantize: the input is torch.float64; give torch.float32, torch.bfloat16 or torch.float16$"),
        (lambda x: rt.activation_quantize(x, up=x[:, :3]), ValueError, r"activation_quantize: up is torch.float32 of shape \[4, 3\]; give torch.float32 of shape \[4, 6\]"),
        (lambda x: rt.activation_quantize(x[:, :5], packed=True), ValueError, "activation_quantize: a packed input has 5 columns"),
        (lambda x: rt.activation_quantize(x, limit=-1.0), ValueError, "activation_quantize: a limit of -1 is not possible"),
        (lambda x: rt.activation_quantize(x, config="tensorwise"), ValueError, "activation_quantize: config='tensorwise'; give a QuantConfig"),
        (lambda x: rt.activation_quantize(x, config=QuantConfig(rounding="stochastic"), seed=x[0]), TypeError, "activation_quantize: random is torch.float32 of shape .6.; give two 64-bit words"),
        (lambda x: ops.activation_quantize(x, None, None, None, "silu", False, 1.0, 1.0, torch.float8_e4m3fn, "blob"), ValueError, 'activation_quantize: granularity "blob" is unknown; use one of tensor'),
        (lambda x: ops.activation_quantize(x, None, None, None, "silu", False, 1.0, 1.0, torch.float8_e4m3fn, "mx"), ValueError, "activation_quantize: mx scales are powers of two"),
        (lambda x: ops.activation_quantize(x, None, None, None, "silu", False, 1.0, 1.0, torch.float16, "row"), TypeError, "activation_quantize: format is torch.float16"),
        (lambda x: ops.activation_quantize_backward(x, x, None, None, None, "silu", True, 1.0, 1.0, torch.float8_e5m2, "row"), ValueError, "activation_quantize_backward: the gradient is torch.float32 of shape .4, 6.; give torch.float32 of shape .4, 3."),
        (lambda x: ops.activation_quantize_backward(x.requires_grad_(), x, None, None, None, "silu", False, 1.0, 1.0, torch.float8_e5m2, "row")[0].float().sum().backward(), NotImplementedError, "activation_quantize_backward: no derivative"),
        (lambda x: rt.rms_norm_quantize(x, 7), ValueError, "rms_norm_quantize: the last dimensions of the input"),
        (lambda x: rt.rms_norm_quantize(x[None], 6), ValueError, "rmsnorm_quantize: the input has 3 dimensions; give a matrix"),
        (lambda x: rt.rms_norm_quantize(x.double(), 6), TypeError, "rmsnorm_quantize: the input is torch.float64"),
        (lambda x: rt.rms_norm_quantize(x, 6, eps=-1.0), ValueError, "rmsnorm_quantize: an eps of -1"),
        (lambda x: rt.rms_norm_quantize(x, 6, zero_centred=True), ValueError, "rmsnorm_quantize: zero_centred is about the weight"),
        (lambda x: rt.rms_norm_quantize(x, 6, residual=x[:2]), ValueError, "rmsnorm_quantize: residual is torch.float32 of shape .2, 6."),
        (lambda x: rt.rms_norm_quantize(x, 6, x[0].long()), ValueError, "rmsnorm_quantize: weight is torch.int64"),
        (lambda x: ops.rmsnorm_quantize(x, None, None, 1e-5, False, torch.float8_e4m3fn, "row", "exact", False), ValueError, "rmsnorm_quantize: neither row nor column"),
        (lambda x: rt.activation_quantize(x.requires_grad_()).q.float().sum().backward(), RuntimeError, "does not require grad"),
        (lambda x: ops.activation_quantize(x.requires_grad_(), None, None, None, "silu", False, 1.0, 1.0, torch.float8_e4m3fn, "row")[0].float().sum().backward(), NotImplementedError, "activation_quantize: no derivative"),
        (lambda x: ops.rmsnorm_quantize(x.requires_grad_(), None, None, 1e-5, False, torch.float8_e4m3fn, "row")[5].sum().backward(), NotImplementedError, "rmsnorm_quantize: no derivative"),
    ],
)
def test_mistakes_say_what_to_do(device, call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(4, 6, device=device))


def test_torch_fx_keeps_them_as_one_step(on_cpu):
    class Both(torch.nn.Module):
        def forward(self, x):
            return rt.activation_quantize(x, packed=True).dequantize(), rt.rms_norm_quantize(x, (16,)).dequantize()

    graph = torch.fx.symbolic_trace(Both())
    x = torch.randn(4, 16)
    assert all(torch.equal(have, want) for have, want in zip(graph(x), Both()(x), strict=True))
    assert {node.target for node in graph.graph.nodes} >= {rt.activation_quantize, rt.rms_norm_quantize}


# ---- Layers that read what the module before them made


class Calls(torch.utils._python_dispatch.TorchDispatchMode):
    """Which of our operators run, and how often."""

    def __init__(self):
        super().__init__()
        self.count = {}

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = str(func)
        if name.startswith("ridgeline."):
            name = name.split(".")[1]
            self.count[name] = self.count.get(name, 0) + 1
        return func(*args, **(kwargs or {}))


class Mlp(torch.nn.Module):
    """Norm, product, SwiGLU, product, with a residual; ``fused``: each layer is given to the module before it."""

    def __init__(self, device, dtype, fused=True, config=None):
        super().__init__()
        self.norm, self.act, self.fused = rt.RMSNorm(64, 1e-5, device=device, dtype=dtype), rt.SwiGLU(), fused
        make = rt.Linear if config is None else lambda *sizes, **more: rt.Fp8Linear(*sizes, **more, config=config)
        self.gate_up, self.down = make(64, 96, device=device, dtype=dtype), make(48, 64, device=device, dtype=dtype, bias=False)
        torch.nn.init.normal_(self.norm.weight)

    def forward(self, x, residual):
        if self.fused:
            both, total = self.norm(x, residual, into=self.gate_up)
            return self.act(both, into=self.down) + total
        y, total = self.norm(x, residual)
        return self.down(self.act(self.gate_up(y))) + total


def both_ways(device, dtype, config, backward=True, **options):
    torch.manual_seed(5)
    fused = Mlp(device, dtype, config=config)
    plain = Mlp(device, dtype, False, config)
    plain.load_state_dict(fused.state_dict())
    x, r, upstream = (torch.randn(4, 16, 64, device=device).to(dtype) for _ in range(3))
    found = []
    for model in (fused, plain):
        inputs = x.clone().requires_grad_(), r.clone().requires_grad_()
        out = model(*inputs)
        found.append([out, *(torch.autograd.grad(out, (*inputs, *model.parameters()), upstream) if backward else ())])
    return found


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
def test_layers_read_the_codes_of_the_module_before_them(device, granularity):
    config = QuantConfig("hybrid", granularity)
    fused, plain = both_ways(device, torch.float32, config)
    for have, want in zip(fused, plain, strict=True):
        assert have.shape == want.shape
        if device.type == "cpu":  # of float32 both are rounded once, from the same numbers
            assert torch.equal(have, want)
    model = Mlp(device, torch.bfloat16, config=config)
    x, r = torch.randn(4, 16, 64, device=device).bfloat16().requires_grad_(), torch.randn(4, 16, 64, device=device).bfloat16()
    with Calls() as calls:
        out = model(x, r)
    assert out.shape == x.shape and out.dtype == torch.bfloat16
    assert calls.count["activation_quantize"] == calls.count["rmsnorm_quantize"] == 1 and not {"activation", "rmsnorm", "rmsnorm_add"} & calls.count.keys()
    assert calls.count["quantize"] == 2  # the weights
    with rt.quantized_weights(model), torch.no_grad():
        model(x, r)
        with Calls() as calls:
            again = model(x, r)
        assert "quantize" not in calls.count and torch.equal(again, out)


def test_one_norm_for_several_layers(device):
    norm = rt.RMSNorm(64, 1e-5, device=device)
    layers = [rt.Fp8Linear(64, width, device=device, config=QuantConfig(granularity="blockwise")) for width in (32, 16, 48)]
    x = torch.randn(2, 16, 64, device=device, requires_grad=True)
    with Calls() as calls:
        outs = norm(x, into=layers)
    assert [out.shape for out in outs] == [(2, 16, 32), (2, 16, 16), (2, 16, 48)] and calls.count["rmsnorm_quantize"] == 1
    want = [layer(norm(x)) for layer in layers]
    parameters = [x, norm.weight, *(layer.weight for layer in layers)]
    for have, right in zip([*outs, *torch.autograd.grad(sum(map(torch.sum, outs)), parameters)], [*want, *torch.autograd.grad(sum(map(torch.sum, want)), parameters)], strict=True):
        torch.testing.assert_close(have, right, rtol=1e-3, atol=1e-3)
    layers[1].config = QuantConfig(granularity="rowwise")
    with Calls() as calls:
        norm(x, into=layers)
    assert "rmsnorm_quantize" not in calls.count and calls.count["rmsnorm"] == 1


OTHERWISE = {
    "high precision": lambda model: None,
    "a recipe": lambda model: rt.swap_linears(model, rt.recipe("rowwise_with_gw_hp")),
    "sums": lambda model: rt.swap_linears(model, QuantConfig(sums="promoted")),
    "delayed": lambda model: rt.swap_linears(model, "delayed"),
    "a subclass": lambda model: setattr(model, "down", type("Other", (torch.nn.Linear,), {})(48, 64, bias=False)) or setattr(model, "gate_up", torch.nn.Linear(64, 96)),
    "a parametrisation": lambda model: [torch.nn.utils.parametrizations.weight_norm(layer) for layer in rt.swap_linears(model, QuantConfig()) and (model.gate_up, model.down)],
}


@pytest.mark.parametrize("kind", OTHERWISE)
def test_other_layers_get_the_rows_themselves(on_cpu, device, kind):
    fused = Mlp(device, torch.float32)
    OTHERWISE[kind](fused)
    x, r = torch.randn(3, 64), torch.randn(3, 64)
    with Calls() as calls:
        have = fused(x, r)
    fused.fused = False
    assert torch.equal(have, fused(x, r)) and not {"activation_quantize", "rmsnorm_quantize"} & calls.count.keys()


def test_blocks_that_decide_about_layers_decide_here(on_cpu, device):
    model, x, r = Mlp(device, torch.float32, config=QuantConfig()), torch.randn(3, 64), torch.randn(3, 64)
    high = Mlp(device, torch.float32)

    def fused(model, x=x):
        with Calls() as calls:
            model(x, r.to(x.dtype))
        return calls.count.get("activation_quantize", 0) == 1

    assert fused(model) and not fused(high)
    with rt.autocast_fp8(enabled=False):
        assert not fused(model)
    with rt.autocast_fp8(recipe="blockwise"):
        assert fused(model) and fused(high)
    with rt.statistics(model):
        assert not fused(model) and fused(Mlp(device, torch.float32, config=QuantConfig()))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        with Calls() as calls:
            model(x, r)  # what the norm reads is float32, and what gate_up makes is not
        assert "rmsnorm_quantize" not in calls.count and calls.count["activation_quantize"] == 1
    rt.quantize_(model, "tensorwise")
    assert fused(model)
    with pytest.raises(TypeError, match="b is torch.float32"):
        Mlp(device, torch.float32, config=QuantConfig()).act(torch.randn(3, 96).bfloat16(), into=rt.Fp8Linear(48, 8))
    _, tangent = torch.func.jvp(lambda t: Mlp(device, torch.float32, config=QuantConfig())(t, r), (x,), (torch.ones_like(x),))
    assert tangent.isfinite().all()


def test_a_main_grad_collects_what_codes_give(device):
    layer = rt.Fp8Linear(32, 16, bias=False, device=device)
    layer.weight.main_grad = torch.zeros(16, 32, device=device)
    x = torch.randn(16, 64, device=device, requires_grad=True)
    rt.SwiGLU()(x, into=layer).sum().backward()
    assert layer.weight.grad is None and x.grad.any()
    other = rt.Fp8Linear(32, 16, bias=False, device=device)
    other.load_state_dict(layer.state_dict())
    rt.SwiGLU()(x, into=other).sum().backward()
    torch.testing.assert_close(other.weight.grad, layer.weight.main_grad)


@pytest.mark.parametrize("config", [None, QuantConfig(granularity="blockwise")], ids=str)
def test_layers_behind_modules_compile_without_a_break(device, config):
    torch._dynamo.reset()
    model = Mlp(device, torch.float32, config=config)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    x, r, upstream = (torch.randn(2, 16, 64, device=device, requires_grad=at < 2) for at in range(3))
    want, have = model(x, r), compiled(x, r)
    torch.testing.assert_close(have, want)
    inputs = x, r, *model.parameters()
    for ours, theirs in zip(torch.autograd.grad(have, inputs, upstream), torch.autograd.grad(want, inputs, upstream), strict=True):
        torch.testing.assert_close(ours, theirs)


def test_codes_without_the_transpose_name_what_is_missing(device):
    layer = rt.Fp8Linear(32, 16, device=device)
    codes = rt.activation_quantize(torch.randn(16, 64, device=device), packed=True)
    with pytest.raises(ValueError, match="a has no scales along the sum of b's gradient; make it with transpose=True"):
        layer(codes)
    with torch.no_grad():
        assert layer(codes).shape == (16, 16)


def test_torch_fx_decides_when_the_graph_runs_whether_there_are_layers(on_cpu, device):
    layer, x = rt.Fp8Linear(8, 4), torch.randn(3, 16)
    graph = torch.fx.symbolic_trace(rt.SwiGLU())
    assert torch.equal(graph(x), rt.SwiGLU()(x)) and torch.equal(graph(x, into=layer), layer(rt.activation_quantize(x, packed=True, transpose=True)))
    norm = rt.RMSNorm(16)
    graph = torch.fx.symbolic_trace(norm)
    assert torch.equal(graph(x), norm(x))
    wide = rt.Fp8Linear(16, 4)
    assert torch.equal(graph(x, into=wide), norm(x, into=wide))
    traced, r = torch.fx.symbolic_trace(Mlp(device, torch.float32, config=QuantConfig()).eval()), torch.randn(3, 64)
    assert traced(torch.randn(3, 64), r).shape == (3, 64)
