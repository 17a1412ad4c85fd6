"""Layers take what torch.nn.Linear takes, and functions broadcast as torch.matmul does."""

import subprocess
import sys

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig

CONFIGS = [None, QuantConfig("hybrid", "rowwise")]

INPUTS = {
    "vector": lambda x: x[0],
    "matrix": lambda x: x,
    "three dimensions": lambda x: x.view(2, 3, 8),
    "five dimensions": lambda x: x.view(1, 3, 1, 2, 8),
    "one row expanded": lambda x: x[0].expand(6, 8),
    "one element expanded": lambda x: x[0, :1].expand(6, 8),
    "a batch expanded": lambda x: x.expand(4, 6, 8),
    "rows and batch expanded": lambda x: x[0].expand(4, 6, 8),
    "with gaps": lambda x: x.repeat(1, 2)[:, ::2],
    "padded": lambda x: torch.cat([x, x], 1)[:, :8],
    "column-major": lambda x: x.t().contiguous().t(),
    "interleaved": lambda x: x.view(2, 3, 8).transpose(0, 1),
    "no rows": lambda x: x[:0],
    "no batch": lambda x: x.view(2, 3, 8)[:0],
}


def step(layer, x):
    x = x.detach().clone() if x.is_contiguous() else x.detach()
    leaf = x.requires_grad_()
    layer.zero_grad()
    out = layer(leaf)
    out.square().sum().backward()
    return out, leaf.grad, layer.weight.grad, layer.bias.grad


@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
@pytest.mark.parametrize("kind", list(INPUTS))
def test_layers_take_every_input_that_torch_takes(device, kind, config):
    theirs = torch.nn.Linear(8, 4, device=device)
    ours = rt.Linear.from_float(theirs) if config is None else rt.Fp8Linear.from_float(theirs, config)
    x = INPUTS[kind](torch.randn(6, 8, device=device))
    for want, have in zip([t.clone() for t in step(theirs, x)], step(ours, x), strict=True):
        assert want.shape == have.shape
        if want.numel():
            testing.assert_snr(want.double(), have, 90 if config is None else 17)


@pytest.mark.filterwarnings("ignore:Initializing zero-element tensors")
@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
@pytest.mark.parametrize("sizes", [(0, 4), (4, 0)])
def test_layers_without_features(device, sizes, config):
    theirs = torch.nn.Linear(*sizes, device=device)
    ours = rt.Linear.from_float(theirs) if config is None else rt.Fp8Linear.from_float(theirs, config)
    for shape in ((), (3,), (2, 3)):
        x = torch.randn(*shape, sizes[0], device=device)
        for want, have in zip([t.clone() for t in step(theirs, x)], step(ours, x), strict=True):
            assert torch.equal(want, have)


@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
@pytest.mark.parametrize("shape", [(4, 6), (4, 16), (16,), (2, 3, 4), ()])
def test_a_wrong_width_is_named(device, shape, config):
    layer = rt.Linear(8, 4, device=device) if config is None else rt.Fp8Linear(8, 4, device=device, config=config)
    with pytest.raises(ValueError, match=r"in_features=8 of the weight, of shape \(4, 8\)") as info:
        layer(torch.randn(shape, device=device))
    assert str(shape) in str(info.value)


BROADCASTS = {
    "3-D by 2-D": ((3, 6, 8), (8, 4)),
    "2-D by 3-D": ((6, 8), (3, 8, 4)),
    "batch 1 on the left": ((1, 6, 8), (3, 8, 4)),
    "batch 1 on the right": ((3, 6, 8), (1, 8, 4)),
    "batch 1 of one": ((1, 6, 8), (8, 4)),
    "4-D by 4-D": ((2, 3, 6, 8), (2, 3, 8, 4)),
    "4-D by 2-D": ((2, 3, 6, 8), (8, 4)),
    "4-D by 3-D": ((2, 3, 6, 8), (3, 8, 4)),
    "both broadcast": ((2, 1, 6, 8), (1, 3, 8, 4)),
    "2-D by 4-D of ones": ((6, 8), (1, 1, 8, 4)),
    "5-D": ((2, 1, 3, 6, 8), (5, 1, 8, 4)),
    "no batch": ((0, 6, 8), (8, 4)),
    "no batch of both": ((2, 0, 6, 8), (2, 0, 8, 4)),
    "no rows": ((3, 0, 8), (3, 8, 4)),
    "no terms": ((3, 6, 0), (0, 4)),
}


