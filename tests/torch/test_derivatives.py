"""Second derivatives, forward mode and torch.func: the right value or an exception, never a silent zero."""

import copy

import pytest
import torch
from torch.autograd import forward_ad

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig

LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
FUNCTIONS = {
    None: lambda x: x,
    "gelu": torch.nn.functional.gelu,
    "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
    "silu": torch.nn.functional.silu,
}
EPILOGUES = [(bias, residual) for bias in (False, True) for residual in (False, True)]


def leaf(*shape, dtype=torch.float64, device="cpu"):
    return torch.randn(*shape, dtype=dtype, device=device, requires_grad=True)


@pytest.mark.parametrize("activation", list(FUNCTIONS))
@pytest.mark.parametrize("with_bias,with_residual", EPILOGUES)
@pytest.mark.parametrize("batch", [(), (2,)])
def test_gradients_are_right_twice_and_in_forward_mode(on_cpu, activation, with_bias, with_residual, batch):
    """gradcheck in float64: reverse, forward, their second derivatives, and batches of gradients."""
    inputs = [leaf(*batch, 3, 4), leaf(*batch, 2, 4)]
    inputs += [leaf(2)] * with_bias + [leaf(*batch, 3, 2)] * with_residual

    def layer(x, y, *rest):
        rest = list(rest)
        bias = rest.pop(0) if with_bias else None
        return rt.gemm(x, y, trans_b=True, bias=bias, activation=activation, residual=rest[0] if rest else None)

    assert torch.autograd.gradcheck(layer, inputs, check_forward_ad=True, check_batched_grad=True, check_batched_forward_grad=True)
    assert torch.autograd.gradgradcheck(layer, inputs, check_fwd_over_rev=True, check_rev_over_rev=True)


