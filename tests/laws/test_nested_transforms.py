"""Random programs under random nests of transformations answer as on PyTorch.

`python -m tests.laws.nested_transforms` runs ten thousand of them with a seed.
"""

import pytest

pytest.importorskip("torch", reason="the oracle is not installed")

from tests.laws.nested_transforms import difference


@pytest.mark.parametrize("block", range(6))
def test_nests_of_transformations_are_pytorchs(block):
    for number in range(50 * block, 50 * block + 50):
        told = difference(0, number)
        assert told is None, (number, told)
