"""Forward mode: numbers that carry a direction, and operators that carry it on."""

from __future__ import annotations

from typing import NamedTuple

from rushlight.autograd.levels.stack import THREAD, plain
from rushlight.autograd.levels.tangent import TangentLevel
from rushlight.core.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


class UnpackedDualTensor(NamedTuple):
    """A primal value and its tangent; the tangent is None where it is zero."""

    primal: Tensor
    tangent: Tensor | None


def _level():
    for level in reversed(THREAD.open[: THREAD.at]):
        if isinstance(level, TangentLevel):
            return level
    return None


def _duals():
    if not hasattr(THREAD, "duals"):
        THREAD.duals = []
    return THREAD.duals


def enter_dual_level():
    """Open a level of dual numbers; returns its number, 0.

    Raises:
        RuntimeError: one is open.
    """
    if _duals():
        raise RuntimeError(
            "Nested forward mode AD is not supported at the moment: leave the level "
            "that is open first, or use rushlight.func.jvp"
        )
    level = TangentLevel()
    level.__enter__()
    _duals().append(level)
    return 0


def exit_dual_level(*, level=None):
    """Close the level: its tensors are plain values from now on.

    Raises:
        RuntimeError: none is open.
    """
    if not _duals():
        raise RuntimeError(
            "Trying to exit a forward AD level but no level is currently open"
        )
    _duals().pop().__exit__(None, None, None)


class dual_level:
    """A block in which tensors may carry tangents.

    >>> import rushlight as rl
    >>> from rushlight.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(rl.tensor(3.0), rl.tensor(1.0))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def __enter__(self):
        return enter_dual_level()

    def __exit__(self, *raised):
        exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """``tensor`` with a tangent, for calls inside a `dual_level`.

    Args:
        tensor: the primal value, of a real or complex type.
        tangent: the direction, of the same shape and dtype.

    Raises:
        RuntimeError: no level is open, or the shapes differ.
        ValueError: the type has no tangents.
    """
    found = _level()
    if found is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make "
            "sure to enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {given.dtype}"
            )
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Expected tangent to have the same size as the primal, but got "
            f"{list(tangent.shape)} for {list(tensor.shape)}"
        )
    if tensor.dtype != tangent.dtype:
        raise RuntimeError(
            f"Expected the tangent to have the primal's dtype {tensor.dtype}, but got "
            f"{tangent.dtype}"
        )
    return found.wrap(found.unwrap(tensor), found.unwrap(tangent))


def unpack_dual(tensor, *, level=None):
    """The primal value and the tangent of a tensor, as a named tuple.

    >>> unpack_dual(rl.ones(2)).tangent is None
    True
    """
    found = _level()
    if found is None or not found.owns(tensor):
        stand = tensor._stand
        dead = stand is not None and not stand.level.alive
        return UnpackedDualTensor(plain(tensor) if dead else tensor, None)
    return UnpackedDualTensor(tensor._stand.value, tensor._stand.look())
