"""Weights that are trained as codes alone: the steps of layers that keep a float32 weight, without one."""

import copy

import pytest
import torch

import ridgeline.torch as rt
from ridgeline.torch import QuantConfig, masters

CONFIGS = [QuantConfig("hybrid", granularity) for granularity in ("tensorwise", "rowwise", "blockwise", "mx")]
ids = lambda config: config.granularity  # noqa: E731


def net(device, dtype=torch.float32, recipe="tensorwise"):
    torch.manual_seed(5)
    layers = torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Linear(96, 64, bias=False), torch.nn.LayerNorm(64), torch.nn.Linear(64, 8)
    model = torch.nn.Sequential(*layers).to(device, dtype)
    rt.convert(model, recipe)
    return model


def adam(named):
    return torch.optim.AdamW(named, lr=1e-2, weight_decay=0.1)


def train(model, optimizer, device, dtype=torch.float32, steps=4, seed=11):
    generator = torch.Generator().manual_seed(seed)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(2):  # micro-batches
            loss = model(torch.randn(24, 64, generator=generator).to(device, dtype)).square().mean()
            loss.backward()
            losses.append(loss.item())
        optimizer.step()
    return losses


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_steps_are_those_of_layers_with_float32_weights(device, config):
    model, other = net(device, recipe=config), net(device, recipe=config)
    optimizer = rt.MasterWeights(model, adam)
    assert optimizer.coded == ["0.weight", "2.weight", "4.weight"] and not optimizer.left
    theirs = torch.optim.AdamW(other.parameters(), lr=1e-2, weight_decay=0.1)
    assert train(model, optimizer, device) == train(other, theirs, device)
    masters = optimizer.state_dict()["masters"]
    for name, weight in other.named_parameters():
        assert torch.equal(masters.get(name, model.get_parameter(name)), weight)
    for index in (0, 2, 4):
        weight = model[index].weight
        assert isinstance(weight, rt.QuantizedTensor) and weight.requires_grad and weight.grad.dtype == torch.float32
        parts = [part for part in weight._parts() if part is not None]
        assert {part.dtype.itemsize for part in parts} <= {1, 4}  # codes and scales: no matrix of high precision is left
        assert sum(part.nbytes for part in parts) < 2.6 * weight.numel()


@pytest.mark.parametrize("config", CONFIGS, ids=ids)
def test_our_adamw_writes_the_codes_where_it_steps(device, config, monkeypatch):
    def ours(named):
        return rt.AdamW(named, lr=1e-2, weight_decay=0.1)

    model, other, quantised = net(device, recipe=config), net(device, recipe=config), net(device, recipe=config)
    optimizer, follower = rt.MasterWeights(model, ours), rt.MasterWeights(quantised, ours)
    follower._inner._codes.clear()  # its codes are made by a pass behind the step
    losses = [train(quantised, follower, device), train(other, ours(other.parameters()), device)]

    def refuse(*_, **__):
        raise AssertionError("the weight was quantised again")

    monkeypatch.setattr(masters, "quantize", refuse)
    found = train(model, optimizer, device)
    for expected in losses:
        assert found == pytest.approx(expected, rel=0 if device.type == "cpu" else 1e-4)
    if device.type == "cpu":
        for one, two in zip(model.parameters(), quantised.parameters(), strict=True):
            parts = zip(one._parts(), two._parts(), strict=True) if isinstance(one, rt.QuantizedTensor) else [(one, two)]
            assert all(torch.equal(a.view(torch.uint8), b.view(torch.uint8)) for a, b in parts)
    twin, theirs = copy.deepcopy((model, optimizer))
    assert train(twin, theirs, device, seed=4) == train(model, optimizer, device, seed=4)
    monkeypatch.undo()
    optimizer.load_state_dict(optimizer.state_dict())  # masters that are copied are quantised
    weight = model[0].weight
    codes = rt.quantize(optimizer.state_dict()["masters"]["0.weight"], config, weight=True, transpose=True)
    assert torch.equal(weight.q.view(torch.uint8), codes.q.view(torch.uint8))
    assert torch.equal(weight.scale_t.view(torch.uint8), codes.scale_t.view(torch.uint8))


def test_16_bit_models_step_in_float32(device):
    model = net(device, torch.bfloat16)
    optimizer = rt.MasterWeights(model, lambda named: torch.optim.SGD(named, lr=1e-6))
    before = {name: master.clone() for name, master in optimizer.state_dict()["masters"].items()}
    assert set(before) == {name for name, _ in model.named_parameters()}
    train(model, optimizer, device, torch.bfloat16)
    after = optimizer.state_dict()["masters"]
    assert all(master.dtype == torch.float32 and not torch.equal(master, before[name]) for name, master in after.items())
    assert model[0].bias.dtype == torch.bfloat16 and torch.equal(model[0].bias, after["0.bias"].bfloat16())
    assert model[0].weight.grad.dtype == torch.bfloat16


