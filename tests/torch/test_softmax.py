"""softmax, log_softmax and logsumexp against float64 and torch's own."""

import math

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 110, torch.bfloat16: 48, torch.float16: 64}
NAMES = ["softmax", "log_softmax", "logsumexp"]


def pair(name, dim=-1, scale=1.0, **rest):
    """Our function of a tensor, and torch's."""
    return (lambda x: getattr(rt, name)(x, dim, scale=scale, **rest)), (lambda x: getattr(torch, name)(x * scale, dim, **rest))


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("columns", [7, 300, 2500, 4104])
@pytest.mark.parametrize("scale", [1.0, -0.125])
def test_values_and_gradients(device, dtype, name, columns, scale):
    ours, theirs = pair(name, scale=scale)
    x = (4 * torch.randn(5, columns, device=device)).to(dtype).requires_grad_()
    wide = x.detach().double().requires_grad_()
    found, expected = ours(x), theirs(wide)
    assert found.dtype == dtype and found.shape == expected.shape
    testing.assert_snr(expected.detach(), found.detach(), FLOOR[dtype])
    upstream = torch.randn_like(found)
    (want,) = torch.autograd.grad(expected, wide, upstream.double())
    (have,) = torch.autograd.grad(found, x, upstream)
    assert have.dtype == dtype
    testing.assert_snr(want, have, FLOOR[dtype] - 8)  # of a result that is rounded


@pytest.mark.parametrize("name", NAMES)
def test_shapes_dims_and_strides_are_torchs(device, name):
    for shape, dim in [((5,), 0), ((3, 4), 0), ((2, 3, 4), 1), ((2, 3, 4), -3), ((2, 3, 4, 5), -1), ((0, 4), 1), ((4, 0), 1), ((4, 0), 0), ((), 0), ((), -1)]:
        x = torch.randn(shape, device=device)
        ours, theirs = pair(name, dim)
        have, want = ours(x), theirs(x)
        assert have.shape == want.shape and (have.stride() == want.stride() or not x.numel()), (shape, dim)
        torch.testing.assert_close(have, want)
        leaf = x.requires_grad_()
        for one, other in zip(*(torch.autograd.grad(call(leaf).sum(), leaf) for call in (ours, theirs)), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-5, atol=1e-6)
    rows = torch.randn(6, 20, device=device)[:, :11]
    for x in (rows, rows.t(), rows[::2], rows.expand(3, 6, 11)):
        ours, theirs = pair(name)
        torch.testing.assert_close(ours(x), theirs(x))
    for dims in [(0, 2), (1,), (-1, 0, 1)] if name == "logsumexp" else []:
        for keepdim in (False, True):
            x = torch.randn(3, 4, 5, device=device)
            torch.testing.assert_close(rt.logsumexp(x, dims, keepdim), torch.logsumexp(x, dims, keepdim))
    for wrong in (2, -3):
        with pytest.raises(IndexError, match=r"\[-2, 1\]"):
            getattr(rt, name)(rows, wrong)


def test_dtypes_are_torchs(device):
    x = torch.randn(4, 300, device=device)
    for name in NAMES[:2]:
        for given in (torch.float32, torch.bfloat16, torch.float16, torch.int64):
            for dtype in DTYPES:
                have, want = (getattr(module, name)(x.to(given), -1, dtype=dtype) for module in (rt, torch))
                assert have.dtype == want.dtype == dtype
                torch.testing.assert_close(have, want)
        leaf = x.bfloat16().requires_grad_()
        have, want = (torch.autograd.grad(getattr(module, name)(leaf, -1, dtype=torch.float32), leaf, x)[0] for module in (rt, torch))
        assert have.dtype == torch.bfloat16
        torch.testing.assert_close(have, want)
        with pytest.raises(TypeError, match=r"torch.int64; give torch.float32"):
            getattr(rt, name)(torch.arange(4, device=device))
    whole = torch.arange(6, device=device).view(2, 3)
    torch.testing.assert_close(rt.logsumexp(whole, 1), torch.logsumexp(whole, 1))


