"""sdpa, use_sdpa, convert and hf_attention: in place of torch's attention, and what they leave with it."""

import contextlib
import copy
import importlib
import pickle

import pytest
import torch
import torch.nn.functional as F
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.functional import scaled_dot_product_attention as imported_by_name

import ridgeline.testing as testing
import ridgeline.torch as rt

module = importlib.import_module("ridgeline.torch.sdpa")  # rt.sdpa is its function


def randn(*shape, dtype=torch.bfloat16, device="cpu"):
    return torch.randn(*shape, device=device).to(dtype)


def operands(device, queries=6, keys=6, heads=(4, 4), dim=64, dtype=torch.bfloat16):
    return tuple(randn(2, heads[at > 0], (queries, keys)[at > 0], dim, dtype=dtype, device=device) for at in range(3))


def by_torch(q, k, v, **given):
    return F.scaled_dot_product_attention(*(x.double() for x in (q, k, v)), **given)


@pytest.mark.parametrize("queries,keys", [(6, 6), (4, 9)])
@pytest.mark.parametrize("is_causal", [False, True])
def test_sdpa_means_what_torch_means(device, queries, keys, is_causal):
    """Also where torch aligns the mask at the first key, and with gradients of keys that no query sees."""
    given = [x.requires_grad_() for x in operands(device, queries, keys)]
    wide = [x.detach().double().requires_grad_() for x in given]
    assert rt.sdpa_refusal(*given, is_causal=is_causal) is None
    out, want = rt.sdpa(*given, is_causal=is_causal), by_torch(*wide, is_causal=is_causal)
    assert out.shape == want.shape and out.dtype == torch.bfloat16 and rt.last_used("attention")
    testing.assert_snr(want.detach(), out, 35)
    grad = torch.randn_like(out)
    for have, right in zip(torch.autograd.grad(out, given, grad), torch.autograd.grad(want, wide, grad.double()), strict=True):
        testing.assert_snr(right, have, 35)


def test_sdpa_takes_what_torch_takes(device):
    q, k, v = operands(device, heads=(4, 2))
    testing.assert_snr(by_torch(q, k, v, enable_gqa=True, scale=0.3), rt.sdpa(q, k, v, enable_gqa=True, scale=0.3), 35)
    q, k, v = operands(device)
    want = by_torch(q, k, v)
    for turn in (lambda x: x[0], lambda x: x[0, 0], lambda x: x.unsqueeze(0).expand(3, *x.shape), lambda x: x[:0]):
        assert rt.sdpa_refusal(*map(turn, (q, k, v))) is None
        found = rt.sdpa(*map(turn, (q, k, v)))
        assert found.shape == turn(want).shape
        if found.numel():
            testing.assert_snr(turn(want), found, 35)
    shared = k[:, :1].expand_as(k), v.mT.contiguous().mT  # expanded, and gaps within heads
    testing.assert_snr(by_torch(q, *shared), rt.sdpa(q, *shared), 35)
    for columns in (24, 20):  # a GPU has kernels for multiples of 8
        narrow = v[..., :columns].clone()
        for turn in (lambda x: x, lambda x: x[0], lambda x: x.unsqueeze(0).expand(3, *x.shape)):
            given = [turn(x) for x in (q, k, narrow)]
            assert (rt.sdpa_refusal(*given) is None) == (device.type == "cpu" or columns % 8 == 0)
            testing.assert_snr(by_torch(*given), rt.sdpa(*given), 35)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert rt.sdpa_refusal(q.float(), k.float(), v.float()) is None and rt.sdpa(q.float(), k.float(), v.float()).dtype == torch.bfloat16


def test_rows_at_odd_addresses_of_a_gpu_are_copied(on_cpu):
    with FakeTensorMode():
        whole = torch.empty(1 + 2 * 3 * 4 * 64, dtype=torch.bfloat16, device="cuda")
        for where, copied in ((whole[:-1], False), (whole[1:], True)):
            x = where.view(2, 3, 4, 64)
            assert (module._readable(x) is not x) == copied and module._readable(x).storage_offset() == 0


class Counted(torch.nn.Module):
    """Keeps what is not to be copied out of its state."""

    def __init__(self):
        super().__init__()
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        return F.scaled_dot_product_attention(x, x, x)

    def __getstate__(self):
        return {**self.__dict__, "calls": 0}


