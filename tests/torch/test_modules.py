"""Layers, exchanging them in a model, and training several processes."""

import json
import os
import pathlib
import runpy
import subprocess
import sys

import pytest
import torch

import ridgeline.testing as testing
import ridgeline.torch as rt
from ridgeline.torch import QuantConfig


def model(device, dtype=torch.float32):
    return torch.nn.Sequential(
        torch.nn.Linear(64, 96), torch.nn.GELU(), torch.nn.Sequential(torch.nn.Linear(96, 64, bias=False)), torch.nn.Linear(64, 10)
    ).to(device, dtype)


def swapped(module, config):
    rt.swap_linears(module, config)
    return module


def test_swapping_shares_parameters_and_keeps_names(device):
    original = model(device)
    names, expected = list(original.state_dict()), original(torch.ones(3, 64, device=device))
    weights = [p.data_ptr() for p in original.parameters()]
    swapped = original
    report = rt.swap_linears(swapped, keep=lambda name, layer: layer.out_features == 10)
    assert report.swapped == {"0": "gemm", "2.0": "gemm"} and list(report.left) == ["3"]
    assert list(swapped.state_dict()) == names
    assert [p.data_ptr() for p in swapped.parameters()] == weights
    assert [type(m) for m in (swapped[0], swapped[2][0], swapped[3])] == [rt.Linear, rt.Linear, torch.nn.Linear]
    torch.testing.assert_close(swapped(torch.ones(3, 64, device=device)), expected, rtol=1e-4, atol=1e-5)


def test_fp8_layers_take_any_leading_dimensions_and_say_what_they_are(device):
    config = QuantConfig("hybrid", "blockwise")
    layer = rt.Fp8Linear.from_float(torch.nn.Linear(64, 32, device=device), config)
    x = torch.randn(2, 5, 64, device=device)
    assert layer(x).shape == (2, 5, 32) and "hybrid, blockwise" in repr(layer)
    testing.assert_snr(torch.nn.functional.linear(x, layer.weight, layer.bias), layer(x), 25)


@pytest.mark.parametrize("config", [None, QuantConfig()], ids=str)
def test_a_weight_with_main_grad_gets_its_gradient_there(device, config):
    layer = swapped(torch.nn.Linear(64, 32, device=device), config)
    layer.weight.main_grad = torch.zeros(32, 64, device=device)
    x = torch.randn(48, 64, device=device)
    layer(x).sum().backward()
    assert layer.weight.grad is None and layer.weight.grad_added_to_main_grad
    testing.assert_snr(x.sum(0).expand(32, 64), layer.weight.main_grad, 20 if config else 100)


def quantisations(call):
    with torch.profiler.profile() as profile:
        call()
    return sum(event.name == "ridgeline::quantize" for event in profile.events())


@pytest.mark.parametrize("autocast", [False, True])
@pytest.mark.parametrize("granularity", ["tensorwise", "blockwise"])
def test_micro_batches_share_quantised_weights_and_change_no_gradient(device, granularity, autocast):
    layers = swapped(model(device), QuantConfig("hybrid", granularity))
    batches = [torch.randn(32, 64, device=device) for _ in range(3)]

    def accumulate():
        layers.zero_grad()
        for x in batches:
            with torch.autocast(device.type, dtype=torch.bfloat16, enabled=autocast):
                out = layers(x)
            out.float().square().mean().backward()
        return [p.grad.clone() for p in layers.parameters()]

    expected = accumulate()
    each_time = quantisations(accumulate)
    with rt.quantized_weights(layers):
        found = accumulate()
        once = quantisations(accumulate)
    assert all(torch.equal(want, have) for want, have in zip(expected, found, strict=True))
    assert each_time - once == 9  # three weights in three micro-batches, all quantised before
    assert quantisations(accumulate) == each_time


def test_a_changed_weight_is_quantised_again(device):
    layer = swapped(torch.nn.Linear(64, 32, bias=False, device=device), QuantConfig())
    x = torch.randn(16, 64, device=device)
    with rt.quantized_weights(layer):
        with torch.no_grad():
            layer(x)  # leaves codes without a gradient
        before = layer(x)
        before.sum().backward()
        with torch.no_grad():
            layer.weight.mul_(2)
        torch.testing.assert_close(layer(x), 2 * before)
    assert layer.weight.grad is not None


@pytest.mark.parametrize("config", [None, QuantConfig("hybrid", "tensorwise"), QuantConfig("e4m3", "blockwise")], ids=str)
def test_training_learns_as_with_torch(device, config):
    """Sixty steps on a fixed teacher: with float32 products the same losses, with 8-bit ones the same to a tenth."""

    def losses(student):
        optimizer = torch.optim.AdamW(student.parameters(), lr=3e-3)
        generator = torch.Generator().manual_seed(3)
        teacher = torch.randn(64, 10, generator=generator).to(device)
        history = []
        for _ in range(60):
            x = torch.randn(128, 64, generator=generator).to(device)
            loss = torch.nn.functional.mse_loss(student(x), torch.tanh(x @ teacher / 8))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            history.append(loss.item())
        return history

    torch.manual_seed(5)
    expected = losses(model(device))
    torch.manual_seed(5)
    found = losses(swapped(model(device), config))
    assert expected[-1] < 0.5 * expected[0]
    assert found[-1] == pytest.approx(expected[-1], rel=1e-3 if config is None else 0.1)


def test_ddp_and_fsdp_see_the_gradients_of_our_layers(two_ranks):
    """Two processes, over gloo or NCCL, each with half of a batch, end with the gradients of one process with all of it."""
    two_ranks("distributed_worker.py", says="gradients agree")


def test_the_training_example_runs_and_its_modes_agree(on_cpu, tmp_path):
    example = pathlib.Path(__file__).parents[2] / "examples" / "train_llama_block.py"
    small = "--steps 4 --hidden 64 --layers 1 --batch 1 --sequence 32 --block-hidden 64 --block-tokens 32 --block-rounds 1 --part-rounds 1"
    subprocess.run(
        [sys.executable, example, *small.split(), "--svg", tmp_path / "losses.svg", "--json", tmp_path / "run.json"], check=True,
        env={**os.environ, "OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL,
    )
    found = json.loads((tmp_path / "run.json").read_text())
    runs = found["runs"]
    assert set(runs) == {"torch", "torch-nudged", "ridgeline", "ridgeline-all", "fp8-tensorwise", "fp8-blockwise"}
    assert set(found["parts"]) == {"torch", "products", "norm", "rope", "attention", "activation", "loss", "optimizer", "all"}
    for run in runs.values():
        assert run["losses"] == pytest.approx(runs["torch"]["losses"], rel=0.02)
    assert (tmp_path / "losses.svg").read_text().count("<polyline") == 6


def test_the_training_example_leaves_out_what_has_no_kernel(on_cpu, monkeypatch, capsys):
    example = runpy.run_path(str(pathlib.Path(__file__).parents[2] / "examples" / "train_llama_block.py"))
    small = "--hidden 64 --layers 1 --batch 1 --sequence 32 --part-rounds 1"
    monkeypatch.setattr(sys, "argv", ["train_llama_block.py", *small.split()])

    def missing(*args, **kwargs):
        raise NotImplementedError("no kernel yet")

    monkeypatch.setattr(rt, "AdamW", missing)
    monkeypatch.setattr(rt, "rope", missing)
    found = example["time_parts"](example["corpus"](), example["arguments"]())
    assert set(found) == {"torch", "products", "norm", "attention", "activation", "loss"}
    assert capsys.readouterr().out.count("left out: no kernel yet") == 3
