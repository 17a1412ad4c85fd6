"""rope, its tables and RotaryEmbedding against float64."""

import pytest
import torch
from torch.autograd import forward_ad

import ridgeline.testing as testing
import ridgeline.torch as rt

ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 130, torch.bfloat16: 44, torch.float16: 60}


def theirs(x, cos, sin, positions, interleaved):
    """As complex numbers."""
    turn = torch.complex(cos.double(), sin.double())[positions][:, :, None]
    rotary = 2 * cos.shape[1]
    part, rest = x[..., :rotary], x[..., rotary:]
    pairs = part.unflatten(-1, (-1, 2)) if interleaved else part.unflatten(-1, (2, -1)).transpose(-1, -2)
    out = torch.view_as_real(torch.view_as_complex(pairs.contiguous()) * turn)
    out = out.flatten(-2) if interleaved else out.transpose(-1, -2).flatten(-2)
    return torch.cat([out, rest], -1)


def leaf(*shape, dtype=torch.float32, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype).requires_grad_()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("interleaved", [False, True])
@pytest.mark.parametrize("rotary", [32, 20])
def test_values_and_gradients(device, dtype, interleaved, rotary):
    cos, sin = rt.rope_table(40, rotary, device=device)
    q, k = leaf(2, 7, 6, 32, dtype=dtype, device=device), leaf(2, 2, 7, 32, dtype=dtype, device=device)  # k: heads before tokens
    for given, positions in (
        ({"offset": 11}, torch.arange(11, 18, device=device).expand(2, 7)),
        ({"positions": torch.randint(40, (2, 7), device=device)}, None),
        ({"positions": torch.randint(40, (7,), dtype=torch.int32, device=device)}, None),
    ):
        places = given["positions"].long().expand(2, 7) if positions is None else positions
        found = rt.rope(q, k.transpose(1, 2), cos, sin, interleaved=interleaved, **given)
        wide = [t.detach().double().requires_grad_() for t in (q, k)]
        want = [theirs(wide[0], cos, sin, places, interleaved), theirs(wide[1].transpose(1, 2), cos, sin, places, interleaved)]
        upstream = [torch.randn_like(t) for t in found]
        for have, right in zip(found, want, strict=True):
            assert have.dtype == dtype and have.shape == right.shape
            testing.assert_snr(right.detach(), have.detach(), FLOOR[dtype])
        gradients = torch.autograd.grad(found, [q, k], upstream)
        for have, right in zip(gradients, torch.autograd.grad(want, wide, [t.double() for t in upstream]), strict=True):
            testing.assert_snr(right, have, FLOOR[dtype])
    alone = rt.rope(q, None, cos, sin, offset=3, interleaved=interleaved)
    assert torch.equal(alone, rt.rope(q, q, cos, sin, offset=3, interleaved=interleaved)[1])
    if rotary == 20:
        assert torch.equal(alone[..., 20:], q[..., 20:])


def test_one_of_two_gradients_and_expanded_ones(device):
    cos, sin = rt.rope_table(5, 8, device=device)
    q, k = leaf(1, 5, 2, 8, device=device), leaf(1, 5, 1, 8, device=device)
    a, b = rt.rope(q, k, cos, sin)
    (dk,) = torch.autograd.grad(b.sum(), k, retain_graph=True)
    (dq,) = torch.autograd.grad(a.sum(), q)
    places = torch.arange(5, device=device)[None]
    for have, given in ((dq, q), (dk, k)):
        wide = given.detach().double().requires_grad_()
        testing.assert_snr(torch.autograd.grad(theirs(wide, cos, sin, places, False).sum(), wide)[0], have, 130)


def test_in_place_is_the_same(device):
    cos, sin = rt.rope_table(16, 32, device=device)
    for dtype in DTYPES:
        qkv = torch.randn(2, 9, 8, 32, device=device).to(dtype)
        q, k, v = qkv[:, :, :4], qkv[:, :, 4:6], qkv[:, :, 6:].clone()
        want = rt.rope(q, k, cos, sin, offset=2)
        have = rt.rope(q, k, cos, sin, offset=2, in_place=True)
        assert have[0].data_ptr() == q.data_ptr()
        assert all(torch.equal(a, b) for a, b in zip(have, want)) and torch.equal(qkv[:, :, 6:], v)
    with pytest.raises(RuntimeError):
        rt.rope(leaf(1, 2, 2, 32, device=device), None, cos, sin, in_place=True)


