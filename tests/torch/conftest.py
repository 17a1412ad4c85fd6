"""Which device the tests run on: RIDGE_TORCH_DEVICE, else cpu."""

import os
import tempfile

os.environ.setdefault("RIDGE_CACHE_DIR", tempfile.mkdtemp(prefix="ridge-torch-test-"))

import pytest  # noqa: E402
import torch  # noqa: E402


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