def test_copies_of_a_converted_module_have_the_state_that_it_gives(on_cpu):
    layer, x = Counted(), operands("cpu")[0]
    rt.convert(layer)
    layer(x)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert (layer.calls, again.calls) == (1, 0) and torch.equal(again(x), rt.sdpa(x, x, x))


def test_shapes_are_known_on_the_meta_device(on_cpu):
    x = torch.empty(2, 4, 6, 64, dtype=torch.bfloat16, device="meta")
    assert rt.sdpa_refusal(x, x, x) is None and rt.sdpa(x, x, x, is_causal=True).shape == x.shape
    assert rt.hf_attention(torch.nn.Module(), x, x, x, None)[0].shape == (2, 6, 4, 64)


LEFT = {
    "a mask": (lambda q, k, v: ((q, k, v, torch.ones(6, 6, dtype=torch.bool, device=q.device)), {}), "attn_mask is given"),
    "dropout": (lambda q, k, v: ((q, k, v), {"dropout_p": 0.5}), "dropout_p=0.5; the operator has no dropout"),
    "float32": (lambda q, k, v: ((q.float(), k.float(), v.float()), {}), "torch.float32; the operator takes one of"),
    "two dtypes": (lambda q, k, v: ((q, k, v.half()), {}), "torch.bfloat16, torch.float16; the operator takes one of"),
    "more queries than keys": (lambda q, k, v: ((q, k[:, :, :4], v[:, :, :4]), {"is_causal": True}), "is_causal of more queries than keys"),
    "narrow keys": (lambda q, k, v: ((q, k[..., :32], v), {}), "heads as wide as query's"),
    "wide values": (lambda q, k, v: ((q, k, torch.cat([v] * 5, -1)), {}), "heads of 1 to 256 elements"),
    "a wide head": (lambda q, k, v: ([torch.cat([x] * 5, -1) for x in (q, k, v)], {}), "heads of 1 to 256 elements"),
    "a broadcast batch": (lambda q, k, v: ((q, k[:1], v[:1]), {}), "the batch is broadcast"),
    "broadcast heads": (lambda q, k, v: ((q, k[:, :1], v[:, :1]), {}), "enable_gqa=True shares those"),
    "a negative scale": (lambda q, k, v: ((q, k, v), {"scale": -1.0}), "scale=-1.0; the operator takes a number above 0 that is finite in float32"),
    "a scale that float32 does not hold": (lambda q, k, v: ((q, k, v), {"scale": 1e-50}), "scale=1e-50; the operator takes a number above 0"),
    "one vector": (lambda q, k, v: ((q[0, 0, 0], k[0, 0], v[0, 0]), {}), "numbers of dimensions differ"),
}


@pytest.mark.parametrize("name", LEFT)
def test_what_is_left_with_torch_is_said(on_cpu, name):
    make, reason = LEFT[name]
    args, kwargs = make(*operands("cpu"))
    assert reason in rt.sdpa_refusal(*args, **kwargs)
    if name not in ("two dtypes", "one vector", "narrow keys"):  # which torch refuses
        torch.manual_seed(3)
        found = rt.sdpa(*args, **kwargs)
        torch.manual_seed(3)
        assert torch.equal(found, F.scaled_dot_product_attention(*args, **kwargs))
    with rt.use_sdpa() as seen, contextlib.suppress(RuntimeError):
        F.scaled_dot_product_attention(*args, **kwargs)
    assert seen.ours == 0 and len(seen.left) == 1 and f"1 by torch: {next(iter(seen.left))}" in str(seen)
    with rt.use_sdpa(strict=True), pytest.raises(NotImplementedError) as info:
        rt.sdpa(*args, **kwargs)
    assert reason in str(info.value) and "leave strict out" in str(info.value)


def test_a_block_exchanges_torchs_function_under_every_name(on_cpu):
    q, k, v = operands("cpu")
    ours, theirs = rt.sdpa(q, k, v), F.scaled_dot_product_attention(q, k, v)
    assert not torch.equal(ours, theirs)  # rounded at other places
    with rt.use_sdpa() as seen:
        found = [F.scaled_dot_product_attention(q, k, v), imported_by_name(q, k, v), torch._C._nn.scaled_dot_product_attention(q, k, v), rt.sdpa(q, k, v)]
        with rt.use_sdpa(strict=True) as inner:
            F.scaled_dot_product_attention(q, key=k, value=v, is_causal=True)
    assert all(torch.equal(one, ours) for one in found)
    assert (seen.ours, inner.ours, seen.left) == (4, 1, {}) and str(seen) == "calls of attention: 4 by ridgeline"
    assert torch.equal(F.scaled_dot_product_attention(q, k, v), theirs)
    compiled = torch.compile(lambda *x: F.scaled_dot_product_attention(*x), fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(q, k, v), theirs)
    with rt.use_sdpa():
        assert torch.equal(compiled(q, k, v), ours)
    assert torch.equal(compiled(q, k, v), theirs)


