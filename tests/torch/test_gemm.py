"""gemm and its gradients against float64, with the operator's own error model."""

import math

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
LAYOUTS = [(False, False), (False, True), (True, False), (True, True)]
ACTIVATIONS = ["gelu", "gelu_tanh", "silu"]


def operands(m, n, k, trans_a, trans_b, dtype, device, batch=()):
    a = torch.randn(*batch, *((k, m) if trans_a else (m, k)), device=device).to(dtype)
    b = torch.randn(*batch, *((n, k) if trans_b else (k, n)), device=device).to(dtype)
    return a, b


def assert_within_bound(a, b, out, trans_a, trans_b):
    expected = testing.gemm_reference(a, b, trans_a, trans_b)
    excess = (expected - out.detach().cpu().double()).abs() - testing.gemm_bound(a, b, out, trans_a, trans_b)
    assert excess.max().item() <= 0


@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES)
def test_every_layout_and_dtype_keeps_the_error_model(device, dtype, trans_a, trans_b):
    for m, n, k in [(64, 48, 80), (1, 40, 24), (33, 1, 65), (16, 16, 1)]:
        a, b = operands(m, n, k, trans_a, trans_b, dtype, device)
        assert_within_bound(a, b, rt.gemm(a, b, trans_a, trans_b), trans_a, trans_b)
        assert_within_bound(a, b, rt.gemm(a, b, trans_a, trans_b, torch.float32), trans_a, trans_b)


def test_a_result_that_is_off_leaves_the_error_model():
    a, b = operands(64, 48, 80, False, True, torch.float32, "cpu")
    out = rt.gemm(a, b, trans_b=True)
    out[3, 5] += 1e-3
    with pytest.raises(AssertionError):
        assert_within_bound(a, b, out, False, True)


@pytest.mark.parametrize("shape", [(0, 4, 4), (4, 0, 4), (4, 4, 0)])
def test_empty_products(device, shape):
    m, n, k = shape
    a, b = operands(m, n, k, False, False, torch.float32, device)
    a.requires_grad_()
    out = rt.gemm(a, b)
    assert out.shape == (m, n) and not out.any()
    out.sum().backward()
    assert a.grad.shape == a.shape and (n > 0 or not a.grad.any())


def test_batches(device):
    a, b = operands(24, 16, 32, False, True, torch.bfloat16, device, batch=(3,))
    assert_within_bound(a, b, rt.gemm(a, b, trans_b=True), False, True)


def test_column_major_and_padded_matrices_are_read_in_place(device):
    a = torch.randn(48, 64, device=device, dtype=torch.bfloat16).t()
    b = torch.randn(48, 100, device=device, dtype=torch.bfloat16)[:, :40]
    for matrix in (a, b):
        assert not matrix.is_contiguous()
    assert_within_bound(a, b, rt.gemm(a, b), False, False)


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_gradients_against_float64_autograd(device, trans_a, trans_b, activation):
    a, b = operands(40, 24, 56, trans_a, trans_b, torch.float32, device)
    bias = torch.randn(24, device=device)
    upstream = torch.randn(40, 24, device=device)
    ours = [t.clone().requires_grad_() for t in (a, b, bias)]
    exact = [t.cpu().double().requires_grad_() for t in (a, b, bias)]
    out = rt.gemm(ours[0], ours[1], trans_a, trans_b, bias=ours[2], activation=activation)
    out.backward(upstream)
    left, right = (exact[0].t() if trans_a else exact[0]), (exact[1].t() if trans_b else exact[1])
    z = left @ right + exact[2]
    functions = {
        None: lambda x: x,
        "gelu": torch.nn.functional.gelu,
        "gelu_tanh": lambda x: torch.nn.functional.gelu(x, approximate="tanh"),
        "silu": torch.nn.functional.silu,
    }
    reference = functions[activation](z)
    reference.backward(upstream.cpu().double())
    testing.assert_snr(reference, out, 120)
    for mine, theirs in zip(ours, exact):
        testing.assert_snr(theirs.grad, mine.grad, 115)


@pytest.mark.parametrize("activation", [None, "silu"])
@pytest.mark.parametrize("dtype", DTYPES)
def test_the_residual_is_added_last_and_gets_the_gradient_as_it_is(device, dtype, activation):
    a, b = operands(40, 24, 56, False, True, dtype, device)
    bias, residual = torch.randn(24, device=device).to(dtype), torch.randn(40, 32, device=device).to(dtype)[:, :24]  # padded rows
    expected = testing.gemm_reference(a, b, False, True, bias, activation, residual)
    floor = {torch.float32: 120, torch.bfloat16: 50, torch.float16: 68}[dtype]
    testing.assert_snr(expected, rt.gemm(a, b, trans_b=True, bias=bias, activation=activation, residual=residual), floor)
    leaf, weight = residual.contiguous().requires_grad_(), b.clone().requires_grad_()
    upstream = torch.randn(40, 24, device=device).to(dtype)
    out = rt.gemm(a, weight, trans_b=True, bias=bias, activation=activation, residual=leaf)
    testing.assert_snr(expected, out, floor - 6)
    out.backward(upstream)
    assert torch.equal(leaf.grad, upstream)
    (without,) = torch.autograd.grad(rt.gemm(a, weight, trans_b=True, bias=bias, activation=activation), weight, upstream)
    assert torch.equal(weight.grad, without)