@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_second_and_forward_derivatives_in_every_layout(on_cpu, trans_a, trans_b):
    a, b = leaf(*((4, 3) if trans_a else (3, 4))), leaf(*((2, 4) if trans_b else (4, 2)))

    def product(x, y):
        return rt.gemm(x, y, trans_a, trans_b, activation="silu")

    assert torch.autograd.gradcheck(product, (a, b), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(product, (a, b), check_fwd_over_rev=True)


@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_a_gradient_penalty_trains_as_with_torch(device, activation):
    x, w = leaf(16, 24, dtype=torch.float32, device=device), leaf(12, 24, dtype=torch.float32, device=device)

    def penalty(product):
        out = product(x, w)
        (slope,) = torch.autograd.grad(out.square().sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum() + out.sum(), (x, w))

    ours = penalty(lambda x, w: rt.gemm(x, w, trans_b=True, activation=activation))
    for want, have in zip(penalty(lambda x, w: FUNCTIONS[activation](x @ w.t())), ours, strict=True):
        testing.assert_snr(want.double(), have, 90)


def test_main_grad_has_no_second_derivative_and_says_so(device):
    w = leaf(12, 24, dtype=torch.float32, device=device)
    x = torch.randn(16, 24, device=device)
    for product in (rt.gemm, rt.gemm_fp8):
        out = product(x, w, trans_b=True, main_grad=torch.zeros_like(w).detach())
        with pytest.raises(NotImplementedError, match="leave main_grad out"):
            out.square().sum().backward(create_graph=True)


@pytest.mark.parametrize("wrt", ["x", "w"])
@pytest.mark.parametrize("upstream", ["constant", "depends"])
def test_a_second_derivative_through_8_bit_products_is_refused(device, wrt, upstream):
    x, w = leaf(16, 32, dtype=torch.float32, device=device), leaf(24, 32, dtype=torch.float32, device=device)
    out = rt.gemm_fp8(x, w, trans_b=True)
    (slope,) = torch.autograd.grad(out.sum() if upstream == "constant" else out.square().sum(), x, create_graph=True)
    testing.assert_snr((w.detach().double().sum(0)).expand(16, 32), slope, 20) if upstream == "constant" else None
    if wrt == "x" and upstream == "constant":
        return  # w alone is in that slope
    loss = slope.square().sum() + w.sum() + x.sum()  # PyTorch is content with the last two, so a slope without a graph is silent
    with pytest.raises(NotImplementedError, match="gemm_fp8: no second derivative"):
        torch.autograd.grad(loss, w if wrt == "w" else x)


def test_a_second_derivative_through_codes_is_refused(device):
    x, w = leaf(16, 32, dtype=torch.float32, device=device), leaf(24, 32, dtype=torch.float32, device=device)
    out = rt.gemm_fp8(x, rt.quantize(w, weight=True, transpose=True), trans_b=True)
    with pytest.raises(NotImplementedError, match="gemm_fp8: no second derivative"):
        torch.autograd.grad(out.sum(), x, create_graph=True)


def test_a_derivative_of_codes_is_refused(device):
    x = leaf(16, 32, dtype=torch.float32, device=device)
    q, scale, _, _ = torch.ops.ridgeline.quantize(x, torch.float8_e4m3fn, "tensor")
    with pytest.raises(NotImplementedError, match="quantize: no derivative"):
        (scale.sum() + x.sum()).backward()
    values = torch.ops.ridgeline.dequantize(q.detach(), scale.detach().requires_grad_(), "tensor", torch.float32)
    with pytest.raises(NotImplementedError, match="dequantize: no derivative"):
        values.sum().backward()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("activation", list(FUNCTIONS))
def test_tangents_against_float64(device, dtype, activation):
    operands = [torch.randn(*shape, device=device).to(dtype) for shape in ((16, 24), (12, 24), (12,), (16, 12))]
    tangents = [torch.randn_like(t) for t in operands]

    def ours(a, b, bias, residual):
        return rt.gemm(a, b, trans_b=True, bias=bias, activation=activation, residual=residual)

    def exact(a, b, bias, residual):
        return FUNCTIONS[activation](a @ b.t() + bias) + residual

    _, expected = torch.func.jvp(exact, tuple(t.double() for t in operands), tuple(t.double() for t in tangents))
    floor = 90 if dtype == torch.float32 else 38
    testing.assert_snr(expected, torch.func.jvp(ours, tuple(operands), tuple(tangents))[1], floor)
    with forward_ad.dual_level():
        out = ours(*(forward_ad.make_dual(t, d) for t, d in zip(operands, tangents, strict=True)))
        testing.assert_snr(expected, forward_ad.unpack_dual(out).tangent, floor)
        one = forward_ad.unpack_dual(rt.gemm(operands[0], forward_ad.make_dual(operands[1], tangents[1]), trans_b=True)).tangent
        testing.assert_snr(operands[0].double() @ tangents[1].double().t(), one, floor)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_tangents_of_8_bit_products_are_two_products(device, granularity, trans_a, trans_b):
    a = torch.randn((96, 32) if trans_a else (32, 96), device=device)
    b = torch.randn((48, 96) if trans_b else (96, 48), device=device)
    directions = torch.randn_like(a), torch.randn_like(b)

    def product(x, y):
        return rt.gemm_fp8(x, y, trans_a, trans_b, config=QuantConfig(granularity=granularity))

    def exact(x, y):
        return (x.t() if trans_a else x) @ (y.t() if trans_b else y)

    _, expected = torch.func.jvp(exact, (a.double(), b.double()), tuple(d.double() for d in directions))
    out, tangent = torch.func.jvp(product, (a, b), directions)
    assert torch.equal(out, product(a, b))
    testing.assert_snr(expected, tangent, 25)


def test_codes_have_no_tangent(device):
    x, direction = torch.randn(32, 32, device=device), torch.randn(32, 32, device=device)
    q = rt.quantize(x, transpose=True)
    calls = {
        "quantize": lambda t: rt.quantize(t).scale,
        "quantize_by": lambda t: torch.ops.ridgeline.quantize_by(t, torch.ones(()), None, torch.float8_e4m3fn)[1],
        "dequantize": lambda t: torch.ops.ridgeline.dequantize(q.q, t[0, :1], "tensor", torch.float32),
        "gemm_fp8_scaled": lambda t: torch.ops.ridgeline.gemm_fp8_scaled(
            q.q, q.q, q.scale, t[0, :1], False, True, torch.float32, "tensor"
        ),
        "quantize: ": lambda t: rt.gemm_fp8(t, q, trans_b=True),
    }
    for name, call in calls.items():
        with forward_ad.dual_level(), pytest.raises(NotImplementedError, match=f"{name}.*no tangent"):
            call(forward_ad.make_dual(x, direction))
    with pytest.raises(NotImplementedError, match="no tangent"):  # forward over reverse
        torch.func.hessian(lambda t: rt.gemm_fp8(t, x).square().sum())(x)


@pytest.mark.parametrize("which", ["c", "a", "b"])
def test_sums_in_place_record_nothing_and_say_so(device, which):
    operands = {"c": torch.zeros(8, 8, device=device), "a": torch.randn(8, 8, device=device), "b": torch.randn(8, 8, device=device)}
    with forward_ad.dual_level():
        dual = {**operands, which: forward_ad.make_dual(operands[which], torch.ones(8, 8, device=device))}
        with pytest.raises(RuntimeError, match="without recording a gradient or a tangent"):
            torch.ops.ridgeline.gemm_add_(*dual.values())
    operands[which] = operands[which].clone().requires_grad_()
    with pytest.raises(RuntimeError, match="without recording a gradient or a tangent"):
        torch.ops.ridgeline.gemm_add_(*operands.values())
    codes = rt.quantize(torch.randn(8, 8, device=device))
    scale = codes.scale.clone().requires_grad_()
    with pytest.raises(RuntimeError, match="without recording a gradient or a tangent"):
        torch.ops.ridgeline.gemm_fp8_scaled_add_(
            torch.zeros(8, 8, device=device), codes.q, codes.q, codes.scale, scale, False, True, "tensor"
        )


def test_samples_of_8_bit_products_have_their_own_scales(device):
    x, w = torch.randn(3, 16, 32, device=device), torch.randn(24, 32, device=device)
    x[1] *= 1000
    found = torch.func.vmap(lambda t: rt.gemm_fp8(t, w, trans_b=True))(x)
    assert torch.equal(found, torch.stack([rt.gemm_fp8(t, w, trans_b=True) for t in x]))
    codes = rt.quantize(w, weight=True)
    with pytest.raises(RuntimeError, match="functorch"):  # PyTorch's own words
        torch.func.vmap(lambda t: rt.gemm_fp8(t, codes, trans_b=True))(x)


def layers(device, config=None):
    block = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16)).to(device)
    ours = copy.deepcopy(block)
    rt.swap_linears(ours, config)
    return block, ours