def test_a_state_goes_through_a_file_and_goes_on_where_it_was(device, tmp_path):
    model = net(device)
    optimizer = rt.MasterWeights(model, adam)
    train(model, optimizer, device)
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / "state.pt")
    expected = train(model, optimizer, device, seed=12)
    torch.manual_seed(99)
    fresh = net(device)
    resumed = rt.MasterWeights(fresh, adam)
    state = torch.load(tmp_path / "state.pt", weights_only=True)
    fresh.load_state_dict(state["model"])
    with pytest.raises(RuntimeError, match=r"0\.weight was changed by something else.*read_masters\(\)"):
        resumed.step()
    resumed.load_state_dict(state["optimizer"])
    assert train(fresh, resumed, device, seed=12) == expected
    with pytest.raises(ValueError, match="has no masters"):
        resumed.load_state_dict(adam(list(net(device).named_parameters())).state_dict())
    smaller = rt.MasterWeights(net(device)[:3], adam)
    with pytest.raises(ValueError, match=r"of another model: 4\.weight is \(8, 64\) there and None here"):
        smaller.load_state_dict(state["optimizer"])


def test_weights_that_were_loaded_alone_become_the_masters(device):
    model, source = net(device), net(device)
    train(source, rt.MasterWeights(source, adam), device)
    optimizer = rt.MasterWeights(model, adam)
    source_codes = rt.MasterWeights(net(device), adam)  # the form of the state dict
    assert source_codes.coded == optimizer.coded
    model.load_state_dict(source.state_dict())
    optimizer.read_masters()
    for name in optimizer.coded:
        assert torch.equal(optimizer.state_dict()["masters"][name], source.get_parameter(name).dequantize(torch.float32))
    train(model, optimizer, device)


def test_schedulers_clipping_closures_and_scalers_work_on_it(device):
    model, other = net(device), net(device)
    optimizer, theirs = rt.MasterWeights(model, adam), torch.optim.AdamW(other.parameters(), lr=1e-2, weight_decay=0.1)
    schedules = [torch.optim.lr_scheduler.StepLR(each, 1, gamma=0.5) for each in (optimizer, theirs)]
    for each, opt, schedule in ((model, optimizer, schedules[0]), (other, theirs, schedules[1])):
        x = torch.randn(16, 64, generator=torch.Generator().manual_seed(3)).to(device)
        for _ in range(3):
            opt.zero_grad()
            each(x).square().sum().backward()
            torch.nn.utils.clip_grad_norm_(each.parameters(), 0.1)
            opt.step()
            schedule.step()

        def closure():
            opt.zero_grad()
            loss = each(x).square().sum()
            loss.backward()
            return loss

        assert opt.step(closure) > 0
        each(x).square().sum().backward()
    assert torch.equal(model[0].weight.grad, other[0].weight.grad)
    assert optimizer.param_groups[0]["lr"] == theirs.param_groups[0]["lr"] == 1e-2 / 8
    assert torch.equal(optimizer.state_dict()["masters"]["0.weight"], other[0].weight)
    optimizer.take_gradients()
    assert model[0].weight.grad is None and optimizer.param_groups[0]["params"][0].grad is not None
    optimizer.step()
    theirs.step()
    assert torch.equal(optimizer.state_dict()["masters"]["0.weight"], other[0].weight)
    optimizer.zero_grad(set_to_none=False)