def test_a_residual_that_alone_wants_a_gradient_gets_it(device):
    a, b = operands(8, 4, 6, False, False, torch.float32, device)
    residual = torch.randn(8, 4, device=device, requires_grad=True)
    rt.gemm(a, b, residual=residual).sum().backward()
    assert torch.equal(residual.grad, torch.ones_like(residual))


@pytest.mark.parametrize("activation", [None, *ACTIVATIONS])
@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_gradcheck_in_float64(on_cpu, trans_a, trans_b, activation):
    a, b = operands(5, 4, 6, trans_a, trans_b, torch.float64, "cpu")
    inputs = [t.requires_grad_() for t in (a, b, torch.randn(4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64))]

    def layer(x, y, bias, residual):
        return rt.gemm(x, y, trans_a, trans_b, bias=bias, activation=activation, residual=residual)

    assert torch.autograd.gradcheck(layer, inputs)
    if activation is None:
        assert torch.autograd.gradgradcheck(layer, inputs)


def test_gradcheck_in_float64_of_batches_and_of_main_grad(on_cpu):
    a, b = operands(3, 4, 5, False, True, torch.float64, "cpu", batch=(2,))
    assert torch.autograd.gradcheck(lambda x, y: rt.gemm(x, y, trans_b=True), (a.requires_grad_(), b.requires_grad_()))
    weight, collected = b[0].detach().requires_grad_(), torch.ones(4, 5, dtype=torch.float64)
    rt.gemm(a[0].detach(), weight, trans_b=True, main_grad=collected).sum().backward()
    torch.testing.assert_close(collected, 1 + a[0].detach().sum(0).expand(4, 5))


@pytest.mark.parametrize("trans_a,trans_b", LAYOUTS)
def test_gradcheck_of_our_own_product(device, trans_a, trans_b):
    """A product is linear in each factor, so its central difference is exact for every step: with a step of 1/2 rounding in
    float32 is all that is left. (In float64 gradcheck sees the formulas, but torch's product.)"""
    a, b = operands(5, 4, 6, trans_a, trans_b, torch.float32, device)
    bias = torch.randn(4, device=device)
    inputs = [t.requires_grad_() for t in (a, b, bias)]

    def product(x, y, z):
        return rt.gemm(x, y, trans_a, trans_b, bias=z)

    assert torch.autograd.gradcheck(product, inputs, eps=0.5, atol=1e-5, rtol=1e-5)


def test_second_derivatives(device):
    a = torch.randn(4, 5, device=device, requires_grad=True)
    b = torch.randn(5, 3, device=device, requires_grad=True)
    upstream = torch.randn(4, 3, device=device)
    (first,) = torch.autograd.grad((rt.gemm(a, b) * upstream).sum(), a, create_graph=True)
    first.square().sum().backward()
    expected = 2 * (upstream @ b.detach().t()).t() @ upstream
    torch.testing.assert_close(b.grad, expected, rtol=1e-4, atol=1e-4)


def test_only_needed_gradients_are_computed_and_only_their_inputs_saved(device):
    a, b = operands(32, 16, 24, False, False, torch.float32, device)
    saved = []

    def product(need_a, need_b):
        saved.clear()
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append(t.data_ptr()) or t, lambda t: t):
            return rt.gemm(a.detach().requires_grad_(need_a), b.detach().requires_grad_(need_b))

    product(True, False)
    assert saved == [b.data_ptr()]
    product(False, True)
    assert saved == [a.data_ptr()]
    with torch.profiler.profile() as profile:
        product(True, False).sum().backward()
    calls = [event for event in profile.events() if event.name == "ridgeline::gemm"]
    with torch.profiler.profile() as profile:
        product(True, True).sum().backward()
    more = [event for event in profile.events() if event.name == "ridgeline::gemm"]
    assert len(more) > len(calls)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("trans_b", [False, True])
def test_main_grad_collects_micro_batches(device, trans_b, dtype):
    weight = torch.randn((24, 40) if trans_b else (40, 24), device=device).to(torch.bfloat16).requires_grad_()
    main_grad = torch.zeros_like(weight, dtype=dtype).detach()
    expected = torch.zeros(weight.shape, dtype=torch.float64)
    for _ in range(3):
        x = torch.randn(32, 40, device=device).to(torch.bfloat16).requires_grad_()
        upstream = torch.randn(32, 24, device=device).to(torch.bfloat16)
        rt.gemm(x, weight, trans_b=trans_b, main_grad=main_grad).backward(upstream)
        grad = x.detach().cpu().double().t() @ upstream.cpu().double()
        expected += grad.t() if trans_b else grad
        assert x.grad is not None
    assert weight.grad is None
    testing.assert_snr(expected, main_grad, 120 if dtype == torch.float32 else 45)