@pytest.mark.parametrize("config", [None, QuantConfig("hybrid", "rowwise")], ids=str)
def test_torch_func_gives_what_it_gives_for_torch(device, config):
    theirs, ours = layers(device, config)
    floor = 90 if config is None else 18
    x, y = torch.randn(8, 32, device=device), torch.randn(8, 16, device=device)

    def loss(model):
        def of(parameters, x, y):
            return torch.nn.functional.mse_loss(torch.func.functional_call(model, parameters, (x,)), y)

        return of

    def per_sample(model, parameters):
        return torch.func.vmap(torch.func.grad(lambda p, x, y: loss(model)(p, x[None], y[None])), in_dims=(None, 0, 0))(parameters, x, y)

    for requires_grad in (True, False):
        theirs.requires_grad_(requires_grad), ours.requires_grad_(requires_grad)
        wanted, found = dict(theirs.named_parameters()), dict(ours.named_parameters())
        pairs = [(torch.func.grad(loss(theirs))(wanted, x, y), torch.func.grad(loss(ours))(found, x, y))]
        pairs += [(per_sample(theirs, wanted), per_sample(ours, found))]
        for want, have in pairs:
            for name in want:
                testing.assert_snr(want[name].double(), have[name], floor)
    small = x[:2]
    testing.assert_snr(torch.func.jacrev(theirs)(small).double(), torch.func.jacrev(ours)(small), floor)
    testing.assert_snr(torch.func.jacfwd(theirs)(small).double(), torch.func.jacfwd(ours)(small), floor)
    _, pull = torch.func.vjp(ours, x)
    _, pull_theirs = torch.func.vjp(theirs, x)
    testing.assert_snr(pull_theirs(y)[0].double(), pull(y)[0], floor)


