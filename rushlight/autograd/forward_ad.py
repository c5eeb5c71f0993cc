"""Forward mode: tensors with tangents, and the blocks in which operators see them."""

from typing import NamedTuple

from rushlight.autograd.dual import DUAL, Beneath, Level, Tangent, include
from rushlight.autograd.levels.batch import BatchLevel
from rushlight.autograd.levels.stack import THREAD, Outside, plain
from rushlight.autograd.levels.tangent import TangentLevel
from rushlight.core.layout import contiguous_format, strided
from rushlight.core.state import Scope, sees_tangents
from rushlight.core.tensor import Tensor

__all__ = [
    "UnpackedDualTensor",
    "dual_level",
    "enter_dual_level",
    "exit_dual_level",
    "make_dual",
    "unpack_dual",
]


TWICE = (
    "Making a dual Tensor based on a Tensor that already has a forward gradient at the "
    "same level 0 is not supported."
)


class UnpackedDualTensor(NamedTuple):
    """A primal value and its tangent; the tangent is None where it is zero."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level():
    """Open a level of dual numbers; returns its number, 0.

    Raises:
        RuntimeError: one is open, or a `rushlight.func.jvp` is.
    """
    if THREAD.dual is not None or _jvp_level() is not None:
        raise RuntimeError(NESTED)
    include(Level())
    return 0


def exit_dual_level(*, level=None):
    """Close the level: its tensors have no tangents from now on.

    Args:
        level: the number of the level, 0.
        level: its number; the innermost one's by default.

    Raises:
        RuntimeError: none is open, or the number is of another.

    >>> level = enter_dual_level()
    >>> exit_dual_level(level=level)
    """
    if THREAD.dual is None:
        raise RuntimeError(
            "Trying to exit a forward AD level but no level is currently open: Dual "
            "level must be a positive number."
        )
    if level not in (None, 0, -1):
        raise RuntimeError(
            "Trying to exit a forward AD level that was not the last one that was "
            "created. This is not supported."
        )
    THREAD.dual.alive = False
    include(None)


class dual_level(Scope):
    """A block in which tensors may carry tangents.

    >>> import rushlight as rl
    >>> from rushlight.autograd import forward_ad
    >>> with forward_ad.dual_level():
    ...     x = forward_ad.make_dual(rl.tensor(3.0), rl.tensor(1.0))
    ...     forward_ad.unpack_dual(x * x).tangent
    tensor(6.)
    """

    def _save(self):
        self._outer = THREAD.dual
        self._open = False

    def _change(self):
        number = enter_dual_level()
        self._open = True
        return number

    def _restore(self):
        # whoever has closed it before hears of it, as in `exit_dual_level`
        if self._open or THREAD.dual is not self._outer:
            self._open = THREAD.dual is None
            exit_dual_level()


def make_dual(tensor, tangent, *, level=None):
    """``tensor`` with a tangent, for calls inside a `dual_level`: a view of it.

    Args:
        tensor: the primal value, of a real or complex type.
        tangent: the direction, of the same shape.
        level: the number of the level, 0.

    Raises:
        RuntimeError: no level is open, or the shapes differ.
        ValueError: the type has no tangents.

    >>> import rushlight as rl
    >>> with dual_level():
    ...     x = make_dual(rl.tensor([3.0]), rl.tensor([1.0]))
    ...     unpack_dual(x * x).tangent
    tensor([6.])
    """
    if THREAD.dual is None and _jvp_level() is None:
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make "
            "sure to enter_dual_level() first."
        )
    for name, given in (("primal", tensor), ("tangent", tangent)):
        if not (given.is_floating_point() or given.is_complex()):
            raise ValueError(
                f"Expected {name} to be floating point or complex, but got: {given.dtype}"
            )
    if level not in (None, 0, -1):
        raise RuntimeError("Invalid level given to _make_dual")
    return _made(tensor, tangent)


def unpack_dual(tensor, *, level=None):
    """The primal value and the tangent of a tensor, as a named tuple.

    Args:
        tensor: any tensor.
        level: the number of the level, 0.

    >>> unpack_dual(rl.ones(2)).tangent is None
    True
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            "_unpack_dual(): argument 'dual' (position 1) must be Tensor, not "
            f"{type(tensor).__name__}"
        )
    if level not in (None, 0, -1) or (THREAD.dual is None and _jvp_level() is None):
        return UnpackedDualTensor(tensor, None)
    return UnpackedDualTensor(*_parts(tensor))