@pytest.mark.parametrize("trans_a,trans_b", [(False, False), (False, True), (True, False), (True, True)])
@pytest.mark.parametrize("case", list(BROADCASTS))
def test_gemm_broadcasts_as_matmul(device, case, trans_a, trans_b):
    left, right = BROADCASTS[case]
    a, b = torch.randn(left, device=device), torch.randn(right, device=device)
    bias, residual = torch.randn(4, device=device), torch.randn(torch.broadcast_shapes(left[:-2], right[:-2]) + (left[-2], 4), device=device)
    stored = [x.transpose(-1, -2).contiguous() if flag else x for x, flag in ((a, trans_a), (b, trans_b))]

    def run(function, *operands):
        operands = [x.detach().double() if function is reference else x.detach() for x in operands]
        operands = [x.requires_grad_() for x in operands]
        out = function(*operands)
        return out, *torch.autograd.grad(out.square().sum(), operands)

    def ours(a, b, bias, residual):
        return rt.gemm(a, b, trans_a, trans_b, bias=bias, residual=residual, activation="silu")

    def reference(a, b, bias, residual):
        a, b = (x.transpose(-1, -2) if flag else x for x, flag in ((a, trans_a), (b, trans_b)))
        return torch.nn.functional.silu(torch.matmul(a, b) + bias) + residual

    expected = run(reference, *stored, bias, residual)
    for want, have in zip(expected, run(ours, *stored, bias, residual), strict=True):
        assert want.shape == have.shape
        if want.numel():
            testing.assert_snr(want, have, 100)
    with torch.inference_mode():
        out = ours(*stored, bias, residual)
        assert out.shape == expected[0].shape
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert ours(*stored, bias, residual).dtype == torch.bfloat16
    meta = ours(*(x.to("meta") for x in (*stored, bias, residual)))
    assert meta.shape == expected[0].shape


def test_heads_that_are_interleaved_and_a_batch_that_is_expanded_are_copied(device):
    q, k = (torch.randn(2, 6, 3, 8, device=device).transpose(1, 2) for _ in range(2))
    testing.assert_snr(q.double() @ k.double().transpose(-1, -2), rt.gemm(q, k, trans_b=True), 100)
    heads = torch.randn(6, 3, 8, device=device).transpose(0, 1)
    one = torch.randn(8, 4, device=device)
    testing.assert_snr(heads.double() @ one.double(), rt.gemm(heads, one.expand(3, 8, 4)), 100)


def test_a_single_matrix_is_one_product_with_all_rows_and_is_not_copied(device):
    x, w = torch.randn(3, 5, 6, 8, device=device), torch.randn(4, 8, device=device)
    with torch.profiler.profile() as profile:
        rt.gemm(x, w, trans_b=True)
    names = [event.name for event in profile.events()]
    assert not [name for name in names if "copy" in name or "clone" in name or "contiguous" in name], names


def test_leading_sizes_that_do_not_go_together_are_named(device):
    for left, right in (((2, 6, 8), (3, 8, 4)), ((2, 3, 6, 8), (2, 8, 4))):
        with pytest.raises(ValueError, match=r"the leading sizes of a.*make each pair of them equal"):
            rt.gemm(torch.ones(left, device=device), torch.ones(right, device=device))


@pytest.mark.parametrize("shape", [(4, 8), (1, 4, 8), (3, 4, 8)])
def test_main_grad_of_a_broadcast_product(device, shape):
    x, w = torch.randn(3, 6, 8, device=device), torch.randn(shape, device=device, requires_grad=True)
    main_grad = torch.zeros(shape, device=device)
    rt.gemm(x, w, trans_b=True, main_grad=main_grad).sum().backward()
    rows = x.sum(1, keepdim=True).expand(3, 4, 8)
    testing.assert_snr((rows if shape[0] == 3 else rows.sum(0).view(shape)).double(), main_grad, 100)
    assert w.grad is None
    with pytest.raises(ValueError, match="main_grad"):
        rt.gemm(x, w, trans_b=True, main_grad=torch.zeros(5, 5, device=device))
    if shape[0] == 3:
        with pytest.raises(NotImplementedError, match="leave main_grad out"):
            rt.gemm(x[None].expand(2, 3, 6, 8), w, trans_b=True, main_grad=main_grad)


