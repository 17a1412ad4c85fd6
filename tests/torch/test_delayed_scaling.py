"""Delayed scaling: scales of earlier steps, histories that survive, and the same on every rank."""

import copy
import math
import pickle

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.utils.checkpoint import checkpoint

import ridgeline.testing as testing
import ridgeline.torch as rt
import ridgeline.torch.delayed as late
from ridgeline.torch import DelayedScaling, QuantConfig, Recipe

HYBRID = QuantConfig("hybrid")
FORMATS = {"x": (ml_dtypes.float8_e4m3fn, 448.0), "w": (ml_dtypes.float8_e4m3fn, 448.0), "dy": (ml_dtypes.float8_e5m2, 57344.0)}


def delayed(**settings):
    return Recipe(HYBRID, HYBRID, HYBRID, DelayedScaling(**settings))


def layer_of(device, recipe=None, features=(24, 16)):
    layer = torch.nn.Linear(*features, bias=False, device=device)
    rt.convert(layer, recipe or delayed(history=3))
    return layer


def stood_for(matrix, name, amax):
    """What the codes of a matrix stand for, by numpy and ml_dtypes."""
    kind, most = FORMATS[name]
    scale = np.float32(amax) / np.float32(most)
    return np.clip(matrix / scale, -most, most).astype(np.float32).astype(kind).astype(np.float64) * np.float64(scale)


@pytest.mark.parametrize("algorithm,margin", [("max", 0), ("latest", 0), ("max", 2)])
def test_scales_are_those_of_the_steps_before(device, algorithm, margin):
    """Six steps against a float64 model with a list for a history; with micro-batches, and steps of very different size."""
    layer = layer_of(device, delayed(history=3, algorithm=algorithm, margin=margin))
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.0)
    past = {"x": [], "w": [], "dy": []}
    # fp32's sums on a CPU; the matrix unit cuts off what lies below 2^-13 of the largest addend (docs/operators/gemm_fp8.md).
    floor = 110 if device.type == "cpu" else 20 * math.log10(2**13)
    for size in (1.0, 0.25, 8.0, 1.0, 1.0, 0.5):
        step = {name: 0.0 for name in past}
        for micro in (1.0, 0.5):
            x = (size * micro * torch.randn(32, 24)).to(device).requires_grad_()
            dy = (micro / size * torch.randn(32, 16)).to(device)
            layer.zero_grad()
            y = layer(x)
            y.backward(dy)
            plain = {"x": x, "w": layer.weight, "dy": dy}
            plain = {name: t.detach().cpu().double().numpy() for name, t in plain.items()}
            codes = {}
            for name, matrix in plain.items():
                now = float(np.abs(matrix).max())
                step[name] = max(step[name], now)
                known = past[name][:3] if algorithm == "max" else past[name][:1]
                codes[name] = stood_for(matrix, name, max(known) * 2.0**margin if known else now)
            testing.assert_snr(torch.from_numpy(codes["x"] @ codes["w"].T), y, floor)
            testing.assert_snr(torch.from_numpy(codes["dy"] @ codes["w"]), x.grad, floor)
            testing.assert_snr(torch.from_numpy(codes["dy"].T @ codes["x"]), layer.weight.grad, floor)
        optimizer.step()
        for name, amax in step.items():
            past[name].insert(0, amax)
        expected = torch.tensor([[*past[name][:3], *[0.0] * (3 - len(past[name]))] for name in past])
        assert torch.equal(layer.amax_history.cpu(), expected)