def test_hessians(device):
    theirs, ours = layers(device)
    x = torch.randn(32, device=device)[None]

    def hessian(model):
        return torch.func.hessian(lambda t: model(t).square().sum())(x)

    testing.assert_snr(hessian(theirs).double(), hessian(ours), 90)


@pytest.mark.parametrize("in_a", [None, 0, 1])
@pytest.mark.parametrize("in_b", [None, 0, 2])
@pytest.mark.parametrize("epilogue", ["none", "shared", "each"])
@pytest.mark.parametrize("batch", [(), (3,)])
def test_vmap_is_a_batched_product(device, in_a, in_b, epilogue, batch):
    def operand(in_dim, *shape):
        shape = list(shape)
        if in_dim is not None:
            shape.insert(in_dim, 5)
        return torch.randn(*shape, device=device)

    a, b = operand(in_a, *batch, 6, 8), operand(in_b, *batch, 8, 4)
    each = 0 if epilogue == "each" else None
    bias, residual = (operand(each, 4), operand(each, *batch, 6, 4)) if epilogue != "none" else (None, None)
    dims = (in_a, in_b, each, each)
    if not any(d is not None for d in dims):
        return

    def ours(a, b, bias, residual):
        return rt.gemm(a, b, bias=bias, activation="gelu", residual=residual)

    def theirs(a, b, bias, residual):
        z = a.double() @ b.double() + (0 if bias is None else bias.double())
        return torch.nn.functional.gelu(z) + (0 if residual is None else residual.double())

    with torch.profiler.profile() as profile:
        found = torch.func.vmap(ours, in_dims=dims)(a, b, bias, residual)
    testing.assert_snr(torch.func.vmap(theirs, in_dims=dims)(a, b, bias, residual), found, 100)
    assert sum(event.name == "ridgeline::gemm" for event in profile.events()) < 5  # layers of dispatch, no loop over samples


def test_vmap_refuses_what_a_product_refuses_and_takes_empty_ones(device):
    a, w = torch.randn(5, 6, 8, device=device, dtype=torch.bfloat16), torch.randn(8, 4, device=device, dtype=torch.bfloat16)
    for bias in (torch.randn(5, 4, device=device), torch.randn(5, 1, device=device, dtype=torch.bfloat16)):
        with pytest.raises(ValueError, match="bias"):
            torch.func.vmap(lambda x, c: rt.gemm(x, w, bias=c))(a, bias)
    for rows, depth, cols in ((0, 8, 4), (6, 0, 4), (6, 8, 0)):
        x, y = torch.randn(5, rows, depth, device=device), torch.randn(5, depth, cols, device=device)
        assert torch.func.vmap(rt.gemm)(x, y).shape == (5, rows, cols)
        assert torch.func.vmap(lambda t: rt.gemm(t, y[0]))(x).shape == (5, rows, cols)


def test_vmap_adds_to_main_grad_or_says_that_it_cannot(device):
    x, w = torch.randn(5, 6, 8, device=device), leaf(4, 8, dtype=torch.float32, device=device)
    main_grad = torch.zeros(4, 8, device=device)
    torch.func.vmap(lambda t: rt.gemm(t, w, trans_b=True, main_grad=main_grad))(x).sum().backward()
    assert w.grad is None
    testing.assert_snr(x.sum((0, 1)).expand(4, 8), main_grad, 100)
    with pytest.raises(NotImplementedError, match="leave main_grad out"):
        torch.func.vmap(lambda t: rt.gemm(w, t, trans_b=True, main_grad=main_grad))(x)


def test_compiled_autograd_traces_our_gradients(device):
    def step(config, compiled):
        torch.manual_seed(3)
        _, ours = layers(device, config)
        loss = ours(torch.randn(8, 32, device=device)).square().mean()
        if compiled:
            with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
                loss.backward()
        else:
            loss.backward()
        return [p.grad for p in ours.parameters()]

    for config in (None, QuantConfig()):
        for want, have in zip(step(config, False), step(config, True), strict=True):
            torch.testing.assert_close(have, want)
