"""attention and its gradients against float64 and the contract's error model."""

import contextlib

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import forward_ad
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint
from torch.utils.flop_counter import FlopCounterMode

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.bench import reference

ops = torch.ops.ridgeline
DTYPES = [torch.bfloat16, torch.float16]


def randn(*shape, dtype=torch.bfloat16, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype)


def heads_of(device, dtype, lengths=(33, 70), heads=(4, 2), dim=64, batch=2, v_dim=None):
    """q in the layout of a projection, k with heads in front, v a part of a packed tensor."""
    q = randn(batch, lengths[0], heads[0], dim, dtype=dtype, device=device)
    k = randn(batch, heads[1], lengths[1], dim, dtype=dtype, device=device).transpose(1, 2)
    v = randn(batch, lengths[1], 3 * heads[1], v_dim or dim, dtype=dtype, device=device)[:, :, heads[1] : 2 * heads[1]]
    return tuple(x.requires_grad_() for x in (q, k, v.detach()))


def expected(q, k, v, grad, causal, scale=None, window=(-1, -1)):
    wide = (x.detach().double().cpu() for x in (q, k, v, grad))
    return {one.name: one for one in reference.attention(*wide, causal, q.dtype, scale, window)}


def check(found, want):
    """Every element within what the contract allows."""
    assert found.shape == want.exact.shape, want.name
    have = found.detach().double().cpu()
    off = torch.where(have == want.exact, 0.0, (have - want.exact).abs())  # -inf is itself
    assert (off <= want.allowed).all(), f"{want.name}: {(off / want.allowed).max():.3g} of what is allowed"
    if want.least_snr_db > 0:
        testing.assert_snr(want.exact, have, want.least_snr_db)


class Called(TorchDispatchMode):
    """Names and arguments of the operators that run."""

    def __init__(self):
        super().__init__()
        self.calls = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.calls.append((str(func), args))
        return func(*args, **(kwargs or {}))

    def names(self):
        return [name for name, _ in self.calls]


# ---- The function


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal", [False, True])
@pytest.mark.parametrize(
    "lengths,heads,dim,scale",
    [((33, 70), (4, 2), 64, None), ((70, 33), (3, 3), 64, 0.3), ((129, 129), (4, 1), 128, None), ((1, 40), (2, 2), 128, None), ((5, 9), (6, 2), 40, None), ((20, 20), (2, 1), 200, None)],
    ids=str,
)
def test_values_and_gradients(device, dtype, causal, lengths, heads, dim, scale):
    q, k, v = heads_of(device, dtype, lengths, heads, dim)
    out, lse = rt.attention(q, k, v, causal=causal, scale=scale, return_lse=True)
    assert out.dtype == dtype and lse.dtype == torch.float32 and out.is_contiguous()
    if dim in (64, 128) and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9:
        assert rt.last_used("attention").startswith("cuda_attention")
    grad = torch.randn_like(out)
    gradients = torch.autograd.grad(out, (q, k, v), grad)
    want = expected(q, k, v, grad, causal, scale)
    for found, name in zip((out, lse, *gradients), ("out", "lse", "dq", "dk", "dv"), strict=True):
        check(found, want[name])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal,window", [(True, (40, 0)), (False, (33, 9)), (False, (None, 20)), (False, (0, -1)), (True, (0, None))], ids=str)
@pytest.mark.parametrize("lengths,heads,dim", [((300, 300), (4, 2), 128), ((70, 333), (2, 2), 64), ((150, 33), (4, 1), 64), ((9, 21), (2, 1), 40)], ids=str)
def test_values_and_gradients_in_a_window(device, dtype, causal, window, lengths, heads, dim):
    q, k, v = heads_of(device, dtype, lengths, heads, dim, batch=1)
    out, lse = rt.attention(q, k, v, causal=causal, window=window, return_lse=True)
    if dim in (64, 128) and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9:
        assert rt.last_used("attention").startswith("cuda_attention")
    grad = torch.randn_like(out)
    ends = tuple(-1 if end is None else end for end in window)
    want = expected(q, k, v, grad, causal, window=ends)
    for deterministic in (False, True):
        again = rt.attention(q, k, v, causal=causal, window=window, deterministic=deterministic)
        assert torch.equal(again, out)
        for found, name in zip((out, lse, *torch.autograd.grad(again, (q, k, v), grad)), ("out", "lse", "dq", "dk", "dv"), strict=True):
            check(found, want[name])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("dim,v_dim", [(192, 128), (64, 128), (40, 200), (256, 8)])
@pytest.mark.parametrize("causal,window", [(False, None), (True, None), (False, (20, 7))], ids=str)
def test_values_of_another_size_than_keys(device, dtype, dim, v_dim, causal, window):
    q, k, v = heads_of(device, dtype, (70, 133), (4, 2), dim, 1, v_dim)
    out, lse = rt.attention(q, k, v, causal=causal, window=window, return_lse=True, deterministic=True)
    assert out.shape == (1, 70, 4, v_dim) and out.is_contiguous() and lse.shape == (1, 4, 70)
    grad = torch.randn_like(out)
    want = expected(q, k, v, grad, causal, window=window or (-1, -1))
    found = (out, lse, *torch.autograd.grad(out, (q, k, v), grad))
    for have, name in zip(found, ("out", "lse", "dq", "dk", "dv"), strict=True):
        check(have, want[name])
    turned = rt.attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=causal, window=window, layout="bhsd")
    assert torch.equal(turned.transpose(1, 2), out)
    of = offsets(70, device=device), offsets(133, device=device)
    leaves = [x.detach()[0].requires_grad_() for x in (q, k, v)]
    packed_out = rt.varlen_attention(*leaves, *of, causal=causal, window=window, deterministic=True)
    assert packed_out.shape == (70, 4, v_dim)
    for have, name in zip((packed_out, *torch.autograd.grad(packed_out, leaves, grad[0])), ("out", "dq", "dk", "dv"), strict=True):
        check(have[None], want[name])


def test_values_of_another_size_compiled_mapped_counted_and_by_torch(device):
    leaves = heads_of(device, torch.bfloat16, dim=48, v_dim=16)
    want = rt.attention(*leaves, causal=True)
    compiled = torch.compile(lambda *x: rt.attention(*x, causal=True), fullgraph=True, backend="aot_eager", dynamic=True)
    assert torch.equal(compiled(*leaves), want)
    mapped = torch.func.vmap(lambda *x: rt.attention(*x, causal=True))(*(x.detach()[None] for x in leaves))
    assert torch.equal(mapped[0], want)
    with FlopCounterMode(display=False) as counter:
        rt.attention(*leaves).sum().backward()
    assert counter.get_total_flops() == 2 * 2 * 4 * 33 * 70 * (48 + 16 + 3 * 48 + 2 * 16)
    if device.type == "cpu":
        testing.assert_snr(rt.attention(*(x.detach().double() for x in leaves), causal=True), want.detach(), 40)
        torch.library.opcheck(ops.attention.default, tuple(x.detach() for x in leaves))
        torch.library.opcheck(ops.attention_backward.default, (torch.randn_like(want), *(x.detach() for x in leaves), *ops.attention(*(x.detach() for x in leaves))))


def test_a_window_beyond_all_keys_is_none_and_one_of_keys_before_is_a_causal_mask(device):
    q, k, v = (x.detach() for x in heads_of(device, torch.bfloat16))
    assert torch.equal(rt.attention(q, k, v, window=(1000, 1000)), rt.attention(q, k, v))
    assert torch.equal(rt.attention(q, k, v, window=(None, 0)), rt.attention(q, k, v, causal=True))
    assert torch.equal(rt.attention(q, k, v, causal=True, window=(5, 30)), rt.attention(q, k, v, window=(5, 0)))


# ---- Sinks


