"""Running a part of the tests, and several at once: markers, and a GPU for each worker."""

import os
import pathlib
import subprocess
import sys

import pytest
from worker_gpu import visible_to

FOLDER = pathlib.Path(__file__).parent


@pytest.mark.parametrize(
    "environment,present,expected",
    [
        ({}, ["0", "1"], None),  # no worker: all GPUs
        ({"PYTEST_XDIST_WORKER": "master"}, ["0", "1"], None),
        ({"PYTEST_XDIST_WORKER": "gw0"}, ["0", "1"], "0"),
        ({"PYTEST_XDIST_WORKER": "gw3"}, ["0", "1"], "1"),
        ({"PYTEST_XDIST_WORKER": "gw10"}, ["0", "1", "2", "3"], "2"),
        ({"PYTEST_XDIST_WORKER": "gw1", "CUDA_VISIBLE_DEVICES": "5, GPU-7f"}, ["0"], "GPU-7f"),
        ({"PYTEST_XDIST_WORKER": "gw1", "CUDA_VISIBLE_DEVICES": ""}, ["0", "1"], None),  # hidden from us: they stay so
        ({"PYTEST_XDIST_WORKER": "gw0"}, [], None),
    ],
)
def test_a_worker_sees_the_gpu_of_its_number(environment, present, expected):
    assert visible_to(environment, present) == expected


def test_a_worker_is_pinned_before_pytorch_is_imported():
    code = "import os, sys, conftest; print(os.environ.get('CUDA_VISIBLE_DEVICES'))"
    environment = {**os.environ, "PYTEST_XDIST_WORKER": "gw2", "CUDA_VISIBLE_DEVICES": "4,5,6"}
    said = subprocess.run([sys.executable, "-c", code], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300)
    assert said.stdout.strip() == "6", said.stderr


def collected(*words):
    command = [sys.executable, "-m", "pytest", "-q", "--collect-only", "-p", "no:cacheprovider", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=300)


def test_markers_select_and_unknown_ones_are_errors(tmp_path):
    files = [str(FOLDER / name) for name in ("test_sharding.py", "test_determinism.py", "test_modules.py")]
    distributed, deterministic = (collected("-m", word, *files).stdout for word in ("distributed", "deterministic"))
    assert "test_ranks_agree_with_one_process" in distributed and "test_ddp_and_fsdp" in distributed and "test_determinism" not in distributed
    assert "test_determinism" in deterministic and "test_sharding" not in deterministic
    neither = collected("-m", "not distributed and not deterministic", *files).stdout
    assert "test_modules" in neither and "test_sharding" not in neither and "test_ddp_and_fsdp" not in neither
    (tmp_path / "test_wrong.py").write_text("import pytest\n\n@pytest.mark.determinstic\ndef test():\n    pass\n")
    wrong = collected("-c", str(FOLDER / "pytest.ini"), str(tmp_path / "test_wrong.py"))
    assert wrong.returncode != 0 and "'determinstic' not found in `markers`" in wrong.stdout + wrong.stderr
