"""symmetric_product, newton_schulz and Muon, against float64 and torch.optim.Muon."""

import copy

import pytest
import torch

import ridgeline.torch as rt

DTYPES = [torch.float32, torch.bfloat16, torch.float16]
STEP = {torch.float32: 2**-20, torch.bfloat16: 2**-8, torch.float16: 2**-10}
A, B, C = 3.4445, -4.7750, 2.0315


def exact_product(a, trans_a=False, alpha=1.0, residual=None, beta=1.0, shift=0.0):
    a = a.cpu().double()
    c = alpha * (a.mT @ a if trans_a else a @ a.mT)
    if residual is not None:
        upper = residual.cpu().double()
        c = c + beta * (upper.triu() + upper.triu(1).mT)
    return c + shift * torch.eye(c.shape[-1], dtype=torch.float64)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape, trans_a", [((96, 64), False), ((64, 130), True), ((3, 72, 40), False), ((2, 40, 136), True), ((1, 1), False)])
def test_the_product_is_right_and_symmetric_to_the_last_bit(device, dtype, shape, trans_a):
    a = torch.randn(shape, device=device).to(dtype)
    n = shape[-1] if trans_a else shape[-2]
    residual = torch.randn(*shape[:-2], n, n, device=device).to(dtype)
    scalars = dict(alpha=0.5, beta=-1.25, shift=3.0)
    found = rt.symmetric_product(a, trans_a, residual=residual, **scalars)
    assert found.dtype == dtype and torch.equal(found, found.mT)
    right = exact_product(a, trans_a, residual=residual, **scalars)
    size = exact_product(a.abs(), trans_a, 0.5) + 1.25 * right.abs() + 8
    assert ((found.cpu().double() - right).abs() <= STEP[dtype] * size).all()


def test_other_forms_of_a_call(device):
    a = torch.randn(40, 24, device=device).bfloat16()
    wide = rt.symmetric_product(a, out_dtype=torch.float32)
    torch.testing.assert_close(wide.cpu().double(), exact_product(a), rtol=1e-5, atol=1e-5)
    assert torch.equal(rt.symmetric_product(a.t()), rt.symmetric_product(a, True))
    with torch.autocast(device.type, torch.bfloat16):
        assert rt.symmetric_product(a.float()).dtype == torch.bfloat16
    if device.type == "cpu":
        double = torch.randn(5, 7, dtype=torch.float64)
        torch.testing.assert_close(rt.symmetric_product(double, alpha=2.0, shift=1.0), exact_product(double, alpha=2.0, shift=1.0))


@pytest.mark.parametrize(
    "call, text",
    [
        (lambda a: rt.symmetric_product(a[0]), "give a matrix, or a batch"),
        (lambda a: rt.symmetric_product(a.int()), "give torch.float32"),
        (lambda a: rt.symmetric_product(a, residual=a), "the residual"),
        (lambda a: rt.symmetric_product(a, alpha=float("inf")), "alpha is inf"),
        (lambda a: rt.symmetric_product(a, out_dtype=torch.float64), "float64"),
    ],
)
def test_what_does_not_go_together_is_named(device, call, text):
    with pytest.raises((ValueError, TypeError), match=text):
        call(torch.randn(6, 4, device=device))


