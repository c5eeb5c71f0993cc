"""``vmap`` goes through the steps that packages put in the place of PyTorch's."""

import pytest

import rushlight as rl
from rushlight.func import vmap


class Pair:
    """A package's container: two tensors whose first dimension counts examples."""

    def __init__(self, first, second):
        self.first, self.second = first, second

    def map(self, function):
        return Pair(function(self.first), function(self.second))


@pytest.fixture
def steps(monkeypatch):
    """The module of PyTorch's name, with steps that know ``Pair``."""
    from rushlight._functorch import vmap as module

    def process(in_dims, args, func):
        return args[0].first.shape[0], [0], list(args), None

    def create(dims, leaves, level, spec):
        wrap = module._add_batch_dim
        return [pair.map(lambda x: wrap(x, 0, level)) for pair in leaves]

    def unwrap(output, out_dims, level, size, func):
        remove = module._remove_batch_dim
        return output.map(lambda x: remove(x, level, size, out_dims))

    monkeypatch.setattr(module, "_process_batched_inputs", process)
    monkeypatch.setattr(module, "_create_batched_inputs", create)
    monkeypatch.setattr(module, "_unwrap_batched", unwrap)
    return module


def test_containers_of_a_package_are_mapped_over(steps):
    def each(pair):
        assert pair.first.shape == (3,)
        return Pair(pair.first @ pair.second, pair.second.sum())

    found = vmap(each)(Pair(rl.ones(2, 3), rl.arange(6.0).view(2, 3)))
    assert found.first.tolist() == [3.0, 12.0]
    assert found.second.tolist() == [3.0, 12.0]


def test_without_them_the_steps_are_vmaps_own():
    from rushlight._functorch import vmap as module

    size, dims, leaves, spec = module._process_batched_inputs(-1, (rl.ones(2, 3),), len)
    assert (size, dims) == (3, [1]) and leaves[0].shape == (2, 3)
    with pytest.raises(ValueError, match="cannot vmap over non-Tensor"):
        vmap(rl.sin)(Pair(rl.ones(2), rl.ones(2)))
