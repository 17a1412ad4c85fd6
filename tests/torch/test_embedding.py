"""embedding, its sorted gradient and its module against torch's own."""

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

F = torch.nn.functional
ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 110, torch.bfloat16: 50, torch.float16: 66}


def table(vocabulary, columns, dtype=torch.float32, device="cpu"):
    return torch.randn(vocabulary, columns, device=device).to(dtype).requires_grad_()


def right(ids, dy, vocabulary, padding=-1):
    """In float64, on the CPU."""
    return torch.ops.aten.embedding_dense_backward(dy.double().cpu(), ids.cpu().long(), vocabulary, padding, False)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [torch.int64, torch.int32])
@pytest.mark.parametrize("columns", [8, 67, 2500])
def test_values_and_gradients(device, dtype, index, columns):
    weight = table(50, columns, dtype, device)
    ids = torch.randint(50, (3, 70), device=device, dtype=index)
    ids[0, :60] = 7  # more than a warp takes
    for padding in (None, 3, -1):
        found = rt.embedding(ids, weight, padding)
        assert torch.equal(found, F.embedding(ids, weight, padding))
        dy = torch.randn_like(found)
        (have,) = torch.autograd.grad(found, weight, dy)
        want = right(ids, dy, 50, {None: -1, 3: 3, -1: 49}[padding])
        assert have.dtype == dtype
        testing.assert_snr(want, have.cpu(), FLOOR[dtype])
        if padding is not None:
            assert not have[padding].any()
        assert torch.equal(have, torch.autograd.grad(rt.embedding(ids, weight, padding), weight, dy)[0])


@pytest.mark.parametrize("tokens,vocabulary", [(0, 5), (1, 1), (5000, 3), (4000, 1), (7, 900), (70000, 12)])
def test_ids_that_are_few_or_crowded(device, tokens, vocabulary):
    weight, ids = table(vocabulary, 24, device=device), torch.randint(vocabulary, (tokens,), device=device)
    dy = torch.randn(tokens, 24, device=device)
    (have,) = torch.autograd.grad(rt.embedding(ids, weight), weight, dy)
    want = right(ids, dy, vocabulary)
    torch.testing.assert_close(have.cpu().double(), want, rtol=1e-4, atol=1e-3)
    assert (have[want.to(device).abs().amax(1) == 0] == 0).all()


def test_main_grad_gets_the_gradient(device):
    weight, ids = table(40, 33, torch.bfloat16, device), torch.randint(30, (90,), device=device)
    weight.main_grad = torch.randn(40, 33, device=device)
    kept = weight.main_grad.clone()
    layer = rt.Embedding(40, 33, device=device, dtype=torch.bfloat16)
    layer.weight = torch.nn.Parameter(weight.detach())
    layer.weight.main_grad = weight.main_grad
    dy = torch.randn(90, 33, device=device).bfloat16()
    layer(ids).backward(dy)
    assert layer.weight.grad is None
    testing.assert_snr(kept.cpu().double() + right(ids, dy, 40), layer.weight.main_grad.cpu(), 100)
    assert torch.equal(layer.weight.main_grad[30:], kept[30:])  # no token names them
    with pytest.raises(ValueError, match="main_grad is torch.bfloat16"):
        rt.embedding(ids, weight, main_grad=kept.bfloat16())


def test_gradients_match_differences(on_cpu):
    weight, ids = table(6, 4, torch.float64), torch.tensor([[0, 5, 2], [2, 2, 1]])
    call = lambda w: rt.embedding(ids, w)  # noqa: E731
    assert torch.autograd.gradcheck(call, weight, check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, weight)


def test_gradients_are_differentiated_again(device):
    weight, ids = table(6, 4, device=device), torch.tensor([0, 5, 2, 2], device=device)
    results = []
    for call in (rt.embedding, F.embedding):
        (first,) = torch.autograd.grad(call(ids, weight).square().sum(), weight, create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), weight)[0])
    torch.testing.assert_close(*results)