@pytest.mark.parametrize("dynamic", [None, True])
def test_sdpa_compiles(on_cpu, dynamic):
    compiled = torch.compile(lambda *x: rt.sdpa(*x, is_causal=True), fullgraph=True, backend="aot_eager", dynamic=dynamic)
    for keys, dim in ((6, 64), (9, 64), (14, 64), (6, 32)):
        given = operands("cpu", 6, keys, dim=dim)
        assert torch.equal(compiled(*given), rt.sdpa(*given, is_causal=True))
    wide = [x.float() for x in operands("cpu", 6, 6)]
    assert torch.equal(compiled(*wide), F.scaled_dot_product_attention(*wide, is_causal=True))


SAID = """attention dim=100: 1 FLOP
  -> cuda_reference could run it
   x cuda_attention the kernel has builds for heads of multiples of 8
   x cpu_tiles      runs on cpu, the stream is cuda
"""


def test_the_kernels_of_a_device_are_asked(on_cpu, monkeypatch):
    """By the text that explain() gives; the reference does not count."""
    assert module.no_kernel(100, 100, torch.bfloat16, True, "cpu", True) is None
    monkeypatch.setattr(module, "explain", lambda op, device, dim, v_dim, **rest: SAID if 100 in (dim, v_dim) else SAID.replace(" x cuda_a", "   cuda_a"))
    refusal = module.no_kernel(100, 100, torch.float16, True, "cuda:7", True)
    assert refusal == "no kernel of attention on cuda but the reference for heads of 100 torch.float16 (cuda_attention: the kernel has builds for heads of multiples of 8)"
    assert module.no_kernel(64, 64, torch.float16, True, "cuda:7", True) is None
    assert "for heads of 64 and values of 100 torch.float16" in module.no_kernel(64, 100, torch.float16, True, "cuda:7", True)
    compiled = torch.compile(
        lambda x, y: x + 1 if module.no_kernel(x.shape[-1], y.shape[-1], x.dtype, True, "cuda:7", True) is None else x, fullgraph=True, backend="aot_eager", dynamic=True
    )
    for dim, v_dim in ((64, 64), (100, 100), (128, 128), (128, 100), (128, 64)):
        assert compiled(torch.zeros(2, dim).half(), torch.zeros(2, v_dim)).mean() == (100 not in (dim, v_dim))


class SelfAttention(torch.nn.Module):
    def __init__(self, mask=None):
        super().__init__()
        self.qkv, self.mask = torch.nn.Linear(64, 192), mask

    def attend(self, q, k, v):
        return F.scaled_dot_product_attention(q, k, v, attn_mask=self.mask, is_causal=self.mask is None)

    def forward(self, x):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 32)).permute(2, 0, 3, 1, 4)
        return self.attend(q, k, v).transpose(1, 2).flatten(2)


def test_convert_exchanges_the_call_in_modules_that_make_it(on_cpu):
    mask = torch.ones(6, 6, dtype=torch.bool)
    model = torch.nn.ModuleDict({"a": SelfAttention(), "masked": SelfAttention(mask), "kept": SelfAttention(), "own": SelfAttention()}).bfloat16()
    model["own"].forward = model["own"].forward
    x = randn(2, 6, 64)
    before = {name: layer(x) for name, layer in model.items()}
    report = rt.convert(model, {"*.qkv": "leave", "kept": "leave", "*": None})
    assert report.swapped == dict.fromkeys(("a", "masked"), "sdpa in place of torch's attention")
    assert report.left["kept"] == "the recipe for 'kept'" and report.left["own"] == "has a forward of its own, set on the layer"
    with rt.use_sdpa() as seen:
        found = {name: model[name](x) for name in ("a", "masked")}
    assert seen.ours == 1 and seen.left == {"attn_mask is given; the operator has no mask but causal": 1}
    assert torch.equal(found["a"], model["a"](x)) and not torch.equal(found["a"], before["a"]) and torch.equal(found["masked"], before["masked"])
    testing.assert_snr(before["a"].double(), found["a"], 30)
    layer = model["a"]
    assert type(layer).__name__ == "SelfAttention" and isinstance(layer, SelfAttention)
    for again in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        assert type(again) is type(layer) and torch.equal(again(x), found["a"])
    assert torch.equal(torch.compile(layer, fullgraph=True, backend="aot_eager")(x), found["a"])
    assert rt.convert(model, {"*.qkv": "leave", "*": None}, keep=lambda name, layer: name == "own").swapped.keys() == {"a", "masked", "kept"}
    assert rt.unswap(model).swapped == dict.fromkeys(("a", "masked", "kept"), "torch")
    assert type(layer) is SelfAttention and torch.equal(layer(x), before["a"])


