"""Weights that are kept as codes: the same results, half of the memory, files that load into a new model."""

import copy
import pickle

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig, products

CONFIGS = [QuantConfig("e4m3", granularity) for granularity in ("tensorwise", "rowwise", "blockwise", "mx")]
ids = lambda config: config.granularity  # noqa: E731


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embedding = torch.nn.Embedding(50, 64)
        self.up, self.down = torch.nn.Linear(64, 200), torch.nn.Linear(200, 64, bias=False)
        self.head = torch.nn.Linear(64, 50, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, tokens):
        x = self.embedding(tokens)
        return self.head(x + self.down(torch.nn.functional.silu(self.up(x))))


def net(device, seed=3):
    torch.manual_seed(seed)
    return Net().to(device).eval()


@pytest.fixture
def tokens(device):
    return torch.randint(0, 50, (3, 7), device=device)


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_results_are_those_of_layers_that_quantise_their_weights(device, tokens, config):
    model, other = net(device), net(device)
    rt.convert(other, config)
    weight = model.up.weight
    report = rt.quantize_(model, config)
    assert list(report.swapped) == ["up", "down", "head"] and f"e4m3, {config.granularity}" in str(report)
    assert isinstance(model.up.weight, rt.QuantizedTensor) and isinstance(model.up.weight, torch.nn.Parameter)
    assert not model.up.weight.requires_grad and "weight in codes" in repr(model.up)
    assert type(model.embedding.weight) is torch.nn.Parameter  # shares no codes: a table is not multiplied
    for mode in (torch.no_grad, torch.inference_mode):
        with mode():
            assert torch.equal(model(tokens), other(tokens))
            with torch.autocast(device.type, dtype=torch.bfloat16):  # codes stay those of the weight in float32
                assert model(tokens).dtype == torch.bfloat16
                testing.assert_snr(other(tokens).double(), model(tokens), 25)
    with rt.autocast_fp8(enabled=False):  # by what the codes stand for
        reference = net(device)
        for name in ("up", "down", "head"):
            setattr(reference.get_submodule(name), "weight", torch.nn.Parameter(model.get_submodule(name).weight.dequantize()))
        testing.assert_snr(reference(tokens), model(tokens), 90)
    with rt.autocast_fp8(recipe="tensorwise" if config.granularity != "tensorwise" else "mx"):
        found = model(tokens)
    assert torch.equal(found, model(tokens))  # codes have their recipe
    parts = [part for part in model.up.weight._parts() if part is not None]
    assert sum(part.nbytes for part in parts) < 0.3 * weight.nbytes


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_state_dicts_go_through_files_into_a_new_model(device, tokens, config, tmp_path):
    model = net(device)
    rt.quantize_(model, config)
    expected = model(tokens)
    torch.save(model.state_dict(), tmp_path / "codes.pt")
    state = torch.load(tmp_path / "codes.pt", weights_only=True)
    assert (tmp_path / "codes.pt").stat().st_size < 60_000
    fresh = net(device, seed=4)
    rt.quantize_(fresh, config)
    assert not torch.equal(fresh(tokens), expected)
    fresh.load_state_dict(state)
    assert torch.equal(fresh(tokens), expected)
    with torch.device("meta"):
        empty = Net().eval()
    rt.quantize_(empty, config)
    empty.load_state_dict(state, assign=True)
    assert torch.equal(empty(tokens), expected)


def test_state_dicts_that_do_not_go_with_the_layers_are_refused(device, tokens):
    plain, codes = net(device).state_dict(), net(device)
    rt.quantize_(codes)
    for recipe, given, message in (
        (QuantConfig("e5m2", "rowwise"), codes.state_dict(), "up.weight: the file's codes are .*float8_e4m3fn.*the layer's .*float8_e5m2"),
        ("blockwise", codes.state_dict(), "grouping 'row'.*grouping '128x128'"),
        ("rowwise", plain, "no codes but torch.float32.*load it before quantize_"),
        (None, codes.state_dict(), "layer's weight is none; call quantize_"),
    ):
        wrong = net(device, seed=4)
        rt.convert(wrong, "rowwise") if recipe is None else rt.quantize_(wrong, recipe)
        before = wrong(tokens)
        with pytest.raises(RuntimeError, match=message):
            wrong.load_state_dict({name: value for name, value in given.items() if name in ("up.weight", "down.weight")}, strict=False)
        assert torch.equal(wrong(tokens), before)


def test_safetensors_hold_codes(device, tokens, tmp_path):
    safetensors = pytest.importorskip("safetensors.torch")
    from safetensors import safe_open

    model = net(device)
    rt.quantize_(model)
    state = {name: value for name, value in model.state_dict().items()}
    tensors, metadata = rt.to_plain_tensors(state)
    safetensors.save_file(tensors, tmp_path / "codes.safetensors", metadata)
    with safe_open(tmp_path / "codes.safetensors", "pt") as file:
        read = rt.from_plain_tensors({name: file.get_tensor(name) for name in file.keys()}, file.metadata())
    fresh = net(device, seed=4)
    rt.quantize_(fresh)
    fresh.load_state_dict(read)
    assert torch.equal(fresh(tokens), model(tokens))


