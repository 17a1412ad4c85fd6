"""What layers say about themselves: right numbers, nothing changed, nothing done outside of the block."""

import math
import warnings

import ml_dtypes
import numpy as np
import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig, products

RECIPES = ["tensorwise", "rowwise", "rowwise_with_gw_hp", "blockwise", "mx", "delayed"]


def two(device, recipe="tensorwise"):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 24)).to(device)
    rt.convert(model, recipe)
    return model


def step(model, x):
    model.zero_grad()
    leaf = x.clone().requires_grad_()
    y = model(leaf)
    y.square().sum().backward()
    return [y.detach(), leaf.grad, *(p.grad.clone() for p in model.parameters())]


@pytest.mark.filterwarnings("ignore:ridgeline.*saturates:RuntimeWarning")
@pytest.mark.parametrize("recipe", RECIPES)
@pytest.mark.parametrize("rows", [1, 37])
def test_nothing_is_changed_and_nothing_is_done_outside(device, recipe, rows):
    x = torch.randn(rows, 32, device=device)
    expected, calls = step(two(device, recipe), x), Calls()
    with calls:
        step(two(device, recipe), x)
    model = two(device, recipe)
    with rt.statistics(model) as found:
        assert all(torch.equal(want, have) for want, have in zip(expected, step(model, x), strict=True))
    assert list(found.layers) == ["0", "2"] and found.layers["0"].calls == 1
    other, after = two(device, recipe), Calls()
    with rt.statistics(other):
        pass
    with after:
        step(other, x)
    assert after.names == calls.names[-len(after.names) :]
    if recipe == "tensorwise":
        with rt.quantized_weights(model), rt.statistics(model):
            assert all(torch.equal(want, have) for want, have in zip(expected, step(model, x), strict=True))


