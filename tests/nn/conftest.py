"""Building the same module here and in the oracle, and comparing all it computes."""

from __future__ import annotations

import pytest

import rushlight as rl
from rushlight import nn


@pytest.fixture(scope="session")
def torch():
    return pytest.importorskip("torch", reason="the oracle is not installed")


class Pair:
    """A module here and its twin in the oracle, made from the same seed."""

    def __init__(self, torch, name, *args, **kwargs):
        self.torch = torch
        rl.manual_seed(7)
        self.ours = getattr(nn, name)(*self.here(args), **self.here(kwargs))
        torch.manual_seed(7)
        self.theirs = getattr(torch.nn, name)(*self.there(args), **self.there(kwargs))

    def here(self, value):
        """A value with the oracle's tensors turned into ours."""
        return self._mapped(value, self.torch.Tensor, from_oracle)

    def there(self, value):
        """A value with our tensors turned into the oracle's."""

        def convert(tensor):
            return to_oracle(self.torch, tensor)

        return self._mapped(value, rl.Tensor, convert)

    def _mapped(self, value, kind, convert):
        if isinstance(value, kind):
            return convert(value)
        if isinstance(value, dict):
            return {
                key: self._mapped(each, kind, convert) for key, each in value.items()
            }
        if isinstance(value, (list, tuple)):
            return type(value)(self._mapped(each, kind, convert) for each in value)
        return value

    def assert_same_text_and_state(self):
        assert repr(self.ours) == repr(self.theirs)
        ours, theirs = self.ours.state_dict(), self.theirs.state_dict()
        assert list(ours) == list(theirs)
        assert ours._metadata == theirs._metadata
        for key, value in theirs.items():
            close(self.torch, ours[key], value, f"state {key}")

    def assert_same_results(self, *inputs, atol=1e-5, rtol=1e-4, leaves=None, **kwargs):
        """Outputs and all gradients agree; inputs are the oracle's tensors.

        Args:
            leaves: how many floating-point inputs get gradients; all if left out.
        """
        leaves_here, leaves_there = [], []
        here, there = [], []
        for value in inputs:
            if isinstance(value, self.torch.Tensor):
                other = self.here(value.detach())
                value = value.detach().clone()
                if value.is_floating_point() and leaves != len(leaves_here):
                    other.requires_grad_()
                    value.requires_grad_()
                    leaves_here.append(other)
                    leaves_there.append(value)
                here.append(other)
                there.append(value)
            else:
                here.append(value)
                there.append(value)
        rl.manual_seed(11)
        ours = self.ours(*here, **self.here(kwargs))
        self.torch.manual_seed(11)
        theirs = self.theirs(*there, **kwargs)
        bounds = {"atol": atol, "rtol": rtol}
        self._compare(ours, theirs, "output", bounds)
        self._backward(ours, theirs)
        for index, (a, b) in enumerate(zip(leaves_here, leaves_there)):
            self._compare(a.grad, b.grad, f"gradient of input {index}", bounds)
        for (name, a), (_, b) in zip(
            self.ours.named_parameters(), self.theirs.named_parameters()
        ):
            self._compare(a.grad, b.grad, f"gradient of {name}", bounds)
        for (name, a), (_, b) in zip(
            self.ours.named_buffers(), self.theirs.named_buffers()
        ):
            self._compare(a, b, f"buffer {name}", bounds)

    def _backward(self, ours, theirs):
        """Send the same gradients back through every differentiable output."""
        pairs = list(zip(flat(ours, rl.Tensor), flat(theirs, self.torch.Tensor)))
        pairs = [(a, b) for a, b in pairs if b.requires_grad]
        assert all(a.requires_grad for a, _ in pairs)
        if not pairs:
            return
        grads = [self.torch.randn_like(b) for _, b in pairs]
        self.torch.autograd.backward([b for _, b in pairs], grads)
        rl.autograd.backward([a for a, _ in pairs], [self.here(g) for g in grads])

    def _compare(self, ours, theirs, what, bounds):
        if theirs is None:
            assert ours is None, what
            return
        pairs = zip(flat(ours, rl.Tensor), flat(theirs, self.torch.Tensor), strict=True)
        for a, b in pairs:
            close(self.torch, a, b, what, **bounds)


def flat(value, kind):
    """The tensors in nested tuples and dicts."""
    if isinstance(value, kind):
        return [value]
    if isinstance(value, dict):
        value = value.values()
    if isinstance(value, (list, tuple)) or hasattr(value, "__iter__"):
        return [each for part in value for each in flat(part, kind)]
    return []


def from_oracle(tensor):
    """Our tensor with the values of one of the oracle's."""
    return rl.from_numpy(tensor.detach().numpy().copy())


def to_oracle(torch, tensor):
    """The oracle's tensor with the values of one of ours."""
    return torch.from_numpy(tensor.detach().numpy().copy())


def close(torch, ours, theirs, what, atol=1e-6, rtol=1e-5):
    """Assert equal shapes, dtypes and nearly equal values."""
    assert tuple(ours.shape) == tuple(theirs.shape), what
    assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1], what
    torch.testing.assert_close(
        to_oracle(torch, ours),
        theirs.detach(),
        atol=atol,
        rtol=rtol,
        equal_nan=True,
        msg=lambda text: f"{what}: {text}",
    )


@pytest.fixture
def pair(torch):
    """A function that builds a ``Pair``."""
    return lambda name, *args, **kwargs: Pair(torch, name, *args, **kwargs)
