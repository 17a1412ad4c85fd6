"""bench/gpu/rows_compare.py with tiny shapes on the CPU: every work is right, and a wrong one is found."""

import importlib
import json
import os
import pathlib
import subprocess
import sys

import pytest
import torch

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "bench/gpu"


@pytest.fixture
def works(on_cpu, monkeypatch):
    monkeypatch.syspath_prepend(str(FOLDER))
    return importlib.import_module("rows_works")


def test_every_work_runs_and_is_right(on_cpu, tmp_path):
    command = [sys.executable, FOLDER / "rows_compare.py", tmp_path, "--device", "cpu", "--quick", "--no-compile", "--commit", "none"]
    run = subprocess.run(command, env={**os.environ, "OMP_NUM_THREADS": "1"}, capture_output=True, text=True)
    assert run.returncode == 0, run.stdout + run.stderr
    found = json.loads((tmp_path / "rows.json").read_text())
    ours = {row["work"]: row for row in found["rows"] if row["contender"] == "ridgeline"}
    for name in ("rmsnorm.backward", "softmax.backward", "log_softmax.forward", "logsumexp.backward", "embedding.backward", "swiglu.backward", "rope.forward", "rope.backward", "cross_entropy.both", "adamw.step", "quantise.both"):
        assert ours[name]["error"] <= 1 and ours[name]["ran"].startswith("cpu") and ours[name]["median_us"] > 0
    assert {row["contender"] for row in found["rows"] if row["work"] == "adamw.step"} == {"ridgeline", "torch fused", "torch foreach"}
    assert {row["work"] for row in found["host"]} >= {"rmsnorm.forward", "swiglu.backward"}
    assert len((tmp_path / "rows.csv").read_text().splitlines()) == 1 + len(found["rows"]) + len(found["host"])


def test_a_wrong_result_is_no_right_one(works):
    for kind in works.WORKS:
        if kind.name == "layernorm":
            continue
        work = kind(kind.tiny[0], "cpu")
        for direction in kind.directions:
            call = work.ours(direction)[""]
            call.prepare()
            results = [one.detach().clone() for one in call.run()]
            assert work.worst(direction, results) <= 1
            for at, one in enumerate(results):
                wrong = [other.clone() for other in results]
                place = wrong[at].view(-1)[-1:] if one.itemsize > 1 else wrong[at].view(-1)[-1:].view(torch.uint8)
                if one.itemsize > 1:
                    place += 0.1 * one.abs().max()
                else:
                    place ^= 0x08  # the exponent
                assert work.worst(direction, wrong) > 1, (kind.name, direction, at)
