"""Which device the tests run on: RIDGE_TORCH_DEVICE, else cpu. Workers of pytest-xdist have a GPU each."""

import os
import pathlib
import subprocess
import sys
import tempfile
import time
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


def _in_two_ranks(worker: str, words: list[str], folder: pathlib.Path, timeout: float) -> tuple[list[str], list[int | None]]:
    """What a worker of this folder says and how it ends as two ranks, WORKER RANK RANKS STORE [WORD...].

    Where one fails the other may wait for it for ever: it has ten seconds to say what it found.
    """
    command = [sys.executable, "-W", "ignore", pathlib.Path(__file__).with_name(worker)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo", "NCCL_SOCKET_IFNAME": "lo"}
    logs = [folder / f"rank{rank}" for rank in range(2)]
    ranks = []
    try:
        for rank, log in enumerate(logs):
            with log.open("w") as out:
                words_of_rank = [*command, str(rank), "2", str(folder / "store"), *words]
                ranks.append(subprocess.Popen(words_of_rank, env=environment, stdout=out, stderr=subprocess.STDOUT))
        end = time.monotonic() + timeout
        while time.monotonic() < end and any(rank.poll() is None for rank in ranks):
            if any(rank.poll() for rank in ranks):
                end = min(end, time.monotonic() + 10)
            time.sleep(0.05)
    finally:
        for rank in ranks:
            rank.kill()
    codes = [rank.poll() for rank in ranks]
    return [log.read_text() for log in logs], codes


def _needs_two(device: torch.device) -> None:
    if device.type == "cuda" and torch.cuda.device_count() < 2:
        pytest.skip("needs two GPUs")


@pytest.fixture
def two_ranks(device: torch.device, tmp_path: pathlib.Path) -> Callable[..., None]:
    """Runs a worker of this folder as two ranks; both must end well and print what they say."""
    _needs_two(device)

    def run(worker: str, says: str) -> None:
        outputs, codes = _in_two_ranks(worker, [], tmp_path, 300)
        assert all(says in output for output in outputs) and codes == [0, 0], "\n".join(outputs)

    return run


@pytest.fixture(scope="module")
def two_ranks_of_parts(
    request: pytest.FixtureRequest, device: torch.device, tmp_path_factory: pytest.TempPathFactory
) -> Callable[[str, str], None]:
    """Two ranks that a module's tests share: they run the parts of all selected tests, and print "PART: all agree" after each.

    A part that fails ends both; two new ones run those behind it.
    """
    _needs_two(device)
    items = [item for item in request.session.items if isinstance(item, pytest.Function) and item.path == request.path]
    parts = [str(item.callspec.params["part"]) for item in items if "two_ranks_of_parts" in item.fixturenames]
    failures: dict[str, str] = {}  # empty: all agreed

    def run(worker: str, part: str) -> None:
        if part not in failures:
            rest = parts[parts.index(part) :]
            outputs, _ = _in_two_ranks(worker, rest, tmp_path_factory.mktemp("ranks"), 900)
            for each in rest:
                agreed = all(f"{each}: all agree\n" in output for output in outputs)
                failures[each] = "" if agreed else "\n".join(outputs)
                if not agreed:
                    break
        assert not failures[part], failures[part]

    return run
