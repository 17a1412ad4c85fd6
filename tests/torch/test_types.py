"""The package's annotations, held by the type checkers that its users run; each is optional, and is used where it is installed."""

import importlib.util
import pathlib
import shutil
import subprocess
import sys

import pytest

import ridgeline

ROOT = pathlib.Path(__file__).parents[2]
PACKAGE = pathlib.Path(ridgeline.__file__).parent


def test_the_package_says_that_it_is_typed() -> None:
    assert (PACKAGE / "py.typed").exists()


def checked(*command: str) -> None:
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr


def test_mypy_strict_finds_nothing(tmp_path: pathlib.Path) -> None:
    if importlib.util.find_spec("mypy") is None:
        pytest.skip("mypy is not installed: .venv/bin/pip install mypy==2.4.1")
    checked(sys.executable, "-m", "mypy", "--cache-dir", str(tmp_path))


def test_pyright_finds_nothing() -> None:
    beside = pathlib.Path(sys.executable).parent / "pyright"
    program = str(beside) if beside.exists() else shutil.which("pyright")
    if program is None:
        pytest.skip("pyright is not installed: .venv/bin/pip install pyright==1.1.414 (it fetches Node.js when it first runs)")
    checked(program, "--pythonpath", sys.executable)