@pytest.mark.parametrize("name", NAMES)
def test_numbers_that_are_none_are_torchs(device, name):
    x = torch.randn(7, 3000, device=device)
    x[1, 2100] = math.inf
    x[2, 5] = math.nan
    x[3, 9], x[3, 2999] = math.inf, math.nan
    x[4] = -math.inf
    x[5, 100:2900] = -math.inf
    leaf = x.clone().requires_grad_()
    ours, theirs = pair(name)
    torch.testing.assert_close(ours(x), theirs(x), equal_nan=True)
    (have,), (want,) = (torch.autograd.grad(call(leaf).sum(), leaf) for call in (ours, theirs))
    torch.testing.assert_close(have, want, equal_nan=True, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_match_differences(on_cpu, name):
    x = torch.randn(3, 6, dtype=torch.float64, requires_grad=True)
    for call in (pair(name, scale=0.7)[0], pair(name, 0)[0]):
        assert torch.autograd.gradcheck(call, x, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, x)


@pytest.mark.parametrize("name", NAMES)
def test_gradients_of_float32_are_differentiated_again(device, name):
    x = torch.randn(4, 30, device=device, requires_grad=True)
    wide = x.detach().double().requires_grad_()
    ours, theirs = pair(name, scale=0.5)
    (first,) = torch.autograd.grad(ours(x).square().sum(), x, create_graph=True)
    (exact,) = torch.autograd.grad(theirs(wide).square().sum(), wide, create_graph=True)
    have, want = torch.autograd.grad(first.square().sum(), x)[0], torch.autograd.grad(exact.square().sum(), wide)[0]
    testing.assert_snr(want, have, 90)
    tangent = torch.randn_like(x)
    _, along = torch.func.jvp(ours, (x.detach(),), (tangent,))
    _, right = torch.func.jvp(theirs, (wide.detach(),), (tangent.double(),))
    testing.assert_snr(right, along, 90)


def test_calls_compile_and_the_operators_pass_pytorchs_own_checks(device):
    x = torch.randn(6, 40, device=device, requires_grad=True)
    for name in NAMES:
        for dim in (1, 0):
            ours, _ = pair(name, dim)
            compiled = torch.compile(ours, fullgraph=True, backend="aot_eager")
            assert torch.equal(compiled(x), ours(x))
            assert torch.equal(*(torch.autograd.grad(call(x).square().sum(), x)[0] for call in (compiled, ours)))
    plain = x.detach()
    for name in NAMES[:2]:
        torch.library.opcheck(ops.softmax.default, (x, name, 0.5))
        torch.library.opcheck(ops.softmax.default, (plain.bfloat16(), name, 0.5, torch.float32))
        torch.library.opcheck(ops.softmax_backward.default, (plain, ops.softmax(plain, name), None, name, 0.5, torch.float16))
    torch.library.opcheck(ops.softmax.default, (x, "logsumexp"))
    lse = ops.softmax(plain, "logsumexp")
    torch.library.opcheck(ops.softmax_backward.default, (torch.ones_like(lse), plain, lse, "logsumexp", 1.0, torch.float32))
    assert rt.last_used("softmax") and rt.last_used("softmax_backward")


def test_compiled_autograd_takes_them(on_cpu):
    x = torch.randn(3, 5, requires_grad=True)
    for name in NAMES:
        ours, theirs = pair(name, scale=0.5)
        with torch._dynamo.compiled_autograd._enable(torch.compile(backend="eager")):
            (have,) = torch.autograd.grad(ours(x).square().sum(), x)
        torch.testing.assert_close(have, torch.autograd.grad(theirs(x).square().sum(), x)[0])


@pytest.mark.parametrize("name", NAMES)
def test_autocast_is_torchs(device, name):
    ours, theirs = pair(name)
    for dtype in (torch.float32, torch.bfloat16):
        x = torch.randn(4, 70, device=device, dtype=dtype, requires_grad=True)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            have, want = ours(x), theirs(x)
        assert have.dtype == want.dtype
        torch.testing.assert_close(have, want)
        have, want = (torch.autograd.grad(out.sum() * 2, x)[0] for out in (have, want))
        assert have.dtype == want.dtype == dtype


def test_a_result_that_is_changed_in_place_is_noticed(device):
    x = torch.randn(4, 70, device=device, requires_grad=True)
    y = rt.softmax(x)
    y.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_on_a_gpu_calls_are_captured(on_gpu, device):
    x = torch.randn(64, 4096, device=device, dtype=torch.bfloat16)

    def step(x):
        leaf = x.detach().requires_grad_()
        y = rt.softmax(leaf)
        return y, *torch.autograd.grad(y, leaf, x), rt.logsumexp(x, -1)

    for _ in range(2):
        want = step(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = step(x)
    x.copy_(torch.randn_like(x))
    want = step(x)
    graph.replay()
    for have, right in zip(found, want, strict=True):
        assert torch.equal(have, right)


def test_what_is_not_supported_says_the_way_out(on_cpu):
    with pytest.raises(ValueError, match="a scale of nan is not possible"):
        rt.softmax(torch.randn(3), scale=math.nan)
    with pytest.raises(ValueError, match="form=.softmin. is unknown; use one of softmax, log_softmax, logsumexp"):
        ops.softmax(torch.randn(3), "softmin")
    with pytest.raises(ValueError, match="no dimension is given"):
        rt.logsumexp(torch.randn(3), ())
    with pytest.raises(RuntimeError, match="repeated dim|appears multiple times"):
        rt.logsumexp(torch.randn(3, 2), (0, 0))
    with pytest.raises(ValueError, match="lse is given; it is of logsumexp alone"):
        ops.softmax_backward(torch.randn(2, 3), torch.randn(2, 3), torch.randn(2), "softmax", 1.0, torch.float32)


def test_shapes_are_known_on_the_meta_device(on_cpu):
    x = torch.empty(3, 4, 5, dtype=torch.bfloat16, device="meta")
    for made in (rt.softmax(x), rt.log_softmax(x, 1, torch.float32)):
        assert made.shape == x.shape and made.is_meta
    assert rt.logsumexp(x, (0, 2), True).shape == (1, 4, 1)
