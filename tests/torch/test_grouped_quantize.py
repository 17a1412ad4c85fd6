"""grouped_quantize against quantize of the rows of groups with zeros between them, bit for bit."""

import pytest
import torch

import ridgeline.torch as rt

OFFSETS = [3, 140, 140, 141, 270, 300]  # rows before and behind, a group without rows, one of a single row
ROWS, COLS = 310, 264


def offsets_on(device, dtype=torch.int32):
    return torch.tensor(OFFSETS, dtype=dtype, device=device)


def padded_rows(x, align, capacity):
    """The matrix that is quantised, and where groups begin in it."""
    parts, begins = [], [0]
    for begin, end in zip(OFFSETS[:-1], OFFSETS[1:]):
        rows = -(-(end - begin) // align) * align
        parts += [x[begin:end], x.new_zeros(rows - (end - begin), x.shape[1])]
        begins.append(begins[-1] + rows)
    return torch.cat([*parts, x.new_zeros(capacity - begins[-1], x.shape[1])]), begins


def bits(tensor):
    return None if tensor is None else tensor.view(torch.uint8) if tensor.element_size() == 1 else tensor


@pytest.mark.parametrize("index", [torch.int32, torch.int64])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
@pytest.mark.parametrize(
    "granularity,align,transpose",
    [("blockwise", 128, True), ("blockwise", 16, False), ("mx", 32, True), ("rowwise", 16, False), ("tensorwise", 64, True)],
)
def test_is_quantize_of_the_padded_rows(device, dtype, granularity, align, transpose, index):
    config = rt.QuantConfig(granularity=granularity)
    x = torch.randn(ROWS, COLS, device=device).to(dtype)
    made, padded = rt.grouped_quantize(x, offsets_on(device, index), config, align=align, transpose=transpose)
    capacity = (ROWS + 5 * (align - 1)) // align * align
    assert made.shape == (capacity, COLS) and made.dtype == dtype and padded.dtype == index
    y, begins = padded_rows(x, align, capacity)
    right = rt.quantize(y, config, transpose=transpose)
    assert padded.tolist() == begins
    for name in ("q", "scale", "q_t", "scale_t"):
        have, want = bits(getattr(made, name)), bits(getattr(right, name))
        assert (have is None) == (want is None) and (have is None or torch.equal(have, want)), name


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_a_row_of_the_transpose_has_a_scale_for_each_group(device, dtype):
    config = rt.QuantConfig(granularity="rowwise")
    x = torch.randn(ROWS, COLS, device=device).to(dtype)
    made, padded = rt.grouped_quantize(x, offsets_on(device), config, transpose=True)
    assert made.scale.shape == (made.shape[0],) and made.scale_t.shape == (5, COLS)
    for g, (begin, end, first, last) in enumerate(zip(OFFSETS[:-1], OFFSETS[1:], padded.tolist()[:-1], padded.tolist()[1:])):
        if begin == end:
            assert (made.scale_t[g] == 1).all()
            continue
        right = rt.quantize(x[begin:end], config, transpose=True)
        assert torch.equal(made.scale_t[g], right.scale_t), g
        assert torch.equal(bits(made.q_t)[:, first : first + end - begin], bits(right.q_t)), g
        assert not bits(made.q_t)[:, first + end - begin : last].any()
    assert not bits(made.q_t)[:, int(padded[-1]) :].any()


def test_rows_of_no_group_are_not_looked_at(device):
    config = rt.QuantConfig()
    x = torch.randn(ROWS, COLS, device=device)
    clean, _ = rt.grouped_quantize(x, offsets_on(device), config)
    x[:3], x[300:] = torch.nan, 1e30
    dirty, _ = rt.grouped_quantize(x, offsets_on(device), config)
    assert torch.equal(bits(clean.q), bits(dirty.q)) and torch.equal(clean.scale, dirty.scale)


def test_a_product_of_groups_takes_the_padded_offsets(device):
    x, weights = torch.randn(ROWS, COLS, device=device), torch.randn(5, 40, COLS, device=device)
    made, padded = rt.grouped_quantize(x, offsets_on(device), rt.QuantConfig(granularity="blockwise"), align=16)
    out = rt.grouped_gemm(made.dequantize(), weights, padded, True)
    plain = rt.grouped_gemm(x, weights, offsets_on(device), True)
    for begin, end, at in zip(OFFSETS[:-1], OFFSETS[1:], padded.tolist()):
        error = (out[at : at + end - begin] - plain[begin:end]).norm()
        assert error <= 0.04 * plain[begin:end].norm()
    assert not out[int(padded[-1]) :].any()


@pytest.mark.parametrize("granularity", ["1x128", "row"])
@pytest.mark.parametrize("column", [False, True])
def test_opcheck_and_compile(device, column, granularity):
    arguments = (torch.randn(40, 24, device=device), torch.tensor([0, 7, 40], device=device), torch.float8_e4m3fn, granularity, "exact", 128, True, column)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")  # the rest compares 8-bit floats, for which torch has no allclose
    torch.library.opcheck(torch.ops.ridgeline.grouped_quantize.default, arguments, test_utils=tests)
    compiled = torch.compile(lambda x, at: torch.ops.ridgeline.grouped_quantize(x, at, *arguments[2:])[4] * 2, fullgraph=True, backend="aot_eager", dynamic=True)
    assert compiled(*arguments[:2]).tolist() == [0, 256, 512]


def codes_of_groups(x, offsets, of="rows", granularity="1x128", **more):
    return torch.ops.ridgeline.grouped_codes(x, offsets, torch.float8_e4m3fn, granularity, "exact" if granularity == "1x128" else "floor", of, **more)


@pytest.mark.parametrize("of", ["rows", "swiglu", "swiglu_backward"])
@pytest.mark.parametrize("granularity", ["blockwise", "mx"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_codes_of_rows_where_they_lie_and_of_what_swiglu_makes_of_them(device, dtype, granularity, of):
    config = rt.QuantConfig(granularity=granularity)
    x, offsets, probs = torch.randn(ROWS, 2 * COLS, device=device).to(dtype), offsets_on(device), torch.rand(ROWS, device=device)
    dy = torch.randn(ROWS, COLS, device=device).to(dtype) if of == "swiglu_backward" else None
    if of == "rows":
        probs, made = None, x
    elif of == "swiglu":
        made = rt.swiglu(x, probs=probs)
    else:
        made = torch.ops.ridgeline.activation_backward(dy, x, None, probs, None, "silu", True, 1.702, 7.0, True, False, False)[0]
    *found, padded, dprobs = codes_of_groups(x, offsets, of, config.grouping(), dy=dy, probs=probs)
    right, begins = rt.grouped_quantize(made, offsets, config, transpose=True)
    made[: OFFSETS[0]], made[OFFSETS[-1] :] = 0, 0
    along = rt.quantize(made, config)
    for have, want in zip(found, (along.q, along.scale, right.q_t, right.scale_t)):
        assert have.dtype == want.dtype and torch.equal(have.view(torch.uint8), want.view(torch.uint8))
    assert torch.equal(padded, begins) and dprobs.numel() == 0


@pytest.mark.parametrize("granularity", ["1x128", "mx"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_rows_that_an_index_names_are_coded_as_their_copies(device, dtype, granularity):
    tokens = torch.randn(90, COLS, device=device).to(dtype)
    index = torch.randint(-1, 90, (ROWS, 1), device=device, dtype=torch.int32)
    found = codes_of_groups(tokens, offsets_on(device), granularity=granularity, index=index)
    right = codes_of_groups(rt.combine_rows(tokens, index), offsets_on(device), granularity=granularity)
    for mine, other in zip(found, right):
        assert mine.dtype == other.dtype and torch.equal(mine.view(torch.uint8), other.view(torch.uint8))
    if device.type == "cpu":
        index[OFFSETS[2]] = 90
        with pytest.raises(ValueError, match=f"index {OFFSETS[2]} is 90, of 90 rows of x"):
            codes_of_groups(tokens, offsets_on(device), index=index)


@pytest.mark.parametrize("width", [COLS, 256])  # a GPU makes both gradients of one copy where halves are of whole tiles
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_the_gradient_of_factors_comes_with_the_codes(device, dtype, width):
    x, dy = torch.randn(ROWS, 2 * width, device=device).to(dtype), torch.randn(ROWS, width, device=device).to(dtype)
    offsets, probs = offsets_on(device), torch.rand(ROWS, device=device)
    x[0], dy[-1] = torch.nan, torch.inf  # rows of no group
    *codes, found = codes_of_groups(x, offsets, "swiglu_backward", dy=dy, probs=probs, need_dprobs=True)
    for mine, alone in zip(codes, codes_of_groups(x, offsets, "swiglu_backward", dy=dy, probs=probs)):
        assert torch.equal(bits(mine) if mine.dtype.itemsize == 1 else mine, bits(alone) if mine.dtype.itemsize == 1 else alone)
    right = torch.ops.ridgeline.activation_backward(dy, x, None, probs, None, "silu", True, 1.702, 7.0, True, False, True)[2]
    right[: OFFSETS[0]], right[OFFSETS[-1] :] = 0, 0
    if device.type == "cpu":
        assert torch.equal(found, right)
    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
    assert torch.equal(found, codes_of_groups(x, offsets, "swiglu_backward", dy=dy, probs=probs, need_dprobs=True)[5])


def test_codes_of_groups_compile_and_have_no_gradient(device):
    x, offsets, dy = torch.randn(40, 24, device=device), torch.tensor([0, 7, 40], device=device), torch.randn(40, 12, device=device)
    tests = ("test_schema", "test_autograd_registration", "test_faketensor")
    for more in ((), ("swiglu", None, torch.rand(40, device=device)), ("swiglu_backward", dy, torch.rand(40, device=device), True), ("rows", None, None, False, torch.arange(40, device=device, dtype=torch.int32))):
        arguments = (x, offsets, torch.float8_e4m3fn, "1x128", "exact", *more)
        torch.library.opcheck(torch.ops.ridgeline.grouped_codes.default, arguments, test_utils=tests)
    with pytest.raises(NotImplementedError, match="grouped_codes: no derivative"):
        codes_of_groups(x.requires_grad_(), offsets, "swiglu")[1].sum().backward()


@pytest.mark.parametrize(
    "more,says",
    [
        ({"of": "silu"}, 'of "silu" is unknown'),
        ({"granularity": "row"}, 'granularity "row"; use 1x128 or mx'),
        ({"of": "swiglu_backward"}, 'of "swiglu_backward" without dy'),
        ({"dy": torch.ones(40, 12)}, 'dy is for of "swiglu_backward" alone'),
        ({"probs": torch.ones(40)}, "probs of rows that are coded as they are"),
        ({"of": "swiglu", "probs": torch.ones(40), "need_dprobs": True}, 'need_dprobs is for of "swiglu_backward" with probs alone'),
        ({"of": "swiglu", "index": torch.zeros(40, dtype=torch.int32)}, 'index is for of "rows" alone'),
        ({"index": torch.zeros(2, 20, dtype=torch.int32)}, "index has shape"),
        ({"of": "swiglu_backward", "dy": torch.ones(40, 12), "need_dprobs": True}, 'need_dprobs is for of "swiglu_backward" with probs alone'),
        ({"of": "swiglu", "probs": torch.ones(39)}, "probs"),
        ({"of": "swiglu_backward", "dy": torch.ones(40, 24)}, "dy"),
    ],
    ids=str,
)
def test_codes_of_groups_say_what_is_wrong(more, says):
    with pytest.raises(ValueError, match=says):
        codes_of_groups(torch.ones(40, 24), torch.tensor([0, 7, 40]), **more)


def test_there_is_no_gradient(device):
    x = torch.randn(40, 24, device=device, requires_grad=True)
    scale = torch.ops.ridgeline.grouped_quantize(x, torch.tensor([0, 7, 40], device=device), torch.float8_e4m3fn, "1x128")[1]
    with pytest.raises(NotImplementedError, match="grouped_quantize: no derivative"):
        scale.sum().backward()


def test_wrong_offsets_are_named_on_a_processor(on_cpu):
    with pytest.raises(ValueError, match="grouped_quantize: offset 2 is 5, after 40 and of 310 rows"):
        rt.grouped_quantize(torch.randn(ROWS, COLS), torch.tensor([3, 40, 5, 41, 120, 300]))


def same(ours, theirs):
    """Codes, scales and offsets of both copies."""
    (made, padded), (right, begins) = ours, theirs
    return torch.equal(padded, begins) and all(torch.equal(bits(getattr(made, name)), bits(getattr(right, name))) for name in ("q", "scale", "q_t", "scale_t"))


def test_wrong_offsets_are_the_nearest_on_a_gpu(on_gpu, device):
    x, config = torch.randn(ROWS, COLS, device=device), rt.QuantConfig(granularity="blockwise")
    wrong, nearest = torch.tensor([[-5, 40, 5, 1 << 30, 120, 150], [0, 40, 40, 310, 310, 310]], device=device)
    assert same(*(rt.grouped_quantize(x, at, config, transpose=True) for at in (wrong, nearest)))


def test_a_graph_replays_with_other_offsets(on_gpu, device):
    x, config, offsets = torch.randn(ROWS, COLS, device=device), rt.QuantConfig(granularity="blockwise"), offsets_on(device)
    rt.grouped_quantize(x, offsets, config, transpose=True)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        out = rt.grouped_quantize(x, offsets, config, transpose=True)
    offsets.copy_(torch.tensor([0, 10, 30, 31, 32, 300]))
    graph.replay()
    assert same(out, rt.grouped_quantize(x, offsets, config, transpose=True))
