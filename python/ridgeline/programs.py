"""The command ``ridge`` of the Python package: hands over to the program that lies in it."""

from __future__ import annotations

import os
import pathlib
import sys

from . import __path__ as _folders


def _program() -> pathlib.Path:
    """In this package: of an editable installation the sources in the clone and the folder that the programs were installed into."""
    programs = [pathlib.Path(one) / "bin" / "ridge" for one in _folders]
    return next((one for one in programs if one.exists()), programs[0])


def main() -> None:
    program = _program()
    os.environ.setdefault("RIDGE_PYTHON", sys.executable)  # `ridge doctor` looks at the PyTorch of this Python
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ridge: cannot start {program}: {error.strerror}; install the package again (pip install --force-reinstall ridgeline)")
