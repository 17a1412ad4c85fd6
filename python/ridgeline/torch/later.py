"""What is told to parts of PyTorch that a program may never import, and that take long to: when it does."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import importlib.util
import sys
import threading
import types
from collections.abc import Callable, Sequence


class _Watch(importlib.abc.MetaPathFinder):
    """Finds one module as the other finders do, and calls back once it has run."""

    def __init__(self, module: str, then: Callable[[], None]) -> None:
        self._module, self._then = module, then
        self._asking = threading.local()  # set while this thread asks the other finders

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self._module or getattr(self._asking, "now", False):
            return None
        self._asking.now = True
        try:
            spec = importlib.util.find_spec(fullname)
        finally:
            self._asking.now = False
        if spec is not None and spec.loader is not None:
            run = spec.loader.exec_module

            def run_and_tell(module: types.ModuleType) -> None:
                run(module)
                if self in sys.meta_path:  # a loader that was asked for twice is wrapped twice
                    sys.meta_path.remove(self)
                    self._then()

            spec.loader.exec_module = run_and_tell  # type: ignore[method-assign]
        return spec


def when_imported(module: str, then: Callable[[], None]) -> None:
    """Calls ``then`` after ``module`` is imported; now, if it is."""
    if module in sys.modules:
        then()
    else:
        sys.meta_path.insert(0, _Watch(module, then))