# ---- As transformers calls it


class Layer(torch.nn.Module):
    is_causal = True


@pytest.mark.parametrize("queries,keys", [(6, 6), (3, 9), (1, 9)])
def test_an_attention_function_of_transformers(device, queries, keys):
    q, k, v = operands(device, queries, keys, heads=(4, 2))
    mask = torch.ones(queries, keys, dtype=torch.bool, device=device).tril(keys - queries)  # what a cache holds is seen
    want = by_torch(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.2).transpose(1, 2)
    for given in ({}, {"is_causal": True, "position_ids": None, "sliding_window": 4096}):
        with rt.use_sdpa(strict=True):
            out, weights = rt.hf_attention(Layer(), q, k, v, None, scaling=0.2, dropout=0.0, **given)
        assert weights is None and out.is_contiguous() and out.shape == (2, queries, 4, 64)
        testing.assert_snr(want, out, 35)
    for call in ((q, k, v, mask), (q.float(), k.float(), v.float(), None)):
        with rt.use_sdpa() as seen:
            out, _ = rt.hf_attention(Layer(), *call, scaling=0.2)
        assert seen.ours == 0 and len(seen.left) == 1
        testing.assert_snr(want, out, 30)
    narrow, _ = rt.hf_attention(Layer(), q, k, v[..., :24].clone(), None, scaling=0.2)
    testing.assert_snr(want[..., :24], narrow, 35)
    full, _ = rt.hf_attention(Layer(), q, k, v, None, is_causal=False)
    testing.assert_snr(by_torch(q, k, v, enable_gqa=True).transpose(1, 2), full, 35)


@pytest.mark.parametrize("queries,keys", [(6, 6), (3, 9), (1, 9)])
@pytest.mark.parametrize("causal", [False, True])
def test_a_sliding_window_of_transformers(device, queries, keys, causal):
    """As many keys as it says, the query's own among them, to the left, and without causal as many to the right."""
    q, k, v = operands(device, queries, keys, heads=(4, 2))
    away = torch.arange(keys, device=device) - (torch.arange(queries, device=device)[:, None] + keys - queries)
    for window in (1, 4):
        mask = (away > -window) & (away <= 0 if causal else away < window)
        want = by_torch(q, k, v, attn_mask=mask, enable_gqa=True, scale=0.2).transpose(1, 2)
        with rt.use_sdpa(strict=True):
            out, _ = rt.hf_attention(Layer(), q, k, v, None, scaling=0.2, is_causal=causal, sliding_window=window)
        testing.assert_snr(want, out, 35)
        with rt.use_sdpa() as seen:  # float32 is torch's
            out, _ = rt.hf_attention(Layer(), q.float(), k.float(), v.float(), None, scaling=0.2, is_causal=causal, sliding_window=window)
        assert seen.ours == 0
        testing.assert_snr(want, out, 35)
        masked, _ = rt.hf_attention(Layer(), q, k, v, mask, scaling=0.2, sliding_window=window)  # whoever made the mask saw to it
        testing.assert_snr(want, masked, 30)
    with pytest.raises(ValueError, match="sliding_window=0; give the number of keys"):
        rt.hf_attention(Layer(), q, k, v, None, sliding_window=0)


