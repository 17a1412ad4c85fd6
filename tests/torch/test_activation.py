"""activation, swiglu and SwiGLU against float64 and torch's own."""

import pytest
import torch
from torch.autograd import forward_ad

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 120, torch.bfloat16: 44, torch.float16: 60}
FUNCTIONS = ["silu", "gelu", "gelu_tanh", "relu", "relu2", "clamped_silu"]


def theirs(x, function, up=None, probs=None, mask=None, alpha=1.702, limit=7.0):
    """By torch's functions; in float64 the definition."""
    if function == "clamped_silu":
        cut = x.clamp(max=limit)
        y = cut * torch.sigmoid(alpha * cut)
        up = None if up is None else up.clamp(-limit, limit) + 1
    else:
        y = {"silu": F.silu, "gelu": F.gelu, "gelu_tanh": lambda t: F.gelu(t, approximate="tanh"), "relu": F.relu, "relu2": lambda t: F.relu(t).square()}[function](x)
    y = y if up is None else y * up
    y = y if probs is None else y * probs[..., None]
    return y if mask is None else torch.where(mask[..., None] != 0, y, torch.zeros((), dtype=y.dtype, device=y.device))


def leaf(*shape, dtype=torch.float32, device="cpu", scale=2.0):
    return (scale * torch.randn(*shape, device=device)).to(dtype).requires_grad_()


def compare(found, inputs, definition, dtype):
    wide = [t.detach().double().requires_grad_() for t in inputs]
    expected = definition(*wide)
    assert found.dtype == dtype and found.shape == expected.shape and found.is_contiguous()
    testing.assert_snr(expected.detach(), found.detach(), FLOOR[dtype])
    dy = torch.randn_like(found)
    for want, have, given in zip(
        torch.autograd.grad(expected, wide, dy.double()), torch.autograd.grad(found, inputs, dy), inputs, strict=True
    ):
        assert have.dtype == given.dtype and have.shape == given.shape
        testing.assert_snr(want, have, FLOOR[dtype] - 6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("shape", [(5, 24), (2, 3, 1030), (7, 67)])
def test_values_and_gradients(device, dtype, function, shape):
    options = {"alpha": 1.5, "limit": 1.25}
    x, up = leaf(*shape, dtype=dtype, device=device), leaf(*shape, dtype=dtype, device=device)
    compare(rt.activation(x, function, **options), [x], lambda x: theirs(x, function, **options), dtype)
    compare(rt.activation(x, function, up=up, **options), [x, up], lambda x, up: theirs(x, function, up, **options), dtype)
    both = leaf(*shape[:-1], 2 * shape[-1], dtype=dtype, device=device)
    compare(
        rt.activation(both, function, packed=True, **options), [both], lambda both: theirs(*both.chunk(2, -1)[:1], function, both.chunk(2, -1)[1], **options), dtype
    )


@pytest.mark.parametrize("dtype", DTYPES)
def test_factors_and_masks_of_rows(device, dtype):
    x, up, probs = leaf(6, 40, dtype=dtype, device=device), leaf(6, 40, dtype=dtype, device=device), leaf(6, device=device)
    mask = torch.tensor([1, 0, 1, 1, 0, 1], device=device, dtype=torch.bool)
    with torch.no_grad():
        x[1], up[4] = float("nan"), float("inf")
    y = rt.swiglu(x, up, probs=probs, mask=mask)
    assert not y[~mask].any() and y[mask].isfinite().all()
    dy = torch.randn_like(y)
    found = torch.autograd.grad(y, (x, up, probs), dy)
    rows = [t.detach()[mask].double().requires_grad_() for t in (x, up, probs)]
    for want, have in zip(torch.autograd.grad(theirs(rows[0], "silu", *rows[1:]), rows, dy[mask].double()), found, strict=True):
        assert not have[~mask].any()
        testing.assert_snr(want, have[mask], FLOOR[dtype] - 6)
    (only,) = torch.autograd.grad(rt.swiglu(x, up, probs=probs, mask=mask), probs, dy)
    assert torch.equal(only, found[2])


def test_inputs_that_are_not_dense_and_empty_ones(device):
    wide = torch.randn(5, 80, device=device)
    for x in (wide[:, :32], wide[:, ::2], wide.t(), wide[0], torch.randn(32, device=device).expand(5, 32)):
        torch.testing.assert_close(rt.activation(x, "gelu"), F.gelu(x))
    torch.testing.assert_close(rt.swiglu(wide[:, :40], wide[:, 40:]), rt.swiglu(wide))
    empty = rt.swiglu(torch.randn(0, 16, device=device, requires_grad=True))
    assert empty.shape == (0, 8)
    empty.sum().backward()


@pytest.mark.parametrize("function", FUNCTIONS)
def test_gradients_are_right_twice_and_in_forward_mode(on_cpu, function):
    x, up = torch.randn(3, 5, dtype=torch.float64, requires_grad=True), torch.randn(3, 5, dtype=torch.float64, requires_grad=True)
    probs = torch.rand(3, dtype=torch.float64, requires_grad=True)

    def call(x, up, probs):
        return rt.activation(x, function, up=up, probs=probs, alpha=1.3, limit=1.1)

    assert torch.autograd.gradcheck(call, (x, up, probs), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (x, up, probs))
    both = torch.randn(3, 8, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda both: rt.activation(both, function, packed=True), both)
    assert torch.autograd.gradgradcheck(lambda both: rt.activation(both, function, packed=True), both)


def test_gradients_of_float32_are_differentiated_again(device):
    x = leaf(4, 12, device=device)
    (first,) = torch.autograd.grad(rt.swiglu(x).sum(), x, create_graph=True)
    (second,) = torch.autograd.grad(first.square().sum(), x)
    wide = x.detach().double().requires_grad_()
    (exact,) = torch.autograd.grad(theirs(wide[:, :6], "silu", wide[:, 6:]).sum(), wide, create_graph=True)
    testing.assert_snr(torch.autograd.grad(exact.square().sum(), wide)[0], second, 100)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones_like(x))
        tangent = forward_ad.unpack_dual(rt.swiglu(dual)).tangent
    testing.assert_snr(torch.func.jvp(lambda t: theirs(t[:, :6], "silu", t[:, 6:]), (wide.detach(),), (torch.ones_like(wide),))[1], tangent, 100)


