"""Exchanging layers in place damages nothing, says what it did, and can be undone."""

import copy

import pytest
import torch
from torch.nn.utils import parametrizations, parametrize, prune

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig

CONFIGS = [None, QuantConfig("hybrid", "rowwise")]


def plain(layer):
    return layer


class Doubled(torch.nn.Module):
    def forward(self, weight):
        return 2 * weight


def doubled(layer):
    parametrize.register_parametrization(layer, "weight", Doubled())
    return layer


def pruned(layer):
    return prune.l1_unstructured(layer, "weight", amount=0.5)


WRAPPED = {
    "plain": plain,
    "weight_norm": torch.nn.utils.weight_norm,
    "weight_norm parametrisation": parametrizations.weight_norm,
    "spectral_norm": torch.nn.utils.spectral_norm,
    "spectral_norm parametrisation": parametrizations.spectral_norm,
    "pruning": pruned,
    "parametrisation": doubled,
}


@pytest.mark.filterwarnings("ignore:.*weight_norm:FutureWarning")
@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
@pytest.mark.parametrize("wrap", list(WRAPPED))
def test_what_computes_a_weight_goes_on_computing_it(device, wrap, config):
    torch.manual_seed(4)
    theirs = torch.nn.Sequential(WRAPPED[wrap](torch.nn.Linear(64, 32)), torch.nn.Tanh()).to(device)
    x = torch.randn(16, 64, device=device)
    for _ in range(15):
        theirs(x)  # spectral_norm starts from random vectors, by which it divides
    theirs.eval()

    def step(model):
        model.zero_grad()
        for _ in range(2):  # a weight that a hook computes is another in each call
            out = model(x)
            out.square().mean().backward()
            with torch.no_grad():
                for p in model.parameters():
                    p.mul_(1.01)
        return out, {name: p.grad for name, p in model.named_parameters()}

    torch.manual_seed(4)  # not a copy: PyTorch copies no tensor that a hook computed
    ours = torch.nn.Sequential(WRAPPED[wrap](torch.nn.Linear(64, 32)), torch.nn.Tanh()).to(device).eval()
    ours.load_state_dict(theirs.state_dict())
    before = list(ours.state_dict())
    parameters = dict(ours.named_parameters())
    report = rt.swap_linears(ours, config)
    assert list(report.swapped) == ["0"] and not report.left
    assert isinstance(ours[0], rt.Linear if config is None else rt.Fp8Linear)
    assert list(ours.state_dict()) == before
    assert all(p is parameters[name] for name, p in ours.named_parameters())
    expected, grads = step(theirs)
    with rt.quantized_weights(ours):
        out, found = step(ours)
    floor = 90 if config is None else 18
    testing.assert_snr(expected.double(), out, floor)
    assert found.keys() == grads.keys()
    for name, grad in grads.items():
        testing.assert_snr(grad.double(), found[name], floor)
    rt.unswap(ours)
    assert not isinstance(ours[0], (rt.Linear, rt.Fp8Linear))
    if "parametrisation" in wrap:
        parametrize.remove_parametrizations(ours[0], "weight")
        assert type(ours[0]) is torch.nn.Linear
    testing.assert_snr(theirs(x).double(), ours(x), 100)


@pytest.mark.parametrize("config", CONFIGS, ids=["gemm", "fp8"])
def test_hooks_buffers_and_attributes_stay(device, config):
    layer = torch.nn.Linear(8, 4, device=device)
    seen = []
    handle = layer.register_forward_hook(lambda module, inputs, out: seen.append(type(module).__name__))
    layer.register_full_backward_hook(lambda module, grad_in, grad_out: seen.append("backward"))
    layer.register_buffer("scale", torch.ones(3, device=device))
    layer.note = "mine"
    layer.weight.requires_grad_(False)
    layer.eval()
    rt.swap_linears(layer, config)
    assert layer.note == "mine" and layer.scale.shape == (3,) and not layer.weight.requires_grad and not layer.training
    layer(torch.randn(2, 8, device=device, requires_grad=True)).sum().backward()
    assert seen == ["Linear" if config is None else "Fp8Linear", "backward"]
    handle.remove()
    layer(torch.randn(2, 8, device=device))
    assert len(seen) == 2
    made = rt.Linear.from_float(layer)
    assert made is not layer and made.note == "mine" and "scale" in made.state_dict() and made.weight is layer.weight
    made.extra = torch.nn.Parameter(torch.ones(1))
    assert "extra" not in layer.state_dict()


