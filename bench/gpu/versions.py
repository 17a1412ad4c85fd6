"""What ran, for the files of results: packages, device, driver and clocks."""
import contextlib
import importlib.metadata
import subprocess

import torch

import ridgeline.torch as rt


def versions(device="cuda"):
    found = {"torch": torch.__version__, "cuda": torch.version.cuda, "ridgeline": rt.__version__, "device": "cpu"}
    for name in ("triton", "quack-kernels", "liger-kernel"):
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    if device == "cuda":
        found["device"] = torch.cuda.get_device_name()
        query = ["nvidia-smi", "--query-gpu=driver_version,clocks.sm,clocks.mem,power.limit", "--format=csv,noheader"]
        found["smi"] = subprocess.run(query, capture_output=True, text=True).stdout.strip()
    return found