def test_the_forced_implementation_runs(on_cpu):
    a, b = operands(16, 16, 16, False, False, torch.float32, "cpu")
    try:
        rt.set_backend("gemm", "reference")
        rt.gemm(a, b)
        assert rt.last_used("gemm") == "reference"
    finally:
        rt.set_backend("gemm", None)
    rt.gemm(a, b)
    assert rt.last_used("gemm") == next(name for name in rt.backends("gemm") if name not in ("cpu_amx", "cpu_bf16dot")) == "cpu_simd"


@pytest.fixture
def as_it_began():
    yield
    rt.reset()


def ran(dtype):
    rt.gemm(*(torch.ones(16, 16, dtype=dtype) for _ in range(2)))
    return rt.last_used("gemm")


def test_backends_are_forced_by_dtype_in_the_form_of_the_environment(on_cpu, as_it_began, monkeypatch):
    rt.set_backend("gemm", "bf16:reference,other:cpu_simd")
    assert (ran(torch.bfloat16), ran(torch.float16), ran(torch.float32)) == ("reference", "cpu_simd", "cpu_simd")
    for wrong, message in (
        ("bf16:cpu_simd,other:fastest", r"fastest.*cpu_simd"),
        ("bf16:cpu_simd,reference", "names no dtype"),
        ("bf17:cpu_simd", "is not a dtype"),
        ("", "cpu_simd"),
    ):
        with pytest.raises(ValueError, match=message):
            rt.set_backend("gemm", wrong)
    assert ran(torch.bfloat16) == "reference"  # as before
    rt.set_backend("gemm", "bf16:cpu_simd")
    monkeypatch.setenv("RIDGE_GEMM_BACKEND", "f16:reference")
    assert ran(torch.float16) != "reference"  # the variable was read before
    rt.reset()
    assert ran(torch.float16) == "reference" and ran(torch.bfloat16) != "reference"


def test_reset_forgets_what_was_forced_and_what_was_measured(on_cpu, as_it_began, monkeypatch, tmp_path):
    monkeypatch.setenv("RIDGE_CACHE_DIR", str(tmp_path))
    rt.reset()
    case = {"m": 48, "n": 80, "k": 56, "dtype": "f32"}
    a, b = operands(48, 80, 56, False, False, torch.float32, "cpu")
    rt.set_backend("gemm", "autotune")
    rt.gemm(a, b)
    (kept,) = (tmp_path / "tuned").glob("*.jsonl")
    assert "preferred by the tuned table" in rt.explain("gemm", **case)
    rt.reset()
    assert "preferred by the tuned table" in rt.explain("gemm", **case)  # read again from the file
    rt.reset(tuned_tables=True)
    assert not kept.exists() and "first in the order" in rt.explain("gemm", **case)


def test_explain_says_what_runs_and_why_the_others_do_not():
    text = rt.explain("gemm", m=64, n=64, k=64, dtype="f16")
    assert "-> cpu_simd" in text and "x cpu_openblas" in text


def test_autotune_measures_a_new_case_once_and_keeps_it(device):
    dtype, name = (torch.float32, "f32") if device.type == "cpu" else (torch.bfloat16, "bf16")
    a, b = operands(96, 96, 96, False, False, dtype, device)
    with rt.autotune():
        out = rt.gemm(a, b)
    assert_within_bound(a, b, out, False, False)
    assert "preferred by the tuned table" in rt.explain("gemm", device, m=96, n=96, k=96, dtype=name)
    if device.type == "cpu":  # a table of a GPU ships with the library
        assert "first in the order" in rt.explain("gemm", m=777, n=96, k=96)


def test_a_budget_of_multiprocessors_is_kept_and_goes_before_torchs_carve_out(device):
    budget = torch.ops.ridgeline.sm_budget
    a, b = operands(300, 200, 100, False, False, torch.bfloat16, device)
    whole = rt.gemm(a, b)
    try:
        assert budget() == 0
        torch._C._set_sm_carveout_experimental(24)
        assert budget() == -24
        rt.set_sm_budget(-16)
        assert budget() == -16
        torch.testing.assert_close(rt.gemm(a, b), whole)
        rt.set_sm_budget(1)
        torch.testing.assert_close(rt.gemm(a, b), whole)
        rt.set_sm_budget(None)
        assert budget() == -24
        with pytest.raises(ValueError, match="2000 multiprocessors; give 1 to 1024"):
            rt.set_sm_budget(2000)
        assert budget() == -24
    finally:
        rt.set_sm_budget(None)
        torch._C._set_sm_carveout_experimental(None)
    assert budget() == 0


def test_snr_is_of_the_reference_and_refuses_nan():
    reference = torch.tensor([3.0, 4.0])
    assert math.isclose(testing.snr_db(reference, torch.tensor([3.0, 4.5])), 20.0)
    with pytest.raises(AssertionError):
        testing.assert_snr(reference, torch.tensor([3.0, math.nan]), -100)
