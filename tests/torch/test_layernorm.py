"""layer_norm and LayerNorm against float64 and torch's own."""

import copy

import pytest
import torch
from torch.autograd import forward_ad

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(5, 24), (3, 67), (2, 3, 1030), (7, 2), (2, 2, 2, 8), (4, 4096)]
FLOOR = {torch.float32: 116, torch.bfloat16: 44, torch.float16: 60}
FORMS = ["none", "weight", "bias", "both", "f32", "centred"]


def exact(x, weight, bias, eps, residual=None, zero_centred=False):
    h = (x if residual is None else x + residual).double()
    h = h - h.mean(-1, keepdim=True)
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * (weight.double() + (1 if zero_centred else 0))
    return y if bias is None else y + bias.double()


def leaf(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


def parameters(form, cols, dtype, device):
    kind = torch.float32 if form == "f32" else dtype
    given = [name for name in ("weight", "bias") if form not in ("none", "weight" if name == "bias" else "bias")]
    return {name: leaf(cols, dtype=kind, device=device) for name in given}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("form", FORMS)
def test_values_and_gradients(device, dtype, shape, form):
    x, named, centred = leaf(*shape, dtype=dtype, device=device), parameters(form, shape[-1], dtype, device), form == "centred"
    y = rt.layer_norm(x, (shape[-1],), eps=1e-3, zero_centred=centred, **named)
    assert y.dtype == dtype and y.shape == x.shape and y.is_contiguous()
    dy = torch.randn_like(y)
    inputs = [x, *named.values()]
    found = torch.autograd.grad(y, inputs, dy)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    of = dict(zip(named, wide[1:], strict=True))
    expected = exact(wide[0], of.get("weight"), of.get("bias"), 1e-3, zero_centred=centred)
    testing.assert_snr(expected.detach(), y.detach(), FLOOR[dtype])
    for want, have in zip(torch.autograd.grad(expected, wide, dy.double()), found, strict=True):
        assert have.shape == want.shape
        if shape[-1] > 2:  # of two elements the gradient is next to nothing
            testing.assert_snr(want, have, FLOOR[have.dtype] - 6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_residual_is_added_first_and_comes_along(device, dtype):
    x, r = leaf(6, 5, 264, dtype=dtype, device=device), leaf(6, 5, 264, dtype=dtype, device=device)
    w, b = leaf(264, dtype=dtype, device=device), leaf(264, dtype=dtype, device=device)
    y, total = rt.layer_norm(x, 264, w, b, residual=r)
    assert torch.equal(total, x + r)
    dy, dsum = torch.randn_like(y), torch.randn_like(y)
    wide = [t.detach().double().requires_grad_() for t in (x, r, w, b)]
    sums = (wide[0] + wide[1]).detach().to(dtype).double() + (wide[0] + wide[1]) - (wide[0] + wide[1]).detach()  # as it is stored
    right = exact(sums, wide[2], wide[3], 1e-5)
    testing.assert_snr(right.detach(), y.detach(), FLOOR[dtype])
    expected = torch.autograd.grad((right, sums), wide, (dy.double(), dsum.double()), retain_graph=True)
    found = torch.autograd.grad((y, total), (x, r, w, b), (dy, dsum), retain_graph=True)
    for want, have in zip(expected, found, strict=True):
        testing.assert_snr(want, have, FLOOR[dtype] - 6)
    assert torch.equal(found[0], found[1])
    (only_sum,) = torch.autograd.grad(total, x, dsum, retain_graph=True)  # nothing arrives at the norm
    assert torch.equal(only_sum, dsum)
    (only_norm,) = torch.autograd.grad(y, r, dy)
    testing.assert_snr(torch.autograd.grad(right, wide[1], dy.double())[0], only_norm, FLOOR[dtype] - 6)


@pytest.mark.parametrize("cols", [64, 1000, 4096, 20000])
def test_a_mean_of_many_deviations_costs_no_digits(device, cols):
    x = torch.randn(6, cols, device=device) + 1e4
    testing.assert_snr(exact(x, None, None, 1e-5), rt.layer_norm(x, cols), FLOOR[torch.float32])
    first = torch.randn(6, cols, device=device)
    first[:, 0] += 1e3  # far from the mean
    testing.assert_snr(exact(first, None, None, 1e-5), rt.layer_norm(first, cols), 110)
    bias = torch.randn(cols, device=device)
    for value in (0.1, -3e4):
        assert torch.equal(rt.layer_norm(torch.full((2, cols), value, device=device), cols, None, bias, 1e-12), bias.expand(2, cols))


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("of_weight", [*DTYPES, torch.float64])
def test_every_pair_of_dtypes_has_the_inputs(device, dtype, of_weight):
    if device.type != "cpu" and dtype == torch.float64:
        pytest.skip("float64 is for the CPU")
    layer = rt.LayerNorm(24, eps=1e-3, device=device, dtype=of_weight)
    torch.nn.init.normal_(layer.weight)
    torch.nn.init.normal_(layer.bias)
    x, dy = leaf(5, 24, dtype=dtype, device=device), torch.randn(5, 24, device=device).to(dtype)
    y = layer(x)
    assert y.dtype == dtype
    wide = [t.detach().double().requires_grad_() for t in (x, layer.weight, layer.bias)]
    right = exact(*wide, 1e-3)
    testing.assert_snr(right.detach(), y.detach(), FLOOR.get(dtype, 120))
    found = torch.autograd.grad(y, (x, layer.weight, layer.bias), dy)
    for want, have, given in zip(torch.autograd.grad(right, wide, dy.double()), found, (x, layer.weight, layer.bias), strict=True):
        assert have.dtype == given.dtype
        testing.assert_snr(want, have, min(FLOOR.get(kind, 116) for kind in (dtype, of_weight)) - 6)


def test_a_bias_alone_may_have_another_dtype(device):
    x, bias = leaf(5, 24, dtype=torch.bfloat16, device=device), leaf(24, device=device)
    y = rt.layer_norm(x, 24, None, bias)
    testing.assert_snr(exact(x.detach(), None, bias.detach(), 1e-5), y.detach(), 44)
    dy = torch.randn_like(y)
    (grad,) = torch.autograd.grad(y, bias, dy)
    testing.assert_snr(dy.double().sum(0), grad, 110)


def test_several_dimensions_and_inputs_that_are_not_dense(device):
    x = torch.randn(4, 6, 8, device=device)
    w, b = torch.randn(6, 8, device=device), torch.randn(6, 8, device=device)
    torch.testing.assert_close(rt.layer_norm(x, (6, 8), w, b), F.layer_norm(x, (6, 8), w, b))
    padded = torch.randn(5, 40, device=device)[:, :32]
    torch.testing.assert_close(rt.layer_norm(padded, 32), F.layer_norm(padded, (32,)))
    for odd in (torch.randn(32, 5, device=device).t(), torch.randn(32, device=device).expand(5, 32), padded[:, ::2]):
        torch.testing.assert_close(rt.layer_norm(odd, odd.shape[-1]), F.layer_norm(odd, (odd.shape[-1],)))
    empty = rt.layer_norm(torch.randn(0, 16, device=device, requires_grad=True), 16)
    assert empty.shape == (0, 16)
    empty.sum().backward()


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("with_residual", [False, True])
def test_gradients_are_right_twice_and_in_forward_mode(on_cpu, centred, with_residual):
    x, r, w, b = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 5), (3, 5), (5,), (5,)))

    def norm(x, w, b, *rest):
        return rt.layer_norm(x, 5, w, b, 1e-3, residual=rest[0] if rest else None, zero_centred=centred)

    inputs = (x, w, b, r) if with_residual else (x, w, b)
    assert torch.autograd.gradcheck(norm, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(norm, inputs)
    assert torch.autograd.gradcheck(lambda x: rt.layer_norm(x, 5), (x,))


def test_second_derivatives_in_float32(device):
    def penalty(norm, *inputs):
        (slope,) = torch.autograd.grad(norm(*inputs).pow(3).sum(), inputs[0], create_graph=True)
        return torch.autograd.grad(slope.square().sum(), inputs)

    inputs = leaf(4, 48, device=device), leaf(48, device=device), leaf(48, device=device)
    ours = penalty(lambda x, w, b: rt.layer_norm(x, 48, w, b, 1e-3), *inputs)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    for want, have in zip(penalty(lambda x, w, b: exact(x, w, b, 1e-3), *wide), ours, strict=True):
        testing.assert_snr(want, have, 90)


def test_tangents(device):
    x, w, b = torch.randn(4, 48, device=device), torch.randn(48, device=device), torch.randn(48, device=device)
    moved = tuple(torch.randn_like(t) for t in (x, w, b))
    _, expected = torch.func.jvp(lambda *t: exact(*t, 1e-3), (x.double(), w.double(), b.double()), tuple(t.double() for t in moved))
    _, found = torch.func.jvp(lambda x, w, b: rt.layer_norm(x, 48, w, b, 1e-3), (x, w, b), moved)
    testing.assert_snr(expected, found, 90)
    with forward_ad.dual_level():
        y = rt.layer_norm(forward_ad.make_dual(x, moved[0]), 48)
        assert forward_ad.unpack_dual(y).tangent is not None


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_break(device, dynamic):
    layer = rt.LayerNorm(64, device=device)

    def block(x, r):
        y, total = layer(x, r)
        return y + layer(total)

    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (4, 6):
        x, r = leaf(2, rows, 64, device=device), leaf(2, rows, 64, device=device)
        dy = torch.randn(2, rows, 64, device=device)
        inputs = (x, r, layer.weight, layer.bias)
        ours = torch.autograd.grad(compiled(x, r), inputs, dy)
        for want, have in zip(torch.autograd.grad(block(x, r), inputs, dy), ours, strict=True):
            torch.testing.assert_close(have, want)


def opcheck_arguments(device):
    ops = torch.ops.ridgeline
    x, w, b = torch.randn(6, 40, device=device), torch.randn(40, device=device), torch.randn(40, device=device)

    def own(t):
        return t.clone().requires_grad_()

    yield ops.layernorm.default, (own(x), own(w), own(b), 1e-5)
    yield ops.layernorm.default, (x.bfloat16(), None, None, 1e-5)
    yield ops.layernorm.default, (own(x.bfloat16()), own(w), None, 1e-5, True)
    yield ops.layernorm.default, (own(x), None, own(b), 1e-5)
    yield ops.layernorm_add.default, (own(x), own(x), own(w), own(b), 1e-5)
    mean, rstd = torch.randn(6, device=device), torch.rand(6, device=device) + 0.5
    yield ops.layernorm_backward.default, (x, x.clone(), mean, rstd, w)
    yield ops.layernorm_backward.default, (x, x.clone(), mean, rstd, None, False, x.clone(), True, False, True)
    yield ops.layernorm_backward.default, (x, x.clone(), mean, rstd, w, True, None, False, True, False)
    yield ops.layernorm_backward.default, (x, x.clone(), mean, rstd, w, False, None, True, False, False)


@pytest.mark.parametrize("index", range(9))
def test_opcheck(device, index):
    op, arguments = list(opcheck_arguments(device))[index]
    torch.library.opcheck(op, arguments)


def test_the_module_has_torchs_names_and_state(device):
    theirs = torch.nn.LayerNorm(48, eps=1e-4, device=device)
    torch.nn.init.normal_(theirs.weight)
    torch.nn.init.normal_(theirs.bias)
    ours = rt.LayerNorm(48, eps=1e-4, device=device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 48, device=device)
    torch.testing.assert_close(ours(x), theirs(x))
    again = rt.LayerNorm.from_float(theirs)
    assert again.weight is theirs.weight and again.bias is theirs.bias and type(theirs) is torch.nn.LayerNorm
    torch.testing.assert_close(copy.deepcopy(again)(x), theirs(x))
    assert str(ours) == str(theirs)
    plain, unbiased = rt.LayerNorm(48, elementwise_affine=False), rt.LayerNorm(48, bias=False)
    assert plain.weight is None and plain.bias is None and unbiased.bias is None and unbiased.weight is not None
    centred = rt.LayerNorm(48, zero_centred=True, device=device)
    assert not centred.weight.any() and "zero_centred=True" in str(centred)
    torch.testing.assert_close(centred(x), F.layer_norm(x, (48,)))
    with pytest.raises(ValueError, match="elementwise_affine=False"):
        rt.LayerNorm(48, elementwise_affine=False, zero_centred=True)


def test_layers_are_exchanged_and_given_back(device):
    model = torch.nn.ModuleDict({"norm": torch.nn.LayerNorm(16), "up": torch.nn.Linear(16, 16), "rms": torch.nn.RMSNorm(16)}).to(device)
    x = torch.randn(5, 16, device=device)
    expected = model["norm"](x)
    report = rt.convert(model, None, keep=lambda name, module: name == "rms")
    assert report.swapped["norm"] == "layernorm" and report.left == {"rms": "keep() is true"}
    assert type(model["norm"]) is rt.LayerNorm and type(model["rms"]) is torch.nn.RMSNorm
    testing.assert_snr(expected.double(), model["norm"](x), 110)
    assert rt.unswap(model).left == {"rms": "is a torch.nn.RMSNorm"} and type(model["norm"]) is torch.nn.LayerNorm
    assert rt.convert(model, {"norm": "leave", "*": None}).left == {"norm": "the recipe for 'norm'"}
    zero = torch.nn.Sequential(rt.LayerNorm(16, zero_centred=True, device=device))
    assert "zero_centred, which torch.nn.LayerNorm has not" in rt.unswap(zero).left["0"]


def test_autocast_leaves_dtypes_alone(device):
    layer = rt.LayerNorm(32, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert layer(torch.randn(3, 32, device=device).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "call,exception,message",
    [
        (lambda x: rt.layer_norm(x, 7), ValueError, "layer_norm: .*give the sizes of its last dimensions"),
        (lambda x: rt.layer_norm(x, 8, x[0, :7]), ValueError, "weight .*give it normalized_shape"),
        (lambda x: rt.layer_norm(x, 8, None, x[0, :7]), ValueError, "bias .*give it normalized_shape"),
        (lambda x: torch.ops.ridgeline.layernorm(x, x[0].double(), None, 1e-5), ValueError, "weight is torch.float64"),
        (lambda x: torch.ops.ridgeline.layernorm(x, None, x[0].bfloat16(), 1e-5), ValueError, "bias is torch.bfloat16"),
        (lambda x: rt.layer_norm(x, 8, x[0], x[0].long()), ValueError, "bias is torch.int64"),
        (lambda x: rt.layer_norm(x.long(), 8), TypeError, "give torch.float32"),
        (lambda x: rt.layer_norm(x, 8, residual=x[:2]), ValueError, "residual"),
        (lambda x: rt.layer_norm(x, 8, residual=x.bfloat16()), ValueError, "residual"),
        (lambda x: rt.layer_norm(x, 8, zero_centred=True), ValueError, "there is none"),
        (lambda x: rt.layer_norm(x, 8, eps=-1.0), ValueError, "eps"),
        (lambda x: rt.layer_norm(x[:, :0], 0), ValueError, "rows"),
        (lambda x: torch.ops.ridgeline.layernorm(x.t(), None, None, 1e-5), ValueError, "not row-major"),
        (
            lambda x: torch.ops.ridgeline.layernorm_backward(x, x, x[:, 0].contiguous(), x[:, 0].contiguous(), None),
            ValueError,
            "there is no weight",
        ),
    ],
)
def test_a_mistake_names_the_values_and_the_way_out(device, call, exception, message):
    with pytest.raises(exception, match=message):
        call(torch.ones(4, 8, device=device))