class Calls(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.names = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


def test_shares_and_ratios_are_those_of_a_count_by_hand(device):
    """Against numpy and ml_dtypes, with every row looked at: e4m3 forward, e5m2 for dy, one scale for a tensor."""
    layer = torch.nn.Linear(24, 16, bias=False, device=device)
    rt.convert(layer, "tensorwise")
    x = torch.randn(40, 24, device=device)
    x[0, 0], x[1, :6], x[2, 3] = 3000.0, 1e-4, 0.0
    dy = torch.randn(40, 16, device=device)
    dy[5, 5] = 1e11
    leaf = x.clone().requires_grad_()
    with rt.statistics(layer, rows=40) as found:
        y = layer(leaf)
        y.backward(dy)
    record = found.layers[""]
    plain = {"x": (x, ml_dtypes.float8_e4m3fn, 448.0), "w": (layer.weight, ml_dtypes.float8_e4m3fn, 448.0), "dy": (dy, ml_dtypes.float8_e5m2, 57344.0)}
    for name, (matrix, kind, most) in plain.items():
        values = matrix.detach().cpu().numpy()
        scale = np.float32(np.abs(values).max()) / np.float32(most)
        codes = (values / scale).astype(kind).astype(np.float32)
        one = record.operands[name]
        assert one.amax == np.abs(values).max() and one.saturated == 0
        assert one.flushed == pytest.approx(float(((codes == 0) & (values != 0)).mean()), abs=1e-7)
    assert record.operands["x"].flushed > 0.005 and record.operands["dy"].flushed > 0.9
    x64, w64, dy64 = (t.detach().cpu().double() for t in (x, layer.weight, dy))
    for name, want, have in (("y", x64 @ w64.t(), y), ("dx", dy64 @ w64, leaf.grad), ("dw", dy64.t() @ x64, layer.weight.grad)):
        assert record.snr_db[name] == pytest.approx(testing.snr_db(want, have), abs=0.01)
        assert record.kernels[name] in rt.backends("gemm_fp8")
    assert record.values()["y.snr_db"] == record.snr_db["y"] and "x.flushed 0.0" in str(found)


@pytest.mark.filterwarnings("ignore:ridgeline.*saturates:RuntimeWarning")
@pytest.mark.parametrize("recipe", RECIPES)
def test_ratios_of_sampled_rows_are_near_those_of_all(device, recipe):
    """32 rows of 512: independent errors of 32 times 256 elements, whose ratio is known to 10 / ln 10 sqrt(2 / 8192), tenfold."""
    layer = torch.nn.Linear(320, 256, bias=False, device=device)
    rt.convert(layer, recipe)
    x, dy = torch.randn(512, 320, device=device), torch.randn(512, 256, device=device)
    values = []
    for rows in (512, 32):
        with rt.statistics(layer, rows=rows) as found:
            layer(x.requires_grad_()).backward(dy)
        values.append(found.layers[""].snr_db)
    assert values[0].keys() == values[1].keys() == ({"y", "dx"} if recipe == "rowwise_with_gw_hp" else {"y", "dx", "dw"})
    for name, ratio in values[0].items():
        assert abs(values[1][name] - ratio) < 10 * 10 / math.log(10) * math.sqrt(2 / 8192), (name, ratio, values[1][name])


@pytest.mark.filterwarnings("ignore:ridgeline.*saturates:RuntimeWarning")
@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise", "blockwise", "mx", rt.Recipe(None, dw=QuantConfig("e4m3", "blockwise"))], ids=str)
def test_sampled_rows_are_those_of_the_matrix(device, recipe):
    """Rows 0, 3, 6, ... hold elements that are flushed, others do not: every one is found, and nothing else."""
    layer = torch.nn.Linear(160, 144, bias=False, device=device)
    rt.convert(layer, recipe)
    x = torch.rand(150, 160, device=device) + 1
    x[::3, 7] = 1e-9
    with torch.no_grad():
        layer.weight.copy_(torch.rand(144, 160) + 1)
        layer.weight[::3, 5] = 1e-9
    with rt.statistics(layer, rows=50) as found:
        layer(x).sum().backward()
    of_x, of_w = found.layers[""].operands["x"], found.layers[""].operands["w"]
    if isinstance(recipe, str):
        assert of_w.flushed == pytest.approx(1 / 160)
    assert of_x.flushed == pytest.approx(1 / 160)


def test_saturation_is_what_lies_beyond_half_a_step(device):
    """mx scales are rounded down: of a block whose largest is in [448, 512) 2^e all beyond 464 is clipped."""
    layer = torch.nn.Linear(32, 32, bias=False, device=device)
    rt.convert(layer, "mx")
    x = torch.full((32, 32), 1.0, device=device)
    x[0, :4] = torch.tensor([463.0, 465.0, 500.0, 448.0])
    with pytest.warns(RuntimeWarning, match="the layer saturates: 0.2 % of x .*mx scales are rounded down"), rt.statistics(layer) as found:
        layer(x)
    assert found.layers[""].operands["x"].saturated == pytest.approx(2 / 1024)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with rt.statistics(layer, warn_above=0.01):
            layer(x)


def test_hooks_are_called_after_each_call_that_is_looked_at(device):
    model, x, seen = two(device), torch.randn(16, 32, device=device), []
    with rt.statistics(model, every=2, hook=lambda name, phase, values: seen.append((name, phase, sorted(values)))) as found:
        for _ in range(3):
            step(model, x)
        with torch.no_grad():
            model(x)
    forward = ["w.amax", "w.flushed", "w.saturated", "x.amax", "x.flushed", "x.saturated", "y.kernel", "y.snr_db"]
    backward = ["dw.kernel", "dw.snr_db", "dx.kernel", "dx.snr_db", "dy.amax", "dy.flushed", "dy.saturated"]
    one = [("0", "forward", forward), ("2", "forward", forward), ("2", "backward", backward), ("0", "backward", backward)]
    assert seen == one * 2 and found.layers["0"].calls == 2


def test_blocks_nest_and_outlive_errors(device):
    model, x = two(device), torch.randn(16, 32, device=device)
    with rt.statistics(model) as outer:
        with pytest.raises(KeyError), rt.statistics(model[0]) as inner:
            model(x)
            raise KeyError
        model(x)
    model(x)
    assert inner.layers[""].calls == 1 and outer.layers["0"].calls == 1 and outer.layers["2"].calls == 2
    for options in ({"every": 0}, {"rows": 0}):
        with pytest.raises(ValueError, match="from 1 up"), rt.statistics(model, **options):
            pass


@pytest.mark.parametrize("reentrant", [True, False])
def test_checkpoints_codes_and_layers_of_high_precision(device, reentrant):
    model, x = two(device), torch.randn(16, 32, device=device, requires_grad=True)
    with rt.statistics(model) as found:
        checkpoint(model, x, use_reentrant=reentrant).sum().backward()
    assert {"y", "dx", "dw"} == found.layers["0"].snr_db.keys()
    with rt.statistics(model) as found, rt.autocast_fp8(enabled=False):
        model(x)
    assert not found.layers and str(found) == "no layer of 8-bit floats ran"
    rt.quantize_(model)
    with rt.statistics(model) as found:
        model(x.detach())
    assert found.layers["0"].snr_db["y"] > 25 and found.layers["0"].operands["w"].saturated == 0
    plain = two(device, None)
    with rt.statistics(plain) as found, rt.autocast_fp8(recipe="rowwise"):
        plain(x)
    assert found.layers["2"].calls == 1


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("recipe", ["tensorwise", "rowwise_with_gw_hp"])
def test_a_call_that_a_checkpoint_makes_again_is_one_call(device, recipe, reentrant):
    model, x, seen = two(device, recipe), torch.randn(16, 32, device=device), []
    alone = two(device, recipe)
    expected = step(alone, x)

    def hook(name, phase, values):
        seen.append((name, phase))

    with rt.statistics(model, every=2, hook=hook) as found:
        for at in range(4):
            model.zero_grad()
            leaf = x.clone().requires_grad_()
            nested = (lambda t: model[2](checkpoint(model[:2], t, use_reentrant=reentrant))) if at % 3 == 0 else model
            checkpoint(nested, leaf, use_reentrant=reentrant).square().sum().backward()
            assert torch.equal(leaf.grad, expected[1])
            assert all(torch.equal(want, p.grad) for want, p in zip(expected[2:], model.parameters(), strict=True))
    with rt.statistics(alone) as want:
        step(alone, x)
    assert seen == [("0", "forward"), ("2", "forward"), ("2", "backward"), ("0", "backward")] * 2
    for name in ("0", "2"):
        assert found.layers[name].calls == 2
        assert found.layers[name].values() == want.layers[name].values()


def test_observation_saves_nothing_more(device):
    model, x, sizes = two(device), torch.randn(16, 32, device=device), {}
    for observed in (False, True):
        saved = []
        with torch.autograd.graph.saved_tensors_hooks(lambda t: saved.append((t.shape, t.dtype)) or t, lambda t: t):
            if observed:
                with rt.statistics(model):
                    model(x.requires_grad_())
            else:
                rt.convert(model, rt.recipe("tensorwise", pad_rows=1))
                model(x.requires_grad_())
                rt.convert(model, "tensorwise")
        sizes[observed] = saved
    assert sizes[True] == sizes[False]


def test_layers_accept_what_they_do_without(device):
    """Transforms of torch.func, create_graph=True, and changes of an input in place before backward."""
    model, x = two(device)[:1], torch.randn(16, 32, device=device)

    def loss(x):
        return model(x).square().sum()

    expected = torch.func.grad(loss)(x)
    leaf = x.clone().requires_grad_()
    with rt.statistics(model) as found:
        assert torch.equal(torch.func.grad(loss)(x), expected)
        torch.func.jvp(model, (x,), (x,))
        assert not found.layers
        (slope,) = torch.autograd.grad(loss(leaf), leaf, create_graph=True)
        assert torch.equal(slope, expected) and found.layers["0"].snr_db.keys() == {"y", "dx", "dw"}
        with pytest.raises(NotImplementedError, match="no second derivative"):
            slope.sum().backward()
    layer = model[0]
    for changed in (False, True):
        with rt.statistics(layer) as found:
            given = leaf * 1
            y = layer(given)
            if changed:
                given.zero_()
            y.sum().backward()
        assert found.layers[""].snr_db.keys() == ({"y", "dx"} if changed else {"y", "dx", "dw"})


def test_a_product_is_named_before_the_next_one_runs(device, monkeypatch):
    """last_used is of the thread's last call, whichever product that made."""
    layer = torch.nn.Linear(32, 24, bias=False, device=device)
    rt.convert(layer, rt.recipe("tensorwise", pad_rows=16))
    calls, real, asked = [], products._multiply, []
    monkeypatch.setattr(products, "_multiply", lambda config, product, *rest, **options: calls.append(product) or real(config, product, *rest, **options))
    monkeypatch.setattr("ridgeline.torch.observe.last_used", lambda op: asked.append(calls[-1]) or "kernel")
    with rt.statistics(layer):
        layer(torch.randn(5, 32, device=device, requires_grad=True)).sum().backward()
    assert asked == ["y", "dx", "dw"]


def test_rows_that_were_padded_do_not_count(device):
    """5 rows of which one element of each is flushed, filled up to 64."""
    layer = torch.nn.Linear(32, 24, bias=False, device=device)
    x, values = torch.rand(5, 32, device=device) + 1, []
    x[:, 3] = 1e-9
    for pad in (1, 64):
        rt.convert(layer, rt.recipe("tensorwise", pad_rows=pad))
        leaf = x.clone().requires_grad_()
        with rt.statistics(layer, rows=8) as found:
            layer(leaf).square().sum().backward()
        values.append(found.layers[""].values())
    plain, padded = ({name: value for name, value in each.items() if not name.endswith(".kernel")} for each in values)
    assert padded["x.flushed"] == pytest.approx(1 / 32) and plain == padded  # a padded product may run on another kernel


def test_empty_and_bad_inputs(device):
    layer = torch.nn.Linear(32, 24, device=device)
    rt.convert(layer, QuantConfig())
    x = torch.randn(8, 32, device=device)
    x[1, 1] = float("nan")
    for given, amax in ((x[:0], 0.0), (x, 0.0), (x[2:], x[2:].abs().max())):
        with rt.statistics(layer) as found:
            layer(given)
        assert found.layers[""].operands["x"].amax == amax
    assert math.isnan(found.layers[""].snr_db["y"]) is False
