"""Finds and loads the library that registers torch.ops.ridgeline.*."""

from __future__ import annotations

import os
import pathlib
import re

from . import __path__ as _folders
from .. import __version__

_NAME = re.compile(r"libridgeline_torch-(\d+)\.(\d+)\.so")
_BUILD = "build it in an environment that has torch (in a clone: pip install --force-reinstall --no-deps .)"


def _versions(folder: pathlib.Path) -> list[str]:
    """The minor versions of PyTorch that there is a library for, oldest first."""
    found = [_NAME.fullmatch(name) for name in (os.listdir(folder) if folder.is_dir() else [])]
    return [f"{major}.{minor}" for major, minor in sorted((int(one[1]), int(one[2])) for one in found if one is not None)]


def _folder() -> pathlib.Path:
    """RIDGELINE_LIBRARY_DIR, for a library in a build folder, else this package: of an editable installation the sources in the clone
    and the folder that the library was installed into."""
    chosen = os.environ.get("RIDGELINE_LIBRARY_DIR")
    folders = [pathlib.Path(one) for one in ([chosen] if chosen else _folders)]
    return next((one for one in folders if _versions(one)), folders[0])


def _torch_of(versions: list[str]) -> str:
    """How to get a PyTorch that there is a library for."""
    return f"pip install 'torch=={versions[-1]}.*'"


def _without_torch(folder: pathlib.Path, versions: list[str]) -> str:
    if not versions:
        return (
            f"ridgeline.torch needs PyTorch, which is not installed here, and there is no library for it in {folder} either: "
            f"install torch, then ridgeline's wheel for that version of torch (ridgeline-{__version__}+torchX.Y-...whl), or {_BUILD}"
        )
    return f"ridgeline.torch needs PyTorch, which is not installed here; this ridgeline is for torch {', '.join(versions)}: {_torch_of(versions)}"


def _for_another(folder: pathlib.Path, versions: list[str], installed: str, minor: str) -> str:
    ours = f"ridgeline's wheel for it (ridgeline-{__version__}+torch{minor}-...whl)"
    if not versions:
        return (
            f"no ridgeline library in {folder}: this package was built without torch, and this is torch {installed}; install "
            f"{ours}, {_BUILD}, or set RIDGELINE_LIBRARY_DIR to the folder of one (after scripts/build: build/lib)"
        )
    return (
        f"ridgeline in {folder} is for torch {', '.join(versions)}, and this is torch {installed}: {_torch_of(versions)}; or keep "
        f"torch {installed}, and install {ours}, or {_BUILD}"
    )


def _cause(error: BaseException) -> str:
    """The first error of a chain: that of the loader, which PyTorch wraps in one of its own."""
    while error.__cause__ is not None:
        error = error.__cause__
    return str(error)


def load() -> None:
    """Loads the library for this PyTorch; an ImportError says why it cannot be, which ones there are and what to do."""
    folder = _folder()
    versions = _versions(folder)
    try:
        import torch
    except ModuleNotFoundError as error:
        if error.name != "torch":
            raise
        raise ImportError(_without_torch(folder, versions), name="torch") from None
    installed = str(torch.__version__)
    minor = ".".join(installed.split(".")[:2])
    if minor not in versions:
        raise ImportError(_for_another(folder, versions, installed, minor))
    path = folder / f"libridgeline_torch-{minor}.so"
    try:
        torch.ops.load_library(str(path))  # type: ignore[no-untyped-call]
    except OSError as error:
        raise ImportError(
            f"{path} cannot be loaded: {_cause(error)}. It is for releases of torch {minor}, and this is torch {installed} in "
            f"{pathlib.Path(torch.__file__).parent}; install ridgeline's wheel for it again, or {_BUILD}",
            path=str(path),
        ) from error
