"""The command ``ridge`` of the Python package: hands over to the program that lies in it."""

from __future__ import annotations

import os
import pathlib
import sys


def main() -> None:
    program = pathlib.Path(__file__).parent / "bin" / "ridge"
    try:
        os.execv(program, [str(program), *sys.argv[1:]])
    except OSError as error:
        sys.exit(f"ridge: cannot start {program}: {error.strerror}; install the package again (pip install --force-reinstall ridgeline)")