def test_calls_compile_and_the_operators_pass_pytorchs_own_checks(device):
    weight, ids = table(12, 16, device=device), torch.randint(12, (3, 5), device=device)
    compiled = torch.compile(rt.embedding, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(ids, weight, 3), rt.embedding(ids, weight, 3))
    assert torch.equal(*(torch.autograd.grad(call(ids, weight, 3).square().sum(), weight)[0] for call in (compiled, rt.embedding)))
    dy = torch.randn(3, 5, 16, device=device)
    torch.library.opcheck(ops.embedding.default, (ids, weight, 3))
    torch.library.opcheck(ops.embedding_backward.default, (dy, ids, 12, 3))
    torch.library.opcheck(ops.embedding_backward_add_.default, (torch.zeros(12, 16, device=device), dy, ids.int()))
    assert rt.last_used("embedding_backward")


def test_the_module_is_torchs(device):
    ours, theirs = rt.Embedding(9, 5, padding_idx=2, device=device), torch.nn.Embedding(9, 5, padding_idx=2, device=device)
    ours.load_state_dict(theirs.state_dict())
    ids = torch.randint(9, (4, 3), device=device)
    assert torch.equal(ours(ids), theirs(ids)) and repr(ours) == repr(theirs)
    for module in (ours, theirs):
        module(ids).square().sum().backward()
    torch.testing.assert_close(ours.weight.grad, theirs.weight.grad)
    pretrained = rt.Embedding.from_pretrained(theirs.weight.detach())
    assert isinstance(pretrained, rt.Embedding) and not pretrained.weight.requires_grad
    assert torch.equal(pretrained(ids), theirs(ids))
    for refused in ({"max_norm": 1.0}, {"sparse": True}, {"scale_grad_by_freq": True}):
        with pytest.raises(NotImplementedError, match=f"{next(iter(refused))} is not supported"):
            rt.Embedding(9, 5, **refused)


def test_convert_leaves_embeddings_alone(on_cpu):
    model = torch.nn.Sequential(torch.nn.Embedding(9, 8), torch.nn.Linear(8, 8))
    rt.convert(model, "high_precision")
    assert type(model[0]) is torch.nn.Embedding


def test_what_is_not_supported_says_the_way_out(on_cpu):
    weight = table(9, 5)
    with pytest.raises(IndexError):
        rt.embedding(torch.tensor([9]), weight)
    for wrong in (9, -10):
        with pytest.raises(ValueError, match=f"padding_idx is {wrong}, and the weight has 9 rows"):
            rt.embedding(torch.tensor([1]), weight, wrong)
    with pytest.raises(TypeError, match="the ids are torch.int16; give torch.int64"):
        rt.embedding(torch.tensor([1], dtype=torch.int16), weight)
    with pytest.raises(ValueError, match=r"ids\[1\] is 9; the table has 9 rows"):
        ops.embedding_backward(torch.randn(2, 5), torch.tensor([1, 9]), 9)


def test_on_a_gpu_an_id_that_is_no_row_counts_for_nothing(on_gpu, device):
    ids = torch.tensor([3, -1, 9, 1 << 40, 3, -(1 << 40)], device=device)
    dy = torch.randn(6, 64, device=device)
    have = ops.embedding_backward(dy, ids, 9)
    want = torch.zeros(9, 64, device=device)
    want[3] = dy[0] + dy[4]
    assert torch.equal(have, want)


def test_on_a_gpu_calls_are_captured_and_wait_for_nothing(on_gpu, device):
    ids, dy = torch.randint(500, (3000,), device=device), torch.randn(3000, 256, device=device).bfloat16()
    sums = torch.zeros(500, 256, device=device)
    for _ in range(2):
        ops.embedding_backward(dy, ids, 500)
        ops.embedding_backward_add_(sums, dy, ids)
    torch.cuda.synchronize()
    torch.cuda.set_sync_debug_mode("error")
    try:
        want = ops.embedding_backward(dy, ids, 500)
    finally:
        torch.cuda.set_sync_debug_mode("default")
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        found = ops.embedding_backward(dy, ids, 500)
    for _ in range(3):
        ids.copy_(torch.randint(500, (3000,), device=device))
        graph.replay()
        want = ops.embedding_backward(dy, ids, 500)
        assert torch.equal(found, want)
        testing.assert_snr(right(ids, dy, 500), found.cpu(), 50)