def test_an_optimiser_that_calls_its_closure_often_sees_weights_that_moved(device):
    model, other = net(device), net(device)
    make = lambda params: torch.optim.LBFGS(params, lr=0.1, max_iter=3)  # noqa: E731
    losses = []
    for each, opt in ((model, rt.MasterWeights(model, make)), (other, make(other.parameters()))):
        x = torch.randn(16, 64, generator=torch.Generator().manual_seed(3)).to(device)

        def closure():
            opt.zero_grad()
            losses.append(each(x).square().mean())
            losses[-1].backward()
            return losses[-1]

        opt.step(closure)
    assert losses[: len(losses) // 2] == losses[len(losses) // 2 :] and losses[0] != losses[2]


def test_a_trainers_main_grad_is_what_the_masters_get(device):
    model, other = net(device), net(device)
    for each in model.parameters():
        each.main_grad = torch.zeros_like(each)
        each.mark = "ours"
    optimizer, theirs = rt.MasterWeights(model, adam), torch.optim.AdamW(other.parameters(), lr=1e-2, weight_decay=0.1)
    assert model[0].weight.mark == "ours" and isinstance(model[0].weight, rt.QuantizedTensor)
    x = torch.randn(16, 64).to(device)
    for each, opt in ((model, optimizer), (other, theirs)):
        each(x).square().mean().backward()
    assert model[0].weight.grad is None and model[0].weight.main_grad.any()
    for name, each in model.named_parameters():
        if each.grad is not None:  # no product adds there: the trainer's hooks do
            each.main_grad.copy_(each.grad)
            each.grad = None
    optimizer.step()
    theirs.step()
    masters = optimizer.state_dict()["masters"]
    for name, weight in other.named_parameters():
        assert torch.equal(masters.get(name, model.get_parameter(name)), weight), name
        assert model.get_parameter(name).grad is None and model.get_parameter(name).main_grad.any()


def scaled_step(model, optimizer, scaler, x, take, unscale=False):
    optimizer.zero_grad()
    scaler.scale(model(x).square().mean()).backward()
    if take:
        optimizer.take_gradients()
    if unscale:
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    scaler.update()


@pytest.mark.parametrize("unscale", [False, True])
def test_a_gradient_scaler_sees_every_gradient_or_says_so(device, unscale):
    sgd = lambda named: torch.optim.SGD(named, lr=0.1)  # noqa: E731
    model, other = net(device), net(device)
    optimizer, theirs = rt.MasterWeights(model, sgd), sgd(other.parameters())
    x = torch.randn(16, 64, generator=torch.Generator().manual_seed(3)).to(device)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
    with pytest.raises(RuntimeError, match=r"has not seen the gradient of 0\.weight.*take_gradients\(\)"):
        scaled_step(model, optimizer, scaler, x, take=False, unscale=unscale)
    scaler = torch.amp.GradScaler(device.type, init_scale=1024.0)
    scaled_step(model, optimizer, scaler, x, take=True, unscale=unscale)
    other(x).square().mean().backward()
    theirs.step()
    before = {name: master.clone() for name, master in optimizer.state_dict()["masters"].items()}
    assert all(torch.allclose(master, other.get_parameter(name), atol=1e-6) for name, master in before.items())
    model[0].weight.register_hook(lambda dw: dw * float("inf"))
    scaled_step(model, optimizer, scaler, x, take=True, unscale=unscale)
    assert all(torch.equal(master, before[name]) for name, master in optimizer.state_dict()["masters"].items())
    assert scaler.get_scale() < 1024.0


def test_gradients_that_were_taken_are_added_to(device):
    sgd = lambda named: torch.optim.SGD(named, lr=0.1)  # noqa: E731
    model, other = net(device), net(device)
    optimizer, theirs = rt.MasterWeights(model, sgd), sgd(other.parameters())
    generator = torch.Generator().manual_seed(3)
    for turn in range(4):
        x = torch.randn(16, 64, generator=generator).to(device)
        model(x).square().mean().backward()
        other(x).square().mean().backward()
        if turn < 3:
            optimizer.take_gradients()
    torch.nn.utils.clip_grad_norm_([each for each in other.parameters()], 1e9)
    optimizer.step()
    theirs.step()
    for name, master in optimizer.state_dict()["masters"].items():
        torch.testing.assert_close(master, other.get_parameter(name), rtol=1e-6, atol=1e-7)


def test_a_step_that_fails_leaves_no_gradient_behind(device):
    model = net(device)
    optimizer = rt.MasterWeights(model, lambda named: torch.optim.SGD(named, lr=0.1))
    model(torch.randn(16, 64, device=device)).square().mean().backward()
    hook = optimizer._inner.register_step_pre_hook(lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        optimizer.step()
    hook.remove()
    model.zero_grad()
    before = optimizer.state_dict()["masters"]["0.weight"].clone()
    optimizer.step()
    assert torch.equal(optimizer.state_dict()["masters"]["0.weight"], before)


@pytest.mark.parametrize("by", ["copy", "pickle"])
def test_copies_go_on_with_their_own_model(device, by, tmp_path):
    model = net(device)
    optimizer = rt.MasterWeights(model, adam)
    train(model, optimizer, device)
    if by == "copy":
        twin, theirs = copy.deepcopy((model, optimizer))
    else:
        torch.save((model, optimizer), tmp_path / "both.pt")
        twin, theirs = torch.load(tmp_path / "both.pt", weights_only=False)
    assert repr(theirs) == repr(optimizer) and twin[0].weight is not model[0].weight
    assert train(twin, theirs, device, seed=12) == train(model, optimizer, device, seed=12)


def test_a_parameter_that_was_exchanged_is_an_error(device):
    model = net(device)
    optimizer = rt.MasterWeights(model, adam)
    model.load_state_dict(model.state_dict(), assign=True)
    with pytest.raises(RuntimeError, match=r"0\.weight of the model is another parameter now.*make MasterWeights after that"):
        optimizer.step()


def test_hooks_of_state_dicts_run(device):
    model = net(device)
    optimizer = rt.MasterWeights(model, adam)
    seen = []
    optimizer.register_state_dict_pre_hook(lambda _: seen.append("pre"))
    optimizer.register_state_dict_post_hook(lambda _, state: {**state, "note": "ours"})
    optimizer.register_load_state_dict_pre_hook(lambda _, state: {key: value for key, value in state.items() if key != "note"})
    optimizer.register_load_state_dict_post_hook(lambda _: seen.append("loaded"))
    state = optimizer.state_dict()
    assert state["note"] == "ours"
    optimizer.load_state_dict(state)
    assert seen == ["pre", "loaded"]


class Tied(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.table, self.head = torch.nn.Embedding(32, 64), torch.nn.Linear(64, 32, bias=False)
        self.head.weight = self.table.weight
        self.one, self.two, self.frozen = (torch.nn.Linear(64, 64) for _ in range(3))
        self.two.weight = self.one.weight
        self.frozen.requires_grad_(False)


def test_weights_that_must_stay_matrices_are_named_with_the_reason(device):
    model = Tied().to(device)
    rt.convert(model, "rowwise")
    optimizer = rt.MasterWeights(model, adam)
    assert optimizer.coded == ["one.weight"] and model.two.weight is model.one.weight
    assert optimizer.left == {"table.weight": "an Embedding reads it, too"} and "left: table.weight: an Embedding" in repr(optimizer)
    assert type(model.frozen.weight) is torch.nn.Parameter


def hooked(model):
    model[0].weight.register_hook(lambda dw: dw)


def computed(model):
    torch.nn.utils.parametrizations.weight_norm(model[0])


@pytest.mark.parametrize(
    "recipe, change, name, reason",
    [
        ("tensorwise", hooked, "0.weight", "it has hooks"),
        ("tensorwise", computed, None, None),
        ("delayed", None, "0.weight", "delayed scaling"),
        (rt.Recipe(QuantConfig(), None, None), None, "0.weight", "more than one format"),
        ("rowwise_with_gw_hp", None, None, None),
    ],
)
def test_what_cannot_be_codes_trains_as_it_did(device, recipe, change, name, reason):
    model, other = net(device, recipe=recipe), net(device, recipe=recipe)
    if change is not None:
        change(model)
        change(other)
    optimizer = rt.MasterWeights(model, adam)
    assert name is None and not optimizer.left or reason in optimizer.left[name]
    theirs = torch.optim.AdamW(other.parameters(), lr=1e-2, weight_decay=0.1)
    assert train(model, optimizer, device) == train(other, theirs, device)


def test_what_make_gives_wrong_is_refused_and_nothing_is_changed(device):
    model = net(device)
    weights = dict(model.named_parameters())
    with pytest.raises(ValueError, match="must give a torch.optim.Optimizer"):
        rt.MasterWeights(model, lambda named: named)
    strange = torch.nn.Parameter(torch.zeros(3))
    with pytest.raises(ValueError, match=r"of shape \(3,\) that it was not given"):
        rt.MasterWeights(model, lambda named: torch.optim.SGD([strange]))
    assert all(model.get_parameter(name) is weight for name, weight in weights.items())
    optimizer = rt.MasterWeights(model, adam)
    with pytest.raises(NotImplementedError, match="make it again"):
        optimizer.add_param_group({"params": [strange]})


def test_compiled_steps_are_those_of_eager_ones(device):
    x = torch.randn(16, 64, device=device)
    gradients = []
    for compiled in (False, True):
        model = net(device)
        optimizer = rt.MasterWeights(model, adam)
        call = torch.compile(model, backend="aot_eager", fullgraph=True) if compiled else model
        for _ in range(2):
            optimizer.zero_grad()
            call(x).square().mean().backward()
            gradients.append(model[0].weight.grad.clone())
            optimizer.step()
    assert torch.equal(gradients[0], gradients[2]) and torch.equal(gradients[1], gradients[3])


def test_distributed_data_parallel_comes_after_it(on_cpu, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    try:
        wrapped = torch.nn.parallel.DistributedDataParallel(net("cpu"))
        with pytest.raises(ValueError, match="init_sync=False"):
            rt.MasterWeights(wrapped, adam)
    finally:
        torch.distributed.destroy_process_group()
