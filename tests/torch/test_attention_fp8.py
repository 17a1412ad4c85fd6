"""attention_fp8 against float64 and the contract's error model, and codes with a scale for each head."""

import pytest
import torch
from torch.utils.flop_counter import FlopCounterMode

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.bench import reference

E4M3 = torch.float8_e4m3fn


def coded(device, lengths=(33, 70), heads=(4, 2), dim=64, batch=2, v_dim=None):
    """q as a projection makes it, k with heads in front, v a part of a packed tensor: codes, then scales."""
    q = torch.randn(batch, lengths[0], heads[0], dim, device=device)
    k = torch.randn(batch, heads[1], lengths[1], dim, device=device).transpose(1, 2)
    v = torch.randn(batch, lengths[1], 3 * heads[1], v_dim or dim, device=device)[:, :, heads[1] : 2 * heads[1]]
    sizes = torch.arange(1, heads[0] + 1, device=device)[:, None] / 2  # heads have scales of their own
    (q, q_scale), (k, k_scale), (v, v_scale) = rt.quantize_heads(q * sizes), rt.quantize_heads(k * sizes[: heads[1]]), rt.quantize_heads(v)
    return q, k, v, q_scale, k_scale, v_scale


def expected(tensors, causal, dtype=torch.bfloat16, scale=None, window=(-1, -1)):
    wide = [x.float().double().cpu() for x in tensors]
    return reference.attention_of_codes(tuple(wide[:3]), tuple(wide[3:]), causal, dtype, scale, window)


def check(found, want):
    assert found.shape == want.exact.shape, want.name
    have = found.double().cpu()
    off = torch.where(have == want.exact, 0.0, (have - want.exact).abs())  # -inf is itself
    assert (off <= want.allowed).all(), f"{want.name}: {(off / want.allowed).max():.3g} of what is allowed"
    if want.least_snr_db > 0:
        testing.assert_snr(want.exact, have, want.least_snr_db)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "lengths,heads,dim,v_dim,scale",
    [((33, 70), (4, 2), 64, None, None), ((70, 33), (3, 3), 64, None, 0.1), ((300, 300), (4, 1), 128, None, None), ((1, 40), (2, 2), 128, 64, None), ((5, 9), (6, 2), 40, None, None), ((140, 260), (2, 1), 192, 128, None)],
    ids=str,
)
def test_values(device, dtype, causal, lengths, heads, dim, v_dim, scale):
    tensors = coded(device, lengths, heads, dim, v_dim=v_dim)
    out, lse = rt.attention_fp8(*tensors, causal=causal, scale=scale, return_lse=True, out_dtype=dtype)
    assert out.dtype == dtype and lse.dtype == torch.float32 and out.is_contiguous()
    if dim % 16 == 0 and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9:
        assert rt.last_used("attention_fp8").startswith("cuda_attention_fp8")
    for found, want in zip((out, lse), expected(tensors, causal, dtype, scale), strict=True):
        check(found, want)


@pytest.mark.parametrize("causal,window", [(True, (40, 0)), (False, (33, 9)), (False, (None, 20)), (False, (0, -1)), (True, (0, None))], ids=str)
@pytest.mark.parametrize("lengths,heads,dim", [((300, 300), (4, 2), 128), ((70, 333), (2, 2), 64), ((150, 33), (4, 1), 64)], ids=str)
def test_values_in_a_window(device, causal, window, lengths, heads, dim):
    tensors = coded(device, lengths, heads, dim, 1)
    out, lse = rt.attention_fp8(*tensors, causal=causal, window=window, return_lse=True)
    ends = tuple(-1 if end is None else end for end in window)
    for found, want in zip((out, lse), expected(tensors, causal, window=ends), strict=True):
        check(found, want)


