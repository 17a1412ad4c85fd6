"""Codes that are kept between calls are those of the weights as they are, whatever changed them."""

import copy

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig


def fp8_model(device, **options):
    model = torch.nn.Sequential(torch.nn.Linear(32, 48, **options), torch.nn.SiLU(), torch.nn.Linear(48, 16, **options)).to(device)
    rt.swap_linears(model, QuantConfig("hybrid", "rowwise"))
    return model


def quantisations(call):
    with torch.profiler.profile() as profile:
        call()
    return sum(event.name == "ridgeline::quantize" for event in profile.events())


def losses_of(device, make_optimizer, keep):
    torch.manual_seed(2)
    model, x, y = fp8_model(device), torch.randn(64, 32, device=device), torch.randn(64, 16, device=device)
    optimizer = make_optimizer(list(model.parameters()))
    history = []

    def steps():
        for _ in range(8):
            optimizer.zero_grad()
            for part in (slice(0, 32), slice(32, 64)):
                loss = torch.nn.functional.mse_loss(model(x[part]), y[part])
                loss.backward()
            optimizer.step()
            history.append(loss.item())

    if keep:
        with rt.quantized_weights(model, check=True):
            steps()
    else:
        steps()
    return history


class Unseen(torch.optim.Optimizer):
    """Changes weights through .data, which PyTorch does not count."""

    def __init__(self, parameters):
        super().__init__(parameters, {})

    def step(self, closure=None):
        for p in self.param_groups[0]["params"]:
            p.data.add_(p.grad, alpha=-0.3)


OPTIMIZERS = {
    "fused AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2, fused=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=1e-2),
    "fused SGD": lambda p: torch.optim.SGD(p, lr=0.3, fused=True),
    "through .data": Unseen,
}


@pytest.mark.parametrize("name", list(OPTIMIZERS))
def test_an_optimiser_that_moves_no_version_trains_on_fresh_codes(device, name):
    expected = losses_of(device, OPTIMIZERS[name], keep=False)
    assert losses_of(device, OPTIMIZERS[name], keep=True) == expected
    assert expected[-1] < 0.97 * expected[0]


def change_unseen(model):
    model[0].weight.data.mul_(1.5)