def test_gradients_match_differences(on_cpu):
    cos, sin = rt.rope_table(6, 4)
    q, k = (t.detach().double().requires_grad_() for t in (leaf(2, 3, 2, 6), leaf(2, 3, 1, 6)))
    for interleaved in (False, True):
        def call(q, k, interleaved=interleaved):
            return rt.rope(q, k, cos, sin, offset=2, interleaved=interleaved)

        assert torch.autograd.gradcheck(call, (q, k), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, (q, k))
    x = leaf(1, 3, 1, 6)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), torch.ones_like(x))
        tangent = forward_ad.unpack_dual(rt.rope(dual, None, cos, sin)).tangent
    torch.testing.assert_close(tangent, rt.rope(torch.ones_like(x), None, cos, sin))


def test_tables(on_cpu):
    places, pairs = torch.arange(300, dtype=torch.float64)[:, None], torch.arange(0, 64, 2, dtype=torch.float64)
    cos, sin = rt.rope_table(300, 64, base=5e5)
    angles = places * 5e5 ** (-pairs / 64)
    assert cos.dtype == torch.float32 and torch.equal(cos, angles.cos().float()) and torch.equal(sin, angles.sin().float())
    linear, _ = rt.rope_table(300, 64, scaling="linear", factor=4)
    torch.testing.assert_close(linear[::4], rt.rope_table(75, 64)[0])
    llama, _ = rt.rope_table(300, 64, base=5e5, scaling="llama3", factor=8, low_factor=1, high_factor=4, original_length=8192)
    assert torch.equal(llama[:, 0], cos[:, 0])  # a short wave
    torch.testing.assert_close(llama[8::8, -1], cos[1:38, -1])  # a long one
    yarn, _ = rt.rope_table(2, 64, scaling="yarn", factor=40, original_length=4096)
    torch.testing.assert_close(yarn[0], torch.full((32,), 1.3688879))
    for wrong, message in (({"scaling": "ntk"}, "use one of"), ({"scaling": "linear", "factor": 0.0}, "factor is 0"), ({"base": -1.0}, "base is -1")):
        with pytest.raises(ValueError, match=message):
            rt.rope_table(4, 8, **wrong)
    with pytest.raises(ValueError, match="rotary=7"):
        rt.rope_table(4, 7)


def test_what_is_wrong_is_said(on_cpu):
    cos, sin = rt.rope_table(4, 8)
    q = torch.randn(1, 3, 2, 8)
    for dtype in (torch.float32, torch.float64):
        with pytest.raises(ValueError, match="positions 2 to 4 of a table of 4 rows"):
            rt.rope(q.to(dtype), None, cos, sin, offset=2)
        with pytest.raises(ValueError, match="table"):
            rt.rope(q.to(dtype), None, cos, sin, torch.tensor([0, 4, 1]))
    with pytest.raises(ValueError, match="differ in heads alone"):
        rt.rope(q, torch.randn(1, 4, 2, 8), cos, sin)
    with pytest.raises(TypeError, match="cast one of them"):
        rt.rope(q, q.bfloat16(), cos, sin)
    with pytest.raises(ValueError, match="no gradient"):
        rt.rope(q, None, cos.requires_grad_(), sin)


def test_a_gpu_does_not_wait_for_positions(on_gpu, device):
    """Those outside of the table make what is turned of their token NaN, and a call can be captured: nothing on the host looks at them."""
    module = rt.RotaryEmbedding(128, 40, rotary=96, device=device)
    q, k = (torch.randn(2, 33, heads, 128, device=device).bfloat16() for heads in (8, 2))
    positions = torch.randint(40, (33,), device=device)
    want = module(q, k, positions)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = module(q, k, positions)
    for outside in (-1, 40, 1 << 40):
        kept = positions[7].clone()
        positions[7] = outside
        graph.replay()
        for have, right, given in zip(captured, want, (q, k), strict=True):
            assert have[:, 7, :, :96].isnan().all() and torch.equal(have[:, 7, :, 96:], given[:, 7, :, 96:])
            assert torch.equal(have[:, :7], right[:, :7]) and torch.equal(have[:, 8:], right[:, 8:])
        positions[7] = kept
    graph.replay()
    assert all(torch.equal(have, right) for have, right in zip(captured, want, strict=True))
    assert rt.last_used("rope").startswith("cuda_rope")


