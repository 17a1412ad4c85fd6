"""grouped_gemm and its gradients against float64, group by group, with gemm's error model."""

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
OFFSETS = [3, 40, 40, 41, 120, 150]  # rows before and behind, a group without rows, one of a single row
ROWS = 160


def operands(dtype, device, k=48, n=64, trans_b=False):
    a = torch.randn(ROWS, k, device=device).to(dtype)
    b = torch.randn(len(OFFSETS) - 1, *((n, k) if trans_b else (k, n)), device=device).to(dtype)
    return a, b


def offsets_on(device, dtype=torch.int32):
    return torch.tensor(OFFSETS, dtype=dtype, device=device)


def groups():
    return list(enumerate(zip(OFFSETS[:-1], OFFSETS[1:])))


def exact(a, b, trans_b):
    """In float64, differentiable."""
    parts = [a[: OFFSETS[0]] @ b[0] * 0 if not trans_b else a[: OFFSETS[0]] @ b[0].t() * 0]
    parts += [a[begin:end] @ (b[g].t() if trans_b else b[g]) for g, (begin, end) in groups()]
    return torch.cat([*parts, a[OFFSETS[-1] :] @ (b[0].t() if trans_b else b[0]) * 0])


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("index", [torch.int32, torch.int64])
def test_rows_of_each_group_keep_the_error_model(device, dtype, trans_b, index):
    a, b = operands(dtype, device, trans_b=trans_b)
    out = rt.grouped_gemm(a, b, offsets_on(device, index), trans_b)
    for g, (begin, end) in groups():
        own, found = a[begin:end], out[begin:end]
        excess = (testing.gemm_reference(own, b[g], False, trans_b) - found.cpu().double()).abs()
        assert begin == end or (excess - testing.gemm_bound(own, b[g], found, False, trans_b)).max().item() <= 0
    assert not out[: OFFSETS[0]].any() and not out[OFFSETS[-1] :].any()


@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
def test_sums_over_the_rows_of_groups(device, out_dtype):
    a, x = torch.randn(ROWS, 40, device=device).bfloat16(), torch.randn(ROWS, 56, device=device).bfloat16()
    out = rt.grouped_gemm(a, x, offsets_on(device), out_dtype=out_dtype, trans_a=True)
    for g, (begin, end) in groups():
        left, right, found = a[begin:end], x[begin:end], out[g]
        if begin == end:
            assert not found.any()
            continue
        excess = (testing.gemm_reference(left, right, True, False) - found.cpu().double()).abs()
        assert (excess - testing.gemm_bound(left, right, found, True, False)).max().item() <= 0


@pytest.mark.parametrize("trans_b", [False, True])
def test_gradients_against_float64_autograd(device, trans_b):
    a, b = operands(torch.float32, device, trans_b=trans_b)
    upstream = torch.randn(ROWS, 64, device=device)
    ours = [t.clone().requires_grad_() for t in (a, b)]
    right = [t.cpu().double().requires_grad_() for t in (a, b)]
    rt.grouped_gemm(ours[0], ours[1], offsets_on(device), trans_b).backward(upstream)
    exact(*right, trans_b).backward(upstream.cpu().double())
    for mine, wanted in zip(ours, right):
        torch.testing.assert_close(mine.grad.cpu().double(), wanted.grad, rtol=1e-4, atol=1e-4)


def test_what_other_groups_hold_changes_nothing(device):
    a, b = operands(torch.bfloat16, device)
    clean = rt.grouped_gemm(a, b, offsets_on(device))
    a[OFFSETS[3]] = float("nan")  # the only row of group 3
    a[0], a[-1], b[1] = float("nan"), float("inf"), float("nan")  # rows of no group, a matrix without rows
    dirty = rt.grouped_gemm(a, b, offsets_on(device))
    assert dirty[OFFSETS[3]].isnan().all()
    dirty[OFFSETS[3]] = clean[OFFSETS[3]]
    assert torch.equal(dirty, clean)
    x = torch.randn(ROWS, 64, device=device).bfloat16()
    sums = rt.grouped_gemm(a, x, offsets_on(device), trans_a=True)
    assert sums[3].isnan().all() and not torch.cat([sums[:3], sums[4:]]).isnan().any()


def routed(device, tokens=70, top=2, experts=5):
    """An order of tokens, some choices of which are none."""
    chosen = torch.stack([torch.randperm(experts + 1)[:top] for _ in range(tokens)]) - 1
    return rt.expert_order(chosen.to(device), experts)


