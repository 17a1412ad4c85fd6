"""DTensors: every operator in every placement, tensor-parallel plans, objects between ranks. Two processes over gloo."""

import os
import pathlib
import subprocess
import sys

import pytest


@pytest.mark.parametrize("part", ["ops", "leading", "codes", "plans", "gather", "changes", "objects"])
def test_ranks_agree_with_one_process(on_cpu, tmp_path, part):
    worker = pathlib.Path(__file__).with_name("sharding_worker.py")
    ranks = [
        subprocess.Popen(
            [sys.executable, "-W", "ignore", worker, str(rank), "2", str(tmp_path / "store"), part],
            env={**os.environ, "OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
        )
        for rank in range(2)
    ]
    try:
        outputs = [rank.communicate(timeout=120)[0] for rank in ranks]
    finally:
        for rank in ranks:
            rank.kill()
    assert all("all agree" in output for output in outputs), "\n".join(outputs)
