"""Finds and loads the library that registers torch.ops.ridgeline.*."""

from __future__ import annotations

import os
import pathlib
import re

import torch

_NAME = re.compile(r"libridgeline_torch-(\d+\.\d+)\.so")


def _folders() -> list[pathlib.Path]:
    """RIDGELINE_LIBRARY_DIR, for a library in a build folder, then this package."""
    chosen = os.environ.get("RIDGELINE_LIBRARY_DIR")
    return [pathlib.Path(chosen)] if chosen else [pathlib.Path(__file__).parent]


def load() -> None:
    """Loads the library for this PyTorch; an ImportError says which ones are there and what to do."""
    version = ".".join(torch.__version__.split(".")[:2])
    found: list[str] = []
    for folder in _folders():
        path = folder / f"libridgeline_torch-{version}.so"
        if path.exists():
            torch.ops.load_library(str(path))
            return
        if folder.is_dir():
            found += [match[1] for name in os.listdir(folder) if (match := _NAME.fullmatch(name))]
    places = ", ".join(str(folder) for folder in _folders())
    if found:
        raise ImportError(
            f"ridgeline in {places} was built for torch {', '.join(sorted(found))}, and this is torch "
            f"{torch.__version__}; install it again from its sources (pip install --force-reinstall --no-deps .), or "
            f"install torch {found[0]}"
        )
    raise ImportError(
        f"no ridgeline library in {places}: this package was built without torch; build it in an environment that has torch "
        "(pip install . in a clone), or build the library (scripts/build) and set RIDGELINE_LIBRARY_DIR to build/lib"
    )