def test_long_sums_of_values_of_one_sign(device):
    """A matrix unit that added up all keys would lose more of each than it keeps."""
    q, k, v, q_scale, k_scale, v_scale = coded(device, (64, 8192), (1, 1), 64, 1)
    q = torch.zeros_like(q)
    v = v.float().abs().to(E4M3)
    tensors = q, k, v, q_scale, k_scale, v_scale
    out = rt.attention_fp8(*tensors)
    want = expected(tensors, False)[0]
    check(out, want)
    testing.assert_snr(want.exact, out.double().cpu(), 40)


def test_heads_in_front_are_the_same(device):
    q, k, v, *scales = coded(device)
    turned = rt.attention_fp8(*(x.transpose(1, 2) for x in (q, k, v)), *scales, causal=True, layout="bhsd")
    assert torch.equal(turned.transpose(1, 2), rt.attention_fp8(q, k, v, *scales, causal=True))


def test_nothing_to_see(device):
    tensors = coded(device, (10, 4))
    out, lse = rt.attention_fp8(*tensors, causal=True, return_lse=True)
    assert (out[:, :6] == 0).all() and (lse[:, :, :6] == -torch.inf).all() and lse[:, :, 6:].isfinite().all()
    q, k, v, *scales = coded(device, (10, 0))
    out, lse = rt.attention_fp8(q, k, v, *scales, return_lse=True)
    assert (out == 0).all() and (lse == -torch.inf).all()


@pytest.mark.parametrize("at,bad", [(at, bad) for at in (3, 4, 5) for bad in (torch.inf, torch.nan, -1.0) if (at, bad) != (5, -1.0)], ids=str)
def test_scales_that_are_none_make_results_of_their_heads_nan(device, at, bad):
    tensors = list(coded(device, (10, 4)))
    right, right_lse = rt.attention_fp8(*tensors, causal=True, return_lse=True)
    tensors[at] = tensors[at].clone()
    tensors[at][1, 0] = bad
    out, lse = rt.attention_fp8(*tensors, causal=True, return_lse=True)
    heads = slice(0, 1) if at == 3 else slice(0, 2)
    own, others = (1, slice(6, None), heads), (1, slice(6, None), slice(heads.stop, None))
    assert out[own].isnan().all() and (out[1, :6] == 0).all()
    assert torch.equal(out[others], right[others]) and torch.equal(out[0], right[0])
    assert lse[1, heads, 6:].isnan().all() if at < 5 else torch.equal(lse, right_lse)
    assert (lse[1, heads, :6] == -torch.inf).all()


def test_heads_of_zeros(device):
    q, k, v = (torch.zeros(1, 20, 2, 64, device=device) for _ in range(3))
    coded_heads = [rt.quantize_heads(x) for x in (q, k, v)]
    assert all((scale == 1).all() for _, scale in coded_heads)
    out, lse = rt.attention_fp8(*(codes for codes, _ in coded_heads), *(scale for _, scale in coded_heads), return_lse=True)
    assert (out == 0).all() and torch.allclose(lse, torch.tensor(20.0, device=device).log())
    codes = torch.randn(1, 20, 2, 64, device=device).to(E4M3)
    none = torch.zeros(1, 2, device=device)
    _, lse = rt.attention_fp8(codes, codes, codes, none, none + 1, none + 1, causal=True, return_lse=True)
    assert torch.allclose(lse, torch.arange(1, 21, device=device).log().expand(1, 2, 20), atol=1e-5)