@pytest.mark.parametrize("trans_b", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_rows_by_index_have_the_bits_of_a_copy(device, dtype, trans_b):
    order = routed(device)
    x = torch.randn(70, 48, device=device).to(dtype)
    b = operands(dtype, device, trans_b=trans_b)[1]
    upstream = torch.randn(140, 64, device=device).to(dtype)
    results = []
    for by_index in (False, True):
        own = [t.clone().requires_grad_() for t in (x, b)]
        if by_index:
            out = rt.grouped_gemm(own[0], own[1], order.offsets, trans_b, index_a=order.tokens, places=order.rows)
        else:
            out = rt.grouped_gemm(rt.permute(own[0], order), own[1], order.offsets, trans_b)
        out.backward(upstream)
        results.append((out.detach(), own[0].grad, own[1].grad))
    for found, right in zip(results[1], results[0]):
        assert torch.equal(found, right)


@pytest.mark.parametrize("of_a", [False, True])
def test_sums_over_rows_by_index(device, of_a):
    order = routed(device)
    x, y = torch.randn(70, 40, device=device).bfloat16(), torch.randn(140, 56, device=device).bfloat16()
    rows = rt.permute(x, order)
    pairs = ((rows, y), (x, y)) if of_a else ((y, rows), (y, x))
    by = {"index_a" if of_a else "index_b": order.tokens[:, 0].contiguous()}
    assert torch.equal(rt.grouped_gemm(*pairs[1], order.offsets, trans_a=True, **by), rt.grouped_gemm(*pairs[0], order.offsets, trans_a=True))
    sums = [torch.full((5, pairs[0][0].shape[1], pairs[0][1].shape[1]), 3.0, device=device) for _ in range(2)]
    torch.ops.ridgeline.grouped_gemm_add_(sums[0], *pairs[0], order.offsets)
    torch.ops.ridgeline.grouped_gemm_add_(sums[1], *pairs[1], order.offsets, **by)
    assert torch.equal(*sums)


def test_main_grad_of_rows_by_index(device):
    order = routed(device)
    x = torch.randn(70, 48, device=device).bfloat16()
    b = operands(torch.bfloat16, device, trans_b=True)[1].requires_grad_()
    upstream = torch.randn(140, 64, device=device).bfloat16()
    sums = [torch.full(b.shape, 2.0, device=device) for _ in range(2)]
    rt.grouped_gemm(rt.permute(x, order), b, order.offsets, True, main_grad=sums[0]).backward(upstream)
    rt.grouped_gemm(x, b, order.offsets, True, main_grad=sums[1], index_a=order.tokens).backward(upstream)
    assert b.grad is None and torch.equal(*sums)


def test_what_an_index_may_not_be(device):
    order = routed(device)
    x, b = torch.randn(70, 48, device=device), torch.randn(5, 48, 64, device=device)
    for error, options in (
        (ValueError, {"index_a": order.tokens, "index_b": order.tokens}),
        (ValueError, {"index_b": order.tokens}),
        (TypeError, {"index_a": order.tokens.long()}),
        (ValueError, {"index_a": order.rows}),
        (ValueError, {"index_a": order.tokens, "places": order.rows[:5]}),
        (TypeError, {"index_a": order.tokens, "places": order.rows.float()}),
    ):
        with pytest.raises(error, match="index|places"):
            rt.grouped_gemm(x, b, order.offsets, **options)
    with pytest.raises(ValueError, match="not contiguous"):
        rt.grouped_gemm(x, b, order.offsets, index_a=torch.stack([order.tokens[:, 0]] * 2, 1)[:, 0])
    with pytest.raises(ValueError, match="give places"):
        rt.grouped_gemm(x.requires_grad_(), b, order.offsets, index_a=order.tokens)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_an_index_that_is_no_row_is_named_on_a_processor(on_cpu, dtype):
    x, b = torch.randn(7, 3, dtype=dtype), torch.randn(2, 3, 4, dtype=dtype)
    offsets, index = torch.tensor([1, 3, 4]), torch.tensor([99, 0, -1, 6, 99], dtype=torch.int32)
    out = rt.grouped_gemm(x, b, offsets, index_a=index)  # rows of no group are not looked at
    assert not out[0].any() and not out[2].any() and not out[4].any() and out[1].any() and out[3].any()
    index[2] = 7
    with pytest.raises(ValueError, match="2 is 7, of 7 rows"):
        rt.grouped_gemm(x, b, offsets, index_a=index)


def test_main_grad_takes_the_gradient_of_the_stack(device):
    a, b = operands(torch.bfloat16, device, trans_b=True)
    b.requires_grad_()
    main_grad = torch.full(b.shape, 2.0, device=device)
    upstream = torch.randn(ROWS, 64, device=device).bfloat16()
    rt.grouped_gemm(a, b, offsets_on(device), True, main_grad=main_grad).backward(upstream)
    plain = b.detach().clone().requires_grad_()
    rt.grouped_gemm(a, plain, offsets_on(device), True, torch.float32).backward(upstream.float())
    assert b.grad is None
    torch.testing.assert_close(main_grad - 2, plain.grad.float(), rtol=1e-2, atol=1e-2)
    assert (main_grad[1] == 2).all()  # a group without rows adds nothing


def test_gradcheck_twice_and_tangents(on_cpu):
    a = torch.randn(9, 3, dtype=torch.double, requires_grad=True)
    b = torch.randn(3, 3, 4, dtype=torch.double, requires_grad=True)
    x = torch.randn(9, 4, dtype=torch.double, requires_grad=True)
    offsets = torch.tensor([1, 4, 4, 8])

    def rows(a, b):
        return rt.grouped_gemm(a, b, offsets)

    def sums(a, x):
        return rt.grouped_gemm(a, x, offsets, trans_a=True)

    order = routed("cpu", tokens=5, experts=3)
    few = torch.randn(5, 3, dtype=torch.double, requires_grad=True)
    grads = torch.randn(10, 4, dtype=torch.double, requires_grad=True)
    by = {"places": order.rows}

    def found(few, b):
        return rt.grouped_gemm(few, b, order.offsets, index_a=order.tokens, **by)

    def found_sums(few, grads):
        return rt.grouped_gemm(few, grads, order.offsets, trans_a=True, index_a=order.tokens, **by)

    def found_second(grads, few):
        return rt.grouped_gemm(grads, few, order.offsets, trans_a=True, index_b=order.tokens, **by)

    gathered = ((found, (few, b)), (found_sums, (few, grads)), (found_second, (grads, few)))
    for call, inputs in ((rows, (a, b)), (sums, (a, x)), *gathered):
        assert torch.autograd.gradcheck(call, inputs, check_forward_ad=True)
        assert torch.autograd.gradgradcheck(call, inputs)


@pytest.mark.parametrize("trans_a", [False, True])
def test_opcheck_and_compile(device, trans_a):
    a, b = operands(torch.float32, device, k=16, n=24)
    if trans_a:
        b = torch.randn(ROWS, 24, device=device)
    inputs = (a.requires_grad_(), b.requires_grad_(), offsets_on(device), trans_a)
    torch.library.opcheck(torch.ops.ridgeline.grouped_gemm.default, inputs)
    compiled = torch.compile(lambda *given: rt.grouped_gemm(*given, trans_a=trans_a) * 2, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(*inputs[:3]), rt.grouped_gemm(*inputs[:3], trans_a=trans_a) * 2)


def test_autocast(device):
    a, b = operands(torch.float32, device)
    with torch.autocast(device.type, torch.bfloat16):
        assert rt.grouped_gemm(a, b, offsets_on(device)).dtype == torch.bfloat16


def test_wrong_offsets_are_named_on_a_processor(on_cpu):
    a, b = operands(torch.float32, "cpu")
    with pytest.raises(ValueError, match="offset 2 is 5, after 40 and of 160 rows"):
        rt.grouped_gemm(a, b, torch.tensor([3, 40, 5, 41, 120, 150]))


def test_wrong_offsets_stay_within_the_matrices_on_a_gpu(on_gpu, device):
    a, b = operands(torch.bfloat16, device)
    wild = torch.tensor([-5, 40, 5, 1 << 30, 120, 150], dtype=torch.int32, device=device)
    kept = torch.tensor([0, 40, 40, 160, 160, 160], dtype=torch.int32, device=device)
    assert torch.equal(rt.grouped_gemm(a, b, wild), rt.grouped_gemm(a, b, kept))


def test_a_graph_replays_with_other_offsets(on_gpu, device):
    a, b = operands(torch.bfloat16, device, k=64)
    offsets = offsets_on(device)
    rt.grouped_gemm(a, b, offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rt.grouped_gemm(a, b, offsets)
    offsets.copy_(torch.tensor([0, 10, 30, 31, 32, 160]))
    graph.replay()
    assert torch.equal(out, rt.grouped_gemm(a, b, offsets))


@pytest.mark.parametrize(
    "change,says",
    [
        (lambda a, b, o: (a[0], b, o), "give a matrix of rows"),
        (lambda a, b, o: (a, b[0], o), "a matrix for each group"),
        (lambda a, b, o: (a, b, o[:-1]), "there are 5 groups; give 6"),
        (lambda a, b, o: (a, b.transpose(1, 2).contiguous(), o), "check trans_b"),
    ],
)
def test_what_does_not_go_together_is_named(device, change, says):
    a, b = operands(torch.float32, device)
    with pytest.raises(ValueError, match=says):
        rt.grouped_gemm(*change(a, b, offsets_on(device)))
    with pytest.raises(TypeError, match="torch.int32 or torch.int64"):
        rt.grouped_gemm(a, b, offsets_on(device).float())