def test_the_first_step_is_current_scaling_bit_for_bit(device):
    x, dy = torch.randn(40, 24, device=device), torch.randn(40, 16, device=device)
    late = layer_of(device)
    current = rt.Fp8Linear.from_float(copy.deepcopy(late), HYBRID)

    def step(layer):
        layer.weight.grad = None
        leaf = x.clone().requires_grad_()
        y = layer(leaf)
        y.backward(dy)
        return y, leaf.grad, layer.weight.grad

    expected = step(current)
    for training in (True, False):
        assert all(torch.equal(want, have) for want, have in zip(expected, step(late.train(training)), strict=True))
    assert "amax_history" not in dict(current.named_buffers())


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
@pytest.mark.parametrize("shape", [(33, 130), (1, 1), (5, 1), (0, 4), (4, 0)], ids=str)
def test_the_operator_takes_a_magnitude_and_gives_its_own_in_one_pass(device, shape, dtype):
    quantize, current = torch.ops.ridgeline.quantize_by, torch.ops.ridgeline.quantize
    whole = torch.randn(shape[0], shape[1] + 3).to(device, dtype)
    x, e4m3 = whole[:, : shape[1]], torch.float8_e4m3fn  # rows with gaps
    own = x.float().abs().max().item() if x.numel() else 0.0
    for amax in (4.0, 0.5):
        found = torch.tensor([0.0, 0.25, 100.0], device=device)
        q, scale, q_t, scale_t = quantize(x, torch.tensor(amax, device=device), found[1], e4m3, "floor", True, True)  # powers of two: one right code
        assert scale == scale_t == 2.0 ** (math.floor(math.log2(amax)) - 8)
        want = (x.float() / scale).clamp(-448, 448).to(e4m3)
        assert torch.equal(q.view(torch.uint8), want.view(torch.uint8))
        assert torch.equal(q_t.view(torch.uint8), want.view(torch.uint8).t())
        assert found.tolist() == [0.0, max(own, 0.25), 100.0]
    empty = torch.zeros(1, device=device)
    for have, want in zip(quantize(x, empty, None, e4m3, "exact", True, True), current(x, e4m3, "tensor", "exact", True, True), strict=True):
        assert torch.equal(have.view(torch.uint8), want.view(torch.uint8)) if have.dtype == e4m3 else torch.equal(have, want)
    if x.numel():
        for bad in (torch.inf, -torch.inf, torch.nan):
            found = torch.full((1,), 0.125, device=device)
            x[-1, -1] = bad
            q = quantize(x, torch.tensor(4.0, device=device), found, e4m3)[0].float()
            assert found == 0.125 and q[-1, -1].isnan() and q.flatten()[:-1].isfinite().all()
        odd = torch.tensor(-1.0, device=device)
        if device.type != "cpu":  # its value is not read on the host: the sign does not count
            assert quantize(x, odd, None, e4m3)[1] == quantize(x, -odd, None, e4m3)[1]
            return
        with pytest.raises(ValueError, match="amax is -1.*give a finite magnitude"):
            quantize(x, odd, None, e4m3)


def test_quantising_by_a_magnitude_is_one_operator_and_as_by_pytorch(device, monkeypatch):
    """One call for each operand, forward and backward, with the results of PyTorch's operators, which DTensors go through."""
    calls = []
    original = late._quantize_by

    def one_call(*arguments):
        calls.append(arguments[0].shape)
        return original(*arguments)

    results = []
    for alone in (False, True):
        torch.manual_seed(4)
        layer = layer_of(device, delayed(history=2, margin=1), (48, 40))
        optimizer = torch.optim.SGD(layer.parameters(), lr=0.1)
        if alone:
            monkeypatch.setattr(late, "_by_one_operator", lambda x: False)
        else:
            monkeypatch.setattr(late, "_quantize_by", one_call)
        for size in (1.0, 3.0):
            x = (size * torch.randn(24, 48)).to(device).requires_grad_()
            layer(x).square().sum().backward()
            optimizer.step()
        results.append((x.grad, layer.weight.grad, layer.weight.detach(), layer.amax_history))
    assert len(calls) == 6 and (device.type != "cpu" or calls == 2 * [(24, 48), (40, 48), (24, 40)])  # a GPU's products pad
    for one, other in zip(*results, strict=True):
        testing.assert_snr(one.double(), other, 60)  # quotients by division, or by the reciprocal: codes next to a middle may differ
    x = torch.randn(3, 5, device=device)
    for wanted in ((True, False), (False, True), (True, True)):  # a copy that is not wanted is empty, as of the operator
        made = late.codes(x, x.abs().amax(), None, torch.float8_e5m2, "exact", *wanted)
        assert [each.shape for each in made] == [each.shape for each in torch.ops.ridgeline.quantize(x, torch.float8_e5m2, "tensor", "exact", *wanted)]


def training(model, optimizer, steps, device, start=0):
    losses = []
    for at in range(start, start + steps):
        generator = torch.Generator().manual_seed(at)
        x, y = torch.randn(32, 24, generator=generator).to(device), torch.randn(32, 16, generator=generator).to(device)
        loss = torch.nn.functional.mse_loss(model(x), y)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    return losses


def made(device, recipe="delayed"):
    torch.manual_seed(2)
    model = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.SiLU(), torch.nn.Linear(40, 16)).to(device)
    rt.convert(model, recipe)
    return model, torch.optim.AdamW(model.parameters(), lr=1e-2)