def formula(q, k, v, sinks=None, causal=False, window=(-1, -1), scale=None, softcap=None, slopes=None):
    """The result and its log-sum-exp, written out for autograd: a sink is one more column of scores."""
    (_, length, heads, dim), keys = q.shape, k.shape[1]
    k, v = (x.repeat_interleave(heads // x.shape[2], 2) for x in (k, v))
    scores = torch.einsum("bihc,bjhc->bhij", q, k) * (dim**-0.5 if scale is None else scale)
    if softcap:
        scores = softcap * torch.tanh(scores / softcap)
    if slopes is not None:
        places = torch.arange(length, device=q.device)[:, None] + keys - length
        scores = scores - slopes.view(-1, 1, 1) * (places - torch.arange(keys, device=q.device)).abs()
    scores = scores.masked_fill(~reference._seen(length, keys, causal, window, q.device), -torch.inf)
    if sinks is None:
        return torch.einsum("bhij,bjhc->bihc", scores.softmax(-1), v), scores.logsumexp(-1)
    scores = torch.cat([scores, sinks.view(1, -1, 1, 1).expand(*scores.shape[:3], 1)], -1)
    return torch.einsum("bhij,bjhc->bihc", scores.softmax(-1)[..., :-1], v), scores.logsumexp(-1)


def compare_with_formula(leaves, found, grad, **given):
    """``found``: the result, the log-sum-exp and the gradients of the leaves."""
    wide = [x.detach().double().requires_grad_() for x in leaves]
    out, lse = formula(*wide, **given)
    want = (out.detach(), lse.detach(), *torch.autograd.grad(out, wide, grad.double()))
    for name, have, right in zip(("out", "lse", "dq", "dk", "dv", "dsinks"), found, want, strict=False):
        assert have.shape == right.shape, name
        if name != "dsinks":
            testing.assert_snr(right, have.detach(), 40)
    if len(wide) == 4:  # sums that may cancel: 40 dB below what terms of random signs add up to
        terms = (wide[3] - lse.mT).exp() * (grad.double() * out).sum(-1)
        assert (found[5] - want[5]).norm() <= 0.01 * terms.norm()


SINKS = torch.tensor([1.5, -2.0, 0.0, 4.0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("causal,window", [(False, None), (True, None), (True, (20, 0)), (False, (9, 14))], ids=str)
@pytest.mark.parametrize("lengths,heads,dim,v_dim", [((133, 133), (4, 2), 64, 64), ((70, 33), (4, 1), 64, 64), ((9, 40), (4, 4), 40, 24)], ids=str)
def test_sinks_and_their_gradient(device, dtype, causal, window, lengths, heads, dim, v_dim):
    q, k, v = heads_of(device, dtype, lengths, heads, dim, 2, v_dim)
    sinks = SINKS.clone().to(device).requires_grad_()
    out, lse = rt.attention(q, k, v, causal=causal, window=window, sinks=sinks, return_lse=True)
    grad = torch.randn_like(out)
    found = (out, lse, *torch.autograd.grad(out, (q, k, v, sinks), grad))
    compare_with_formula((q, k, v, sinks), found, grad, causal=causal, window=window or (-1, -1))
    alone = rt.attention(q.detach(), k.detach(), v.detach(), causal=causal, window=window, sinks=sinks)
    assert torch.equal(torch.autograd.grad(alone, sinks, grad)[0], found[-1])


def test_the_comparison_finds_sinks_that_are_wrong(on_cpu):
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16))
    grad = torch.randn_like(q)
    for wrong in (None, SINKS.flip(0), SINKS * 0.125, SINKS.where(SINKS < 4, -torch.inf)):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        out, lse = rt.attention(*given, causal=True, sinks=wrong, return_lse=True)
        found = (out, lse, *torch.autograd.grad(out, given, grad))
        with pytest.raises(AssertionError):
            compare_with_formula((q, k, v, SINKS), found, grad, causal=True)


def test_sinks_of_documents(device):
    leaves, of_queries, of_keys = packed(device, torch.bfloat16, "equal")
    sinks = SINKS.clone().to(device).requires_grad_()
    out, lse = rt.varlen_attention(*leaves, of_queries, of_keys, causal=True, sinks=sinks, return_lse=True)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, (*leaves, sinks), grad)
    total = torch.zeros_like(sinks)
    for n in range(len(of_queries) - 1):
        rows = slice(*of_queries[n : n + 2].tolist())
        if rows.stop == rows.start:
            continue
        of = [x.detach()[None, rows].requires_grad_() for x in leaves]
        alone = rt.attention(*of, causal=True, sinks=sinks, return_lse=True)
        *gradients, of_sinks = torch.autograd.grad(alone[0], (*of, sinks), grad[None, rows])
        total += of_sinks
        assert torch.equal(alone[0][0], out[rows]) and torch.equal(alone[1][0], lse[:, rows])
        assert all(torch.equal(a[0], b[rows]) for a, b in zip(gradients, found))
    torch.testing.assert_close(total, found[-1])
    outside, sums = rt.varlen_attention(*leaves, of_queries[:2] + 5, of_keys[:2] + 5, sinks=sinks, return_lse=True)
    assert not outside[:5].any() and torch.equal(sums[:, :5], sinks.detach()[:, None].expand(4, 5))


def test_rows_without_keys_have_their_sink(device):
    sinks = SINKS.to(device)
    q, k, v = heads_of(device, torch.bfloat16, (5, 3))
    out, lse = rt.attention(q, k, v, causal=True, sinks=sinks, return_lse=True)
    assert not out[:, :2].any() and torch.equal(lse[..., :2], sinks[:, None].expand(2, 4, 2))
    for dtype in (torch.bfloat16, torch.float64) if device.type == "cpu" else (torch.bfloat16,):
        for lengths, batch in (((5, 0), 2), ((0, 3), 2), ((5, 3), 0)):
            q, k, v = heads_of(device, dtype, lengths, batch=batch)
            given = sinks.clone().to(dtype if dtype == torch.float64 else torch.float32).requires_grad_()
            out, lse = rt.attention(q, k, v, sinks=given, return_lse=True)
            assert not out.any() and torch.equal(lse.detach(), given.detach()[:, None].expand(batch, 4, lengths[0]))
            assert not torch.autograd.grad(out.sum(), given)[0].any()
    none = torch.full((4,), -torch.inf, device=device)
    q, k, v = heads_of(device, torch.bfloat16)
    assert torch.equal(rt.attention(q, k, v, causal=True, sinks=none), rt.attention(q, k, v, causal=True))


def test_gradients_of_sinks_match_differences(on_cpu):
    q, k, v = (x.detach().double().requires_grad_() for x in heads_of("cpu", torch.float32, (3, 4), (4, 2), 3, 1, 2))
    sinks = SINKS.double().requires_grad_()
    for given in ({}, {"causal": True}, {"window": (1, 0)}):
        def call(q, k, v, sinks, given=given):
            return rt.attention(q, k, v, sinks=sinks, scale=0.7, **given)

        assert torch.autograd.gradcheck(call, (q, k, v, sinks), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, (q, k, v, sinks))


def test_sinks_in_other_forms(on_cpu):
    """Of 16 bits, compiled, mapped, by operators, under autocast and kept for backward."""
    leaves = heads_of("cpu", torch.bfloat16)
    sinks = SINKS.clone().requires_grad_()
    want = rt.attention(*leaves, causal=True, sinks=sinks)
    grad = torch.randn_like(want)
    gradients = torch.autograd.grad(want, (*leaves, sinks), grad)
    half = SINKS.bfloat16().requires_grad_()  # all of them have it exactly
    out = rt.attention(*leaves, causal=True, sinks=half)
    assert torch.equal(out, want) and torch.autograd.grad(out, half, grad)[0].dtype == torch.bfloat16
    compiled = torch.compile(lambda *x: rt.attention(*x[:3], causal=True, sinks=x[3]), fullgraph=True, backend="aot_eager", dynamic=True)
    out = compiled(*leaves, sinks)
    assert torch.equal(out, want)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(out, (*leaves, sinks), grad), gradients, strict=True))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert torch.equal(rt.attention(*(x.detach().float() for x in leaves), causal=True, sinks=sinks), want)
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        rt.attention(*leaves, sinks=sinks)
    assert len(kept) == 6
    q, k, v = (x.detach() for x in leaves)
    many = torch.stack([SINKS, SINKS + 1])
    mapped = torch.func.vmap(lambda s: rt.attention(q, k, v, sinks=s))(many)
    assert torch.equal(mapped, torch.stack([rt.attention(q, k, v, sinks=s) for s in many]))
    each = torch.func.vmap(torch.func.grad(lambda s, q: rt.attention(q, k[:1], v[:1], sinks=s).float().square().sum()), (None, 0))(SINKS, q[:, None])
    alone = [torch.func.grad(lambda s, i=i: rt.attention(q[i : i + 1], k[:1], v[:1], sinks=s).float().square().sum())(SINKS) for i in range(2)]
    torch.testing.assert_close(each, torch.stack(alone))
    torch.library.opcheck(ops.attention.default, (q, k, v, True, 0.5, True, -1, -1, SINKS))
    o, lse = ops.attention(q, k, v, True, 0.5, True, -1, -1, SINKS)
    torch.library.opcheck(ops.attention_backward.default, (grad, q, k, v, o, lse, True, 0.5, True, -1, -1, SINKS))