@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize("packed", [False, True])
def test_masked_rows_have_no_part_in_any_derivative(on_cpu, function, packed):
    x, up, probs = leaf(3, 8), None if packed else leaf(3, 8), leaf(3)
    mask, inputs = torch.tensor([True, False, True]), [t for t in (x, up, probs) if t is not None]
    with torch.no_grad():
        for t in inputs:
            t[1] = float("nan")

    def call(*inputs, mask=None):
        return rt.activation(inputs[0], function, up=None if packed else inputs[1], packed=packed, probs=inputs[-1], mask=mask)

    dy = leaf(3, 4 if packed else 8)
    with torch.no_grad():
        dy[1] = float("nan")
    first = torch.autograd.grad(call(*inputs, mask=mask), inputs, dy, create_graph=True)
    second = torch.autograd.grad(sum(t[mask].square().sum() for t in first), [*inputs, dy])
    rows = [t.detach()[mask].requires_grad_() for t in (*inputs, dy)]
    want = torch.autograd.grad(call(*rows[:-1]), rows[:-1], rows[-1], create_graph=True)
    again = torch.autograd.grad(sum(t.square().sum() for t in want), rows)
    for have, right in zip((*first, *second), (*want, *again), strict=True):
        assert not have[1].any()
        torch.testing.assert_close(have[mask], right)
    with forward_ad.dual_level():
        dual = [forward_ad.make_dual(t.detach(), torch.full_like(t, float("nan"))) for t in inputs]
        for t in dual:
            forward_ad.unpack_dual(t).tangent[mask] = 1.0
        y = forward_ad.unpack_dual(call(*dual, mask=mask))
        assert not y.primal[1].any() and not y.tangent[1].any() and y.tangent.isfinite().all()


def test_compiled_autograd_keeps_apart_constants_that_differ_in_the_seventh_digit(on_cpu):
    def gradient(call, x):
        (found,) = torch.autograd.grad(call(x).sum(), x)
        return found

    x = torch.full((1, 4), 1000000.5, requires_grad=True)
    row = torch.full((1, 4), 1e-3, requires_grad=True)
    pairs = [
        (x, [lambda x, limit=limit: rt.activation(x, "clamped_silu", alpha=1.0, limit=limit) for limit in (1000000.0, 1000001.0)]),
        (row, [lambda x, alpha=alpha: rt.activation(1e8 * x, "clamped_silu", alpha=alpha, limit=1e9) for alpha in (-1.00000001e-5, -1.00001e-5)]),
    ]
    for at, calls in pairs:
        want = [gradient(call, at) for call in calls]
        assert not torch.equal(*want)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            have = [gradient(call, at) for call in calls]
        assert all(torch.equal(a, b) for a, b in zip(want, have))


