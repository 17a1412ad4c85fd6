"""grouped_gemm_fp8 and fp8_grouped_linear against gemm_fp8 of each group, bit for bit on a CPU, and against float64 of what the codes stand for."""

import pytest
import torch

import ridgeline.torch as rt

OPS = torch.ops.ridgeline
BLOCKS = rt.QuantConfig(granularity="blockwise")
HYBRID = rt.QuantConfig("hybrid", "blockwise")
OFFSETS = [4, 40, 40, 41, 200, 304]  # rows before and behind, a group without rows, one of a single row
ROWS, GROUPS, IN, OUT = 320, 5, 144, 160
TESTS = ("test_faketensor",)  # of torch.library.opcheck; the others copy and multiply 8-bit floats, which torch cannot


def offsets_on(device, dtype=torch.int32):
    return torch.tensor(OFFSETS, dtype=dtype, device=device)


def groups(offsets=OFFSETS):
    return list(enumerate(zip(offsets[:-1], offsets[1:])))


def operands(device, dtype=torch.bfloat16, out=OUT):
    x = torch.randn(ROWS, IN, device=device).to(dtype)
    return x, torch.randn(GROUPS, out, IN, device=device).to(dtype)


def scaled(q, scale, grouping):
    return OPS.dequantize(q.cpu(), scale.cpu(), grouping, torch.float32).double()


def close(found, right, terms):
    """Within what sums of `terms` products may lose: in steps of 32 the matrix unit keeps 14 bits of the largest addend, then fp32, then a rounding of the result."""
    left, other = right
    exact, magnitude = left @ other.t(), left.abs() @ other.abs().t()
    eps = torch.finfo(found.dtype).eps
    bound = magnitude * (2**-10 + terms * 2**-23) + exact.abs() * eps
    return ((found.cpu().double() - exact).abs() <= bound).all()


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("out", [OUT, 256])
def test_rows_of_each_group(device, out_dtype, index, out):
    x, w = operands(device, out=out)
    a, b = rt.quantize(x, BLOCKS), rt.quantize(w, BLOCKS, weight=True, transpose=True)
    made = rt.grouped_gemm_fp8(a, b, offsets_on(device, index), True, out_dtype)
    assert made.dtype == out_dtype and made.shape == (ROWS, out)
    assert not made[: OFFSETS[0]].any() and not made[OFFSETS[-1] :].any()
    for g, (begin, end) in groups():
        rows = scaled(a.q[begin:end], a.scale[:, begin:end].contiguous(), "1x128")
        assert close(made[begin:end], (rows, scaled(b.q[g], b.scale[g], "128x128")), IN)
        if device.type == "cpu":  # the same code, so the same bits
            one = OPS.gemm_fp8_scaled(a.q[begin:end], b.q[g], a.scale[:, begin:end].contiguous(), b.scale[g], False, True, out_dtype, "block")
            assert torch.equal(made[begin:end], one)


@pytest.mark.parametrize("granularity", ["blockwise", "rowwise", "tensorwise"])
@pytest.mark.parametrize("sources", [1, 50, 700])
def test_rows_by_index_have_the_bits_of_copies(device, sources, granularity):
    config = rt.QuantConfig(granularity=granularity)
    x, w = torch.randn(sources, IN, device=device).bfloat16(), operands(device)[1]
    index = torch.randint(0, sources, (ROWS, 1), device=device, dtype=torch.int32)
    b = rt.quantize(w, config, weight=True, transpose=True)
    copies = x[index.flatten().long()]
    a, of_copies = rt.quantize(x, config), rt.quantize(copies, config)
    if granularity == "tensorwise":  # one scale of all of x, whichever rows are named
        of_copies = rt.QuantizedTensor(a.q[index.flatten().long()], a.scale, None, None, "tensor", torch.bfloat16)
    right = rt.grouped_gemm_fp8(of_copies, b, offsets_on(device), True)
    assert torch.equal(rt.grouped_gemm_fp8(a, b, offsets_on(device), True, index_a=index), right)
    none = index.clone()
    none[50:60] = -1
    found = rt.grouped_gemm_fp8(a, b, offsets_on(device), True, index_a=none)
    assert not found[50:60].any() and torch.equal(found[:50], right[:50]) and torch.equal(found[60:], right[60:])
    left, padded = rt.grouped_quantize(x, offsets_on(device), config, transpose=True, index=index)
    wanted, begins = rt.grouped_quantize(copies, offsets_on(device), config, transpose=True)
    assert torch.equal(padded, begins)
    for mine, other in zip(left._parts(), wanted._parts()):
        assert torch.equal(mine.view(torch.uint8), other.view(torch.uint8))
    with pytest.raises(ValueError, match="index_a with trans_a"):
        rt.grouped_gemm_fp8(left, left, padded, trans_a=True, index_a=index)
    with pytest.raises(ValueError, match="index_a with along_sums"):
        OPS.grouped_gemm_fp8(a.q, a.q, a.scale, a.scale, padded, torch.float32, True, "block", index)
    with pytest.raises(TypeError, match="index_a"):
        rt.grouped_gemm_fp8(a, b, offsets_on(device), True, index_a=index.long())