class _set_fwd_grad_enabled:
    """A block in which tangents are seen, or are not."""

    def __init__(self, mode):
        self.previous, THREAD.forward = THREAD.forward, bool(mode)

    def __enter__(self):
        pass

    def __exit__(self, *raised):
        THREAD.forward = self.previous


def _is_fwd_grad_enabled():
    """Whether tangents are seen."""
    return THREAD.forward and (THREAD.dual is None or sees_tangents())


# -- through the transformations that are open -----------------------------------------

NESTED = (
    "Nested forward mode AD is not supported at the moment: leave the level that is "
    "open first, or use rushlight.func.jvp"
)


def _jvp_level():
    """The innermost open `jvp`, or None."""
    for level in reversed(THREAD.open[: THREAD.at]):
        if isinstance(level, TangentLevel):
            return level
    return None


def _innermost():
    return THREAD.open[THREAD.at - 1] if THREAD.at else None


def _sized(tensor, tangent):
    if tensor.shape != tangent.shape:
        raise RuntimeError(
            "Trying to set a forward gradient that has a different size than that of "
            f"the original Tensor, this is not supported. Tensor is of size "
            f"{list(tensor.shape)} while the given forward gradient is of size "
            f"{list(tangent.shape)}."
        )


def _made(tensor, tangent):
    if tensor.layout is not strided or tangent.layout is not strided:
        raise NotImplementedError(
            "Cannot access storage of SparseTensorImpl: tangents are of strided tensors"
        )
    level = _innermost()
    _sized(tensor, tangent)
    if isinstance(level, BatchLevel):
        batched = level.owns(tensor) or level.owns(tangent)
        with Outside(level):
            if batched:
                tensor, tangent = (_whole(level, t) for t in (tensor, tangent))
            dual = _made(tensor, tangent)
        return level.wrap(dual) if batched else dual
    if isinstance(level, TangentLevel) and THREAD.dual is None:
        if level.tangent_of(tensor) is not None:
            raise RuntimeError(TWICE)
        return level.wrap(level.unwrap(tensor), level.unwrap(tangent))
    if level is not None:
        tensor, tangent = (
            t if level.owns(t) else level.wrap(t) for t in (tensor, tangent)
        )
    if DUAL.tangent_of(tensor) is not None:
        raise RuntimeError(TWICE)
    with Beneath():
        dual = tensor.view_as(tensor)
    dual._tangent = Tangent(THREAD.dual, dual)
    DUAL.set_tangent(dual, tangent)
    return dual


def _whole(level, tensor):
    """All examples; where they share a tensor, each gets memory of its own."""
    whole = level.filled(tensor)
    return whole if level.owns(tensor) else whole.clone(memory_format=contiguous_format)


def _parts(tensor):
    level = _innermost()
    if level is not None and not level.owns(tensor):
        stand = tensor._stand
        if stand is not None and not stand.level.alive:
            return plain(tensor), None
        with Outside(level):
            return _parts(tensor)
    if isinstance(level, BatchLevel):
        with Outside(level):
            pair = _parts(tensor._stand.value)
        return [t if t is None else level.wrap(t, tensor._stand.dim) for t in pair]
    if isinstance(level, TangentLevel) and THREAD.dual is None:
        return tensor._stand.value, level.tangent_of(tensor)
    if THREAD.dual is None:
        return tensor, None
    tangent = DUAL.tangent_of(tensor) if _is_fwd_grad_enabled() else None
    with Beneath():
        primal = tensor.view_as(tensor)
    primal._tangent = Tangent(THREAD.dual, primal)
    return primal, tangent