def test_the_module_compiles_and_passes_pytorchs_own_checks(on_cpu):
    module = rt.RotaryEmbedding(16, 32, rotary=8, interleaved=True, base=1e6)
    assert repr(module) == "RotaryEmbedding(rotary=8, length=32, interleaved=True)" and not module.state_dict()
    assert module.to(torch.bfloat16).cos.dtype == torch.float32
    assert torch.equal(module.cos, rt.rope_table(32, 8, base=1e6)[0])
    q, k = leaf(2, 5, 4, 16), leaf(2, 5, 2, 16)
    compiled = torch.compile(module, fullgraph=True, backend="aot_eager")
    for have, want in zip(compiled(q, k, offset=3), module(q, k, offset=3), strict=True):
        assert torch.equal(have, want)
    assert torch.equal(*(torch.autograd.grad(call(q, k)[0].square().sum(), q)[0] for call in (compiled, module)))
    torch.library.opcheck(ops.rope.default, (q, k, module.cos, module.sin, torch.randint(32, (2, 5)), 0, True))
    torch.library.opcheck(ops.rope.default, (q, None, module.cos, module.sin))
    torch.library.opcheck(ops.rope_.default, (q.detach().clone(), k.detach().clone(), module.cos, module.sin))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert module(q, k)[0].dtype == torch.float32  # as it was given
    assert rt.last_used("rope")


def test_a_module_on_meta_has_its_table_where_it_is_put(device):
    want = rt.RotaryEmbedding(16, 32, base=1e6)
    with torch.device("meta"):
        inside = torch.nn.Sequential(rt.RotaryEmbedding(16, 32, base=1e6))
    for module in (inside, torch.nn.Sequential(rt.RotaryEmbedding(16, 32, base=1e6, device="meta")).to(torch.bfloat16)):
        assert module[0].cos.is_meta and module[0].cos.dtype == torch.float32
        module.to_empty(device=device)
        assert module[0].cos.device.type == device.type and torch.equal(module[0].cos.cpu(), want.cos) and torch.equal(module[0].sin.cpu(), want.sin)
        module[0].sin.zero_()
        module[0].reset_parameters()
        assert torch.equal(module[0].sin.cpu(), want.sin)
        module.to_empty(device=device)  # whose table was there
        assert torch.equal(module[0].cos.cpu(), want.cos)
    shared = rt.RotaryEmbedding(16, 32).share_memory()
    assert shared.cos.is_shared()


def normalised(x, weight, eps, zero_centred):
    found = x * torch.rsqrt((x * x).mean(-1, keepdim=True) + eps)
    return found if weight is None else found * (weight + 1 if zero_centred else weight)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("dim, rotary, interleaved", [(32, 32, False), (32, 20, True), (24, 24, False)])
@pytest.mark.parametrize("weight", [None, "same", "float32"])
def test_heads_that_are_normalised_first(device, dtype, dim, rotary, interleaved, weight):
    cos, sin = rt.rope_table(40, rotary, device=device)
    q, k = leaf(2, 7, 6, dim, dtype=dtype, device=device), leaf(2, 2, 7, dim, dtype=dtype, device=device)
    of = {"same": dtype, "float32": torch.float32}.get(weight)
    weights = [None, None] if of is None else [leaf(dim, dtype=of, device=device) for _ in range(2)]
    zero_centred = weight == "float32"
    positions = torch.randint(40, (2, 7), device=device)
    given = {"interleaved": interleaved, "zero_centred": zero_centred, "eps": 0.1}
    found = rt.rope_norm(q, k.transpose(1, 2), *weights, cos, sin, positions, **given)
    leaves = [t for t in (q, k, *weights) if t is not None]
    wide = [t.detach().double().requires_grad_() for t in leaves]
    of_q, of_k, *wide_weights = wide
    wide_weights = wide_weights or [None, None]
    want = [
        theirs(normalised(x, w, 0.1, zero_centred), cos, sin, positions, interleaved)
        for x, w in zip((of_q, of_k.transpose(1, 2)), wide_weights, strict=True)
    ]
    upstream = [torch.randn_like(t) for t in found]
    for have, right in zip(found, want, strict=True):
        assert have.dtype == dtype and have.shape == right.shape
        testing.assert_snr(right.detach(), have.detach(), FLOOR[dtype])
    gradients = torch.autograd.grad(found, leaves, upstream)
    for have, right in zip(gradients, torch.autograd.grad(want, wide, [t.double() for t in upstream]), strict=True):
        testing.assert_snr(right, have, FLOOR[dtype if of != torch.float32 else have.dtype] - 4)
    alone = rt.rope_norm(q, None, weights[0], None, cos, sin, positions, **given)
    assert torch.equal(alone, found[0])


