"""DTensors: every operator in every placement, tensor-parallel plans, objects between ranks. Two processes over gloo."""


import pytest


@pytest.mark.parametrize("part", ["ops", "leading", "codes", "quantised", "middle", "plans", "norms", "activations", "gather", "changes", "objects", "adamw", "rope", "losses"])
def test_ranks_agree_with_one_process(two_ranks, part):
    two_ranks("sharding_worker.py", part, says="all agree")