@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
@pytest.mark.parametrize("trans_a,trans_b", [(False, True), (False, False), (True, True)])
def test_gemm_fp8_takes_leading_dimensions(device, granularity, trans_a, trans_b):
    config = QuantConfig("hybrid", granularity)
    x, w = torch.randn(2, 3, 6, 32, device=device), torch.randn(4, 32, device=device)
    stored = x.transpose(-1, -2).contiguous() if trans_a else x
    weight = w if trans_b else w.t().contiguous()

    def run(a, trans_a, quantised):
        a, b = a.detach().requires_grad_(), weight.detach().requires_grad_()
        factor = rt.quantize(b, config, weight=True, transpose=True) if quantised else b
        out = rt.gemm_fp8(a, factor, trans_a, trans_b, config=config)
        return out, *torch.autograd.grad(out.square().sum(), (a, b))

    expected = run(x.flatten(0, 2), False, False)
    for quantised in (False, True):
        out, grad_a, grad_b = run(stored, trans_a, quantised)
        assert out.shape == (2, 3, 6, 4) and torch.equal(out.flatten(0, 2), expected[0])
        assert torch.equal((grad_a.transpose(-1, -2) if trans_a else grad_a).flatten(0, 2), expected[1])
        assert torch.equal(grad_b, expected[2])
    with pytest.raises(ValueError, match="give a matrix b"):
        rt.gemm_fp8(x, torch.ones(2, 3, 32, 4, device=device))


@pytest.mark.parametrize("dynamic", [False, True])
def test_broadcast_products_and_layers_compile_as_one_graph(device, dynamic):
    torch._dynamo.reset()
    layer, b = rt.Linear(8, 4, device=device), torch.randn(3, 4, 5, device=device)

    def model(x):
        return rt.gemm(layer(x), b).square().sum()

    compiled = torch.compile(model, fullgraph=True, dynamic=dynamic, backend="aot_eager")
    for rows in (6, 7):
        x = torch.randn(2, 1, rows, 8, device=device, requires_grad=True)
        for want, have in zip(torch.autograd.grad(model(x), (x, layer.weight)), torch.autograd.grad(compiled(x), (x, layer.weight)), strict=True):
            torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-4)


def flops(call):
    with torch.utils.flop_counter.FlopCounterMode(display=False) as counter:
        call()
    return counter.get_total_flops()


@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
def test_operations_are_counted_as_those_of_torch(device, config):
    theirs = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.SiLU(), torch.nn.Linear(32, 4)).to(device)
    ours = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.SiLU(), torch.nn.Linear(32, 4)).to(device)
    rt.swap_linears(ours, config)
    x = torch.randn(2, 16, 8, device=device, requires_grad=True)
    expected = flops(lambda: theirs(x).sum().backward())
    assert expected == 3 * 2 * 32 * (8 * 32 + 32 * 4)
    assert flops(lambda: ours(x).sum().backward()) == expected
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert flops(lambda: ours(x.detach())) == expected // 3
    for layer in (ours[0], ours[2]):
        layer.weight.main_grad = torch.zeros_like(layer.weight)
    assert flops(lambda: ours(x).sum().backward()) == expected


def test_operations_of_batches_are_counted(device):
    a, b = torch.randn(2, 1, 6, 8, device=device), torch.randn(3, 8, 4, device=device)
    with torch.inference_mode():
        assert flops(lambda: rt.gemm(a, b)) == 2 * 3 * 2 * 6 * 8 * 4
    assert flops(lambda: rt.gemm(a.mT.contiguous(), b.mT.contiguous(), True, True)) == 2 * 3 * 2 * 6 * 8 * 4