def test_a_run_that_was_stopped_goes_on_as_if_it_had_not_been(device, tmp_path):
    model, optimizer = made(device)
    expected = training(model, optimizer, 8, device)
    again, its_optimizer = made(device)
    assert training(again, its_optimizer, 5, device) == expected[:5]
    torch.save({"model": again.state_dict(), "optimizer": its_optimizer.state_dict()}, tmp_path / "run.pt")
    state = torch.load(tmp_path / "run.pt", weights_only=True)
    other, other_optimizer = made(device)
    other.load_state_dict(state["model"])
    other_optimizer.load_state_dict(state["optimizer"])
    assert training(other, other_optimizer, 3, device, start=5) == expected[5:]
    # Without its histories the run is another: they matter.
    bare, bare_optimizer = made(device)
    bare.load_state_dict({name: value for name, value in state["model"].items() if "amax" not in name})
    bare_optimizer.load_state_dict(state["optimizer"])
    assert training(bare, bare_optimizer, 3, device, start=5) != expected[5:]


def test_copies_and_pickles_have_histories_of_their_own_that_go_on(device):
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        before = model[0].amax_history.clone()
        training(other, torch.optim.SGD(other.parameters(), lr=0.1), 1, device, start=7)
        assert torch.equal(model[0].amax_history, before)
        assert torch.equal(other[0].amax_history[:, 1:3], before[:, :2]) and bool((other[0].amax_history[:, 0] > 0).all())


def test_a_state_dict_without_histories_is_loaded_strictly(device):
    model, _ = made(device)
    plain, _ = made(device, None)
    assert not model.load_state_dict(plain.state_dict(), strict=True).missing_keys
    with pytest.raises(RuntimeError, match="Unexpected key.*amax_history"):
        plain.load_state_dict(model.state_dict())


@pytest.mark.parametrize("reentrant", [True, False])
def test_a_recomputed_forward_call_changes_nothing(device, reentrant):
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    optimizer.zero_grad()
    other = copy.deepcopy(model)
    x = torch.randn(32, 24, device=device, requires_grad=True)
    model(x).square().sum().backward()
    checkpoint(other, x, use_reentrant=reentrant).square().sum().backward()
    for want, have in zip(model.parameters(), other.parameters(), strict=True):
        assert torch.equal(want.grad, have.grad)
    for at in (0, 2):
        assert torch.equal(model[at].amax_now, other[at].amax_now) and bool((model[at].amax_now > 0).all())


def test_what_does_not_end_a_step(device):
    """Evaluation, other models' optimisers, steps without numbers, and layers that did not run."""
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    before = [b.clone() for b in model.buffers()]

    def unchanged():
        return all(torch.equal(want, have) for want, have in zip(before, model.buffers(), strict=True)) and not model[0].amax_now.any()

    model.eval()
    model(100 * torch.randn(8, 24, device=device)).sum().backward()
    with torch.no_grad():
        model(100 * torch.randn(8, 24, device=device))
    assert unchanged()
    model.train()
    other, other_optimizer = made(device)
    training(other, other_optimizer, 1, device)
    optimizer.step()
    assert unchanged()
    for bad in (float("inf"), float("nan")):
        x = torch.randn(8, 24, device=device)
        x[3, 5] = bad
        out = model(x)
        assert not out[3].isfinite().any() and out[:3].isfinite().all()
        out.sum().backward()
        assert model[0].amax_now[0] == 0 and model[0].amax_now[1] > 0
        model[0].amax_now.zero_()
    assert model(torch.randn(0, 24, device=device)).shape == (0, 16) and model[0].amax_now[0] == 0


def test_frozen_layers_take_a_step_by_hand(device):
    model, _ = made(device)
    model.requires_grad_(False)
    adapter = torch.nn.Linear(24, 16, device=device)
    optimizer = torch.optim.SGD(adapter.parameters(), lr=0.1)
    x = torch.randn(8, 24, device=device, requires_grad=True)
    (model(x) + adapter(x)).sum().backward()
    optimizer.step()
    assert not model[0].amax_history.any() and bool((model[0].amax_now > 0).all())
    assert rt.update_scales(torch.nn.ModuleList([model, adapter])) == 2
    assert model[0].amax_history[0, 0] == x.abs().max() and not model[0].amax_now.any()


def test_a_recipe_that_is_given_again_keeps_histories_and_another_ends_them(device):
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    before = model[0].amax_history.clone()
    rt.convert(model, rt.recipe("delayed", dw=None))
    assert torch.equal(model[0].amax_history, before)
    rt.convert(model, delayed(history=4))
    assert model[0].amax_history.shape == (3, 4) and not model[0].amax_history.any()
    rt.convert(model, "tensorwise")
    assert not list(model.buffers())
    rt.convert(model, "delayed")
    rt.unswap(model)
    assert vars(model[0]).keys() == vars(torch.nn.Linear(1, 1)).keys() and not list(model.buffers())


