"""Recipes: each product as its own config says, by name, by module, by block, and where backward and checkpoints run them again."""

import copy
import dataclasses
import math
import pathlib
import pickle
import re
import threading

import ml_dtypes
import numpy as np
import pytest
import torch
import torch._dynamo.testing
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import checkpoint

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import DelayedScaling, QuantConfig, Recipe
from ridgeline.torch.precision import in_force

CONFIGS = {
    "none": None,
    "tensor": QuantConfig("hybrid", "tensorwise"),
    "row": QuantConfig("e4m3", "rowwise", torch.float8_e8m0fnu),
    "block": QuantConfig("hybrid", "blockwise"),
    "mx": QuantConfig("e5m2", "mx"),
}
# Where sums are compared whose order differs: the matrix unit of a GPU, which padding may bring in, has fewer digits than fp32.
IN_FP32 = {name: config and dataclasses.replace(config, sums="f32") for name, config in CONFIGS.items()}
SIZES = [(48, 64, 96), (37, 51, 130), (1, 3, 5), (0, 8, 16)]


def operands(device, m, n, k):
    return (
        torch.randn(m, k, device=device),
        torch.randn(n, k, device=device),
        torch.randn(n, device=device),
        torch.randn(m, n, device=device),
    )


def products(config, x, w, bias, dy):
    """y, dx, dw, dbias of a layer."""
    layer = torch.nn.Linear(w.shape[1], w.shape[0], device=x.device)
    layer.weight, layer.bias = torch.nn.Parameter(w.clone()), torch.nn.Parameter(bias.clone())
    rt.convert(layer, config)
    x = x.clone().requires_grad_()
    y = layer(x)
    y.backward(dy)
    return y.detach(), x.grad, layer.weight.grad, layer.bias.grad


# What is expected of a product: each element is rounded once, with an error spread evenly over the spacing of its binade. In shares of
# the signal's square that is step^2 / 12 / E[f^2] with f in [1, 2) log-uniform, E[f^2] = 3 / (2 ln 2), step 2^-3 in e4m3 and 2^-2 in
# e5m2; the two factors' errors add up. mx rounds its scale down: of blocks whose largest element lies in the upper eighth of its
# binade (a share of log2(8 / 7)), that element, some 2.1^2 / 32 of the block's square, loses up to an eighth, 1/16 on the average.
def expected_snr(left, right, mx):
    share = {"e4m3": 2.0**-6, "e5m2": 2.0**-4}
    even = sum(share[name] / 12 / (3 / (2 * math.log(2))) for name in (left, right))
    clipped = 2 * math.log2(8 / 7) * 2.1**2 / 32 / 16**2 if mx else 0
    return -10 * math.log10(even + clipped)


@pytest.mark.parametrize("name", list(rt.recipes()))
def test_each_product_of_a_named_recipe_has_the_error_of_its_formats_and_no_other(device, name):
    recipe = rt.recipe(name)
    x, w, bias, dy = operands(device, 256, 192, 320)
    found = products(recipe, x, w, bias, dy)
    x, w, bias, dy = (each.cpu().double() for each in (x, w, bias, dy))
    exact = {"y": x @ w.t() + bias, "dx": dy @ w, "dw": dy.t() @ x}
    for (product, want), have in zip(exact.items(), found):
        config = getattr(recipe, product)
        snr = testing.snr_db(want, have)
        if config is None:
            assert snr > 110, (product, snr)
            continue
        forward = "e5m2" if config.format == "e5m2" else "e4m3"
        gradient = {"hybrid": "e5m2"}.get(config.format, config.format)
        model = expected_snr(forward if product == "y" else gradient, forward, config.granularity == "mx")
        # One scale for all leaves the smallest elements fewer bits; the largest few dominate a share of so many elements by about 1 dB.
        assert abs(snr - model) < 1.5, (product, snr, model)
    testing.assert_snr(dy.sum(0), found[3], 110)


@pytest.mark.parametrize("config", [config for config in IN_FP32.values() if config], ids=lambda c: c.granularity)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_a_recipe_of_one_config_is_bit_for_bit_that_config(device, config, sizes):
    given = operands(device, *sizes)
    for want, have in zip(products(config, *given), products(Recipe(config, config, config, pad_rows=1), *given), strict=True):
        assert torch.equal(want, have)


@pytest.mark.parametrize("names", [("row", "row", "none"), ("tensor", "none", "row"), ("block", "mx", "tensor"), ("none", "block", "mx"),
                                   ("mx", "tensor", "block"), ("none", "none", "row"), ("row", "none", "none")], ids="-".join)
@pytest.mark.parametrize("sizes", SIZES, ids=str)
def test_each_product_is_that_of_its_own_config(device, names, sizes):
    """Bit for bit: y as if its config were that of all products, and so dx and dw."""
    given = operands(device, *sizes)
    found = products(Recipe(*(CONFIGS[name] for name in names)), *given)
    for at, name in enumerate(names):
        assert torch.equal(products(CONFIGS[name], *given)[at], found[at]), "y dx dw".split()[at]