def test_a_layer_with_two_names_stays_one(device):
    shared = torch.nn.Linear(8, 8, device=device)
    model = torch.nn.ModuleDict({"first": shared, "second": shared, "head": torch.nn.Linear(8, 2, device=device)})
    report = rt.swap_linears(model, QuantConfig(), keep=lambda name, layer: name == "head")
    assert model["first"] is model["second"] is shared and type(shared) is rt.Fp8Linear
    assert list(report.swapped) == ["first", "second"] and report.left == {"head": "keep() is true"}
    assert rt.swap_linears(model, keep=lambda name, layer: name == "second").left.keys() == {"first", "second"}
    assert type(shared) is rt.Fp8Linear and type(model["head"]) is rt.Linear


def test_a_second_call_changes_the_recipe_and_unswap_ends_it(device):
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, device=device))
    for config, kind in (
        (QuantConfig(), rt.Fp8Linear),
        (QuantConfig("hybrid", "blockwise"), rt.Fp8Linear),
        (None, rt.Linear),
        (QuantConfig(granularity="rowwise"), rt.Fp8Linear),
    ):
        report = rt.swap_linears(model, config)
        assert type(model[0]) is kind and getattr(model[0], "config", None) == config
        assert report.swapped == {"0": "gemm" if config is None else f"gemm_fp8: {config.format}, {config.granularity}"}
    assert str(rt.unswap(model)) == "0: torch"
    assert type(model[0]) is torch.nn.Linear and vars(model[0]).keys() == vars(torch.nn.Linear(1, 1)).keys()


class Odd(torch.nn.Linear):
    pass


def test_what_is_left_alone_is_said_with_the_reason(device):
    model = torch.nn.ModuleDict(
        {
            "odd": Odd(4, 4, device=device),
            "attention": torch.nn.MultiheadAttention(4, 1, device=device),
            "wide": torch.nn.Linear(4, 4).double(),
            "plain": torch.nn.Linear(4, 4, device=device),
        }
    )
    report = rt.swap_linears(model, QuantConfig())
    assert list(report.swapped) == ["plain"] and report.left.keys() == {"odd", "attention.out_proj", "wide"}
    assert "Odd has code of its own" in report.left["odd"] and "torch.float64" in report.left["wide"]
    assert type(model["odd"]) is Odd and "odd: left: " in str(report)


def test_a_layer_that_cannot_be_kept_whole_is_refused_by_name_and_nothing_is_changed(device):
    model = torch.nn.Sequential(torch.nn.Linear(4, 4, device=device), torch.nn.Sequential(torch.nn.Linear(4, 4, device=device)))
    inner = model[1][0]
    inner.forward = lambda x: torch.nn.functional.linear(x, inner.weight)
    with pytest.raises(ValueError, match=r"1\.0 has a forward of its own"):
        rt.swap_linears(model)
    assert type(model[0]) is torch.nn.Linear
    rt.swap_linears(model, keep=lambda name, layer: "forward" in vars(layer))
    report = rt.unswap(model)  # a layer that is torch's already is no obstacle
    assert report.left["1.0"] == "is a torch.nn.Linear"
    del inner.forward
    inner.config = "mine"
    with pytest.raises(ValueError, match=r"1\.0 has an attribute 'config' of its own"):
        rt.swap_linears(model, QuantConfig())
    rt.swap_linears(model)
    rt.unswap(model)
    assert inner.config == "mine"


def test_an_exchanged_layer_is_copied_saved_and_loaded(device, tmp_path):
    model = torch.nn.Sequential(torch.nn.Linear(64, 32, device=device))
    rt.swap_linears(model, QuantConfig())
    x = torch.randn(4, 64, device=device)
    torch.save(model, tmp_path / "model.pt")
    for other in (copy.deepcopy(model), torch.load(tmp_path / "model.pt", weights_only=False)):
        assert type(other[0]) is rt.Fp8Linear and torch.equal(other(x), model(x))