def test_gradients_of_normalised_heads_match_differences(on_cpu):
    cos, sin = rt.rope_table(6, 4)
    q, k, a, b = (t.detach().double().requires_grad_() for t in (leaf(2, 3, 2, 6), leaf(2, 3, 1, 6), leaf(6), leaf(6)))
    for interleaved in (False, True):
        def call(q, k, a, b, interleaved=interleaved):
            return rt.rope_norm(q, k, a, b, cos, sin, offset=2, interleaved=interleaved, zero_centred=True, eps=0.1)

        assert torch.autograd.gradcheck(call, (q, k, a, b), check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, (q, k, a, b))
    out, _ = rt.rope_norm(q.float(), k.float(), a.float(), b.float(), cos, sin)  # one of two results, differentiated twice
    (first,) = torch.autograd.grad(out.square().sum(), a, create_graph=True)
    assert torch.autograd.grad(first.square().sum(), q)[0].abs().sum() > 0


def test_a_module_normalises_heads_in_the_same_pass(on_cpu):
    module = rt.RotaryEmbedding(16, 32)
    q, k = leaf(2, 5, 4, 16), leaf(2, 5, 2, 16)
    for norm in (torch.nn.RMSNorm, lambda dim, eps: rt.RMSNorm(dim, eps, zero_centred=True)):
        norms = norm(16, eps=1e-5), norm(16, eps=1e-5)
        for each in norms:
            torch.nn.init.normal_(each.weight)
        have = module(q, k, norms=norms, offset=3)
        want = module(norms[0](q), norms[1](k), offset=3)
        for a, b in zip(have, want, strict=True):
            torch.testing.assert_close(a, b, rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(module(q, norms=norms, offset=3), want[0], rtol=1e-5, atol=1e-5)
    for wrong in ((torch.nn.RMSNorm(16, eps=1e-5), torch.nn.RMSNorm(16, eps=1e-6)), (torch.nn.RMSNorm(8), torch.nn.RMSNorm(8))):
        with pytest.raises(ValueError, match="give two of that shape"):
            module(q, k, norms=wrong)


def test_what_is_wrong_with_normalised_heads_is_said(on_cpu):
    cos, sin = rt.rope_table(4, 8)
    q, k, weight = torch.randn(1, 3, 2, 8), torch.randn(1, 3, 1, 8), torch.ones(8)
    for arguments, options, message in (
        ((q, k, weight, None), {}, "give both, or neither"),
        ((q, None, weight, weight), {}, "k_weight is given without k"),
        ((q, k, None, None), {"zero_centred": True}, "zero_centred is about the weights"),
        ((q, k, torch.ones(7), torch.ones(7)), {}, "q_weight"),
        ((q, k, weight, weight.half()), {}, "k_weight"),
        ((q, k, weight, weight), {"eps": -1.0}, "eps"),
    ):
        with pytest.raises((ValueError, TypeError), match=message):
            rt.rope_norm(*arguments, cos, sin, **options)
    with pytest.raises(ValueError, match="position of token 1 of sequence 0 is 4"):
        rt.rope_norm(q, k, weight, weight, cos, sin, torch.tensor([0, 4, 1]))


def test_opcheck_of_normalised_heads(on_cpu):
    cos, sin = rt.rope_table(32, 8)
    q, k, a, b = leaf(2, 5, 3, 8), leaf(2, 5, 1, 8), leaf(8), leaf(8)
    torch.library.opcheck(ops.rope_norm.default, (q, k, a, b, cos, sin, torch.randint(32, (2, 5)), 0, True, True, 1e-5))
    torch.library.opcheck(ops.rope_norm.default, (q, None, None, None, cos, sin))
    torch.library.opcheck(ops.rope_norm_backward.default, (q.detach(), k.detach(), q.detach(), k.detach(), a.detach(), b.detach(), cos, sin))
    compiled = torch.compile(rt.rope_norm, fullgraph=True)
    for have, want in zip(compiled(q, k, a, b, cos, sin), rt.rope_norm(q, k, a, b, cos, sin), strict=True):
        assert torch.equal(have, want)