@pytest.mark.parametrize("window", [None, 4])
def test_sinks_of_transformers(on_cpu, window):
    """As eager_attention_forward of GPT-OSS has them: one more column of scores, that is dropped behind the softmax."""
    q, k, v = operands("cpu", 6, 9, heads=(4, 2))
    s_aux = torch.nn.Parameter(torch.tensor([1.0, -2.0, 0.5, 3.0]).bfloat16())
    scores = torch.einsum("bhic,bhjc->bhij", q.double(), k.double().repeat_interleave(2, 1)) * 0.2
    away = torch.arange(9) - (torch.arange(6)[:, None] + 3)
    scores = scores.masked_fill((away > 0) | (away <= -(window or 100)), -torch.inf)
    scores = torch.cat([scores, s_aux.detach().double().view(1, 4, 1, 1).expand(2, 4, 6, 1)], -1)
    want = torch.einsum("bhij,bhjc->bihc", scores.softmax(-1)[..., :-1], v.double().repeat_interleave(2, 1))
    with rt.use_sdpa(strict=True) as seen:
        out, _ = rt.hf_attention(Layer(), q, k, v, None, scaling=0.2, s_aux=s_aux, sliding_window=window)
    assert seen.ours == 1
    testing.assert_snr(want, out, 35)
    assert torch.autograd.grad(out.sum(), s_aux)[0].dtype == torch.bfloat16
    for given, reason in ((q.float(), "torch.float32"), (q, "attn_mask is given")):
        mask = torch.ones(6, 9, dtype=torch.bool) if given is q else None
        with pytest.raises(NotImplementedError, match=f"s_aux is given, and {reason}.*'eager'"):
            rt.hf_attention(Layer(), given, k.to(given.dtype), v.to(given.dtype), mask, s_aux=s_aux)


def test_a_softcap_of_transformers(on_cpu):
    """As eager_attention_forward of Gemma 2 has it: before the mask."""
    q, k, v = operands("cpu", 6, 9, heads=(4, 2))
    scores = 2 * torch.tanh(torch.einsum("bhic,bhjc->bhij", q.double(), k.double().repeat_interleave(2, 1)) * 0.2 / 2)
    scores = scores.masked_fill(~torch.ones(6, 9, dtype=torch.bool).tril(3), -torch.inf)
    want = torch.einsum("bhij,bhjc->bihc", scores.softmax(-1), v.double().repeat_interleave(2, 1))
    with rt.use_sdpa(strict=True) as seen:
        out, _ = rt.hf_attention(Layer(), q, k, v, None, scaling=0.2, softcap=2.0)
    assert seen.ours == 1
    testing.assert_snr(want, out, 35)
    assert torch.equal(rt.hf_attention(Layer(), q, k, v, None, softcap=None)[0], rt.hf_attention(Layer(), q, k, v, None)[0])
    with pytest.raises(NotImplementedError, match="softcap is given, and torch.float32.*'eager'"):
        rt.hf_attention(Layer(), q.float(), k.float(), v.float(), None, softcap=2.0)
    with pytest.raises(NotImplementedError, match="s_aux and softcap is given, and dropout_p=0.5"):
        rt.hf_attention(Layer(), q, k, v, None, dropout=0.5, softcap=2.0, s_aux=torch.zeros(4))


@pytest.mark.parametrize("window", [None, 3])
def test_packed_documents_of_transformers(device, window):
    of = torch.tensor([0, 4, 4, 11], dtype=torch.int32, device=device)
    q, k, v = (x[:1] for x in operands(device, 11, 11, heads=(4, 2)))
    with rt.use_sdpa(strict=True) as seen:
        out, _ = rt.hf_attention(Layer(), q, k, v, None, scaling=0.2, cu_seq_lens_q=of, cu_seq_lens_k=of, max_length_q=7, max_length_k=7, sliding_window=window)
    assert seen.ours == 1 and out.shape == (1, 11, 4, 64)
    for rows in (slice(0, 4), slice(4, 11)):
        want, _ = rt.hf_attention(Layer(), *(x[:, :, rows] for x in (q, k, v)), None, scaling=0.2, sliding_window=window)
        testing.assert_snr(want.double(), out[:, rows], 45)
    with pytest.raises(NotImplementedError, match="packed documents, and torch.float32"):
        rt.hf_attention(Layer(), q.float(), k.float(), v.float(), None, cu_seq_lens_q=of, cu_seq_lens_k=of)


@pytest.mark.parametrize(
    "given,message",
    [({"head_mask": torch.ones(4)}, "head_mask is given"), ({"cu_seq_lens_q": torch.zeros(2)}, "packed documents of a batch of 2 by cu_seq_lens_q"),
     ({"output_attentions": True}, "'eager'")],
    ids=str,
)  # fmt: skip
def test_what_would_change_a_result_unseen_is_refused(on_cpu, given, message):
    with pytest.raises(NotImplementedError, match=message):
        rt.hf_attention(Layer(), *operands("cpu"), None, **given)
