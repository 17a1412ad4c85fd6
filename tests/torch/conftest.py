"""Which device the tests run on: RIDGE_TORCH_DEVICE, else cpu. Workers of pytest-xdist have a GPU each."""

import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

from worker_gpu import visible_to

os.environ.setdefault("RIDGE_CACHE_DIR", tempfile.mkdtemp(prefix="ridge-torch-test-"))
_present = sorted(path.name[len("nvidia") :] for path in pathlib.Path("/dev").glob("nvidia[0-9]*"))
if (gpu := visible_to(os.environ, _present)) is not None:
    os.environ["CUDA_VISIBLE_DEVICES"] = gpu  # before PyTorch is imported

import pytest  # noqa: E402
import torch  # noqa: E402


@pytest.hookimpl(tryfirst=True)  # before -m selects
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """What runs as several processes is ``distributed``."""
    for item in items:
        if {"two_ranks", "two_ranks_of_parts"} & set(getattr(item, "fixturenames", ())):
            item.add_marker("distributed", append=False)


@pytest.fixture(scope="session")
def device() -> torch.device:
    return torch.device(os.environ.get("RIDGE_TORCH_DEVICE", "cpu"))


@pytest.fixture(autouse=True)
def seeded() -> None:
    torch.manual_seed(1)


@pytest.fixture
def on_cpu(device: torch.device) -> None:
    if device.type != "cpu":
        pytest.skip("about the CPU")


@pytest.fixture
def on_gpu(device: torch.device) -> None:
    if device.type != "cuda":
        pytest.skip("needs a GPU; set RIDGE_TORCH_DEVICE=cuda on a machine that has one")


def _in_two_ranks(worker: str, words: list[str], store: pathlib.Path, timeout: float) -> tuple[list[str], list[int]]:
    """What a worker of this folder says and how it ends as two ranks over gloo, WORKER RANK RANKS STORE [WORD...]."""
    command = [sys.executable, "-W", "ignore", pathlib.Path(__file__).with_name(worker)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}
    ranks = [
        subprocess.Popen(
            [*command, str(rank), "2", str(store), *words], env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=timeout)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    return outputs, [rank.returncode for rank in ranks]


@pytest.fixture
def two_ranks(on_cpu: None, tmp_path: pathlib.Path) -> Callable[..., None]:
    """Runs a worker of this folder as two ranks; both must end well and print what they say."""

    def run(worker: str, says: str) -> None:
        outputs, codes = _in_two_ranks(worker, [], tmp_path / "store", 300)
        assert all(says in output for output in outputs) and codes == [0, 0], "\n".join(outputs)

    return run


@pytest.fixture(scope="module")
def two_ranks_of_parts(
    request: pytest.FixtureRequest, device: torch.device, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], None]:
    """Two ranks that a module's tests share: they run the parts of all selected tests, and print "PART: all agree" after each.

    A part that fails ends both, and with it those behind it; by itself one runs with -k.
    """
    if device.type != "cpu":
        pytest.skip("about the CPU")
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    parts = [str(item.callspec.params["part"]) for item in items if "two_ranks_of_parts" in item.fixturenames]
    started: dict[str, list[str]] = {}

    def run(worker: str, part: str) -> None:
        if worker not in started:
            started[worker], _ = _in_two_ranks(worker, parts, tmp_path_factory.mktemp("ranks") / "store", 900)
        assert all(f"{part}: all agree\n" in output for output in started[worker]), "\n".join(started[worker])

    return run