@pytest.mark.parametrize("add", [False, True])
def test_sums_with_scales_of_columns_of_groups(device, add):
    x, _ = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    config = rt.QuantConfig(granularity="rowwise")
    a, padded = rt.grouped_quantize(dy, offsets_on(device), config, transpose=True)
    b, _ = rt.grouped_quantize(x, offsets_on(device), config, transpose=True)
    into = torch.full((GROUPS, OUT, IN), 3.0, device=device) if add else None
    made = rt.grouped_gemm_fp8(a, b, padded, out_dtype=torch.float32, trans_a=True, add_to=into)
    for g, (begin, end) in groups(padded.tolist()):
        left, right = (one.q_t[:, begin:end].double().cpu() * one.scale_t[g, :, None].double().cpu() for one in (a, b))
        bound = left.abs() @ right.abs().t() * (2**-10 + 384 * 2**-23) + (1e-5 if add else 0)
        found = made[g] - 3.0 if add else made[g]
        assert ((found.cpu().double() - left @ right.t()).abs() <= bound).all()
    assert (made[1] == (3.0 if add else 0.0)).all()  # no rows


def test_the_other_way_round_reads_the_codes_of_the_transpose(device):
    x, w = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    a, b = rt.quantize(dy, HYBRID), rt.quantize(w, BLOCKS, weight=True, transpose=True)
    made = rt.grouped_gemm_fp8(a, b, offsets_on(device))
    for g, (begin, end) in groups():
        rows = scaled(a.q[begin:end], a.scale[:, begin:end].contiguous(), "1x128")
        assert close(made[begin:end], (rows, scaled(b.q_t[g], b.scale_t[g], "128x128")), OUT)


@pytest.mark.parametrize("granularity,grouping", [("rowwise", "row"), ("tensorwise", "tensor")])
@pytest.mark.parametrize("out_dtype", [torch.bfloat16, torch.float32])
def test_scales_of_rows_and_of_groups(device, granularity, grouping, out_dtype):
    x, w = operands(device)
    config = rt.QuantConfig(granularity=granularity)
    a, b = rt.quantize(x, config), rt.quantize(w, config, transpose=True)
    offsets = offsets_on(device)
    made = rt.grouped_gemm_fp8(a, b, offsets, True, out_dtype)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    back, of_dy = rt.grouped_gemm_fp8(rt.quantize(dy, config), b, offsets), rt.quantize(dy, config)
    for g, (begin, end) in groups():
        for found, left, q, scale, terms in ((made, a, b.q, b.scale, IN), (back, of_dy, b.q_t, b.scale_t, OUT)):
            scale_a = left.scale[begin:end] if grouping == "row" else left.scale
            rows = scaled(left.q[begin:end], scale_a, grouping) if end > begin else torch.zeros(0, terms).double()
            assert close(found[begin:end], (rows, scaled(q[g], scale[g], grouping)), terms)
            if device.type == "cpu":  # the same code, so the same bits
                one = OPS.gemm_fp8_scaled(left.q[begin:end], q[g], scale_a, scale[g], False, True, found.dtype, grouping)
                assert torch.equal(found[begin:end], one)
    assert not made[: OFFSETS[0]].any() and not made[OFFSETS[-1] :].any()