def test_plain_tensors_hold_codes_of_a_model(device, tokens):
    """What a safetensors file holds, without the package."""
    model, fresh = net(device), net(device, seed=4)
    rt.quantize_(model)
    rt.quantize_(fresh)
    tensors, metadata = rt.to_plain_tensors(model.state_dict())
    assert all(type(tensor) is torch.Tensor for tensor in tensors.values())
    fresh.load_state_dict(rt.from_plain_tensors(tensors, metadata))
    assert torch.equal(fresh(tokens), model(tokens))


def test_models_are_copied_pickled_moved_compiled_and_exported(device, tokens):
    model = net(device)
    rt.quantize_(model)
    with torch.no_grad():
        expected = model(tokens)
        for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model)), copy.deepcopy(model).cpu().to(device)):
            assert isinstance(other.up.weight, rt.QuantizedTensor) and torch.equal(other(tokens), expected)
        torch._dynamo.reset()
        compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
        torch.testing.assert_close(compiled(tokens), expected, rtol=1e-4, atol=1e-5)


def test_inputs_get_gradients_where_the_transpose_is_kept(device):
    """Adapters beside frozen codes."""
    layer = torch.nn.Linear(64, 48, device=device)
    weight = layer.weight.detach().clone()
    without = copy.deepcopy(layer)
    rt.quantize_(without, "rowwise")
    rt.quantize_(layer, "rowwise", transpose=True)
    x, dy = torch.randn(20, 64, device=device, requires_grad=True), torch.randn(20, 48, device=device)
    layer(x).backward(dy)
    testing.assert_snr(dy.double() @ weight.double(), x.grad, 25)
    assert layer.weight.grad is None and layer.bias.grad is not None
    with pytest.raises(ValueError, match="transpose=True"):
        without(x).sum().backward()
    assert torch.equal(without(x.detach()), without(x))


def test_what_is_left_and_what_comes_after(device, tokens):
    model = net(device)
    model.down = torch.nn.utils.parametrizations.weight_norm(model.down)
    model.second = model.up
    report = rt.quantize_(model, "blockwise", keep=lambda name, layer: name == "head")
    assert "is computed in each call" in report.left["down"] and report.left["head"] == "keep() is true"
    assert list(report.swapped) == ["up", "second"] and model.second is model.up
    codes = model.up.weight
    for again in (lambda: rt.quantize_(model, "rowwise"), lambda: rt.convert(model, "rowwise"), lambda: rt.unswap(model)):
        assert "kept as codes" in again().left["up"] and model.up.weight is codes
    model(tokens)


def test_layers_that_share_a_weight_go_on_sharing_it(device):
    model = torch.nn.ModuleList([torch.nn.Linear(16, 16, device=device) for _ in range(2)])
    model[1].weight = model[0].weight
    rt.quantize_(model)
    assert model[0].weight is model[1].weight and isinstance(model[0].weight, rt.QuantizedTensor)
    assert len(list(model.parameters())) == 3


def test_codes_are_rounded_to_nearest_by_every_recipe(device):
    """Stochastic rounding is of gradients."""
    layer = torch.nn.Linear(64, 48, device=device)
    expected = rt.quantize(layer.weight.detach(), QuantConfig(), weight=True)
    rt.quantize_(layer, QuantConfig(rounding="stochastic"))
    assert torch.equal(layer.weight.q.view(torch.uint8), expected.q.view(torch.uint8))
    assert layer.config.rounding == "stochastic"


def test_codes_of_another_dtype_than_the_input(device):
    """By an operator, and put together in Python as a Recipe is."""
    x = torch.randn(6, 64, device=device)
    for recipe in (QuantConfig("e4m3", "rowwise"), QuantConfig("e4m3", "rowwise", sums="promoted")):
        found = []
        for dtype in (torch.float32, torch.bfloat16):
            torch.manual_seed(5)
            layer = torch.nn.Linear(64, 48, bias=False).bfloat16().to(dtype).to(device)
            rt.quantize_(layer, recipe)
            assert layer.weight.dtype == dtype
            with torch.no_grad():
                found.append(layer(x))
        assert found[1].dtype == torch.float32 and torch.equal(*found)


@pytest.mark.parametrize("transposed", [False, True])
def test_what_codes_stand_for_has_a_gradient_that_is_theirs(device, transposed):
    w, dy = torch.randn(48, 64, device=device, requires_grad=True), torch.randn(48, 64, device=device)
    codes = rt.quantize(w, QuantConfig("e4m3", "rowwise"), transpose=True)
    if transposed:
        only = rt.QuantizedTensor(None, None, codes.q_t, codes.scale_t, "row", torch.float32).requires_grad_()
        only.dequantize(torch.bfloat16).backward(dy.bfloat16())
        assert torch.equal(only.grad, dy.bfloat16().float())
        return
    codes.dequantize().backward(dy)
    assert torch.equal(w.grad, dy)
    with torch.no_grad():
        assert not codes.dequantize().requires_grad
    # A recipe whose forward product is of high precision reads what the codes stand for.
    x = torch.randn(5, 64, device=device)
    w.grad = None
    made = rt.quantize(w, QuantConfig("e4m3", "rowwise"))
    products.layer(x, made, rt.Recipe(None, None, None, pad_rows=1)).sum().backward()
    testing.assert_snr(torch.ones(48, 5).double() @ x.cpu().double(), w.grad, 100)
