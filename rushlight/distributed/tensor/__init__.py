"""Tensors spread over several processes: not available yet.

No value is a ``DTensor``, and programs may ask; placements are plain values.
"""

from __future__ import annotations

from dataclasses import dataclass

import rushlight as rl
from rushlight import _stubs
from rushlight.distributed import _unavailable

__all__ = [
    "DTensor",
    "Partial",
    "Placement",
    "Replicate",
    "Shard",
    "distribute_module",
    "distribute_tensor",
    "empty",
    "full",
    "ones",
    "rand",
    "randn",
    "zeros",
]


class DTensor(rl.Tensor):
    """A tensor spread over several processes: there is none.

    Raises:
        NotImplementedError: always.
    """

    def __new__(cls, *args, **kwargs):
        _unavailable("tensor.DTensor")


class Placement:
    """How one dimension of the devices holds a tensor."""

    def is_shard(self, dim=None) -> bool:
        """Whether every device holds a part, cut along ``dim`` if that is given."""
        return isinstance(self, Shard) and dim in (None, self.dim)

    def is_replicate(self) -> bool:
        """Whether every device holds all of it."""
        return isinstance(self, Replicate)

    def is_partial(self, reduce_op=None) -> bool:
        """Whether every device holds a share of the sum, or of another reduction."""
        return isinstance(self, Partial) and reduce_op in (None, self.reduce_op)


@dataclass(frozen=True)
class Shard(Placement):
    """Every device holds a part, cut along one dimension of the tensor."""

    dim: int


@dataclass(frozen=True)
class Replicate(Placement):
    """Every device holds all of it."""


@dataclass(frozen=True)
class Partial(Placement):
    """Every device holds a share of what they come to together."""

    reduce_op: str = "sum"


def _refusing(name):
    return _stubs.refusing(
        __name__,
        name,
        lambda: _unavailable(f"tensor.{name}"),
        "NotImplementedError: it is not available yet.",
    )


distribute_module = _refusing("distribute_module")
distribute_tensor = _refusing("distribute_tensor")
empty = _refusing("empty")
full = _refusing("full")
ones = _refusing("ones")
rand = _refusing("rand")
randn = _refusing("randn")
zeros = _refusing("zeros")