@pytest.mark.parametrize("add", [False, True])
def test_sums_with_scales_of_groups_and_of_their_rows(device, add):
    x, _ = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    config = rt.QuantConfig(granularity="tensorwise")
    a, padded = rt.grouped_quantize(dy, offsets_on(device), config, transpose=True)
    b, _ = rt.grouped_quantize(x, offsets_on(device), config, transpose=True)
    into = torch.full((GROUPS, OUT, IN), 3.0, device=device) if add else None
    made = rt.grouped_gemm_fp8(a, b, padded, out_dtype=torch.float32, trans_a=True, add_to=into)
    # The same sums, of other scales: the rows of each group have one each.
    scale_a, scale_b = torch.rand(GROUPS, OUT, device=device), torch.rand(GROUPS, IN, device=device)
    of_rows = OPS.grouped_gemm_fp8(a.q_t, b.q_t, scale_a, scale_b, padded, torch.float32, True, "row")
    for g, (begin, end) in groups(padded.tolist()):
        left, right = (one.q_t[:, begin:end].double() for one in (a, b))
        plain, size = left @ right.t(), left.abs() @ right.abs().t()
        for found, factor in ((made[g] - 3.0 if add else made[g], a.scale.double() * b.scale.double()), (of_rows[g], scale_a[g, :, None].double() * scale_b[g].double())):
            assert ((found.double() - plain * factor).abs() <= size * factor * (2**-10 + 384 * 2**-23) + (1e-5 if add else 0)).all()
    assert (made[1] == (3.0 if add else 0.0)).all() and not of_rows[1].any()  # no rows


@pytest.mark.parametrize("config", [BLOCKS, rt.QuantConfig(granularity="rowwise"), rt.QuantConfig(granularity="tensorwise")], ids=lambda one: one.granularity)
@pytest.mark.parametrize("out", [OUT, 256])
def test_codes_of_a_stack_are_those_of_its_matrices(device, out, config):
    _, w = operands(device, out=out)
    made = rt.quantize(w, config, weight=True, transpose=True)
    assert made.shape == w.shape
    for g in range(GROUPS):
        one = rt.quantize(w[g], config, weight=True, transpose=True)
        for mine, its in zip((made.q, made.q_t), (one.q, one.q_t)):
            assert torch.equal(mine[g].view(torch.uint8), its.view(torch.uint8))
        assert torch.equal(made.scale[g], one.scale) and torch.equal(made.scale_t[g], one.scale_t)
        assert torch.equal(made.dequantize()[g], one.dequantize())
    with pytest.raises(ValueError, match="scales by 128x128"):
        rt.quantize(w, BLOCKS)
    with pytest.raises(ValueError, match="scales by mx; a stack"):
        rt.quantize(w, rt.QuantConfig(granularity="mx"))