def test_codes_and_scales_of_heads(device):
    x = torch.randn(2, 30, 3, 64, device=device) * torch.tensor([1.0, 100.0, 1e-4], device=device)[:, None]
    codes, scale = rt.quantize_heads(x)
    assert codes.dtype == E4M3 and scale.shape == (2, 3) and scale.dtype == torch.float32
    assert torch.allclose(scale, x.abs().amax((1, 3)) / 448)
    assert (codes.float().abs().amax((1, 3)) == 448).all()
    testing.assert_snr(x.double().cpu(), (codes.float() * scale[:, None, :, None]).double().cpu(), 25)
    turned, same = rt.quantize_heads(x.transpose(1, 2), layout="bhsd")
    assert torch.equal(turned.transpose(1, 2).float(), codes.float()) and torch.equal(same, scale)
    x[1, 3, 2, 5] = torch.inf
    _, scale = rt.quantize_heads(x)
    assert not scale[1, 2].isfinite() and scale.isfinite().sum() == 5
    empty, scale = rt.quantize_heads(x[:, :0])
    assert empty.shape == (2, 0, 3, 64) and (scale == 1).all()
    with pytest.raises(ValueError, match="give four dimensions"):
        rt.quantize_heads(x[0])


def test_no_gradient(device):
    x = torch.randn(1, 20, 2, 64, device=device, requires_grad=True)
    codes, scale = rt.quantize_heads(x)
    out = rt.attention_fp8(codes, codes, codes, scale, scale, scale)
    with pytest.raises(NotImplementedError, match="attention_fp8"):
        out.float().sum().backward()


@pytest.mark.parametrize(
    "change,error,message",
    [
        ({0: torch.randn(1, 8, 2, 64)}, TypeError, r"q is torch.float32; give torch.float8_e4m3fn \(quantize_heads makes it\)"),
        ({1: torch.randn(1, 8, 2, 64).to(torch.float8_e5m2)}, TypeError, "k is torch.float8_e5m2"),
        ({at: torch.randn(1, 8, 3, 64).to(E4M3) for at in (1, 2)}, ValueError, "2 heads of q cannot share 3"),
        ({3: torch.ones(2)}, ValueError, "q_scale"),
        ({4: torch.ones(1, 2).half()}, ValueError, "k_scale"),
        ({5: torch.ones(1, 4)[:, ::2]}, ValueError, "v_scale is not contiguous"),
    ],
)
def test_what_is_refused(change, error, message):
    codes, scale = torch.randn(1, 8, 2, 64).to(E4M3), torch.ones(1, 2)
    tensors = [codes, codes, codes, scale, scale, scale]
    for at, one in change.items():
        tensors[at] = one
    with pytest.raises(error, match=message):
        rt.attention_fp8(*tensors)
    with torch._subclasses.fake_tensor.FakeTensorMode(allow_non_fake_inputs=True), pytest.raises(error, match=message):
        rt.attention_fp8(*tensors)


@pytest.mark.parametrize(
    "options,error,message",
    [
        ({"out_dtype": torch.float32}, ValueError, "the result cannot be torch.float32"),
        ({"window": (-2, 0)}, ValueError, r"window is \(-2, 0\)"),
        ({"scale": 0.0}, ValueError, "give a finite number above 0"),
        ({"layout": "sbhd"}, ValueError, "use 'bshd' or 'bhsd'"),
        ({"sinks": torch.zeros(2)}, TypeError, "sinks"),
    ],
)
def test_what_is_refused_of_options(options, error, message):
    codes, scale = torch.randn(1, 8, 2, 64).to(E4M3), torch.ones(1, 2)
    with pytest.raises(error, match=message):
        rt.attention_fp8(codes, codes, codes, scale, scale, scale, **options)


def test_compiled_and_counted(device):
    tensors = coded(device, (20, 20), (2, 1), 64, 1)
    eager = rt.attention_fp8(*tensors, causal=True)
    compiled = torch.compile(lambda *t: rt.attention_fp8(*t, causal=True), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(*tensors), eager)
    with FlopCounterMode(display=False) as counter:
        rt.attention_fp8(*tensors, causal=True)
    assert counter.get_total_flops() == 4 * 2 * 20 * 20 * 64


def test_opcheck(device):
    tensors = coded(device, (20, 30), (2, 1), 64, 1)
    torch.library.opcheck(torch.ops.ridgeline.attention_fp8.default, (*tensors, torch.bfloat16), test_utils=("test_faketensor", "test_autograd_registration"))