def test_counting_is_set_up_when_the_counter_is_imported_after_us():
    code = (
        "import importlib.util, sys, ridgeline.torch as rt, torch; assert 'torch.utils.flop_counter' not in sys.modules, 'imported already'\n"
        "assert importlib.util.find_spec('torch.utils.flop_counter') and 'torch.utils.flop_counter' not in sys.modules\n"
        "from torch.utils.flop_counter import flop_registry; assert torch.ops.ridgeline.gemm in flop_registry\n"
        "assert not any(getattr(each, '_module', '') == 'torch.utils.flop_counter' for each in sys.meta_path)"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)


@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
def test_symbolic_traces_run_and_compute_the_same(device, config):
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.SiLU(), torch.nn.Linear(32, 4)).to(device)
    rt.swap_linears(model, config)
    traced = torch.fx.symbolic_trace(model)
    for shape in ((6, 8), (2, 3, 8), (8,)):
        x = torch.randn(shape, device=device)
        assert torch.equal(traced(x), model(x))
    model[0].weight.main_grad = torch.zeros_like(model[0].weight)
    traced(torch.randn(6, 8, device=device)).sum().backward()
    assert model[0].weight.grad is None and model[0].weight.main_grad.any()


def test_functions_are_traced_symbolically(device):
    codes = rt.quantize(torch.randn(4, 8, device=device))

    def function(x, w, c):
        made = rt.gemm_fp8(x, rt.quantize(w, weight=True), trans_b=True, bias=c)
        return rt.gemm(x, w, trans_b=True, activation="silu") + made + rt.gemm_fp8(x, w, trans_b=True) + rt.gemm_fp8(x, codes, trans_b=True)

    operands = torch.randn(6, 8, device=device), torch.randn(4, 8, device=device), torch.randn(4, device=device)
    traced = torch.fx.symbolic_trace(function)
    assert torch.equal(traced(*operands), function(*operands))
    assert [node.name for node in traced.graph.nodes if "quantize" in node.name] == ["quantize"]


def test_a_profile_names_the_operators_with_their_shapes(device):
    x, w = torch.randn(6, 8, device=device, requires_grad=True), torch.randn(4, 8, device=device, requires_grad=True)
    with torch.profiler.profile(record_shapes=True) as profile:
        (rt.gemm(x, w, trans_b=True) + rt.gemm_fp8(x, w, trans_b=True)).sum().backward()
    shapes = {event.name: event.input_shapes[:2] for event in profile.events()}
    assert shapes["ridgeline::gemm_fp8"] == [[6, 8], [4, 8]]
    assert shapes["ridgeline::quantize"][0] and shapes["ridgeline::gemm_fp8_scaled"][0]
    for name in ("RidgelineGemmBackward", "RidgelineGemmFp8Backward"):
        assert shapes[name] == [[6, 4]]
    assert rt.gemm(x, w, trans_b=True).grad_fn.name() == "RidgelineGemmBackward"


def test_the_version_is_said():
    import ridgeline

    assert rt.__version__ == ridgeline.__version__ and rt.__version__[0].isdigit()


def test_what_ran_of_an_unknown_operator_is_an_error():
    with pytest.raises(ValueError, match="gemm_fp8"):
        rt.last_used("matmul")
    assert isinstance(rt.last_used("dequantize"), str)


def test_explain_takes_dtypes_of_torch():
    sizes = {"m": 64, "n": 64, "k": 64}
    for dtype, name in ((torch.float32, "f32"), (torch.bfloat16, "bf16"), (torch.float16, "f16")):
        assert rt.explain("gemm", **sizes, dtype=dtype, accumulate=True) == rt.explain(f"gemm m=64 n=64 k=64 dtype={name} accumulate=1")
    pair = (torch.float8_e5m2, torch.float8_e4m3fn)
    assert rt.explain("gemm_fp8", **sizes, dtype=pair, out=torch.float32) == rt.explain("gemm_fp8 m=64 n=64 k=64 dtype=e5m2_e4m3fn out=f32")
    assert rt.explain("gemm_fp8", **sizes, dtype=(pair[0], pair[0])) == rt.explain("gemm_fp8 m=64 n=64 k=64 dtype=e5m2")
    with pytest.raises(ValueError, match=r"dtype=torch.int8.*use one of torch.float32"):
        rt.explain("gemm", dtype=torch.int8)