@pytest.mark.parametrize("add", [False, True])
def test_sums_over_the_rows_of_groups(device, add):
    x, _ = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    a, padded = rt.grouped_quantize(dy, offsets_on(device), BLOCKS, transpose=True)
    b, _ = rt.grouped_quantize(x, offsets_on(device), BLOCKS, transpose=True)
    into = torch.full((GROUPS, OUT, IN), 3.0, device=device) if add else None
    made = rt.grouped_gemm_fp8(a, b, padded, out_dtype=torch.float32, trans_a=True, add_to=into)
    assert (made is into) == add
    for g, (begin, end) in groups(padded.tolist()):
        left = scaled(a.q_t[:, begin:end].contiguous(), a.scale_t[begin // 128 : end // 128], "1x128") if end > begin else torch.zeros(OUT, 1).double()
        right = scaled(b.q_t[:, begin:end].contiguous(), b.scale_t[begin // 128 : end // 128], "1x128") if end > begin else torch.zeros(IN, 1).double()
        found = made[g] - 3.0 if add else made[g]
        bound = (left.abs() @ right.abs().t()) * (2**-10 + 384 * 2**-23) + (1e-5 if add else 0)
        assert ((found.cpu().double() - left @ right.t()).abs() <= bound).all()
    assert (made[1] == (3.0 if add else 0.0)).all()  # no rows


def exact(x, w, dy, offsets=OFFSETS):
    """y, dx, dw in float64."""
    x, w, dy = (t.detach().cpu().double() for t in (x, w, dy))
    y, dx, dw = torch.zeros(ROWS, w.shape[1]).double(), torch.zeros_like(x), torch.zeros_like(w)
    for g, (begin, end) in groups(offsets):
        y[begin:end] = x[begin:end] @ w[g].t()
        dx[begin:end] = dy[begin:end] @ w[g]
        dw[g] = dy[begin:end].t() @ x[begin:end]
    return y, dx, dw


def off(found, right):
    return ((found.cpu().double() - right).norm() / right.norm()).item()


ROWS_ALONE = rt.QuantConfig(granularity="rowwise")
ROWWISE = rt.Recipe(ROWS_ALONE, rt.QuantConfig("hybrid", "rowwise"), BLOCKS)
ROWWISE_DW = rt.Recipe(ROWS_ALONE, ROWS_ALONE, rt.QuantConfig("hybrid", "rowwise"))
SCALES_OF_ROWS = ("rowwise", "rowwise_with_gw_hp", ROWWISE, ROWWISE_DW)


@pytest.mark.parametrize(
    "recipe", ["blockwise", HYBRID, rt.Recipe(BLOCKS, BLOCKS, None), rt.Recipe(None, BLOCKS, BLOCKS), None, *SCALES_OF_ROWS], ids=str
)
@pytest.mark.parametrize("kind", ["plain", "codes", "main_grad"])
def test_experts_train_within_what_8_bits_leave(device, recipe, kind):
    if kind == "codes" and (recipe is None or (isinstance(recipe, rt.Recipe) and recipe.y is None)):
        pytest.skip("a product of high precision reads no codes")
    x, w = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    x.requires_grad_(), w.requires_grad_()
    main_grad = torch.ones(w.shape, device=device) if kind == "main_grad" else None
    weight = rt.quantize(w, ROWS_ALONE if recipe in SCALES_OF_ROWS else BLOCKS, weight=True, transpose=True) if kind == "codes" else w
    y = rt.fp8_grouped_linear(x, weight, offsets_on(device), recipe, main_grad=main_grad)
    y.backward(dy)
    found = y, x.grad, w.grad if main_grad is None else main_grad - 1
    assert main_grad is None or w.grad is None
    for mine, right in zip(found, exact(x, w, dy)):
        assert off(mine, right) < (0.07 if recipe is not None else 0.01)
    for rows in (y, x.grad):
        assert not rows[: OFFSETS[0]].any() and not rows[OFFSETS[-1] :].any()


def test_an_expert_is_an_fp8_linear(device):
    """With all rows in one group: the codes are the same, so on a CPU the bits are."""
    x, w = operands(device)
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    layer = rt.Fp8Linear(IN, OUT, False, device, torch.bfloat16, BLOCKS)
    layer.weight.data.copy_(w[0])
    one, mine, stack = x.clone().requires_grad_(), x.clone().requires_grad_(), w[:1].clone().requires_grad_()
    wanted = layer(one)
    wanted.backward(dy)
    y = rt.fp8_grouped_linear(mine, stack, torch.tensor([0, ROWS], dtype=torch.int32, device=device))
    y.backward(dy)
    for found, right in ((y, wanted), (mine.grad, one.grad), (stack.grad[0], layer.weight.grad)):
        if device.type == "cpu":
            assert torch.equal(found, right)
        else:
            torch.testing.assert_close(found, right, rtol=2e-2, atol=2e-2)


def test_with_factors_it_is_that_of_swiglu(device):
    x, w = operands(device)
    both, factors = torch.randn(ROWS, 2 * IN, device=device).bfloat16().requires_grad_(), torch.rand(ROWS, device=device, requires_grad=True)
    w.requires_grad_()
    dy = torch.randn(ROWS, OUT, device=device).bfloat16()
    made = rt.fp8_grouped_linear(both, w, offsets_on(device), factors=factors)
    found = made, *torch.autograd.grad(made, (both, factors, w), dy)
    apart = rt.fp8_grouped_linear(rt.swiglu(both, probs=factors), w, offsets_on(device))
    for mine, right in zip(found, (apart, *torch.autograd.grad(apart, (both, factors, w), dy))):
        assert torch.equal(mine, right)
    with torch.no_grad():
        assert torch.equal(rt.fp8_grouped_linear(both, w, offsets_on(device), factors=factors), made)
    with pytest.raises(ValueError, match="factors, and y and dw do not read the same codes"):
        rt.fp8_grouped_linear(both, w, offsets_on(device), "rowwise", factors=factors)


def test_what_other_groups_hold_changes_nothing(device):
    x, w = operands(device)
    clean = rt.fp8_grouped_linear(x, w, offsets_on(device))
    x[OFFSETS[3] - 1] = float("nan")  # the only row of group 2
    x[0], x[-1], w[1] = float("nan"), float("inf"), float("nan")  # rows of no group, a matrix without rows
    x.requires_grad_(), w.requires_grad_()
    dirty = rt.fp8_grouped_linear(x, w, offsets_on(device))
    row = OFFSETS[3] - 1
    assert dirty[row].isnan().all()
    rest = torch.arange(ROWS, device=device) != row
    assert torch.equal(dirty[rest], clean[rest])
    dirty.backward(torch.ones_like(dirty))
    assert w.grad[2].isnan().any() and not w.grad[[0, 1, 3, 4]].isnan().any()


@pytest.mark.parametrize("along_sums", [False, True])
def test_opcheck(device, along_sums):
    x, w = operands(device)
    if along_sums:
        a, padded = rt.grouped_quantize(x, offsets_on(device), BLOCKS, transpose=True)
        given = (a.q_t, a.q_t, a.scale_t, a.scale_t, padded, torch.float32, True)
        into = (torch.zeros(GROUPS, IN, IN, device=device), *given[:5])
        torch.library.opcheck(OPS.grouped_gemm_fp8_add_.default, into, test_utils=TESTS)
    else:
        a, b = rt.quantize(x, BLOCKS), rt.quantize(w, BLOCKS, weight=True)
        given = (a.q, b.q, a.scale, b.scale, offsets_on(device), torch.bfloat16)
    torch.library.opcheck(OPS.grouped_gemm_fp8.default, given, test_utils=TESTS)


def test_compile(device):
    x, w = operands(device)
    x.requires_grad_(), w.requires_grad_()
    offsets = offsets_on(device)

    def step(x, w, offsets):
        return rt.fp8_grouped_linear(x, w, offsets) * 2

    compiled = torch.compile(step, fullgraph=True, backend="aot_eager")(x, w, offsets)
    eager = step(x, w, offsets)
    assert torch.equal(compiled, eager)
    dy = torch.randn_like(eager)
    wanted = torch.autograd.grad(eager, (x, w), dy)
    for mine, right in zip(torch.autograd.grad(compiled, (x, w), dy), wanted):
        assert torch.equal(mine, right)


def test_autocast_and_flops(device):
    from torch.utils.flop_counter import FlopCounterMode

    x, w = (t.float().requires_grad_() for t in operands(device))
    with FlopCounterMode(display=False) as counter, torch.autocast(device.type, torch.bfloat16):
        y = rt.fp8_grouped_linear(x, w, offsets_on(device))
        y.sum().backward()
    assert y.dtype == torch.bfloat16 and w.grad.dtype == torch.float32
    capacity = (ROWS + GROUPS * 127) // 128 * 128
    assert counter.get_total_flops() == 2 * IN * OUT * (2 * ROWS + capacity)


def test_second_derivatives_are_refused(device):
    x, w = operands(device, torch.float32)
    x.requires_grad_(), w.requires_grad_()
    for loss in (lambda y: y.square().sum(), lambda y: y.sum()):
        for leaf in (x, w):
            (gradient,) = torch.autograd.grad(loss(rt.fp8_grouped_linear(x, w, offsets_on(device))), leaf, create_graph=True)
            with pytest.raises(NotImplementedError, match="fp8_grouped_linear: no second derivative"):
                gradient.sum().backward()
    main_grad = torch.zeros(w.shape, device=device)
    with pytest.raises(NotImplementedError, match="main_grad takes no gradient that is to be differentiated again"):
        torch.autograd.grad(rt.fp8_grouped_linear(x, w, offsets_on(device), main_grad=main_grad).sum(), w, create_graph=True)
    assert not main_grad.any()


def test_wrong_offsets_are_named_on_a_processor(on_cpu):
    x, w = operands(torch.device("cpu"))
    with pytest.raises(ValueError, match="offset 2 is 5, after 40 and of 320 rows"):
        rt.fp8_grouped_linear(x, w, torch.tensor([3, 40, 5, 41, 120, 150]))
    a, _ = rt.grouped_quantize(x, torch.tensor(OFFSETS), BLOCKS, transpose=True)
    with pytest.raises(ValueError, match="offset 1 is 100, and 128 rows are a step of the sums"):
        rt.grouped_gemm_fp8(a, a, torch.tensor([0, 100, 256]), trans_a=True)


def test_wrong_offsets_stay_within_the_matrices_on_a_gpu(on_gpu, device):
    x, w = operands(device)
    a, b = rt.quantize(x, BLOCKS), rt.quantize(w, BLOCKS, weight=True)
    wild = torch.tensor([-5, 40, 5, 1 << 30, 120, 150], dtype=torch.int32, device=device)
    kept = torch.tensor([0, 40, 40, ROWS, ROWS, ROWS], dtype=torch.int32, device=device)
    assert torch.equal(rt.grouped_gemm_fp8(a, b, wild, True), rt.grouped_gemm_fp8(a, b, kept, True))
    columns, _ = rt.grouped_quantize(x, offsets_on(device), BLOCKS, transpose=True)
    wild = torch.tensor([-300, 127, 200, 511, 1 << 30, 5], dtype=torch.int32, device=device)
    whole = columns.shape[0]
    kept = torch.tensor([0, 0, 128, 384, whole, whole], dtype=torch.int32, device=device)
    assert torch.equal(*(rt.grouped_gemm_fp8(columns, columns, at, trans_a=True) for at in (wild, kept)))


def test_a_graph_replays_with_other_offsets(on_gpu, device):
    x, w = operands(device)
    offsets = offsets_on(device)
    rt.fp8_grouped_linear(x, w, offsets)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rt.fp8_grouped_linear(x, w, offsets)
    offsets.copy_(torch.tensor([0, 10, 30, 31, 32, ROWS]))
    graph.replay()
    assert torch.equal(out, rt.fp8_grouped_linear(x, w, offsets))


@pytest.mark.parametrize("recipe", ["blockwise", "rowwise_with_gw_hp", "rowwise"])
def test_rows_that_are_no_multiple_of_four(on_gpu, device, recipe):
    x, w = operands(device)
    offsets = torch.tensor([0, 10, 30, 31, 32, 317], dtype=torch.int32, device=device)
    x, whole = x[:317].clone().requires_grad_(), x.clone().requires_grad_()
    y, all_rows = (rt.fp8_grouped_linear(one, w, offsets, recipe) for one in (x, whole))
    assert torch.equal(y, all_rows[:317])
    y.sum().backward(), all_rows[:317].sum().backward()
    assert torch.equal(x.grad, whole.grad[:317])


@pytest.mark.parametrize(
    "change,says",
    [
        (lambda a, b, o: (a.q, b.q, a.scale, b.scale[0], o, torch.float32), "scale_b is"),
        (lambda a, b, o: (a.q, b.q[0], a.scale, b.scale, o, torch.float32), "a matrix for each group"),
        (lambda a, b, o: (a.q, b.q, a.scale, b.scale, o[:-1], torch.float32), "there are 5 groups; give 6"),
        (lambda a, b, o: (a.q, b.q.mT, a.scale, b.scale, o, torch.float32), "what is summed over is contiguous"),
        (lambda a, b, o: (a.q.float(), b.q, a.scale, b.scale, o, torch.float32), "torch.float8_e4m3fn or"),
        (lambda a, b, o: (a.q, b.q, a.scale, b.scale, o, torch.float64), "the result cannot be torch.float64"),
    ],
)
def test_what_does_not_go_together_is_named(device, change, says):
    x, w = operands(device)
    a, b = rt.quantize(x, BLOCKS), rt.quantize(w, BLOCKS, weight=True)
    with pytest.raises(ValueError, match=says):
        OPS.grouped_gemm_fp8(*change(a, b, offsets_on(device)))
    with pytest.raises(ValueError, match="b has scales by 128x128; here they are by tensor"):
        rt.grouped_gemm_fp8(rt.quantize(x), b, offsets_on(device), True)
    with pytest.raises(ValueError, match="a has scales by mx; here they are by 1x128 or row or tensor"):
        rt.grouped_gemm_fp8(rt.quantize(x, rt.QuantConfig(granularity="mx")), b, offsets_on(device), True)
    with pytest.raises(ValueError, match="weight has scales by 128x128; here they are by row"):
        rt.fp8_grouped_linear(x, b, offsets_on(device), "rowwise_with_gw_hp")
    with pytest.raises(ValueError, match='scaling "mx" is unknown; use block, row or tensor'):
        OPS.grouped_gemm_fp8(a.q, b.q, a.scale, b.scale, offsets_on(device), torch.float32, False, "mx")
    with pytest.raises(ValueError, match="make it with transpose=True"):
        rt.grouped_gemm_fp8(a, b, offsets_on(device))
    with pytest.raises(ValueError, match="dw has granularity='mx'; give 'blockwise' or 'rowwise', whose"):
        rt.fp8_grouped_linear(x, w, offsets_on(device), rt.Recipe(BLOCKS, BLOCKS, rt.QuantConfig(granularity="mx")))
    alone = rt.quantize(x, rt.QuantConfig(granularity="rowwise"), transpose=True)  # a scale of all groups
    with pytest.raises(ValueError, match="scale_a is"):
        rt.grouped_gemm_fp8(alone, alone, torch.tensor([0, 128, 128, 128, 128, 256], device=device), trans_a=True)