def test_a_module_with_sinks(on_cpu):
    module = rt.Attention(causal=True, sinks=4)
    assert repr(module) == "Attention(causal=True, layout='bshd', sinks=4)" and module.state_dict().keys() == {"sinks"}
    q, k, v = heads_of("cpu", torch.bfloat16)
    assert torch.equal(module(q, k, v), rt.attention(q, k, v, causal=True, sinks=torch.zeros(4)))
    module(q, k, v).sum().backward()
    assert module.sinks.grad.shape == (4,) and module.sinks.grad.any()
    assert rt.Attention(sinks=4, dtype=torch.bfloat16, device="meta").sinks.dtype == torch.bfloat16


# ---- A softcap


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("softcap", [0.5, 2.0, 50.0])
@pytest.mark.parametrize("causal,window,sinks", [(False, None, True), (True, None, False), (True, (20, 0), True), (False, (9, 14), False)], ids=str)
@pytest.mark.parametrize("lengths,heads,dim,v_dim", [((70, 133), (4, 2), 64, 64), ((9, 40), (4, 4), 40, 24)], ids=str)
def test_a_softcap_and_its_gradients(device, dtype, softcap, causal, window, sinks, lengths, heads, dim, v_dim):
    leaves = list(heads_of(device, dtype, lengths, heads, dim, 2, v_dim))
    if sinks:
        leaves.append(SINKS.clone().to(device).requires_grad_())
    given = {"sinks": leaves[3]} if sinks else {}
    out, lse = rt.attention(*leaves[:3], causal=causal, window=window, softcap=softcap, return_lse=True, **given)
    grad = torch.randn_like(out)
    found = (out, lse, *torch.autograd.grad(out, leaves, grad))
    compare_with_formula(leaves, found, grad, causal=causal, window=window or (-1, -1), softcap=softcap)


def test_the_comparison_finds_a_softcap_that_is_wrong(on_cpu):
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16))
    grad = torch.randn_like(q)
    for wrong in (None, 2.5, 0.25):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        out, lse = rt.attention(*given, causal=True, softcap=wrong, return_lse=True)
        with pytest.raises(AssertionError):
            compare_with_formula((q, k, v), (out, lse, *torch.autograd.grad(out, given, grad)), grad, causal=True, softcap=2.0)
    o, lse = ops.attention(q, k, v, True, None, False, -1, -1, None, 2.0)
    stale = ops.attention_backward(grad, q, k, v, o, lse, True)  # without the slope of the softcap
    with pytest.raises(AssertionError):
        compare_with_formula((q, k, v), (o, lse, *stale[:3]), grad, causal=True, softcap=2.0)


def test_a_softcap_bounds_scores_and_masks_come_behind_it(device):
    q, k, v = (x.detach() for x in heads_of(device, torch.bfloat16, (40, 70)))
    capped, lse = rt.attention(q * 1000, k, v, causal=True, softcap=1.0, return_lse=True)
    assert capped.isfinite().all() and (lse[..., -1] <= 1.001 + torch.log(torch.tensor(70.0))).all() and (lse[..., -1] >= -1).all()
    lone, sums = rt.attention(q[:, :5], k[:, :3], v[:, :3], causal=True, softcap=1.0, return_lse=True)
    assert not lone[:, :2].any() and (sums[..., :2] == -torch.inf).all()
    assert torch.equal(rt.attention(q, k, v, softcap=0.0), rt.attention(q, k, v))
    endless = q.clone()
    endless[0, 3, 1] = torch.inf  # scores of infinity and NaN
    found = rt.attention(endless, k.abs(), v, softcap=1.0)
    assert found.isfinite().all() and torch.equal(found[1], rt.attention(q, k.abs(), v, softcap=1.0)[1])


def test_a_softcap_of_documents_compiled_mapped_and_by_differences(on_cpu):
    leaves, of_queries, of_keys = packed("cpu", torch.bfloat16, "equal")
    out = rt.varlen_attention(*leaves, of_queries, of_keys, causal=True, softcap=2.0)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, grad)
    rows = slice(*of_queries[2:4].tolist())
    of = [x.detach()[None, rows].requires_grad_() for x in leaves]
    alone = rt.attention(*of, causal=True, softcap=2.0)
    assert torch.equal(alone[0], out[rows])
    assert all(torch.equal(a[0], b[rows]) for a, b in zip(torch.autograd.grad(alone, of, grad[None, rows]), found, strict=True))
    compiled = torch.compile(lambda *x: rt.attention(*x, causal=True, softcap=2.0), fullgraph=True, backend="aot_eager", dynamic=True)
    assert torch.equal(compiled(*of), alone)
    mapped = torch.func.vmap(lambda *x: rt.attention(*x, causal=True, softcap=2.0))(*(x.detach()[None] for x in of))
    assert torch.equal(mapped[0], alone)
    q, k, v = (x.detach().double().requires_grad_() for x in heads_of("cpu", torch.float32, (3, 4), (4, 2), 3, 1))
    for given in ({}, {"causal": True, "sinks": SINKS.double()}):
        def call(q, k, v, given=given):
            return rt.attention(q, k, v, softcap=0.8, scale=0.7, **given)

        assert torch.autograd.gradcheck(call, (q, k, v), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, (q, k, v))
    halves = tuple(x.detach() for x in of)
    torch.library.opcheck(ops.attention.default, (*halves, True, 0.5, True, -1, -1, None, 2.0))
    module = rt.Attention(causal=True, softcap=2.0)
    assert repr(module) == "Attention(causal=True, layout='bshd', softcap=2.0)" and torch.equal(module(*of), alone)


# ---- Slopes (ALiBi)