@pytest.mark.parametrize("trans_a", [False, True])
def test_gradients(trans_a):
    a = torch.randn(5, 4, dtype=torch.float64, requires_grad=True)
    n = 4 if trans_a else 5
    residual = torch.randn(n, n, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(lambda a, r: rt.symmetric_product(a, trans_a, alpha=1.5, residual=r, beta=-0.5, shift=1.0), (a, residual))
    assert torch.autograd.gradgradcheck(lambda a: rt.symmetric_product(a, trans_a, alpha=1.5), (a,))


def test_under_compile_and_a_flop_counter(device):
    from torch.utils.flop_counter import FlopCounterMode

    a = torch.randn(2, 32, 24, device=device)
    compiled = torch.compile(lambda a: rt.symmetric_product(a, alpha=2.0) + 1, fullgraph=True, backend="aot_eager")
    assert torch.equal(compiled(a), rt.symmetric_product(a, alpha=2.0) + 1)
    with FlopCounterMode(display=False) as counter:
        rt.symmetric_product(a)
    assert counter.get_total_flops() == 2 * 32 * 33 * 24


# ---- The iteration


def exact_iteration(x, steps=5, coefficients=(A, B, C)):
    x = x.cpu().double()
    x = x / x.norm(dim=(-2, -1), keepdim=True)
    a, b, c = coefficients
    for _ in range(steps):
        gram = x @ x.mT
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x


def distance(found, right):
    return ((found.cpu().double() - right).norm() / right.norm()).item()


def weight(m, n, device, seed=0):
    """Singular values over three orders of magnitude, as gradients have them."""
    generator = torch.Generator().manual_seed(seed)
    left, _ = torch.linalg.qr(torch.randn(m, min(m, n), generator=generator))
    right, _ = torch.linalg.qr(torch.randn(n, min(m, n), generator=generator))
    return (left @ torch.diag(torch.logspace(0, -3, min(m, n))) @ right.t()).to(device)


@pytest.mark.parametrize("shape", [(64, 64), (48, 160), (160, 48), (1, 9), (200, 200)])
def test_the_iteration_in_float32_is_that_of_float64(device, shape):
    x = weight(*shape, device)
    assert distance(rt.newton_schulz(x, dtype=torch.float32), exact_iteration(x)) < 2e-4


# What torch.optim.Muon computes keeps aX out of the matrix that is rounded; ours may be off by a quarter more, and is not.
@pytest.mark.parametrize("shape", [(64, 64), (96, 256), (256, 96), (200, 200)])
def test_the_iteration_in_bfloat16_is_as_near_as_that_of_torch(device, shape):
    from torch.optim._muon import _zeropower_via_newtonschulz

    x = weight(*shape, device)
    right = exact_iteration(x)
    own = distance(rt.newton_schulz(x), right)
    other = distance(_zeropower_via_newtonschulz(x, (A, B, C), 5, 1e-7), right)
    assert own < 1.25 * other, (own, other)
    values = torch.linalg.svdvals(rt.newton_schulz(x).float())
    assert values.max() < 1.3 and values.median() > 0.6


def test_a_batch_is_its_matrices(device):
    x = torch.stack([weight(40, 72, device, seed) for seed in range(6)]).reshape(2, 3, 40, 72)
    together = rt.newton_schulz(x)
    assert together.shape == x.shape and together.dtype == torch.bfloat16
    for i in range(2):
        for j in range(3):
            assert distance(together[i, j], exact_iteration(x[i, j])) < 0.1


def test_zeros_stay_zeros_and_bad_numbers_are_named(device):
    assert not rt.newton_schulz(torch.zeros(8, 16, device=device)).any()
    for given, text in (({"steps": -1}, "-1 steps"), ({"coefficients": (1.0, 2.0)}, "three finite"), ({"eps": 0.0}, "eps is 0")):
        with pytest.raises(ValueError, match=text):
            rt.newton_schulz(torch.ones(2, 2, device=device), **given)


# ---- The optimizer


def parameters(dtype, device):
    torch.manual_seed(3)
    return [torch.nn.Parameter(torch.randn(shape, device=device).to(dtype)) for shape in [(48, 96), (48, 96), (48, 96), (96, 48), (64, 64)]]


def run(optimizer, params, steps=4):
    torch.manual_seed(4)
    for _ in range(steps):
        for param in params:
            param.grad = torch.randn(param.shape, dtype=torch.float32).to(param.device, param.dtype)
        optimizer.step()


SETTINGS = [{}, {"nesterov": False, "momentum": 0.8}, {"adjust_lr_fn": "match_rms_adamw"}, {"weight_decay": 0.0, "ns_steps": 3, "lr": 0.02}]


def exact_steps(start, lr=1e-3, weight_decay=0.1, momentum=0.95, nesterov=True, ns_steps=5, adjust_lr_fn=None, steps=4):
    """The definition in float64, of the gradients of ``run``."""
    torch.manual_seed(4)
    params = [param.detach().cpu().double() for param in start]
    averages = [torch.zeros_like(param) for param in params]
    for _ in range(steps):
        for i, param in enumerate(start):
            gradient = torch.randn(param.shape, dtype=torch.float32).to(param.dtype).double()
            averages[i] = momentum * averages[i] + (1 - momentum) * gradient
            update = exact_iteration((1 - momentum) * gradient + momentum * averages[i] if nesterov else averages[i], ns_steps)
            rows, columns = param.shape
            scale = 0.2 * max(rows, columns) ** 0.5 if adjust_lr_fn == "match_rms_adamw" else max(1, rows / columns) ** 0.5
            params[i] = params[i] * (1 - lr * weight_decay) - lr * scale * update
    return params


# Nearer to the definition than a quarter more than torch's, whose rounding is of the same kind and elsewhere.
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("given", SETTINGS)
def test_steps_are_as_near_to_the_definition_as_those_of_torch(device, dtype, given):
    given = {"lr": 0.1, **given}
    start, own, other = (parameters(dtype, device) for _ in range(3))
    run(rt.Muon(own, **given), own)
    run(torch.optim.Muon(other, **given), other)
    for before, mine, theirs, right in zip(start, own, other, exact_steps(start, **given)):
        moved = (right - before.cpu().double()).norm()
        mine, theirs = ((param.detach().cpu().double() - right).norm() / moved for param in (mine, theirs))
        assert mine < 1.25 * theirs, (mine, theirs)
        assert dtype == torch.bfloat16 or mine < 0.03  # a parameter of 16 bits loses most of so small a step itself


@pytest.mark.parametrize("wrong", [{"lr": 0.11}, {"weight_decay": 0.2}, {"momentum": 0.8}, {"nesterov": False}, {"ns_steps": 4}])
def test_another_setting_is_seen(wrong):
    start, own, other = (parameters(torch.float32, "cpu") for _ in range(3))
    run(rt.Muon(own, **{"lr": 0.1, **wrong}), own)
    run(torch.optim.Muon(other, lr=0.1), other)
    apart = [((a - b).norm() / (b - s).norm()).item() for s, a, b in zip(start, own, other)]
    assert max(apart) > 0.03


def test_states_are_exchanged_with_torch(device):
    own, other = parameters(torch.float32, device), parameters(torch.float32, device)
    mine, theirs = rt.Muon(own, lr=0.1), torch.optim.Muon(other, lr=0.1)
    run(theirs, other, 2)
    for param, value in zip(own, other):
        param.data.copy_(value)
    mine.load_state_dict(copy.deepcopy(theirs.state_dict()))
    run(mine, own, 2)
    run(theirs, other, 2)
    for a, b in zip(own, other):
        assert (a - b).norm() < 0.01 * b.norm()
    theirs.load_state_dict(mine.state_dict())


def test_a_network_learns(device):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(16, 64), torch.nn.ReLU(), torch.nn.Linear(64, 4)).to(device)
    matrices = [p for p in model.parameters() if p.dim() == 2]
    optimizer = rt.Muon(matrices, lr=torch.tensor(0.02))
    others = rt.AdamW([p for p in model.parameters() if p.dim() != 2], lr=1e-2)
    x = torch.randn(256, 16, device=device)
    y = (x @ torch.randn(16, 4, device=device)).argmax(1)
    losses = []

    def closure():
        loss = torch.nn.functional.cross_entropy(model(x), y)
        model.zero_grad()
        loss.backward()
        return loss

    for _ in range(40):
        losses.append(optimizer.step(closure).item())
        others.step()
    assert losses[-1] < 0.6 * losses[0]


@pytest.mark.parametrize(
    "given, error, text",
    [
        ({"params": [torch.ones(3)]}, ValueError, "give matrices"),
        ({"lr": -1.0}, ValueError, "lr is -1"),
        ({"momentum": 1.5}, ValueError, "momentum is 1.5"),
        ({"adjust_lr_fn": "other"}, ValueError, "adjust_lr_fn is 'other'"),
        ({"ns_coefficients": (1.0,)}, ValueError, "three finite numbers"),
        ({"ns_steps": 200}, ValueError, "200 steps"),
        ({"lr": torch.ones(2)}, ValueError, "lr is a tensor"),
    ],
)
def test_bad_settings_are_named(given, error, text):
    given = dict(given)
    params = [torch.nn.Parameter(each) for each in given.pop("params", [torch.ones(3, 3)])]
    with pytest.raises(error, match=text):
        rt.Muon(params, **given)
