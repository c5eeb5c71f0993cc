"""Operators of PyTorch's database start threads enough for their elements."""

from __future__ import annotations

import pytest

from tests.cuda.thread_counts import counted_calls, counting, part_of

PART = "reads a part of what it is given"
FEW = {  # operators and why: none may join them
    "__getitem__ forward": PART,
    "addbmm forward": "the sum over a batch is one product's, whose tile is a block's",
    "index_put forward": "a mask whose count nobody computed chooses nothing",
    "nn.functional.bilinear backward": "the bias's 8 sums are of 64 numbers in all",
}
# What is called otherwise than PyTorch's samples say, or asks for right numbers.
UNCOUNTED = set(
    "H T einsum histogramdd istft linalg.eig linalg.eigvals mH mT multinomial "
    "nn.functional.embedding nn.functional.linear_cross_entropy "
    "nn.functional.triplet_margin_with_distance_loss normal pca_lowrank polygamma "
    "sparse.mm sparse.sampled_addmm special.polygamma svd_lowrank to_sparse where zero_ "
    "linalg.pinv".split()
)


PARTS = 16


@pytest.mark.imagined
@pytest.mark.parametrize("part", range(PARTS))
def test_the_busiest_launch_of_an_operator_has_threads_enough(
    machine, monkeypatch, part
):
    with counting(machine, monkeypatch) as counter:
        few, uncounted, counted = counted_calls(counter, part, PARTS)
    known = {name for name in FEW if part_of(name.split()[0], PARTS) == part}
    assert counted > 20  # calls that launched something
    assert {name: few[name] for name in few if name not in known} == {}
    assert known - set(few) == set(), "has threads enough now"
    assert uncounted == {n for n in UNCOUNTED if part_of(n, PARTS) == part}