SLOPES = torch.tensor([0.5, 0.25, 0.0625, 0.0])


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("softcap,sinks", [(None, False), (2.0, True)], ids=str)
@pytest.mark.parametrize("causal,window", [(False, None), (True, None), (True, (20, 0)), (False, (9, 14))], ids=str)
@pytest.mark.parametrize("lengths,heads,dim,v_dim", [((70, 133), (4, 2), 64, 64), ((40, 9), (4, 1), 64, 64), ((9, 40), (4, 4), 40, 24)], ids=str)
def test_slopes(device, dtype, softcap, sinks, causal, window, lengths, heads, dim, v_dim):
    leaves = list(heads_of(device, dtype, lengths, heads, dim, 2, v_dim))
    if sinks:
        leaves.append(SINKS.clone().to(device).requires_grad_())
    given = {"sinks": leaves[3]} if sinks else {}
    slopes = SLOPES.to(device)
    out, lse = rt.attention(*leaves[:3], causal=causal, window=window, softcap=softcap, alibi_slopes=slopes, return_lse=True, **given)
    grad = torch.randn_like(out)
    found = (out, lse, *torch.autograd.grad(out, leaves, grad))
    if lengths[0] > lengths[1] and (causal or window):  # rows without keys, of which the formula has NaN
        empty = lengths[0] - lengths[1] - (0 if causal else window[1])
        assert not out[:, :empty].any() and out[:, empty:].any(-1).all()
        return
    compare_with_formula(leaves, found, grad, causal=causal, window=window or (-1, -1), softcap=softcap, slopes=slopes.double())


@pytest.mark.parametrize("causal,window", [(False, None), (True, None), (False, (200, 130))], ids=str)
@pytest.mark.parametrize("dim,v_dim", [(64, 64), (128, 128), (192, 128), (256, 256)], ids=str)
def test_slopes_of_keys_in_blocks_before_and_behind_their_queries(device, causal, window, dim, v_dim):
    leaves = heads_of(device, torch.bfloat16, (300, 430), (4, 1), dim, 1, v_dim)
    out, lse = rt.attention(*leaves, causal=causal, window=window, alibi_slopes=SLOPES.to(device), return_lse=True)
    grad = torch.randn_like(out)
    found = (out, lse, *torch.autograd.grad(out, leaves, grad))
    compare_with_formula(leaves, found, grad, causal=causal, window=window or (-1, -1), slopes=SLOPES.to(device).double())


def test_the_comparison_finds_slopes_that_are_wrong(on_cpu):
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16))
    grad = torch.randn_like(q)
    for wrong in (None, SLOPES.roll(1), -SLOPES, SLOPES * 1.1):
        given = [x.clone().requires_grad_() for x in (q, k, v)]
        out, lse = rt.attention(*given, causal=True, alibi_slopes=wrong, return_lse=True)
        with pytest.raises(AssertionError):
            compare_with_formula((q, k, v), (out, lse, *torch.autograd.grad(out, given, grad)), grad, causal=True, slopes=SLOPES.double())
    o, lse = ops.attention(q, k, v, True, None, False, -1, -1, None, 0.0, SLOPES)
    stale = ops.attention_backward(grad, q, k, v, o, lse, True)  # without them
    with pytest.raises(AssertionError):
        compare_with_formula((q, k, v), (o, lse, *stale[:3]), grad, causal=True, slopes=SLOPES.double())


def test_slopes_of_documents_compiled_mapped_and_by_differences(on_cpu):
    leaves, of_queries, of_keys = packed("cpu", torch.bfloat16, "equal")
    out = rt.varlen_attention(*leaves, of_queries, of_keys, causal=True, alibi_slopes=SLOPES)
    grad = torch.randn_like(out)
    found = torch.autograd.grad(out, leaves, grad)
    rows = slice(*of_queries[2:4].tolist())
    of = [x.detach()[None, rows].requires_grad_() for x in leaves]
    alone = rt.attention(*of, causal=True, alibi_slopes=SLOPES)
    assert torch.equal(alone[0], out[rows])
    assert all(torch.equal(a[0], b[rows]) for a, b in zip(torch.autograd.grad(alone, of, grad[None, rows]), found, strict=True))
    compiled = torch.compile(lambda *x: rt.attention(*x, causal=True, alibi_slopes=SLOPES), fullgraph=True, backend="aot_eager", dynamic=True)
    out = compiled(*of)
    assert torch.equal(out, alone)
    eager = torch.autograd.grad(rt.attention(*of, causal=True, alibi_slopes=SLOPES), of, grad[None, rows])
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(out, of, grad[None, rows]), eager, strict=True))
    mapped = torch.func.vmap(lambda *x: rt.attention(*x, causal=True, alibi_slopes=SLOPES))(*(x.detach()[None] for x in of))
    assert torch.equal(mapped[0], alone)
    q, k, v = (x.detach().double().requires_grad_() for x in heads_of("cpu", torch.float32, (3, 4), (4, 2), 3, 1))
    for given in ({}, {"causal": True, "sinks": SINKS.double(), "softcap": 0.8}):
        def call(q, k, v, given=given):
            return rt.attention(q, k, v, alibi_slopes=SLOPES.double(), scale=0.7, **given)

        assert torch.autograd.gradcheck(call, (q, k, v), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, (q, k, v))
    starts = torch.tensor([0, 2, 3], dtype=torch.int32)

    def of_documents(q, k, v):
        return rt.varlen_attention(q, k, v, starts, torch.tensor([0, 1, 4], dtype=torch.int32), causal=True, alibi_slopes=SLOPES.double())

    assert torch.autograd.gradcheck(of_documents, tuple(x.detach()[0].requires_grad_() for x in (q, k, v)))
    halves = tuple(x.detach() for x in of)
    torch.library.opcheck(ops.attention.default, (*halves, True, 0.5, True, -1, -1, None, 0.0, SLOPES))
    o, lse = ops.attention(*halves, True, 0.5, True, -1, -1, None, 0.0, SLOPES)
    torch.library.opcheck(ops.attention_backward.default, (grad[None, rows], *halves, o, lse, True, 0.5, True, -1, -1, None, 0.0, SLOPES))
    module = rt.Attention(causal=True, alibi_slopes=SLOPES.tolist())
    assert repr(module) == "Attention(causal=True, layout='bshd', 4 alibi_slopes)" and torch.equal(module(*of), alone)
    assert not module.state_dict() and rt.Attention(alibi_slopes=[1.0], device="meta").alibi_slopes.device.type == "meta"


def test_slopes_have_no_gradient_and_are_checked(on_cpu):
    q, k, v = heads_of("cpu", torch.bfloat16)
    with pytest.raises(NotImplementedError, match="alibi_slopes has no gradient; call .detach"):
        rt.attention(q, k, v, alibi_slopes=SLOPES.clone().requires_grad_())
    with torch.no_grad():
        assert torch.equal(rt.attention(q, k, v, alibi_slopes=SLOPES.clone().requires_grad_()), rt.attention(q, k, v, alibi_slopes=SLOPES.bfloat16()))
    with pytest.raises(ValueError, match=r"alibi_slopes has shape \[3\]; give a contiguous vector of a number for each of the 4 heads"):
        rt.attention(q, k, v, alibi_slopes=SLOPES[:3])
    with pytest.raises(TypeError, match="alibi_slopes is torch.float64; give torch.float32"):
        ops.attention(q, k, v, False, None, False, -1, -1, None, 0.0, SLOPES.double())
    lone = rt.attention(q[:, :6], k[:, :2], v[:, :2], causal=True, alibi_slopes=SLOPES, return_lse=True)
    assert not lone[0][:, :4].any() and (lone[1][..., :4] == -torch.inf).all()


def wrong_ones(q, k, v):
    """Results that are almost right: a mask that is off by one, another head of the group, no scale, a rounded sum."""
    places = torch.arange(k.shape[1])
    last = torch.arange(q.shape[1])[:, None] + k.shape[1] - q.shape[1]
    by_torch = lambda q, k, v, **given: F.scaled_dot_product_attention(*(x.double().transpose(1, 2) for x in (q, k, v)), enable_gqa=True, **given).transpose(1, 2)  # noqa: E731
    yield by_torch(q, k, v, attn_mask=places <= last - 1)
    yield by_torch(q, k.flip(2), v.flip(2), attn_mask=places <= last)
    yield by_torch(q, k, v, attn_mask=places <= last, scale=1.0)
    yield by_torch(q, k, v, attn_mask=places <= last).to(torch.float8_e4m3fn)


