"""Every example of docs/pytorch.md runs as it stands there, around a small model that has the names it mentions; signatures and names are the code's."""

import dataclasses
import inspect
import pathlib
import re

import pytest
import torch
from torch.distributed.fsdp import MixedPrecisionPolicy, fully_shard

import ridgeline.torch as rt

ROOT = pathlib.Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "pytorch.md").read_text()
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


class Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.mlp = torch.nn.ModuleDict({"up": torch.nn.Linear(128, 128), "down": torch.nn.Linear(128, 128)})
        self.norm = torch.nn.RMSNorm(128)

    def forward(self, x):
        return x + self.norm(self.mlp["down"](self.mlp["up"](x).relu()))


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.blocks = torch.nn.Sequential(Block(), Block())
        self.head = torch.nn.Linear(128, 16)

    def forward(self, x):
        return self.head(self.blocks(x))


def names():
    """What the examples take for granted."""
    model = Model()
    rt.convert(model, "tensorwise")
    codes = rt.quantize(torch.randn(256, 128), rt.QuantConfig("e4m3", "blockwise"), weight=True)
    seen = []
    return {
        "torch": torch, "rt": rt, "Model": Model, "model": model, "batches": range(2), "x": torch.randn(5, 128), "seen_by_log": seen,
        "my_own_optimiser": lambda module: None, "step": lambda: model(torch.randn(4, 128)).sum().backward(),
        "log": lambda *words: seen.append(words), "state": {"weight": codes.q, "weight_scale_inv": codes.scale},
        "fully_shard": fully_shard, "MixedPrecisionPolicy": MixedPrecisionPolicy,
    }


@pytest.fixture
def one_rank(on_cpu, tmp_path):
    torch.distributed.init_process_group("gloo", init_method=f"file://{tmp_path / 'store'}", rank=0, world_size=1)
    yield
    torch.distributed.destroy_process_group()


@pytest.mark.parametrize("block", BLOCKS, ids=lambda block: block.splitlines()[0][:40])
def test_an_example_runs(one_rank, tmp_path, monkeypatch, capsys, block):
    monkeypatch.chdir(tmp_path)
    given = names()
    exec(compile(block, "docs/pytorch.md", "exec"), given)  # noqa: S102
    model = given["model"]
    if "MasterWeights" in block:
        model(torch.randn(4, 128)).sum().backward()
        given["optimizer"].step()
    if isinstance(model, Model):
        assert model(torch.randn(4, 128)).isfinite().all()
    if "hook=" in block:
        assert any("y.snr_db" in values for _, values in given["seen_by_log"]) and "blocks.0.mlp.up: " in capsys.readouterr().out


def test_there_are_examples():
    assert len(BLOCKS) >= 8 and {name for name, _ in SIGNATURES} == set(NAMES.split("|"))


# Functions as tables and sentences write them, with every argument and default; not calls of them.
NAMES = "gemm|grouped_gemm|grouped_gemm_fp8|fp8_grouped_linear|grouped_quantize|symmetric_product|gemm_fp8|quantize|dequantize|rms_norm|activation_quantize|rms_norm_quantize|layer_norm|softmax|log_softmax|logsumexp|embedding|cross_entropy|linear_cross_entropy|route|rope|attention|sdpa|QuantConfig"
WRITTEN = re.findall(rf"`(?:rt\.)?({NAMES})\((\w+(?:=[^`]*)?, [^`]*=[^`]*)\)`", TEXT)
SIGNATURES = [(name, arguments) for name, arguments in WRITTEN if not re.search(r"\([^)]", arguments) and ("*, " in arguments or "True" not in arguments)]


@pytest.mark.parametrize("name,arguments", SIGNATURES, ids=lambda word: word[:30])
def test_a_signature_is_that_of_the_code(name, arguments):
    written = inspect.signature(eval(f"lambda {arguments.replace('..., ', '')}: None", {"QuantConfig": rt.QuantConfig})).parameters
    made = getattr(rt, name)
    real = dict(inspect.signature(made.__init__ if isinstance(made, type) else made).parameters)
    real.pop("self", None)
    assert all(said in real and real[said].kind == one.kind for said, one in written.items())
    assert all(real[said].default == one.default for said, one in written.items())
    assert "..." in arguments or list(written) == list(real)


def test_names_and_recipes_are_those_there_are():
    missing = [name for name in set(re.findall(r"\brt\.(\w+)", TEXT)) if not hasattr(rt, name)]
    assert not missing
    table = TEXT[TEXT.index("| name | y | dx | dw | scales |") :].split("\n\n")[0]
    assert sorted(re.findall(r"^\| `(\w+)`", table, re.M)) == sorted(rt.recipes())
    fields = TEXT[TEXT.index("| field of `Recipe` | |") :].split("\n\n")[0]
    named = [name for row in re.findall(r"^\| (`.*?) \|", fields, re.M) for name in re.findall(r"`(\w+)`", row)]
    assert sorted(named) == sorted(field.name for field in dataclasses.fields(rt.Recipe))
    for file in set(re.findall(r"`((?:bench|examples|scripts|tests|python)/[\w./-]+\.?\w*)`", TEXT)):
        assert "*" in file or (ROOT / file).exists(), file
