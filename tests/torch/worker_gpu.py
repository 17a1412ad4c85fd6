"""Which GPU a worker of pytest-xdist sees: each one of its own, by its number, so that tests that run side by side do not share one."""

from collections.abc import Mapping, Sequence


def visible_to(environment: Mapping[str, str], present: Sequence[str]) -> str | None:
    """What CUDA_VISIBLE_DEVICES is to be; None leaves it as it is.

    present  names of the GPUs of this machine, for where the variable does not list them
    """
    worker = environment.get("PYTEST_XDIST_WORKER", "")
    if not worker.startswith("gw") or not worker[2:].isdecimal():  # one process, or the one that hands out tests
        return None
    listed = environment.get("CUDA_VISIBLE_DEVICES")
    gpus = [name.strip() for name in listed.split(",") if name.strip()] if listed is not None else list(present)
    return gpus[int(worker[2:]) % len(gpus)] if gpus else None