def test_the_check_finds_what_is_wrong(on_cpu):
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16))
    want = expected(q, k, v, torch.randn_like(q), True)["out"]
    check(rt.attention(q, k, v, causal=True), want)
    for wrong in wrong_ones(q, k, v):
        with pytest.raises(AssertionError):
            check(wrong, want)


def test_the_check_finds_gradients_that_are_wrong(on_cpu):
    """Of a stale log-sum-exp, of an o without its last row, with a query lost, without the mask, and of another scale."""
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16))
    grad = torch.randn_like(q)
    want = expected(q, k, v, grad, True)
    o, lse = ops.attention(q, k, v, True)
    lost, cut = grad.clone(), o.clone()
    lost[:, 7], cut[:, -1] = 0, 0
    right = (grad, q, k, v, o, lse, True, None)
    for given, wrong in (
        (right, ()),
        ((grad, q, k, v, o, lse + 0.05, True, None), ("dq", "dk", "dv")),
        ((grad, q, k, v, cut, lse, True, None), ("dq", "dk")),
        ((lost, q, k, v, o, lse, True, None), ("dq", "dk", "dv")),
        ((grad, q, k, v, o, lse, False, None), ("dq", "dk", "dv")),
        ((grad, q, k, v, o, lse, True, 0.12), ("dq", "dk", "dv")),
    ):
        *gradients, of_sinks = ops.attention_backward(*given)
        assert of_sinks.numel() == 0
        for name, found in zip(("dq", "dk", "dv"), gradients, strict=True):
            with pytest.raises(AssertionError) if name in wrong else contextlib.nullcontext():
                check(found, want[name])


def test_layouts_are_views_and_nothing_is_copied(device):
    packed = randn(2, 24, 3, 4, 64, device=device).requires_grad_()
    q, k, v = packed.unbind(2)
    with Called() as seen:
        out = rt.attention(q, k, v, causal=True, deterministic=True)
        turned = rt.attention(*(x.transpose(1, 2) for x in (q, k, v)), causal=True, layout="bhsd", deterministic=True)
    assert set(seen.names()) <= {"ridgeline.attention.default", "aten.transpose.int", "aten.detach.default"}
    assert torch.equal(out, turned.transpose(1, 2)) and turned.transpose(1, 2).is_contiguous()
    assert torch.equal(out, rt.attention(*(x.contiguous() for x in (q, k, v)), causal=True))
    (gradient,) = torch.autograd.grad(out.sum(), packed)  # an expanded gradient of o is copied
    assert gradient.shape == packed.shape and gradient.isfinite().all()
    one = torch.autograd.grad(turned, packed, torch.ones_like(turned))[0]
    assert torch.equal(gradient, one)


def test_a_row_that_sees_no_key_and_nothing_at_all(device):
    q, k, v = heads_of(device, torch.bfloat16, (5, 3))
    out, lse = rt.attention(q, k, v, causal=True, return_lse=True)
    assert (out[:, :2] == 0).all() and (lse[..., :2] == -torch.inf).all() and lse[..., 2:].isfinite().all()
    assert all(one.isfinite().all() for one in torch.autograd.grad(out.sum(), (q, k, v)))
    for lengths, batch in (((5, 0), 2), ((0, 3), 2), ((0, 0), 2), ((5, 3), 0)):
        for dtype in (torch.bfloat16, torch.float64) if device.type == "cpu" else (torch.bfloat16,):
            q, k, v = heads_of(device, dtype, lengths, batch=batch)
            out, lse = rt.attention(q, k, v, return_lse=True)
            assert out.shape == q.shape and not out.any() and (lse == -torch.inf).all()
            assert [one.shape for one in torch.autograd.grad(out.sum(), (q, k, v))] == [q.shape, k.shape, v.shape]


def test_what_is_not_finite_stays_in_its_head(device):
    q, k, v = (x.detach() for x in heads_of(device, torch.bfloat16, heads=(4, 4)))
    want = rt.attention(q, k, v)
    for bad in (torch.nan, torch.inf):
        spoilt = v.clone()
        spoilt[:, 3, 1] = bad
        found = rt.attention(q, k, spoilt)
        assert torch.equal(found[:, :, [0, 2, 3]], want[:, :, [0, 2, 3]]) and not found[:, :, 1].isfinite().all()


@pytest.mark.parametrize("compiled", [False, True])
def test_saved_for_backward_are_the_operands_and_nothing_more(device, compiled):
    q, k, v = heads_of(device, torch.bfloat16)
    call = torch.compile(rt.attention, fullgraph=True, backend="aot_eager") if compiled else rt.attention
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        out = call(q, k, v, causal=True)
    assert {x.data_ptr() for x in kept} >= {x.data_ptr() for x in (q, k, v, out)} and len(kept) == 5
    assert [tuple(x.shape) for x in kept if x.dtype == torch.float32] == [(2, 4, 33)]


def test_each_gradient_alone(device):
    leaves = heads_of(device, torch.bfloat16)
    grad = torch.randn_like(leaves[0])
    want = torch.autograd.grad(rt.attention(*leaves, deterministic=True), leaves, grad)
    for at in range(3):
        given = [x if i == at else x.detach() for i, x in enumerate(leaves)]
        assert torch.equal(torch.autograd.grad(rt.attention(*given, deterministic=True), given[at], grad)[0], want[at])


def test_gradients_match_differences(on_cpu):
    for lengths, heads, v_dim in (((3, 4), (4, 2), 3), ((4, 2), (2, 2), 2)):
        q, k, v = (x.detach().double().requires_grad_() for x in heads_of("cpu", torch.float32, lengths, heads, 3, 1, v_dim))
        for causal, window in ((False, None), (True, None), (False, (1, 0)), (True, (1, None))):
            def call(q, k, v, causal=causal, window=window):
                return rt.attention(q, k, v, causal=causal, window=window, scale=0.7)

            assert torch.autograd.gradcheck(call, (q, k, v), check_forward_ad=True)
            assert torch.autograd.gradgradcheck(call, (q, k, v))


def test_tangents_and_second_gradients_of_16_bits_are_those_of_float64(on_cpu):
    leaves = heads_of("cpu", torch.bfloat16, (6, 9), dim=16)
    wide = [x.detach().double().requires_grad_() for x in leaves]
    directions = [torch.randn_like(x) for x in leaves]
    with forward_ad.dual_level():
        found, right = (
            forward_ad.unpack_dual(rt.attention(*(forward_ad.make_dual(x.detach(), d.to(x.dtype)) for x, d in zip(given, directions)), causal=True)).tangent
            for given in (leaves, wide)
        )
    testing.assert_snr(right, found, 40)

    def penalty(given):
        (one,) = torch.autograd.grad(rt.attention(*given, causal=True).double().square().sum(), given[0], create_graph=True)
        return torch.autograd.grad(one.double().square().sum(), given)

    for have, want in zip(penalty(leaves), penalty(wide), strict=True):
        testing.assert_snr(want, have, 30)


def test_the_log_sum_exp_has_no_gradient_and_says_so(device):
    q, k, v = heads_of(device, torch.bfloat16)
    out, lse = rt.attention(q, k, v, return_lse=True)
    with pytest.raises(NotImplementedError, match=r"no gradient through the log-sum-exp; call .detach\(\) on it"):
        lse.sum().backward()
    (out.sum() + lse.detach().sum()).backward()
    assert q.grad is not None


# ---- Packed documents


