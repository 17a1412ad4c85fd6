"""Running a part of the tests, and several at once: markers, and a GPU for each worker."""

import os
import pathlib
import subprocess
import sys

import pytest
from worker_gpu import visible_to

FOLDER = pathlib.Path(__file__).parent
END = "\n-- the end of a call --\n"


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


def test_a_worker_is_pinned_before_pytorch_is_imported(tmp_path):
    # In PyTorch's place a module that says what it would see.
    (tmp_path / "torch.py").write_text("import os\nprint(os.environ.get('CUDA_VISIBLE_DEVICES'))\ndevice = object\n")
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PYTEST_XDIST_WORKER": "gw2", "CUDA_VISIBLE_DEVICES": "4,5,6", "PYTHONPATH": paths}
    said = subprocess.run([sys.executable, "-c", "import conftest"], cwd=FOLDER, env=environment, capture_output=True, text=True, timeout=300)
    assert said.stdout.strip() == "6", said.stderr


def collected(*calls):
    """What pytest says of each call, all of them in one process: it is importing PyTorch that takes time."""
    code = "import sys, pytest\nEND = {!r}\nfor words in {!r}:\n    print('status', int(pytest.main(['-q', '--collect-only', '-p', 'no:cacheprovider', *words])), end=END)"
    said = subprocess.run([sys.executable, "-c", code.format(END, calls)], capture_output=True, text=True, timeout=300)
    return said.stdout.split(END)[:-1]


def test_markers_select_and_unknown_ones_are_errors(tmp_path):
    files = [str(FOLDER / name) for name in ("test_sharding.py", "test_determinism.py", "test_modules.py")]
    (tmp_path / "test_wrong.py").write_text("import pytest\n\n@pytest.mark.determinstic\ndef test():\n    pass\n")
    distributed, deterministic, neither, wrong = collected(
        ["-m", "distributed", *files],
        ["-m", "deterministic", *files],
        ["-m", "not distributed and not deterministic", *files],
        ["-c", str(FOLDER / "pytest.ini"), str(tmp_path / "test_wrong.py")],
    )
    assert "test_ranks_agree_with_one_process" in distributed and "test_ddp_and_fsdp" in distributed and "test_determinism" not in distributed
    assert "test_determinism" in deterministic and "test_sharding" not in deterministic
    assert "test_modules" in neither and "test_sharding" not in neither and "test_ddp_and_fsdp" not in neither
    assert all("status 0" in said for said in (distributed, deterministic, neither))
    assert "status 0" not in wrong and "'determinstic' not found in `markers`" in wrong