class Sums(TorchDispatchMode):
    def __init__(self):
        super().__init__()
        self.seen = []

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.ridgeline.gemm_fp8_scaled.default:
            self.seen.append(args[8] if len(args) > 8 else "promoted")  # arguments at their default are not handed over
        return func(*args, **(kwargs or {}))


def test_sums_are_said_for_each_product(device):
    given = operands(device, 32, 48, 64)
    row = rt.recipe("rowwise").y
    for recipe, expected in (
        (rt.recipe("rowwise"), ["fast", "promoted", "promoted"]),
        (rt.recipe("rowwise", sums="promoted"), ["promoted"] * 3),
        (rt.recipe("rowwise", dw=QuantConfig(granularity="rowwise", sums="f32"), dx=row), ["fast", "promoted", "f32"]),
        (rt.recipe("tensorwise", sums="fast"), ["fast"] * 3),
        (QuantConfig(granularity="blockwise", sums="f32"), ["f32"] * 3),
    ):
        with Sums() as sums:
            products(recipe, *given)
        assert sums.seen == expected, str(recipe)


@pytest.mark.parametrize("features", [None, 4])
def test_gradients_are_right_in_float64_where_nothing_is_rounded(on_cpu, features):
    """The shapes, paddings and sums around the products: with all of them in high precision they can be differentiated."""
    layer = rt.Fp8Linear(5, 3, dtype=torch.float64, config=Recipe(None, None, None, pad_rows=4, pad_features=features))
    x = torch.randn(2, 3, 5, dtype=torch.float64, requires_grad=True)

    def call(x, weight, bias):
        return torch.func.functional_call(layer, {"weight": weight, "bias": bias}, (x,))

    inputs = x, layer.weight.detach().requires_grad_(), layer.bias.detach().requires_grad_()
    assert torch.autograd.gradcheck(call, inputs)
    assert torch.autograd.gradgradcheck(call, inputs)


@pytest.mark.parametrize("recipe", [Recipe(CONFIGS["tensor"], None, None), Recipe(CONFIGS["block"], None, CONFIGS["row"]),
                                    Recipe(None, CONFIGS["row"], None), Recipe(CONFIGS["tensor"], None, None, pad_rows=16, pad_features=16),
                                    Recipe(CONFIGS["tensor"], CONFIGS["tensor"], CONFIGS["tensor"], DelayedScaling())], ids=str)
def test_gradients_of_high_precision_are_differentiated_and_others_name_their_recipe(device, recipe):
    """Against float64: dx and dw are functions of dy and of the other operand, whatever y was made of."""
    x, w, bias, dy = (each.requires_grad_() for each in operands(device, 37, 51, 70))
    exact = [each.detach().double().cpu().requires_grad_() for each in (x, w, bias, dy)]
    layer = torch.nn.Linear(70, 51, device=device)
    rt.convert(layer, recipe)
    y = torch.func.functional_call(layer, {"weight": w, "bias": bias}, (x,))
    made = torch.autograd.grad(y, (x, w, bias), dy, create_graph=True)
    wanted = torch.autograd.grad(torch.nn.functional.linear(*exact[:3]), exact[:3], exact[3], create_graph=True)
    for product, config, have, want in zip(("dx", "dw", "db"), (recipe.dx, recipe.dw, None), made, wanted, strict=True):
        upstream = torch.randn(have.shape)
        call = lambda: torch.autograd.grad(have, (x, w, dy), upstream.to(device), retain_graph=True, allow_unused=True)
        if config is not None:
            with pytest.raises(NotImplementedError, match=f"no second derivative: {product} .*{re.escape(str(recipe))}.*{product}=None.*autocast_fp8") as raised:
                (have * upstream.to(device)).sum().backward(retain_graph=True)
            assert len(str(raised.value)) < 600
            continue
        second = torch.autograd.grad(want, (exact[0], exact[1], exact[3]), upstream.double(), retain_graph=True, allow_unused=True)
        for one, other in zip(call(), second, strict=True):
            assert (one is None) == (other is None)
            if other is not None:
                testing.assert_snr(other, one, 110)


def test_main_grad_under_create_graph_is_refused(device):
    layer = torch.nn.Linear(16, 8, device=device)
    rt.convert(layer, "rowwise_with_gw_hp")
    layer.weight.main_grad = torch.zeros(8, 16, device=device)
    with pytest.raises(NotImplementedError, match="leave main_grad out"):
        layer(torch.randn(4, 16, device=device)).square().sum().backward(create_graph=True)
    assert not layer.weight.main_grad.any()