def offsets(*lengths, device="cpu", first=0):
    return torch.tensor([first, *lengths], dtype=torch.int32, device=device).cumsum(0, dtype=torch.int32)


LENGTHS = {  # of queries and keys
    "equal": ((100, 1, 260, 0, 37), (100, 1, 260, 0, 37)),
    "others": ((40, 0, 130, 7), (90, 20, 0, 300)),
    "many": ((3,) * 50, (5,) * 50),
}


def packed(device, dtype, lengths, heads=(4, 2), dim=64):
    of_queries, of_keys = (offsets(*one, device=device) for one in LENGTHS[lengths])
    tokens, keys = int(of_queries[-1]), int(of_keys[-1])
    qkv = randn(tokens + keys, heads[0] + 2 * heads[1], dim, dtype=dtype, device=device)
    leaves = qkv[:tokens, : heads[0]], qkv[tokens:, heads[0] : heads[0] + heads[1]], qkv[tokens:, heads[0] + heads[1] :]
    return [x.detach().requires_grad_() for x in leaves], of_queries, of_keys


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("lengths", LENGTHS)
@pytest.mark.parametrize("causal,window", [(False, None), (True, None), (True, (30, None)), (False, (20, 9))], ids=str)
@pytest.mark.parametrize("dim", [64, 128, 40])
def test_documents_and_their_gradients(device, dtype, lengths, causal, window, dim):
    leaves, of_queries, of_keys = packed(device, dtype, lengths, dim=dim)
    out, lse = rt.varlen_attention(*leaves, of_queries, of_keys, causal=causal, window=window, return_lse=True)
    if dim in (64, 128) and device.type == "cuda" and torch.cuda.get_device_capability(device)[0] == 9:
        assert rt.last_used("attention").startswith("cuda_attention")
    assert out.shape == leaves[0].shape and out.is_contiguous() and lse.shape == (4, out.shape[0]) and lse.dtype == torch.float32
    grad = torch.randn_like(out)
    ends = (-1, -1) if window is None else tuple(-1 if end is None else end for end in window)
    for deterministic in (False, True):
        again = rt.varlen_attention(*leaves, of_queries, of_keys, causal=causal, window=window, deterministic=deterministic)
        assert torch.equal(again, out)
        found = (out, *torch.autograd.grad(again, leaves, grad))
        for n in range(len(of_queries) - 1):
            rows, keys = slice(*of_queries[n : n + 2].tolist()), slice(*of_keys[n : n + 2].tolist())
            if rows.stop == rows.start:
                assert not found[2][keys].any() and not found[3][keys].any()
                continue
            if keys.stop == keys.start:
                assert not out[rows].any() and (lse[:, rows] == -torch.inf).all() and not found[1][rows].any()
                continue
            of = [x.detach()[None, part] for x, part in zip((*leaves, grad), (rows, keys, keys, rows), strict=True)]
            want = expected(*of, causal, window=ends)
            check(lse[None, :, rows], want["lse"])
            for have, part, name in zip(found, (rows, rows, keys, keys), ("out", "dq", "dk", "dv"), strict=True):
                check(have[None, part], want[name])


def test_tokens_of_no_document_are_zero(device):
    leaves, _, _ = packed(device, torch.bfloat16, "equal")
    of = offsets(100, 200, device=device, first=20)
    out, lse = rt.varlen_attention(*leaves, of, of, causal=True, return_lse=True)
    outside = torch.ones(len(out), dtype=torch.bool, device=device)
    outside[20:320] = False
    assert not out[outside].any() and (lse[:, outside] == -torch.inf).all() and lse[:, ~outside].isfinite().all()
    gradients = torch.autograd.grad(out, leaves, torch.ones_like(out))
    assert all(not one[outside].any() and one[~outside].any() for one in gradients)


def test_the_check_finds_documents_that_are_wrong(on_cpu):
    """One that sees its neighbour, a mask off by one, a last row that is lost; in backward a stale log-sum-exp, too."""
    (q, k, v), of_queries, of_keys = packed("cpu", torch.bfloat16, "equal")
    q, k, v = (x.detach() for x in (q, k, v))
    grad, rows = torch.randn_like(q), slice(*of_queries[2:4].tolist())
    want = expected(*(x[None, rows] for x in (q, k, v, grad)), True)
    neighbour, short = of_keys.clone(), of_queries.clone()
    neighbour[2] -= 1
    short[3] -= 1
    o, lse = ops.varlen_attention(q, k, v, of_queries, of_keys, True)
    check(o[None, rows], want["out"])
    for given, mask in (((of_queries, neighbour), (True,)), ((short, of_keys), (True,)), ((of_queries, of_keys), (False, None, False, -1, 1))):
        with pytest.raises(AssertionError):
            check(ops.varlen_attention(q, k, v, *given, *mask)[0][None, rows], want["out"])
    right = (grad, q, k, v, o, lse, of_queries, of_keys, True)
    every = ("dq", "dk", "dv")
    stale, seen, lost = (*right[:5], lse + 0.05, *right[6:]), (*right[:6], of_queries, neighbour, True), (*right[:6], short, of_keys, True)
    for given, wrong in ((right, ()), (stale, every), (seen, ("dq",)), (lost, every)):  # a neighbour's key takes nothing from the document's own
        for name, found in zip(every, ops.varlen_attention_backward(*given)[:3], strict=True):
            with pytest.raises(AssertionError) if name in wrong else contextlib.nullcontext():
                check(found[None, rows], want[name])


def test_gradients_of_documents_match_differences(on_cpu):
    of_queries, of_keys = offsets(2, 0, 3, first=1), offsets(3, 1, 2)
    leaves = [torch.randn(n, h, 3, dtype=torch.double, requires_grad=True) for n, h in ((7, 2), (6, 1), (6, 1))]
    for given in ({}, {"causal": True}, {"window": (1, 0)}):
        def call(*x, given=given):
            return rt.varlen_attention(*x, of_queries, of_keys, scale=0.7, **given)

        assert torch.autograd.gradcheck(call, leaves, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, leaves)
    halves = [x.detach().bfloat16() for x in leaves]
    testing.assert_snr(rt.varlen_attention(*(x.double() for x in halves), of_queries, of_keys, causal=True), rt.varlen_attention(*halves, of_queries, of_keys, causal=True), 40)


DOCUMENTS_REFUSED = {
    "a batch": (lambda q, k, v, a, b: rt.varlen_attention(q[None], k, v, a, b), ValueError, "give \\[tokens, heads, dim\\]"),
    "offsets of 64 bits": (lambda q, k, v, a, b: rt.varlen_attention(q, k, v, a.long(), b), TypeError, "cu_seqlens_q is torch.int64; call .to\\(torch.int32\\)"),
    "no documents": (lambda q, k, v, a, b: rt.varlen_attention(q, k, v, a[:1], b[:1]), ValueError, "where each document begins, and where the last one ends"),
    "other documents": (lambda q, k, v, a, b: rt.varlen_attention(q, k, v, a, b[:-1]), ValueError, "cu_seqlens_q has 6 numbers and cu_seqlens_k 5"),
    "other heads": (lambda q, k, v, a, b: rt.varlen_attention(q[:, :3], k, v, a, b), ValueError, "3 heads of q cannot share 2"),
    "a window": (lambda q, k, v, a, b: rt.varlen_attention(q, k, v, a, b, window=3), ValueError, "varlen_attention: window=3; give \\(left, right\\)"),
}


@pytest.mark.parametrize("name", DOCUMENTS_REFUSED)
def test_what_is_wrong_with_documents_is_said(on_cpu, name):
    call, kind, message = DOCUMENTS_REFUSED[name]
    leaves, of_queries, of_keys = packed("cpu", torch.bfloat16, "equal")
    given = [x.detach() for x in (*leaves, of_queries, of_keys)]
    for device in ("cpu", "meta"):
        with pytest.raises(kind, match=message):
            call(*(x.to(device) for x in given))
    if name == "a window":
        wrong = of_queries.clone()
        wrong[2] = 7
        with pytest.raises(ValueError, match="q_offsets: offset 2 is 7, after 100"):
            rt.varlen_attention(*given[:3], wrong, of_keys)