def test_new_step_forgets_and_check_finds_what_it_should_have(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    with rt.quantized_weights(model) as kept:
        before = model(x)
        change_unseen(model)
        assert torch.equal(model(x), before)  # what cannot be seen: said in the documentation
        kept.new_step()
        changed = model(x)
        assert not torch.equal(changed, before)
    assert torch.equal(model(x), changed)
    with rt.quantized_weights(model, check=True) as kept:
        model(x)
        change_unseen(model)
        with pytest.raises(RuntimeError, match=r"the weight of 0 has changed.*new_step\(\)"):
            model(x)
        kept.new_step()
        model(x)
        model[0].weight.data = model[0].weight.data.clone() * 2  # other memory: seen
        model(x)


def test_eval_then_training_and_a_frozen_weight(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    for frozen in (False, True):
        model.requires_grad_(not frozen)
        expected = torch.autograd.grad(model(x.requires_grad_()).sum(), x)[0]
        for mode in (torch.no_grad, torch.inference_mode):
            with rt.quantized_weights(model):
                with mode():
                    model.eval()(x)
                found = torch.autograd.grad(model.train()(x).sum(), x)[0]
                assert torch.equal(found, expected)


@pytest.mark.parametrize("use_reentrant", [True, False])
@pytest.mark.parametrize("inside", [True, False])
def test_checkpointing_in_and_out_of_the_block(device, use_reentrant, inside):
    model, x = fp8_model(device), torch.randn(8, 32, device=device, requires_grad=True)

    def grads(out):
        model.zero_grad()
        out.square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    expected = grads(model(x))
    with rt.quantized_weights(model):
        out = torch.utils.checkpoint.checkpoint(model, x, use_reentrant=use_reentrant)
        found = grads(out) if inside else None
    found = grads(out) if found is None else found
    assert all(torch.equal(want, have) for want, have in zip(expected, found, strict=True))


def test_blocks_nest_and_the_outer_one_keeps_its_codes(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    with rt.quantized_weights(model):
        model(x)
        once = quantisations(lambda: model(x))
        with rt.quantized_weights(model[0]):
            assert quantisations(lambda: model(x)) == once
        assert quantisations(lambda: model(x)) == once
    assert quantisations(lambda: model(x)) == once + 2


def test_a_block_that_checks_inside_one_that_does_not(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    with rt.quantized_weights(model), torch.no_grad():
        expected = model(x)
        with rt.quantized_weights(model, check=True):
            assert torch.equal(model(x), expected)  # codes made without a sum are made anew
            weight = model[0].weight
            weight.data.copy_(weight.data.flip(0))  # the same bits in another order, and no version counts it
            with pytest.raises(RuntimeError, match="has changed in a way that PyTorch does not count"):
                model(x)
        model(x)  # unchecked again


def test_forward_mode_inside(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    tangent = torch.randn_like(x)
    with torch.autograd.forward_ad.dual_level():
        expected = torch.autograd.forward_ad.unpack_dual(model(torch.autograd.forward_ad.make_dual(x, tangent))).tangent
        with rt.quantized_weights(model):
            found = torch.autograd.forward_ad.unpack_dual(model(torch.autograd.forward_ad.make_dual(x, tangent))).tangent
    assert torch.equal(found, expected)


def test_a_copy_made_inside_is_a_layer_of_its_own(device, tmp_path):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    with rt.quantized_weights(model):
        model(x)
        other = copy.deepcopy(model)
        torch.save(model, tmp_path / "model.pt")
    change_unseen(other)
    change_unseen(model)
    loaded = torch.load(tmp_path / "model.pt", weights_only=False)
    change_unseen(loaded)
    for copied in (other, loaded):
        assert torch.equal(copied(x), model(x)) and vars(copied[0]).keys() == vars(fp8_model(device)[0]).keys()


def test_another_recipe_and_another_autocast_make_other_codes(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    with rt.quantized_weights(model):
        model(x)
        rt.swap_linears(model, QuantConfig("e5m2", "tensorwise"))
        found = model(x)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            narrow = model(x)
        wide = model(x)
    assert torch.equal(found, model(x)) and torch.equal(wide, found)
    with torch.autocast(device.type, dtype=torch.bfloat16):
        assert torch.equal(narrow, model(x))


def test_compiled_models_quantise_for_themselves(device):
    torch._dynamo.reset()
    model, x = fp8_model(device), torch.randn(8, 32, device=device)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    expected = model(x)
    with rt.quantized_weights(model):
        model(x)
        torch.testing.assert_close(compiled(x), expected)
        change_unseen(model)
        changed = compiled(x)
    torch.testing.assert_close(changed, model(x))
    testing.assert_snr(model(x).double(), changed, 60)


def test_torch_func_inside(device):
    model, x = fp8_model(device), torch.randn(8, 32, device=device)

    def loss(parameters):
        return torch.func.functional_call(model, parameters, (x,)).square().sum()

    expected = torch.func.grad(loss)(dict(model.named_parameters()))
    with rt.quantized_weights(model):
        model(x)
        found = torch.func.grad(loss)(dict(model.named_parameters()))
    assert all(torch.equal(expected[name], found[name]) for name in expected)


@pytest.mark.parametrize("recipe", ["blockwise", "rowwise_with_gw_hp"])
def test_experts_keep_their_codes(device, recipe):
    torch.manual_seed(4)
    layer = rt.MoE(128, 128, 4, 2, recipe=recipe, device=device, dtype=torch.bfloat16)
    parts = [torch.randn(96, 128, device=device).bfloat16() for _ in range(2)]

    def gradients():
        layer.zero_grad()
        results = []
        for x in parts:
            results.append(layer(x).y)
            results[-1].float().square().sum().backward()
        return results + [layer.gate_up.weight.grad, layer.down.weight.grad]

    plain = gradients()
    with rt.quantized_weights(layer, check=True) as kept:
        assert all(torch.equal(one, other) for one, other in zip(gradients(), plain))
        inside = quantisations(gradients)
        with torch.no_grad():
            layer.down.weight *= 2
        doubled = gradients()
        assert not torch.equal(doubled[0], plain[0])
        layer.down.weight.data.copy_(layer.down.weight.data[:, [1, 0, *range(2, 128)]])
        with pytest.raises(RuntimeError, match="the weight of down has changed in a way that PyTorch does not count"):
            gradients()
        kept.new_step()
        gradients()
    of_weights = 4 if recipe == "blockwise" else 6  # two parts of two stacks: a call each, or one for either orientation, of which the first has no dx
    assert quantisations(gradients) == inside + of_weights
    layer.gate_up.weight.main_grad = torch.zeros(layer.gate_up.weight.shape, device=device)
    layer.down.weight.main_grad = torch.zeros(layer.down.weight.shape, device=device)
    sums = []
    for keep in (False, True):
        for weight in (layer.gate_up.weight, layer.down.weight):
            weight.main_grad.zero_()
        if keep:
            with rt.quantized_weights(layer):
                results = [layer(x).y.float().square().sum() for x in parts]
                sum(results).backward()
        else:
            sum(layer(x).y.float().square().sum() for x in parts).backward()
        sums.append([layer.gate_up.weight.main_grad.clone(), layer.down.weight.main_grad.clone()])
    assert all(torch.equal(*pair) for pair in zip(*sums)) and sums[0][0].any()
