"""DTensors: every operator in every placement, tensor-parallel plans, objects between ranks. Two processes over gloo, or over NCCL with a GPU each."""

import pytest

PARTS = ["ops", "leading", "codes", "quantised", "middle", "plans", "norms", "activations", "experts", "gather", "changes", "objects", "adamw", "rope", "attention", "losses"]


@pytest.mark.parametrize("part", PARTS)
def test_ranks_agree_with_one_process(two_ranks_of_parts, part):
    two_ranks_of_parts("sharding_worker.py", part)