def test_pytorchs_own_checks_of_documents(on_cpu):
    leaves, of_queries, of_keys = packed("cpu", torch.bfloat16, "many", dim=16)
    given = [x.detach() for x in leaves]
    for more in ((), (True, 0.5, True, 4, -1)):
        torch.library.opcheck(ops.varlen_attention.default, (*given, of_queries, of_keys, *more))
        out, lse = ops.varlen_attention(*given, of_queries, of_keys, *more)
        torch.library.opcheck(ops.varlen_attention_backward.default, (torch.randn_like(out), *given, out, lse, of_queries, of_keys, *more))
    torch.library.opcheck(ops.varlen_attention.default, (*leaves, of_queries, of_keys), test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


def test_documents_compiled_cast_kept_and_counted(device):
    leaves, of_queries, of_keys = packed(device, torch.bfloat16, "equal")
    want = rt.varlen_attention(*leaves, of_queries, of_keys, causal=True, deterministic=True)
    grad = torch.randn_like(want)
    gradients = torch.autograd.grad(want, leaves, grad)
    compiled = torch.compile(lambda *x: rt.varlen_attention(*x, causal=True, deterministic=True), fullgraph=True, backend="aot_eager", dynamic=True)
    out = compiled(*leaves, of_queries, of_keys)
    assert torch.equal(out, want)
    assert all(torch.equal(a, b) for a, b in zip(torch.autograd.grad(out, leaves, grad), gradients, strict=True))
    kept = []
    with torch.autograd.graph.saved_tensors_hooks(lambda x: kept.append(x) or x, lambda x: x):
        rt.varlen_attention(*leaves, of_queries, of_keys)
    assert len(kept) == 7
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert torch.equal(rt.varlen_attention(*(x.detach().float() for x in leaves), of_queries, of_keys, causal=True), want)
    with FlopCounterMode(display=False) as counter:
        rt.varlen_attention(*leaves, of_queries, of_keys).sum().backward()
    products = 2 * 4 * 398 * 398 * 64
    assert counter.get_total_flops() == 2 * products // 5 + 5 * products // 5


def test_a_graph_takes_other_offsets_in_the_same_memory(on_gpu, device):
    leaves, of_queries, _ = packed(device, torch.bfloat16, "equal", dim=128)
    grad = torch.randn_like(leaves[0])

    def step():
        out = rt.varlen_attention(*leaves, of_queries, of_queries, causal=True, deterministic=True)
        return (out, *torch.autograd.grad(out, leaves, grad))

    step()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    of_queries.copy_(offsets(7, 190, 3, 100, 98, device=device))
    want = [x.detach().clone() for x in step()]
    for x in captured:
        x.detach().fill_(7)
    graph.replay()
    assert all(torch.equal(have, right) for have, right in zip(captured, want, strict=True))


REFUSED = {
    "float32": (lambda q, k, v: rt.attention(q.float(), k.float(), v.float()), TypeError, "q is torch.float32; give torch.bfloat16 or torch.float16"),
    "two dtypes": (lambda q, k, v: rt.attention(q, k.half(), v), TypeError, "q is torch.bfloat16 and k torch.float16; cast one of them"),
    "three dimensions": (lambda q, k, v: rt.attention(q[0], k[0], v[0]), ValueError, "give \\[batch, length, heads, dim\\]"),
    "three dimensions, heads first": (lambda q, k, v: rt.attention(q[0], k[0], v[0], layout="bhsd"), ValueError, "give \\[batch, heads, length, dim\\]"),
    "another batch": (lambda q, k, v: rt.attention(q, k[:1], v[:1]), ValueError, "they differ in length and heads alone"),
    "no values": (lambda q, k, v: rt.attention(q, k, v[..., :0]), ValueError, "heads of 0 elements; give 1 to 256"),
    "wide values": (lambda q, k, v: rt.attention(q, k, torch.cat([v] * 5, -1)), ValueError, "heads of 320 elements; give 1 to 256"),
    "other values": (lambda q, k, v: rt.attention(q, k, v[:, 1:]), ValueError, "they differ in the size of a head alone"),
    "heads that cannot be shared": (lambda q, k, v: rt.attention(q[:, :, :3], k, v), ValueError, "3 heads of q cannot share 2"),
    "no heads": (lambda q, k, v: rt.attention(q, k[:, :, :0], v[:, :, :0]), ValueError, "4 heads of q cannot share 0"),
    "gaps in heads": (lambda q, k, v: rt.attention(q[..., ::2], k[..., ::2], v[..., ::2]), ValueError, "call .contiguous"),
    "expanded keys": (lambda q, k, v: rt.attention(q, k[:, :, :1].expand(-1, -1, 2, -1), v), ValueError, "expanded tensors have stride 0"),
    "a wide head": (lambda q, k, v: rt.attention(*[torch.cat([x] * 5, -1) for x in (q, k, v)]), ValueError, "heads of 320 elements; give 1 to 256"),
    "a scale of 0": (lambda q, k, v: rt.attention(q, k, v, scale=0.0), ValueError, "scale is 0; give a finite number above 0"),
    "an endless scale": (lambda q, k, v: rt.attention(q, k, v, scale=1e300), ValueError, "give a finite number above 0"),
    "a window before nothing": (lambda q, k, v: ops.attention(q, k, v, False, None, False, -2, 3), ValueError, "window is \\(-2, 3\\); give the keys before"),
    "a window of one end": (lambda q, k, v: rt.attention(q, k, v, window=7), ValueError, "window=7; give \\(left, right\\)"),
    "sinks of other heads": (lambda q, k, v: rt.attention(q, k, v, sinks=q.new_zeros(2)), ValueError, "a number for each of the 4 heads of q"),
    "sinks of 16 bits": (lambda q, k, v: ops.attention(q, k, v, sinks=q.new_zeros(4)), TypeError, "sinks is torch.bfloat16; give torch.float32"),
    "a softcap below 0": (lambda q, k, v: rt.attention(q, k, v, softcap=-1.0), ValueError, "softcap is -1; give a finite number above 0, or 0 for none"),
    "a softcap that is no number": (lambda q, k, v: rt.attention(q, k, v, softcap=float("nan")), ValueError, "softcap is nan"),
    "a layout": (lambda q, k, v: rt.attention(q, k, v, layout="sbhd"), ValueError, "use 'bshd' or 'bhsd'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_wrong_is_said_by_calls_and_by_traces(on_cpu, name):
    call, kind, message = REFUSED[name]
    given = [x.detach() for x in heads_of("cpu", torch.bfloat16)]
    with pytest.raises(kind, match=message):
        call(*given)
    with pytest.raises(kind, match=message):
        call(*(x.to("meta") if x.is_contiguous() else torch.empty_strided(x.shape, x.stride(), dtype=x.dtype, device="meta") for x in given))


def test_heads_that_no_kernel_of_a_gpu_has(on_gpu, device):
    """The reference computes small ones on the host; larger ones are refused by name, and sdpa leaves all of them with torch."""
    q, k, v = (randn(1, 40, 2, 100, device=device) for _ in range(3))
    rt.attention(q, k, v)
    assert rt.last_used("attention") == "cuda_reference"
    assert "no kernel of attention on cuda but the reference for heads of 100" in rt.sdpa_refusal(*(x.transpose(1, 2) for x in (q, k, v)))
    large = randn(8, 4096, 16, 100, device=device)
    with pytest.raises(NotImplementedError, match="dim=100.*cuda_attention: the kernel has builds for heads of multiples of 8: dim=100.*; cuda_reference: operands of"):
        rt.attention(large, large, large)


@pytest.mark.deterministic
def test_equal_bits_where_they_are_asked_for(device):
    leaves = heads_of(device, torch.bfloat16, (300, 300), (4, 1), 128)
    grad = torch.randn_like(leaves[0])
    runs = [torch.autograd.grad(rt.attention(*leaves, causal=True, deterministic=True), leaves, grad) for _ in range(4)]
    assert all(torch.equal(a, b) for run in runs[1:] for a, b in zip(run, runs[0]))


@pytest.mark.parametrize("asked", [False, True])
def test_determinism_is_pytorchs_unless_a_call_says_so(device, asked):
    leaves = heads_of(device, torch.bfloat16)
    before = torch.are_deterministic_algorithms_enabled()
    torch.use_deterministic_algorithms(asked)
    try:
        for given, want in ((None, asked), (True, True), (False, False)):
            with Called() as seen:
                rt.attention(*leaves, deterministic=given).sum().backward()
            calls = [(8 if "backward" in name else 5, args) for name, args in seen.calls if "ridgeline" in name]
            flags = [args[at] if len(args) > at else False for at, args in calls]  # left out where it is False
            assert flags == [want, want]
    finally:
        torch.use_deterministic_algorithms(before)


def test_pytorchs_own_checks(on_cpu):
    q, k, v = (x.detach() for x in heads_of("cpu", torch.bfloat16, (5, 7), dim=16))
    for given in ((q, k, v), (q, k, v, True, 0.5, True), (q, k, v, False, None, False, 2, 1)):
        torch.library.opcheck(ops.attention.default, given)
        out, lse = ops.attention.default(*given)
        torch.library.opcheck(ops.attention_backward.default, (torch.randn_like(out), q, k, v, out, lse, *given[3:]))
    leaves = [x.requires_grad_() for x in (q, k, v)]
    # The log-sum-exp refuses the gradient that the last of its checks asks for.
    torch.library.opcheck(ops.attention.default, leaves, test_utils=("test_schema", "test_autograd_registration", "test_faketensor"))


@pytest.mark.parametrize("dynamic", [None, True])
def test_compiled_calls_are_the_same(device, dynamic):
    module = rt.Attention(causal=True, layout="bhsd")
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for length in (9, 12, 17):
        leaves = [x.transpose(1, 2) for x in heads_of(device, torch.bfloat16, (length, length + 3))]
        out, want = compiled(*leaves), module(*leaves)
        assert torch.equal(out, want) and out.stride() == want.stride()
        grad = torch.randn_like(want)
        for have, right in zip(torch.autograd.grad(out, leaves, grad), torch.autograd.grad(want, leaves, grad), strict=True):
            if device.type == "cpu":
                assert torch.equal(have, right)
            testing.assert_snr(right.double(), have, 40)
    exported = torch.export.export(rt.Attention(causal=True), tuple(x.detach() for x in heads_of(device, torch.bfloat16)))
    given = tuple(x.detach() for x in heads_of(device, torch.bfloat16))
    assert torch.equal(exported.module()(*given), rt.attention(*given, causal=True))
    with_sum = torch.compile(lambda *x: [y.detach() for y in rt.attention(*x, return_lse=True)], fullgraph=True, backend="aot_eager")
    leaves = heads_of(device, torch.bfloat16)
    assert all(torch.equal(a, b) for a, b in zip(with_sum(*leaves), rt.attention(*leaves, return_lse=True), strict=True))


def test_the_module(on_cpu):
    module = rt.Attention(causal=True, scale=0.5, deterministic=True, window=(9, 0))
    assert repr(module) == "Attention(causal=True, layout='bshd', scale=0.5, deterministic=True, window=(9, 0))" and not module.state_dict()
    q, k, v = heads_of("cpu", torch.bfloat16)
    assert torch.equal(module(q, k, v), rt.attention(q, k, v, causal=True, scale=0.5, window=(9, 0)))
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), module(q, k, v))
    with pytest.raises(ValueError, match="give \\(left, right\\)"):
        rt.Attention(window=(1, 2, 3))
    with pytest.raises(ValueError, match="use 'bshd' or 'bhsd'"):
        rt.Attention(layout="bsd")


def test_autocast_and_checkpoints(device):
    leaves = [x.detach().float().requires_grad_() for x in heads_of(device, torch.bfloat16)]
    halves = [x.detach().bfloat16().requires_grad_() for x in leaves]
    grad = torch.randn_like(halves[0])
    want = rt.attention(*halves, causal=True)
    gradients = torch.autograd.grad(want, halves, grad)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        out = rt.attention(*leaves, causal=True)
        assert torch.equal(out, want)
    for have, right in zip(torch.autograd.grad(out, leaves, grad), gradients, strict=True):
        testing.assert_snr(right.double(), have, 40)
    for reentrant in (False, True):
        again = checkpoint(lambda *x: rt.attention(*x, causal=True), *halves, use_reentrant=reentrant)
        again.backward(grad)
        for leaf, right in zip(halves, gradients, strict=True):
            testing.assert_snr(right.double(), leaf.grad, 40)
            leaf.grad = None


def test_samples_are_one_batch(device):
    q, k, v = randn(3, 2, 9, 4, 64, device=device), randn(2, 11, 2, 64, device=device), randn(2, 3, 11, 2, 64, device=device)
    with Called() as seen:
        found = torch.func.vmap(lambda q, v: rt.attention(q, k, v, causal=True), in_dims=(0, 1))(q, v)
    assert seen.names().count("ridgeline.attention.default") == 1
    assert torch.equal(found, torch.stack([rt.attention(q[i], k, v[:, i], causal=True) for i in range(3)]))

    alone = q[:, :1], k[:1], v[:1, 0]  # of batches of 1 what is shared could be expanded without a copy
    found = torch.func.vmap(rt.attention, in_dims=(0, None, None))(*alone)
    assert torch.equal(found, torch.stack([rt.attention(one, *alone[1:]) for one in alone[0]]))

    def loss(q, k, v):
        return rt.attention(q, k, v, causal=True).float().square().sum()

    gradients = torch.func.vmap(torch.func.grad(loss, (0, 1, 2)), in_dims=(0, None, 1))(q, k, v)
    for i in range(3):
        for have, right in zip(gradients, torch.func.grad(loss, (0, 1, 2))(q[i], k, v[:, i]), strict=True):
            testing.assert_snr(right.double(), have[i], 40)


def test_products_are_counted_as_torch_counts_its_own(device):
    given = [x.transpose(1, 2).float() for x in heads_of(device, torch.bfloat16, heads=(4, 4))]
    given = [x.detach().bfloat16().requires_grad_() for x in given]
    counts = []
    for call in (lambda *x: rt.attention(*x, layout="bhsd"), F.scaled_dot_product_attention):
        with FlopCounterMode(display=False) as counter, torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH):
            call(*given).sum().backward()
        counts.append(counter.get_total_flops())
    forward = 4 * 2 * 4 * 33 * 70 * 64
    assert counts == [forward + 5 * forward // 2, 3 * forward]  # torch's product kept the weights; ours makes the scores again


def test_a_graph_records_forward_and_backward(on_gpu, device):
    leaves = heads_of(device, torch.bfloat16, (128, 128), (4, 2), 128)
    grad = torch.randn_like(leaves[0])

    def step():
        out = rt.attention(*leaves, causal=True, deterministic=True)
        return (out, *torch.autograd.grad(out, leaves, grad))

    want = [x.detach().clone() for x in step()]
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = step()
    graph.replay()
    assert all(torch.equal(have, right) for have, right in zip(captured, want, strict=True))