def test_torch_fx_decides_when_the_graph_runs_whether_there_is_a_gate(on_cpu):
    x, up, probs = torch.randn(2, 8), torch.randn(2, 8), torch.rand(2)
    for module in (rt.SwiGLU(), rt.SwiGLU("clamped_silu", alpha=1.5, limit=0.5)):
        graph = torch.fx.symbolic_trace(module)
        assert torch.equal(graph(x), module(x)) and graph(x).shape == (2, 4)
        assert torch.equal(graph(x, up, probs=probs), module(x, up, probs=probs))

    def call(x, up=None):
        return rt.swiglu(x, up)

    graph = torch.fx.symbolic_trace(call)
    assert torch.equal(graph(x), call(x)) and torch.equal(graph(x, up), call(x, up))


@pytest.mark.parametrize("wrong, message", [({"limit": -1.0}, "a limit of -1"), ({"limit": float("nan")}, "a limit of nan"), ({"alpha": float("inf")}, "an alpha of inf")])
def test_constants_are_checked_in_every_kind_of_call(on_cpu, wrong, message):
    for x in (torch.ones(2, 4, dtype=torch.float64), torch.ones(0, 4), torch.ones(2, 4, device="meta"), torch.ones(2, 4, requires_grad=True)):
        with pytest.raises(ValueError, match=message):
            rt.activation(x, "clamped_silu", **wrong)
    args = {"alpha": 1.0, "limit": 1.0, **wrong}
    with pytest.raises(ValueError, match=message):
        x = torch.ones(2, 4, dtype=torch.float64)
        torch.ops.ridgeline.activation_backward(x, x, None, None, None, "clamped_silu", False, args["alpha"], args["limit"], True, False, False)


def test_the_module_compiles_and_passes_pytorchs_own_checks(device):
    module = rt.SwiGLU("clamped_silu", limit=2.0)
    assert repr(module) == "SwiGLU('clamped_silu', alpha=1.702, limit=2.0)" and repr(rt.SwiGLU()) == "SwiGLU('silu')"
    x = leaf(6, 32, device=device)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    dy = torch.randn(6, 16, device=device)
    assert torch.equal(compiled(x), module(x))
    assert torch.equal(*(torch.autograd.grad(call(x), x, dy)[0] for call in (compiled, module)))
    op = torch.ops.ridgeline.activation.default
    for args in ((x, None, None, None, "silu", True, 1.0, 1.0), (x, leaf(6, 32, device=device), leaf(6, device=device), torch.ones(6, dtype=torch.uint8, device=device), "gelu", False, 1.0, 1.0)):
        torch.library.opcheck(op, args)
    half = rt.SwiGLU()(leaf(3, 4, 8, dtype=torch.bfloat16, device=device), leaf(3, 4, 8, dtype=torch.bfloat16, device=device), mask=torch.ones(3, 4, dtype=torch.uint8, device=device))
    assert half.shape == (3, 4, 8) and rt.last_used("activation")


@pytest.mark.parametrize(
    "call, error, message",
    [
        (lambda x: rt.activation(x, "swish"), ValueError, 'function="swish" is unknown; use one of silu, gelu'),
        (lambda x: rt.activation(x, up=x[:, :3]), ValueError, r"up is torch.float32 of shape \[4, 3\]; give torch.float32 of shape \[4, 6\]"),
        (lambda x: rt.activation(x, up=x.bfloat16()), ValueError, "up is torch.bfloat16"),
        (lambda x: rt.activation(x, up=x, packed=True), ValueError, "holds the gate itself, and up is given"),
        (lambda x: rt.swiglu(x[:, :5]), ValueError, "5 columns, which are no two halves"),
        (lambda x: rt.activation(x, probs=x[0]), ValueError, r"probs is torch.float32 of shape \[6\]; give torch.float32 of shape \[4\]"),
        (lambda x: rt.activation(x, mask=x[:, 0]), ValueError, "mask is torch.float32 of shape .4.; give torch.uint8"),
        (lambda x: rt.activation(x.int()), TypeError, "the input is torch.int32"),
        (lambda x: rt.activation(x[0, 0]), ValueError, "no dimension"),
        (lambda x: rt.activation(x, limit=-1.0), ValueError, "a limit of -1 is not possible"),
    ],
)
def test_mistakes_say_what_to_do(device, call, error, message):
    with pytest.raises(error, match=message):
        call(torch.ones(4, 6, device=device))