@pytest.mark.parametrize("config", [config for config in IN_FP32.values() if config], ids=lambda c: c.granularity)
@pytest.mark.parametrize("rows", [0, 1, 3, 127, 130, 257])
def test_padded_rows_change_nothing(device, config, rows):
    """Rows of 0 change no scale and no code; the order of a sum may be another, by which its rounding in float32 differs."""
    x, w, bias, dy = operands(device, rows, 24, 40)
    x *= 1e-3  # small beside anything but 0
    expected = products(Recipe(config, config, config, pad_rows=1), x, w, bias, dy)
    size = [each.double().abs() for each in (x, w, bias, dy)]
    terms = size[0] @ size[1].t() + size[2], size[3] @ size[1], size[3].t() @ size[0], size[3].sum(0)
    for multiple in (4, 16, 128):
        found = products(Recipe(config, config, config, pad_rows=multiple), x, w, bias, dy)
        for want, have, sums, count in zip(expected, found, terms, (40, 24, rows, rows), strict=True):
            # Each is off by 8 u sqrt(k) of the terms at most, which a code makes up to an eighth larger, two of them up to 1.27.
            assert bool(((want - have).double().abs() <= 2 * 1.27 * 8 * 2.0**-24 * math.sqrt(count + 1) * sums).all())
        with Rows() as seen:
            products(Recipe(config, config, config, pad_rows=multiple), x, w, bias, dy)
        assert seen.rows == {-(-rows // multiple) * multiple}


@pytest.mark.parametrize("config", [config for config in IN_FP32.values() if config], ids=lambda c: c.granularity)
@pytest.mark.parametrize("n,k", [(1, 3), (24, 131), (130, 40), (127, 129), (48, 64)])
def test_padded_features_change_nothing(device, config, n, k):
    x, w, bias, dy = operands(device, 33, n, k)
    expected = products(Recipe(config, config, config, pad_rows=1), x, w, bias, dy)
    size = [each.double().abs() for each in (x, w, bias, dy)]
    terms = size[0] @ size[1].t() + size[2], size[3] @ size[1], size[3].t() @ size[0], size[3].sum(0)
    for multiple, rows in ((16, None), (128, 16)):
        found = products(Recipe(config, config, config, pad_rows=rows, pad_features=multiple), x, w, bias, dy)
        for want, have, sums, count in zip(expected, found, terms, (k, n, 33, 33), strict=True):
            assert have.is_contiguous() and bool(((want - have).double().abs() <= 2 * 1.27 * 8 * 2.0**-24 * math.sqrt(count + 1) * sums).all())
        with Shapes() as seen:
            products(Recipe(config, config, config, pad_rows=1, pad_features=multiple), x, w, bias, dy)
        full = -(-n // multiple) * multiple, -(-k // multiple) * multiple
        assert seen.shapes == {(33, full[1]), full, (33, full[0])}


class Shapes(TorchDispatchMode):
    """Of what is quantised."""

    def __init__(self):
        super().__init__()
        self.shapes = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.ridgeline.quantize.default:
            self.shapes.add(tuple(args[0].shape))
        return func(*args, **(kwargs or {}))


def codes_by_definition(matrix, dtype, most, block, power):
    """What codes stand for, in float64 by numpy and ml_dtypes: ``block`` [rows, columns] shares a scale; None: all of them."""
    rows, cols = matrix.shape
    high, wide = (size or full for size, full in zip(block, matrix.shape))
    made = np.zeros_like(matrix)
    for top in range(0, rows, high):
        for left in range(0, cols, wide):
            part = matrix[top : top + high, left : left + wide].astype(np.float32)
            amax = np.abs(part).max()
            scale = np.float32(2.0 ** (math.floor(math.log2(amax)) - math.floor(math.log2(most)))) if power else amax / np.float32(most)
            made[top : top + high, left : left + wide] = np.clip(part / scale, -most, most).astype(dtype).astype(np.float64) * np.float64(scale)
    return made


@pytest.mark.parametrize("padding", [{}, {"pad_features": 16}, {"pad_rows": 16, "pad_features": 128}], ids=str)
@pytest.mark.parametrize("m,n,k", [(33, 130, 200), (40, 127, 129), (129, 7, 257)])
@pytest.mark.parametrize("granularity", ["tensorwise", "rowwise", "blockwise", "mx"])
def test_features_off_the_blocks_are_right_in_float64(device, granularity, m, n, k, padding):
    """Products of what the codes stand for: blocks at the edges are the shorter ones, whether or not features are padded."""
    config = QuantConfig("hybrid", granularity)
    x, w, bias, dy = operands(device, m, n, k)
    found = products(Recipe(config, config, config, **(padding or {"pad_rows": 1})), x, w, bias, dy)
    x, w, bias, dy = (each.double().cpu().numpy() for each in (x, w, bias, dy))
    along = {"tensorwise": (None, None), "rowwise": (1, None), "blockwise": (1, 128), "mx": (1, 32)}[granularity]
    of_w = (128, 128) if granularity == "blockwise" else along
    e4m3, e5m2, power = (ml_dtypes.float8_e4m3fn, 448.0), (ml_dtypes.float8_e5m2, 57344.0), granularity == "mx"
    code = lambda matrix, kind, block: codes_by_definition(matrix, *kind, block, power)
    exact = (
        code(x, e4m3, along) @ code(w, e4m3, of_w).T + bias,
        code(dy, e5m2, along) @ code(w.T, e4m3, of_w).T,
        code(dy.T, e5m2, along) @ code(x.T, e4m3, along).T,
        dy.sum(0),
    )
    for want, have in zip(exact, found, strict=True):
        # Quotients by division, or by the reciprocal: a code next to a middle may be the other neighbour, one in 10^5.
        testing.assert_snr(torch.from_numpy(want), have, 60)


def test_main_grad_of_padded_features(device):
    x, w, bias, dy = operands(device, 40, 24, 57)
    for config, dtype in ((IN_FP32["block"], torch.float32), (None, torch.float32), (IN_FP32["row"], torch.bfloat16)):
        recipe = Recipe(IN_FP32["tensor"], IN_FP32["tensor"], config, pad_features=16)
        x, w, bias, dy = (each.to(dtype) for each in (x, w, bias, dy))
        expected = products(Recipe(IN_FP32["tensor"], IN_FP32["tensor"], config), x.float(), w.float(), bias.float(), dy.float())[2]
        layer = torch.nn.Linear(57, 24, device=device, dtype=dtype)
        layer.weight = torch.nn.Parameter(w.clone())
        rt.convert(layer, recipe)
        layer.weight.main_grad = torch.zeros(24, 57, device=device)
        for _ in range(2):
            layer(x).backward(dy)
        assert layer.weight.grad is None and layer.weight.grad_added_to_main_grad
        testing.assert_snr(2 * expected, layer.weight.main_grad, 100 if dtype == torch.float32 else 60)


def test_statistics_of_padded_features_are_those_without(device):
    x, w, bias, dy = operands(device, 40, 24, 57)
    seen = []
    for features in (None, 16):
        layer = torch.nn.Linear(57, 24, device=device)
        layer.weight, layer.bias = torch.nn.Parameter(w.clone()), torch.nn.Parameter(bias.clone())
        rt.convert(layer, Recipe(CONFIGS["block"], CONFIGS["tensor"], CONFIGS["row"], pad_rows=1, pad_features=features))
        with rt.statistics(layer) as found:
            layer(x.clone().requires_grad_()).backward(dy)
        seen.append(found.layers[""])
    assert seen[0].operands == seen[1].operands
    assert seen[0].snr_db == pytest.approx(seen[1].snr_db, abs=0.01)


class Rows(TorchDispatchMode):
    """The rows of what x and dy are quantised from; the weight has 24."""

    def __init__(self):
        super().__init__()
        self.rows = set()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        if func is torch.ops.ridgeline.quantize.default and args[0].shape[1] in (24, 40) and args[0].shape != (24, 40):
            self.rows.add(args[0].shape[0])
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("recipe", ["rowwise_with_gw_hp", "delayed", Recipe(CONFIGS["block"], CONFIGS["row"], CONFIGS["block"])], ids=str)
def test_column_major_inputs_and_weights_change_nothing(device, recipe):
    x, w, bias, dy = operands(device, 37, 51, 130)
    expected = products(recipe, x, w, bias, dy)
    turned = [each.t().contiguous().t() for each in (x, w)]
    for given in ((turned[0], w), (x, turned[1]), turned):
        assert_same(recipe, products(recipe, *given, bias, dy), expected)
    gaps = torch.cat([x, x]).t().contiguous().t()[:37]  # the columns further apart than they are long
    assert not gaps.t().is_contiguous()
    assert_same(recipe, products(recipe, gaps, w, bias, dy), expected)


def assert_same(recipe, found, expected):
    """Bit for bit; on a GPU a product in high precision has a kernel for each layout, and so an order of its sums."""
    rounded = recipe == "rowwise_with_gw_hp" and found[0].is_cuda
    for product, have, want in zip(("y", "dx", "dw", "db"), found, expected, strict=True):
        if product == "dw" and rounded:
            testing.assert_snr(want.double(), have, 120)
        else:
            assert torch.equal(have, want), product


@pytest.mark.parametrize("recipe", ["rowwise_with_gw_hp", "delayed", "blockwise"])
def test_main_grad_and_micro_batches(device, recipe):
    x, w, bias, dy = operands(device, 40, 24, 56)
    expected = products(recipe, x, w, bias, dy)[2]
    layer = torch.nn.Linear(56, 24, device=device)
    layer.weight = torch.nn.Parameter(w.clone())
    rt.convert(layer, recipe)
    layer.weight.main_grad = torch.zeros(24, 56, device=device)
    for _ in range(2):
        layer(x).backward(dy)
    assert layer.weight.grad is None and layer.weight.grad_added_to_main_grad
    testing.assert_snr(2 * expected, layer.weight.main_grad, 100)


@pytest.mark.parametrize("recipe", ["rowwise_with_gw_hp", Recipe(CONFIGS["tensor"], CONFIGS["tensor"], CONFIGS["row"]),
                                    Recipe(CONFIGS["row"], CONFIGS["block"], None), "delayed"], ids=str)
def test_kept_weights_change_no_gradient(device, recipe):
    torch.manual_seed(3)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.SiLU(), torch.nn.Linear(48, 16)).to(device)
    rt.convert(model, recipe)
    x = torch.randn(24, 32, device=device)

    def grads():
        model.zero_grad()
        for part in x.chunk(3):
            model(part).square().sum().backward()
        return [p.grad.clone() for p in model.parameters()]

    expected = grads()
    with rt.quantized_weights(model):
        assert all(torch.equal(want, have) for want, have in zip(expected, grads(), strict=True))


def test_stochastic_rounding_is_of_gradients_alone_with_kept_weights_too(device):
    layer = rt.Fp8Linear(64, 32, device=device, config=QuantConfig(rounding="stochastic"))
    x = torch.randn(16, 64, device=device)
    expected = layer(x)
    with rt.quantized_weights(layer):
        assert torch.equal(layer(x), expected)


WRONG = [
    (lambda: rt.recipe("rowise"), r"'rowise' is unknown \(did you mean 'rowwise'\?\); use one of 'high_precision', 'tensorwise'"),
    (lambda: rt.recipe("rowwise", dq=None), r"field 'dq' is unknown.*'y', 'dx', 'dw', 'delayed', 'pad_rows', 'pad_features', 'sums'"),
    (lambda: Recipe(dz=None), r"Recipe: field 'dz' is unknown.*'y', 'dx', 'dw'"),
    (lambda: DelayedScaling(length=3), r"field 'length' is unknown.*'history', 'algorithm', 'margin', 'reduce'"),
    (lambda: DelayedScaling(algorithm="mean"), r"'mean' is unknown.*'max', 'latest'"),
    (lambda: DelayedScaling(history=0), "history=0"),
    (lambda: QuantConfig(sums="slow"), r"sums='slow' is unknown; use one of None, 'f32', 'promoted', 'fast'"),
    (lambda: Recipe(y="rowwise"), "y='rowwise'; give a QuantConfig"),
    (lambda: Recipe(CONFIGS["row"], delayed=DelayedScaling()), "granularity='rowwise', and delayed scaling has one scale"),
    (lambda: Recipe(QuantConfig(rounding="stochastic"), delayed=DelayedScaling()), "rounds to nearest alone"),
    (lambda: Recipe(pad_rows=0), "pad_rows=0"),
    (lambda: Recipe(pad_features=0), "pad_features=0"),
    (lambda: rt.convert(torch.nn.Linear(2, 2), "fp8"), "'fp8' is unknown"),
    (lambda: rt.convert(torch.nn.Linear(2, 2), 8), "8 is no recipe"),
    (lambda: rt.autocast_fp8(recipe="fp8"), "'fp8' is unknown"),
    (lambda: rt.autocast_fp8(recipe="delayed"), r'convert\(model, "delayed"\)'),
    (lambda: rt.autocast_fp8(enabled=False, recipe="rowwise"), "leave one of them out"),
    (lambda: rt.Fp8Linear(2, 2, config="high_precision"), "use Linear"),
    (lambda: rt.gemm_fp8(torch.ones(2, 2), torch.ones(2, 2), config=rt.recipe("delayed")), "give a QuantConfig without sums"),
    (lambda: rt.gemm_fp8(torch.ones(2, 2), torch.ones(2, 2), config=QuantConfig(sums="fast")), "without sums"),
    (lambda: rt.quantize_(torch.nn.Linear(2, 2), "delayed"), "current"),
    (lambda: rt.quantize_(torch.nn.Linear(2, 2), Recipe(None)), "no forward product"),
]


@pytest.mark.parametrize("at", range(len(WRONG)))
def test_wrong_names_and_fields_raise_with_the_list_there_is(at):
    call, message = WRONG[at]
    with pytest.raises(ValueError, match=message):
        call()


def blocks(device):
    torch.manual_seed(5)
    make = lambda: torch.nn.ModuleDict({"attention": torch.nn.Linear(16, 16), "mlp": torch.nn.Linear(16, 16)})
    return torch.nn.ModuleDict({"blocks": torch.nn.ModuleList([make(), make()]), "head": torch.nn.Linear(16, 4)}).to(device)


def test_modules_are_configured_by_pattern_and_by_function(device):
    model = blocks(device)
    report = rt.convert(model, {"head": "leave", "blocks.0.*": None, "*.mlp": "rowwise_with_gw_hp", "*": CONFIGS["block"]})
    kinds = {name: (type(layer).__name__, getattr(layer, "config", None)) for name, layer in model.named_modules() if hasattr(layer, "weight")}
    assert kinds == {
        "blocks.0.attention": ("Linear", None),
        "blocks.0.mlp": ("Linear", None),
        "blocks.1.attention": ("Fp8Linear", CONFIGS["block"]),
        "blocks.1.mlp": ("Fp8Linear", rt.recipe("rowwise_with_gw_hp")),
        "head": ("Linear", None),
    }
    assert type(model["head"]) is torch.nn.Linear and report.left == {"head": "the recipe for 'head'"}
    assert report.swapped["blocks.1.mlp"].startswith("gemm_fp8: rowwise_with_gw_hp: y e4m3, rowwise") and "dw in high precision" in str(report)
    report = rt.convert(model, {"blocks.*": "mx"})
    assert report.left == {"head": "no pattern fits: 'blocks.*'"} and model["blocks"][0]["mlp"].config.granularity == "mx"
    report = rt.convert(model, lambda name, layer: "leave" if layer.out_features == 4 else "tensorwise", keep=lambda name, layer: "0" in name)
    assert list(report.swapped) == ["blocks.1.attention", "blocks.1.mlp"] and report.left["head"] == "the function says so"
    assert report.left["blocks.0.mlp"] == "keep() is true"


def test_a_pattern_that_fits_nothing_and_names_that_differ_are_refused_and_nothing_is_changed(device):
    model = blocks(device)
    with pytest.raises(ValueError, match=r"'blocks.\*.mpl' fits nothing that is exchanged; there are 'blocks.0.attention'"):
        rt.convert(model, {"*": "rowwise", "blocks.*.mpl": "mx"})
    model["tied"] = model["head"]
    with pytest.raises(ValueError, match=r"head and tied are one layer.*e4m3, mx"):
        rt.convert(model, {"head": "rowwise", "*": "mx"})
    with pytest.raises(ValueError, match="'rowwize' is unknown"):
        rt.convert(model, lambda name, layer: "rowwize" if name == "head" else "mx")
    assert not any(isinstance(layer, (rt.Linear, rt.Fp8Linear)) for layer in model.modules())


def test_norms_are_exchanged_and_given_back(device):
    def make():
        torch.manual_seed(6)
        return torch.nn.ModuleDict({"norm": torch.nn.RMSNorm(16), "up": torch.nn.Linear(16, 16), "last": torch.nn.RMSNorm(16)}).to(device)

    x = torch.randn(5, 16, device=device)
    for recipe in ("rowwise", None, {"*": "mx"}, lambda name, module: "tensorwise"):
        model = make()
        expected = model["norm"](x)
        report = rt.convert(model, recipe, keep=lambda name, module: name == "last")
        assert report.swapped["norm"] == "rmsnorm" and report.left == {"last": "keep() is true"}
        assert type(model["norm"]) is rt.RMSNorm and type(model["last"]) is torch.nn.RMSNorm
        testing.assert_snr(expected.double(), model["norm"](x), 110)
        assert rt.unswap(model).swapped == {"norm": "torch", "up": "torch"} and type(model["norm"]) is torch.nn.RMSNorm
    model = make()
    assert rt.convert(model, {"norm": "leave", "up": None}).left == {"norm": "the recipe for 'norm'", "last": "no pattern fits: 'norm', 'up'"}
    with pytest.raises(ValueError, match="'mxx' is unknown"):  # after linear layers were asked for: nothing is changed
        rt.convert(model, lambda name, module: "mxx" if name == "last" else "mx")
    assert type(model["up"]) is rt.Linear
    model["norm"].forward = lambda x: x
    assert "forward of its own" in rt.convert(model).left["norm"]
    zero = torch.nn.Sequential(rt.RMSNorm(16, zero_centred=True, device=device))
    assert "zero_centred" in rt.unswap(zero).left["0"]


def two(device, recipe="tensorwise", **options):
    torch.manual_seed(7)
    model = torch.nn.Sequential(torch.nn.Linear(32, 48, **options), torch.nn.SiLU(), torch.nn.Linear(48, 24, **options)).to(device)
    rt.convert(model, recipe)
    return model


def step(model, x, call=None):
    model.zero_grad()
    x = x.clone().requires_grad_()
    y = (call or model)(x)
    y.square().sum().backward()
    return [y.detach(), x.grad, *(p.grad.clone() for p in model.parameters())]


def same(first, second):
    return all(torch.equal(want, have) for want, have in zip(first, second, strict=True))


BLOCKS = {"off": dict(enabled=False), "rowwise": dict(recipe="rowwise"), "apart": dict(recipe="rowwise_with_gw_hp"), "own": {}}
ALONE = {"off": None, "rowwise": "rowwise", "apart": "rowwise_with_gw_hp", "own": "tensorwise"}


@pytest.mark.parametrize("name", list(BLOCKS))
def test_a_block_is_as_if_the_layers_had_its_recipe(device, name):
    x = torch.randn(20, 32, device=device)
    expected = step(two(device, ALONE[name]), x)
    model = two(device)
    with rt.autocast_fp8(**BLOCKS[name]):
        assert same(step(model, x), expected)
        forward = model(x).square().sum()
    model.zero_grad()
    forward.backward()  # outside of the block: as the forward call was
    assert same([p.grad for p in model.parameters()], expected[2:])
    if name in ("rowwise", "apart"):  # a plain layer, too
        with rt.autocast_fp8(**BLOCKS[name]):
            assert same(step(two(device, None), x), expected)
    decorated = rt.autocast_fp8(**BLOCKS[name])(model.forward)
    assert same(step(model, x, decorated), expected) and same(step(model, x), step(two(device), x))


def test_blocks_nest_and_end_with_an_exception_and_hold_for_their_thread(device):
    x, model = torch.randn(20, 32, device=device), two(device)
    out = {name: two(device, recipe)(x) for name, recipe in ALONE.items()}
    outer, inner = rt.autocast_fp8(recipe="rowwise"), rt.autocast_fp8(enabled=False)
    with outer:
        with inner:
            with rt.autocast_fp8():
                assert torch.equal(model(x), out["own"])
                with outer:
                    assert torch.equal(model(x), out["rowwise"])
            assert torch.equal(model(x), out["off"])
        with pytest.raises(KeyError), inner:
            raise KeyError
        found = []
        thread = threading.Thread(target=lambda: found.append(model(x)))
        thread.start()
        thread.join()
        assert torch.equal(found[0], out["own"]) and torch.equal(model(x), out["rowwise"])
    assert torch.equal(model(x), out["own"])


@pytest.mark.parametrize("decorated", [True, False])
def test_one_block_in_two_threads(device, decorated):
    """The second begins inside another block and ends after the first one has."""
    block, entered, leave, after = rt.autocast_fp8(recipe="rowwise"), threading.Event(), threading.Event(), {}

    def wait():
        entered.set()
        assert leave.wait(20)

    def run():
        with rt.autocast_fp8(enabled=False):
            if decorated:
                block(wait)()
            else:
                with block:
                    wait()
            after["second"] = in_force(None)

    def first():
        thread = threading.Thread(target=run)
        thread.start()
        assert entered.wait(20)
        return thread

    with rt.autocast_fp8(recipe="mx"):
        if decorated:
            thread = block(first)()
        else:
            with block:
                thread = first()
        after["first"] = in_force(None)
    leave.set()
    thread.join()
    assert after["first"].granularity == "mx" and after["second"] is None and in_force(None) is None


@pytest.mark.parametrize("reentrant", [True, False])
@pytest.mark.parametrize("name", list(BLOCKS))
def test_checkpoints_make_a_forward_call_again_by_the_recipe_of_the_first_time(device, name, reentrant):
    x = torch.randn(20, 32, device=device)
    expected = step(two(device, ALONE[name]), x)
    model = two(device)
    calls = []
    model[0].register_forward_hook(lambda *_: calls.append(1))

    def grads(block, around_backward):
        model.zero_grad()
        leaf = x.clone().requires_grad_()
        with block:
            loss = checkpoint(model, leaf, use_reentrant=reentrant).square().sum()
        with around_backward:
            loss.backward()
        return [leaf.grad, *(p.grad.clone() for p in model.parameters())]

    assert same(grads(rt.autocast_fp8(**BLOCKS[name]), rt.autocast_fp8()), expected[1:])
    assert same(grads(rt.autocast_fp8(**BLOCKS[name]), rt.autocast_fp8(recipe="mx")), expected[1:])
    assert len(calls) == 4
    assert same(grads(rt.autocast_fp8(), rt.autocast_fp8(enabled=False)), step(two(device), x)[1:])
    assert torch.equal(model(x), two(device)(x))


@pytest.mark.parametrize("name", ["rowwise", "apart", "off"])
def test_a_block_and_autocast_to_bfloat16_do_not_mind_each_other(device, name):
    x = torch.randn(20, 32, device=device)
    expected = two(device, ALONE[name])
    model = two(device)
    for order in (0, 1):
        one, other = rt.autocast_fp8(**BLOCKS[name]), torch.autocast(device.type, dtype=torch.bfloat16)
        with one if order else other, other if order else one:
            found = model(x)
        with torch.autocast(device.type, dtype=torch.bfloat16):
            want = expected(x)
        assert found.dtype == torch.bfloat16 and torch.equal(found, want)
        for each in (model, expected):
            each.zero_grad()
        found.float().square().sum().backward()
        want.float().square().sum().backward()
        assert same([p.grad for p in model.parameters()], [p.grad for p in expected.parameters()])


def test_one_compiled_model_follows_the_blocks_without_breaks(device):
    torch._dynamo.reset()
    counter = torch._dynamo.testing.CompileCounterWithBackend("aot_eager")
    model, x = two(device), torch.randn(32, 32, device=device)
    compiled = torch.compile(model, fullgraph=True, backend=counter)
    for _ in range(2):
        for name, options in BLOCKS.items():
            with rt.autocast_fp8(**options):
                found = step(model, x, compiled)
            for want, have in zip(step(two(device, ALONE[name]), x), found, strict=True):
                torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    assert counter.frame_count == len(BLOCKS)


def test_blocks_inside_compiled_code(device):
    torch._dynamo.reset()
    model, x = two(device), torch.randn(32, 32, device=device)

    def call(x):
        with rt.autocast_fp8(recipe="rowwise_with_gw_hp"):
            x = model[:2](x)
        with rt.autocast_fp8(enabled=False):
            return model[2](x)

    compiled = torch.compile(call, fullgraph=True, backend="aot_eager")
    for want, have in zip(step(model, x, call), step(model, x, compiled), strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("recipe", ["rowwise_with_gw_hp", "delayed", Recipe(CONFIGS["block"], CONFIGS["tensor"], None, pad_rows=8),
                                    Recipe(CONFIGS["block"], CONFIGS["tensor"], None, pad_rows=8, pad_features=12)], ids=str)
def test_recipes_compile_as_one_graph_copy_and_pickle(device, recipe):
    torch._dynamo.reset()
    model, x = two(device, recipe), torch.randn(32, 32, device=device)
    before = copy.deepcopy(model.state_dict())
    expected = step(model, x)
    def seen(model):
        return [t.clone() for layer in model for name, t in sorted(vars(layer).items()) if name == "amax_now"]

    step_seen = seen(model)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        other.load_state_dict(before)
        assert other[0].config == model[0].config and same(step(other, x), expected)
        assert same(seen(other), step_seen)
    for each in model:
        getattr(each, "amax_now", torch.zeros(1)).zero_()
    found = step(model, x, torch.compile(model, fullgraph=True, backend="aot_eager"))
    for want, have in zip([*expected, *step_seen], [*found, *seen(model)], strict=True):
        torch.testing.assert_close(have, want, rtol=1e-4, atol=1e-5)
    assert bool(step_seen) == (recipe == "delayed") and all(bool((t > 0).all()) for t in seen(model))


@pytest.mark.parametrize("recipe", ["rowwise_with_gw_hp", "delayed"])
def test_inputs_of_every_shape_and_mode(device, recipe):
    layer = two(device, recipe)[0]
    layer.eval()
    x = torch.randn(6, 32, device=device)
    if recipe == "rowwise_with_gw_hp":  # a scale for each row
        whole = layer(x)
        for view in (x[0], x.view(2, 3, 32), x[0].expand(6, 32), x[:0], x.repeat(1, 2)[:, ::2]):
            out = layer(view)
            assert out.shape == (*view.shape[:-1], 48)
            assert torch.equal(out.reshape(-1, 48), layer(view.reshape(-1, 32).contiguous()))
        assert torch.equal(layer(x[:0].requires_grad_()), whole[:0])
    with torch.no_grad():
        quiet = layer(x)
    with torch.inference_mode():
        assert torch.equal(layer(x), quiet) and torch.equal(layer(x.clone()), quiet)
    with pytest.raises(ValueError, match="in_features=32"):
        layer(torch.randn(6, 31, device=device))
    with pytest.raises(TypeError, match="cast one of them: x.to"):
        layer(x.bfloat16())


def test_functions_of_the_documentation_take_a_model_with_norms():
    lines = (pathlib.Path(__file__).parents[2] / "docs" / "pytorch.md").read_text().splitlines()
    calls = [line.split("#")[0] for line in lines if "rt.convert(model," in line and "lambda name, layer" in line]
    assert len(calls) == 2
    for call in calls:
        model = torch.nn.Sequential(torch.nn.RMSNorm(64), torch.nn.Linear(64, 256), torch.nn.Linear(256, 10))
        report = eval(call.split("=", 1)[1] if call.startswith("report") else call, {"rt": rt, "model": model})
        assert report.swapped["0"] == "rmsnorm" and "1" in report.swapped


def test_what_recipes_have_no_derivatives_for_is_refused(device):
    model, x = two(device, "rowwise_with_gw_hp"), torch.randn(8, 32, device=device, requires_grad=True)
    layer = model[0]  # SiLU's gradient is rounded otherwise under create_graph=True
    inputs = (x, *layer.parameters())
    once = torch.autograd.grad(layer(x).square().sum(), inputs)
    again = torch.autograd.grad(layer(x).square().sum(), inputs, create_graph=True)
    assert same(once, again)
    with pytest.raises(NotImplementedError, match="no second derivative: dx"):
        again[0].square().sum().backward(retain_graph=True)
    again[1].square().sum().backward(retain_graph=True)  # dw is of high precision
    (slope,) = torch.autograd.grad(model(x).sum(), x, create_graph=True)  # of a constant, by autograd's lights
    with pytest.raises(NotImplementedError, match="no second derivative"):
        (model(x).sum() + slope.square().sum()).backward()
    with pytest.raises(NotImplementedError, match="no transforms of torch.func"):
        torch.func.grad(lambda x: model(x).sum())(x)
    with pytest.raises(NotImplementedError, match="no forward mode"):
        torch.func.jvp(model, (x,), (x,))
