"""200 steps by each recipe on three seeds end where bf16 ends."""

import statistics

import pytest
import torch

import ridgeline.torch as rt

SEEDS = (0, 1, 2)


def problem(generator):
    """Labels drawn from a fixed network's distribution: their entropy, which no model can learn, is most of the loss, as in language."""
    fixed = torch.Generator().manual_seed(99)
    inner, outer = 1.5 * torch.randn(32, 32, generator=fixed) / 32**0.5, 3 * torch.randn(32, 8, generator=fixed) / 32**0.5

    def batch(rows):
        x = torch.randn(rows, 32, generator=generator)
        return x, torch.multinomial(torch.softmax(torch.tanh(x @ inner) @ outer, 1), 1, generator=generator)[:, 0]

    return batch


def adam(parameters):
    return torch.optim.AdamW(parameters, lr=5e-3)


def loss_after_training(device, recipe, seed, damage=lambda model: None, optimise=lambda model: adam(model.parameters())):
    """The loss on 4096 fresh samples, the same for every run."""
    torch.manual_seed(seed)
    sizes = (32, 64, 64, 8)
    layers = [torch.nn.Linear(*pair) for pair in zip(sizes, sizes[1:])]
    model = torch.nn.Sequential(layers[0], torch.nn.GELU(), layers[1], torch.nn.GELU(), layers[2]).to(device)
    rt.convert(model, recipe)
    damage(model)
    optimizer = optimise(model)
    generator = torch.Generator().manual_seed(seed)
    batch = problem(generator)

    def loss(rows):
        x, y = (t.to(device) for t in batch(rows))
        with torch.autocast(device.type, dtype=torch.bfloat16):
            out = model(x)
        return torch.nn.functional.cross_entropy(out.float(), y)

    for _ in range(200):
        optimizer.zero_grad()
        loss(128).backward()
        optimizer.step()
    generator.manual_seed(1000)
    with torch.no_grad():
        return loss(4096).item()


@pytest.fixture(scope="module")
def bf16(device):
    """Losses of eight seeds in bf16, our products: their spread is what a start and an order of data are worth."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)  # of so little work
    yield [loss_after_training(device, "high_precision", seed) for seed in range(8)]
    torch.set_num_threads(threads)


def distance(found, bf16):
    """Between the means of three seeds, in standard errors of such a mean."""
    error = statistics.stdev(bf16) / len(SEEDS) ** 0.5
    return (statistics.mean(found) - statistics.mean(bf16[seed] for seed in SEEDS)) / error


# Before any recipe was run: the seeds are the same, so what is left is less than between other seeds, whose means differ by more than
# 2 sqrt(2) errors in one of twenty cases.
BOUND = 2.0


@pytest.mark.parametrize("recipe", [name for name in rt.recipes() if name != "high_precision"])
def test_training_ends_where_bf16_ends(device, bf16, recipe):
    found = [loss_after_training(device, recipe, seed) for seed in SEEDS]
    assert abs(distance(found, bf16)) < BOUND, (found, bf16)


@pytest.mark.parametrize("recipe", ["tensorwise", "blockwise"])
def test_training_with_codes_as_the_only_weights_ends_where_bf16_ends(device, bf16, recipe):
    found = [loss_after_training(device, recipe, seed, optimise=lambda model: rt.MasterWeights(model, adam)) for seed in SEEDS]
    assert abs(distance(found, bf16)) < BOUND, (found, bf16)


def without_dx(model):
    model[2].register_full_backward_hook(lambda layer, dx, dy: (torch.zeros_like(dx[0]),))


def wrong_dw(model):
    model[0].weight.register_hook(lambda dw: dw.flip(0))


@pytest.mark.parametrize("damage", [without_dx, wrong_dw])
def test_the_bound_is_beyond_the_reach_of_a_wrong_gradient(device, bf16, damage):
    assert distance([loss_after_training(device, "rowwise", seed, damage) for seed in SEEDS], bf16) > BOUND
