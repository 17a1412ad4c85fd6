"""rms_norm and RMSNorm against float64 and torch's own."""

import copy

import pytest
import torch
from torch.autograd import forward_ad

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
SHAPES = [(5, 24), (3, 67), (2, 3, 1030), (1,), (7, 1), (2, 2, 2, 8), (4, 4096)]
FLOOR = {torch.float32: 120, torch.bfloat16: 44, torch.float16: 60}


def exact(x, weight, eps, residual=None, zero_centred=False):
    h = x if residual is None else x + residual
    h = h.double()
    y = h * torch.rsqrt(h.square().mean(-1, keepdim=True) + eps)
    if weight is not None:
        y = y * (weight.double() + (1 if zero_centred else 0))
    return y


def leaf(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("weighted", ["none", "same", "f32", "centred"])
def test_values_and_gradients(device, dtype, shape, weighted):
    x = leaf(*shape, dtype=dtype, device=device)
    kind = torch.float32 if weighted == "f32" else dtype
    w = None if weighted == "none" else leaf(shape[-1], dtype=kind, device=device)
    centred = weighted == "centred"
    y = rt.rms_norm(x, (shape[-1],), w, 1e-3, zero_centred=centred)
    assert y.dtype == dtype and y.shape == x.shape and y.is_contiguous()
    dy = torch.randn_like(y)
    inputs = [x] if w is None else [x, w]
    found = torch.autograd.grad(y, inputs, dy)
    wide = [t.detach().double().requires_grad_() for t in inputs]
    expected = exact(wide[0], wide[1] if w is not None else None, 1e-3, zero_centred=centred)
    testing.assert_snr(expected.detach(), y.detach(), FLOOR[dtype])
    for want, have in zip(torch.autograd.grad(expected, wide, dy.double()), found, strict=True):
        assert have.shape == want.shape
        if shape[-1] > 1:  # of one element the gradient is next to nothing
            testing.assert_snr(want, have, FLOOR[have.dtype] - 6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_a_residual_is_added_first_and_comes_along(device, dtype):
    x, r, w = leaf(6, 5, 264, dtype=dtype, device=device), leaf(6, 5, 264, dtype=dtype, device=device), leaf(264, dtype=dtype, device=device)
    y, total = rt.rms_norm(x, 264, w, 1e-5, residual=r)
    assert torch.equal(total, x + r)
    testing.assert_snr(exact(x.detach(), w.detach(), 1e-5, r.detach()), y.detach(), FLOOR[dtype])
    dy, dsum = torch.randn_like(y), torch.randn_like(y)
    wide = [t.detach().double().requires_grad_() for t in (x, r, w)]
    sums = wide[0] + wide[1]
    expected = torch.autograd.grad((exact(sums, wide[2], 1e-5), sums), wide, (dy.double(), dsum.double()))
    found = torch.autograd.grad((y, total), (x, r, w), (dy, dsum), retain_graph=True)
    for want, have in zip(expected, found, strict=True):
        testing.assert_snr(want, have, FLOOR[dtype] - 6)
    assert torch.equal(found[0], found[1])
    (only_sum,) = torch.autograd.grad(total, x, dsum, retain_graph=True)  # nothing arrives at the norm
    assert torch.equal(only_sum, dsum)
    (only_norm,) = torch.autograd.grad(y, r, dy)
    alone = torch.autograd.grad(exact(sums, wide[2], 1e-5), wide[1], dy.double())[0]
    testing.assert_snr(alone, only_norm, FLOOR[dtype] - 6)


@pytest.mark.parametrize("dtype", DTYPES)
def test_eps_is_torchs_where_none_is_given(device, dtype):
    x = torch.full((3, 64), 1e-3, device=device).to(dtype)
    testing.assert_snr(F.rms_norm(x.double(), (64,), eps=torch.finfo(torch.float32).eps), rt.rms_norm(x, 64), FLOOR[dtype])
    testing.assert_snr(F.rms_norm(x, (64,)).double(), rt.rms_norm(x, 64), FLOOR[dtype] - 6)


@pytest.mark.parametrize("dtype", [*DTYPES, torch.float64])
@pytest.mark.parametrize("of_weight", [*DTYPES, torch.float64])
def test_every_pair_of_dtypes_is_torchs(device, dtype, of_weight):
    if device.type != "cpu" and dtype == torch.float64:
        pytest.skip("float64 is for the CPU")
    theirs = torch.nn.RMSNorm(24, eps=1e-3, device=device, dtype=of_weight)
    torch.nn.init.normal_(theirs.weight)
    ours = rt.RMSNorm.from_float(copy.deepcopy(theirs))
    x, dy = leaf(5, 24, dtype=dtype, device=device), torch.randn(5, 24, device=device).to(dtype)
    expected, found = theirs(x), ours(x)
    assert found.dtype == expected.dtype
    grads = [torch.autograd.grad(y, (x, norm.weight), dy) for y, norm in ((expected, theirs), (found, ours))]
    floor = min(FLOOR.get(kind, 120) for kind in (dtype, of_weight))
    testing.assert_snr(exact(x.detach(), theirs.weight.detach(), 1e-3), found.detach(), FLOOR.get(dtype, 120))
    for want, have in zip(*grads, strict=True):
        assert have.dtype == want.dtype
        testing.assert_snr(want.double(), have, floor - 6)


def test_several_dimensions_and_inputs_that_are_not_dense(device):
    x = torch.randn(4, 6, 8, device=device)
    w = torch.randn(6, 8, device=device)
    torch.testing.assert_close(rt.rms_norm(x, (6, 8), w), F.rms_norm(x, (6, 8), w))
    padded = torch.randn(5, 40, device=device)[:, :32]
    torch.testing.assert_close(rt.rms_norm(padded, 32), F.rms_norm(padded, (32,)))
    for odd in (torch.randn(32, 5, device=device).t(), torch.randn(32, device=device).expand(5, 32), padded[:, ::2]):
        torch.testing.assert_close(rt.rms_norm(odd, odd.shape[-1]), F.rms_norm(odd, (odd.shape[-1],)))
    empty = rt.rms_norm(torch.randn(0, 16, device=device, requires_grad=True), 16)
    assert empty.shape == (0, 16)
    empty.sum().backward()


@pytest.mark.parametrize("centred", [False, True])
@pytest.mark.parametrize("with_residual", [False, True])
def test_gradients_are_right_twice_and_in_forward_mode(on_cpu, centred, with_residual):
    x, r, w = (torch.randn(*s, dtype=torch.float64, requires_grad=True) for s in ((3, 5), (3, 5), (5,)))

    def norm(x, w, *rest):
        return rt.rms_norm(x, 5, w, 1e-3, residual=rest[0] if rest else None, zero_centred=centred)

    inputs = (x, w, r) if with_residual else (x, w)
    assert torch.autograd.gradcheck(norm, inputs, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(norm, inputs)
    assert torch.autograd.gradcheck(lambda x: rt.rms_norm(x, 5), (x,))


def test_second_derivatives_in_float32(device):
    def penalty(norm, x, w):
        (slope,) = torch.autograd.grad(norm(x, w).pow(3).sum(), x, create_graph=True)
        return torch.autograd.grad(slope.square().sum(), (x, w))

    x, w = leaf(4, 48, device=device), leaf(48, device=device)
    ours = penalty(lambda a, b: rt.rms_norm(a, 48, b, 1e-3), x, w)
    wide = [t.detach().double().requires_grad_() for t in (x, w)]
    for want, have in zip(penalty(lambda a, b: exact(a, b, 1e-3), *wide), ours, strict=True):
        testing.assert_snr(want, have, 90)


def test_tangents(device):
    x, w = torch.randn(4, 48, device=device), torch.randn(48, device=device)
    dx, dw = torch.randn_like(x), torch.randn_like(w)
    _, expected = torch.func.jvp(lambda a, b: exact(a, b, 1e-3), (x.double(), w.double()), (dx.double(), dw.double()))
    _, found = torch.func.jvp(lambda a, b: rt.rms_norm(a, 48, b, 1e-3), (x, w), (dx, dw))
    testing.assert_snr(expected, found, 90)
    with forward_ad.dual_level():
        y = rt.rms_norm(forward_ad.make_dual(x, dx), 48, None, 1e-3)
        assert forward_ad.unpack_dual(y).tangent is not None


@pytest.mark.parametrize("dynamic", [False, True])
def test_compiles_without_a_break(device, dynamic):
    layer = rt.RMSNorm(64, 1e-5, device=device)

    def block(x, r):
        y, total = layer(x, r)
        return y + layer(total)

    compiled = torch.compile(block, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (4, 6):
        x, r = leaf(2, rows, 64, device=device), leaf(2, rows, 64, device=device)
        dy = torch.randn(2, rows, 64, device=device)
        ours = torch.autograd.grad(compiled(x, r), (x, r, layer.weight), dy)
        for want, have in zip(torch.autograd.grad(block(x, r), (x, r, layer.weight), dy), ours, strict=True):
            torch.testing.assert_close(have, want)


def opcheck_arguments(device):
    ops = torch.ops.ridgeline
    x, w = torch.randn(6, 40, device=device), torch.randn(40, device=device)
    yield ops.rmsnorm.default, (x.clone().requires_grad_(), w.clone().requires_grad_(), 1e-5)
    yield ops.rmsnorm.default, (x.bfloat16(), None, 1e-5)
    yield ops.rmsnorm.default, (x.bfloat16().requires_grad_(), w.clone().requires_grad_(), 1e-5, True)
    yield ops.rmsnorm_add.default, (x.clone().requires_grad_(), x.clone().requires_grad_(), w.clone().requires_grad_(), 1e-5)
    rstd = torch.rand(6, device=device) + 0.5
    yield ops.rmsnorm_backward.default, (x, x.clone(), rstd, w)
    yield ops.rmsnorm_backward.default, (x, x.clone(), rstd, None, False, x.clone(), True, False)
    yield ops.rmsnorm_backward.default, (x, x.clone(), rstd, w, True, None, False, True)


@pytest.mark.parametrize("index", range(7))
def test_opcheck(device, index):
    op, arguments = list(opcheck_arguments(device))[index]
    torch.library.opcheck(op, arguments)


def test_the_module_has_torchs_names_and_state(device):
    theirs = torch.nn.RMSNorm(48, eps=1e-4, device=device)
    torch.nn.init.normal_(theirs.weight)
    ours = rt.RMSNorm(48, eps=1e-4, device=device)
    ours.load_state_dict(theirs.state_dict())
    x = torch.randn(5, 48, device=device)
    torch.testing.assert_close(ours(x), theirs(x))
    again = rt.RMSNorm.from_float(theirs)
    assert again.weight is theirs.weight and type(theirs) is torch.nn.RMSNorm
    torch.testing.assert_close(again(x), theirs(x))
    torch.testing.assert_close(copy.deepcopy(again)(x), theirs(x))
    assert str(ours) == "RMSNorm((48,), eps=0.0001, elementwise_affine=True)"
    assert rt.RMSNorm(48, elementwise_affine=False).weight is None
    centred = rt.RMSNorm(48, zero_centred=True, device=device)
    assert not centred.weight.any() and "zero_centred=True" in str(centred)
    torch.testing.assert_close(centred(x), F.rms_norm(x, (48,)))
    with pytest.raises(ValueError, match="elementwise_affine=False"):
        rt.RMSNorm(48, elementwise_affine=False, zero_centred=True)


def test_autocast_leaves_dtypes_alone(device):
    layer = rt.RMSNorm(32, device=device)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert layer(torch.randn(3, 32, device=device).bfloat16()).dtype == torch.bfloat16


@pytest.mark.parametrize(
    "call,exception,message",
    [
        (lambda x: rt.rms_norm(x, 7), ValueError, "give the sizes of its last dimensions"),
        (lambda x: rt.rms_norm(x, 8, x[0, :7]), ValueError, "give it normalized_shape"),
        (lambda x: torch.ops.ridgeline.rmsnorm(x, x[0].double(), 1e-5), ValueError, "weight is torch.float64"),
        (lambda x: rt.rms_norm(x, 8, x[0].long()), ValueError, "weight is torch.int64"),
        (lambda x: rt.rms_norm(x.long(), 8), TypeError, "give torch.float32"),
        (lambda x: rt.rms_norm(x, 8, residual=x[:2]), ValueError, "residual"),
        (lambda x: rt.rms_norm(x, 8, residual=x.bfloat16()), ValueError, "residual"),
        (lambda x: rt.rms_norm(x, 8, zero_centred=True), ValueError, "there is none"),
        (lambda x: rt.rms_norm(x, 8, eps=-1.0), ValueError, "eps"),
        (lambda x: rt.rms_norm(x[:, :0], 0), ValueError, "rows"),
        (lambda x: torch.ops.ridgeline.rmsnorm(x.t(), None, 1e-5), ValueError, "not row-major"),
    ],
)
def test_a_mistake_names_the_values_and_the_way_out(device, call, exception, message):
    with pytest.raises(exception, match=message):
        call(torch.ones(4, 8, device=device))
