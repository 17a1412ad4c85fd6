"""combine_rows, and rows of a mixture of experts to the experts and back, against torch's own operators."""

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

ops = torch.ops.ridgeline
DTYPES = [torch.float32, torch.bfloat16, torch.float16]
FLOOR = {torch.float32: 110, torch.bfloat16: 50, torch.float16: 66}


def right(x, sources, weights=None):
    """In float64, on the CPU."""
    x, sources = x.detach().double().cpu(), sources.cpu().long()
    terms = torch.where(sources[..., None] >= 0, x[sources.clamp(min=0)], 0.0)
    return (terms if weights is None else terms * weights.detach().double().cpu()[..., None]).sum(1)


def chosen(tokens, top, experts, device, seed=0):
    """Different experts for a token, unevenly, and one token whose choices are dropped."""
    generator = torch.Generator().manual_seed(seed)
    found = torch.stack([torch.randperm(experts, generator=generator)[:top] for _ in range(tokens)])
    found[tokens // 2] = -1
    return found.to(device)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("top,columns", [(1, 64), (3, 67), (8, 256), (11, 1000)])
@pytest.mark.parametrize("weighted", [False, True])
def test_values(device, dtype, index, top, columns, weighted):
    x = torch.randn(50, columns, device=device).to(dtype)
    sources = torch.randint(-1, 50, (70, top), device=device, dtype=index)
    weights = torch.rand(70, top, device=device) if weighted else None
    y = rt.combine_rows(x, sources, weights)
    assert y.dtype == dtype and y.shape == (70, columns)
    if top == 1 and not weighted:
        assert torch.equal(y.double().cpu(), right(x, sources))
    assert testing.snr_db(y, right(x, sources, weights)) > FLOOR[dtype]


@pytest.mark.parametrize("dtype", DTYPES)
def test_to_the_experts_and_back(device, dtype):
    tokens, top, experts, columns = 90, 4, 7, 72
    choice = chosen(tokens, top, experts, device)
    order = rt.expert_order(choice, experts)
    x = torch.randn(tokens, columns, device=device).to(dtype).requires_grad_()
    weights = torch.rand(tokens, top, device=device, requires_grad=True)
    rows = rt.permute(x, order)
    offsets = order.offsets.tolist()
    assert offsets[0] == 0 and offsets[-1] == (tokens - 1) * top
    for expert in range(experts):
        (own,) = torch.where((choice.cpu() == expert).any(1))
        assert torch.equal(rows[offsets[expert] : offsets[expert + 1]], x[own.to(device)])
    assert not rows[offsets[-1] :].any()
    dy = torch.randn(tokens, columns, device=device).to(dtype)
    rt.unpermute(rows, order, weights).backward(dy)
    wide, by = x.detach().double().cpu().requires_grad_(), weights.detach().double().cpu().requires_grad_()
    there = (choice.cpu() >= 0)[..., None]
    ((wide[:, None] * by[..., None]) * there).sum(1).backward(dy.double().cpu())
    assert testing.snr_db(x.grad, wide.grad) > FLOOR[dtype] - 6
    assert testing.snr_db(weights.grad, by.grad) > FLOOR[torch.float32] - 6
    assert not x.grad[tokens // 2].any() and not weights.grad[tokens // 2].any()


def test_a_layer_of_experts_is_the_sum_of_its_experts(device):
    tokens, top, experts, width = 60, 2, 5, 64
    choice = chosen(tokens, top, experts, device)
    order = rt.expert_order(choice, experts)
    x = torch.randn(tokens, width, device=device)
    matrices = torch.randn(experts, 48, width, device=device) / width**0.5
    weights = torch.rand(tokens, top, device=device)
    y = rt.unpermute(rt.grouped_gemm(rt.permute(x, order), matrices, order.offsets, True), order, weights)
    want = torch.zeros(tokens, 48, dtype=torch.float64)
    for t in range(tokens):
        for k, expert in enumerate(choice[t].tolist()):
            if expert >= 0:
                want[t] += weights[t, k].double().cpu() * (matrices[expert].double().cpu() @ x[t].double().cpu())
    assert testing.snr_db(y, want) > 50  # products of float32 on a GPU may be TF32


def test_order_of_no_token_and_of_one_expert(device):
    empty = rt.expert_order(torch.zeros(0, 2, dtype=torch.int64, device=device), 3)
    assert empty.offsets.tolist() == [0, 0, 0, 0] and empty.rows.shape == (0, 2)
    assert rt.permute(torch.zeros(0, 8, device=device), empty).shape == (0, 8)
    one = rt.expert_order(torch.zeros(5, 1, dtype=torch.int32, device=device), 1)
    assert one.offsets.tolist() == [0, 5] and one.tokens.flatten().tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(ValueError, match="num_experts is 0"):
        rt.expert_order(torch.zeros(5, 1, dtype=torch.int32, device=device), 0)
    with pytest.raises(ValueError, match=r"shape \(5,\)"):
        rt.expert_order(torch.zeros(5, dtype=torch.int32, device=device), 2)
    with pytest.raises(ValueError, match="align is 0; give 1 to 1024"):
        rt.expert_order(torch.zeros(5, 1, dtype=torch.int32, device=device), 1, align=0)
    with pytest.raises(TypeError, match="experts is torch.float32"):
        rt.expert_order(torch.zeros(5, 1, device=device), 1)


@pytest.mark.parametrize("index", [torch.int32, torch.int64, torch.int8])
@pytest.mark.parametrize("tokens,top,experts", [(90, 4, 7), (3000, 8, 100), (5, 1, 120)])
@pytest.mark.parametrize("align", [1, 16])
def test_order_is_a_stable_sort(device, index, tokens, top, experts, align):
    choice = torch.randint(-2, experts + 3, (tokens, top), device=device).to(index)  # some are none
    order = rt.expert_order(choice, experts, align=align)
    rows, token_of, choices, flat = order.rows.flatten().tolist(), order.tokens.flatten().tolist(), order.choices.flatten().tolist(), choice.flatten().tolist()
    begin, seen = 0, 0
    for expert in range(experts):
        assert order.offsets[expert].item() == begin
        own = [at for at, which in enumerate(flat) if which == expert]
        length = -(-len(own) // align) * align
        assert choices[begin : begin + length] == own + [-1] * (length - len(own))
        assert token_of[begin : begin + length] == [at // top for at in own] + [-1] * (length - len(own))
        assert [rows[at] for at in own] == list(range(begin, begin + len(own)))
        begin, seen = begin + length, seen + len(own)
    assert order.offsets[experts].item() == begin and set(choices[begin:]) <= {-1} and set(token_of[begin:]) <= {-1}
    assert sum(row >= 0 for row in rows) == seen and len(choices) == (tokens * top + experts * (align - 1)) // align * align


def test_rows_of_aligned_experts_come_back(device):
    choice, x = chosen(60, 3, 5, device), torch.randn(60, 64, device=device)
    order = rt.expert_order(choice, 5, align=8)
    rows = rt.permute(x, order)
    assert (order.offsets % 8 == 0).all() and not rows[order.tokens.flatten() < 0].any()
    torch.testing.assert_close(rt.unpermute(rows, order), (choice >= 0).sum(1, keepdim=True) * x)


def test_a_number_beyond_32_bits_is_no_expert(device):
    order = rt.expert_order(torch.tensor([[2**32, 1], [-(2**33), 2**40 + 1]], device=device), 3)
    assert order.offsets.tolist() == [0, 0, 1, 1] and order.rows.tolist() == [[-1, 0], [-1, -1]]


def test_an_order_is_captured_in_a_graph(device):
    if device.type == "cpu":
        pytest.skip("there are graphs on GPUs alone")
    logits = torch.randn(500, 32, device=device)
    call = lambda: rt.expert_order(rt.route(logits, 4, score="sigmoid", bias=bias, groups=4, group_top=2).experts, 32, align=8)  # noqa: E731
    bias = torch.rand(32, device=device)
    call()
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        captured = call()
    for _ in range(3):
        logits.normal_()
        graph.replay()
        assert all(torch.equal(a, b) for a, b in zip(captured, call()))


def test_equal_bits_in_every_call(device):
    order = rt.expert_order(chosen(300, 4, 9, device), 9)
    x = torch.randn(300, 200, device=device).bfloat16().requires_grad_()
    weights = torch.rand(300, 4, device=device, requires_grad=True)
    found = []
    for _ in range(3):
        y = rt.unpermute(rt.permute(x, order), order, weights)
        found.append([y, *torch.autograd.grad(y.square().sum(), (x, weights))])
    assert all(torch.equal(a, b) for other in found[1:] for a, b in zip(found[0], other))


def test_gradients_match_differences(on_cpu):
    order = rt.expert_order(chosen(6, 2, 3, "cpu"), 3)
    x = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    weights = torch.rand(6, 2, dtype=torch.float64, requires_grad=True)
    call = lambda x, weights: rt.unpermute(rt.permute(x, order), order, weights)  # noqa: E731
    assert torch.autograd.gradcheck(call, (x, weights), check_forward_ad=True)
    assert torch.autograd.gradgradcheck(call, (x, weights))


def test_gradients_are_differentiated_again(device):
    order = rt.expert_order(chosen(6, 2, 3, device), 3)
    x, weights = torch.randn(6, 8, device=device, requires_grad=True), torch.rand(6, 2, device=device, requires_grad=True)
    there = (order.rows >= 0)[..., None]
    results = []
    for call in (lambda: rt.unpermute(rt.permute(x, order), order, weights), lambda: ((x[:, None] * weights[..., None]) * there).sum(1)):
        first = torch.autograd.grad(call().square().sum(), (x, weights), create_graph=True)
        results.append(torch.autograd.grad(sum(one.square().sum() for one in first), (x, weights)))
    torch.testing.assert_close(*results)


def test_calls_compile_and_the_operators_pass_pytorchs_own_checks(device):
    order = rt.expert_order(chosen(20, 3, 5, device), 5)
    x = torch.randn(20, 16, device=device, requires_grad=True)
    weights = torch.rand(20, 3, device=device, requires_grad=True)
    call = lambda x, weights: rt.unpermute(rt.permute(x, order), order, weights)  # noqa: E731
    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(x, weights), call(x, weights))
    routed = torch.compile(rt.expert_order, fullgraph=True, backend="aot_eager")
    assert all(torch.equal(a, b) for a, b in zip(routed(chosen(20, 3, 5, device), 5), order))
    torch.library.opcheck(ops.combine_rows.default, (x, order.tokens, None, order.rows))
    rows = torch.randn(order.tokens.shape[0], 16, device=device, requires_grad=True)
    torch.library.opcheck(ops.combine_rows.default, (rows, order.rows, None, order.choices))  # also with a symbolic number of sources
    torch.library.opcheck(ops.combine_rows.default, (x.detach(), order.rows.clamp(max=19), weights.detach(), None), test_utils=("test_schema", "test_faketensor"))
    torch.library.opcheck(ops.expert_order.default, (chosen(20, 3, 5, device), 5, 16))
    torch.library.opcheck(ops.combine_rows_backward.default, (torch.randn(20, 16, device=device), x.detach(), order.rows.clamp(max=19)))


def test_says_what_is_wrong_with_a_call(on_cpu):
    x, sources = torch.randn(4, 8), torch.zeros(3, 2, dtype=torch.int32)
    with pytest.raises(ValueError, match=r"from\[1, 1\] is 4; x has 4 rows"):
        rt.combine_rows(x, torch.tensor([[0, 1], [2, 4]]))
    with pytest.raises(ValueError, match="give places"):
        rt.combine_rows(x.clone().requires_grad_(), sources)
    with pytest.raises(TypeError, match="sources is torch.int16"):
        rt.combine_rows(x, sources.short())
    with pytest.raises(ValueError, match="sources has shape"):
        rt.combine_rows(x, sources[0])
    with pytest.raises((ValueError, TypeError), match="weights"):
        rt.combine_rows(x, sources, torch.rand(3, 3))
    with pytest.raises(ValueError, match="places has shape"):
        rt.combine_rows(x, sources, places=sources)