def test_values_beyond_the_history_are_clipped_and_the_layer_is_named(device):
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    largest = model[0].amax_history[0].max()
    x = torch.randn(64, 24, device=device).clamp(-1, 1)
    x[:, 0] = 3 * largest
    y = model[0](x)
    clipped = x.clone()
    clipped[:, 0] = largest
    testing.assert_snr(model[0](clipped), y, 60)
    with pytest.warns(RuntimeWarning, match=r"0 saturates: 4\.2 % of x .*float8_e4m3fn.*current scaling, or a margin") as warned:
        with rt.statistics(model) as found:
            model(x)
            model(x)
    assert len([w for w in warned if "0 saturates" in str(w.message)]) == 1
    assert found.layers["0"].operands["x"].saturated == pytest.approx(1 / 24)


def test_histories_are_maxima_over_ranks(two_ranks):
    two_ranks("delayed_worker.py", says="histories agree")


def test_layers_that_share_a_weight_each_step_their_history(device):
    model = torch.nn.ModuleList([torch.nn.Linear(16, 16, bias=False, device=device) for _ in range(3)])
    model[1].weight = model[2].weight = model[0].weight
    rt.convert(model, delayed(history=2))
    twin = rt.Fp8Linear.from_float(model[0], delayed(history=2))
    assert twin.amax_history is model[0].amax_history
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    inputs = [(1 + at) * torch.randn(8, 16, device=device) for at in range(3)]
    sum(layer(x).square().sum() for layer, x in zip(model, inputs, strict=True)).backward()
    optimizer.step()
    for layer, x in zip(model, inputs, strict=True):
        assert layer.amax_history[0].tolist() == [x.abs().max(), 0.0]  # one step, also where two layers have one history
        assert not layer.amax_now.any()


def test_layers_with_equal_weights_step_in_the_order_of_their_making(device, monkeypatch):
    """Ranks reduce all histories at once, so each has to have them in one order."""
    layers = [torch.nn.Linear(16, 16, bias=False, device=device) for _ in range(12)]
    for layer in layers:
        layer.weight = layers[0].weight
    order = sorted(range(12), key=lambda at: (at * 7) % 12)
    for at in order:
        rt.convert(layers[at], delayed(history=2))
    stepped = []
    monkeypatch.setattr("ridgeline.torch.delayed._step", stepped.extend)
    torch.optim.SGD([layers[0].weight], lr=0.0).step()
    assert [layers.index(layer) for layer in stepped] == order


def test_a_history_is_never_uninitialised(device):
    """Made on meta: 0 after to_empty, after reset_parameters, and where a file without histories is assigned."""
    trained, optimizer = made(device)
    training(trained, optimizer, 2, device)
    without = {name: value for name, value in trained.state_dict().items() if "amax" not in name}
    for way in ("to_empty", "assign"):
        with torch.device("meta"):
            empty = torch.nn.Sequential(torch.nn.Linear(24, 40), torch.nn.SiLU(), torch.nn.Linear(40, 16))
            rt.convert(empty, "delayed")
        if way == "to_empty":
            junk = [torch.full((3, 16), float("nan"), device=device) for _ in range(64)]  # what an allocator hands out next
            del junk
            empty.to_empty(device=device)
            empty.load_state_dict(without)
        else:
            empty.load_state_dict(without, assign=True)
        for at in (0, 2):
            assert empty[at].amax_history.device.type == device.type and not empty[at].amax_history.any(), way
        training(empty, torch.optim.SGD(empty.parameters(), lr=0.1), 1, device)
        assert bool((empty[0].amax_history[:, 0] > 0).all())
    before = trained[0].amax_history.clone()
    trained.load_state_dict(without)
    trained.load_state_dict(without, assign=True)
    assert torch.equal(trained[0].amax_history, before)  # that of a trained layer goes on
    trained.to_empty(device=device)
    assert torch.equal(trained[0].amax_history, before)
    trained[0](torch.randn(4, 24, device=device))
    trained[0].reset_parameters()
    assert not trained[0].amax_history.any() and not trained[0].amax_now.any()


@pytest.mark.parametrize("cast", [torch.nn.Module.half, torch.nn.Module.bfloat16, torch.nn.Module.double, lambda m: m.to(torch.bfloat16)])
def test_histories_stay_in_float32(device, cast):
    model, optimizer = made(device)
    training(model, optimizer, 2, device)
    model[0].amax_history[2, 0] = 1e6  # beyond float16
    before = [b.clone() for b in model.buffers()]
    cast(model)
    assert model[0].weight.dtype != torch.float32
    for want, have in zip(before, model.buffers(), strict=True):
        assert have.dtype == torch.float32 and torch.equal(want, have)
    x = torch.randn(4, 24, device=device, dtype=torch.bfloat16)
    model.bfloat16()(x).sum().backward()
    assert bool((model[0].amax_now > 0).all())
