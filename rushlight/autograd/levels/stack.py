"""The stack of open levels of each thread, and the way of a call through them."""

import threading

from rushlight.core import state
from rushlight.core.tensor import Tensor
from rushlight.core.views import stand_in, take_window
from rushlight.dispatch.keys import DispatchKey, KeySet
from rushlight.dispatch.python_kernels import set_fallback

STANDS = 1 << DispatchKey.Batched  # the key of every tensor that stands for another
BELOW = 1 << DispatchKey.Below  # where autograd hands a call to the level outside
RECORDED = KeySet.of(DispatchKey.Autograd, DispatchKey.ADInplaceOrView)


class _Thread(threading.local):
    def __init__(self):
        self.open = []  # levels from the outside in
        self.at = 0  # how many of them see a call that is made now
        self.dual = None  # the open `dual_level` block
        self.forward = True  # whether tangents are seen


THREAD = _Thread()


def depth():
    """How many levels see a call that is made now."""
    return THREAD.at


def level_of(number):
    """The level at work that has a number.

    Args:
        number: 1 for the outermost.

    Raises:
        RuntimeError: there is none.
    """
    for level in reversed(THREAD.open):
        if level.number == number and level.alive:
            return level
    raise RuntimeError(f"no transformation of level {number} is at work")


class Stand:
    """What a tensor stands for: a value of the level outside its own."""

    __slots__ = ("level", "value")
    opaque = "TensorWrapper"  # whose storage a program may not look at

    def __init__(self, level, value):
        self.level, self.value = level, value

    def refuse_storage(self):
        """Raises where a program may not look at the storage underneath."""
        if self.opaque:
            raise NotImplementedError(f"Cannot access storage of {self.opaque}")

    def refuse_address(self):
        """Raises where a program may not know where the elements lie."""
        if self.opaque:
            raise RuntimeError(
                "Cannot access data pointer of Tensor that doesn't have storage"
            )

    @property
    def readable(self):
        """Whether there is one number for a program to look at."""
        return self.value._stand is None or self.value._stand.readable

    @property
    def carries(self):
        """Whether a tangent goes with the value."""
        return False

    def data(self):
        """What ``data`` stands for: the value, whose history is of levels outside."""
        return self

    def read(self, method):
        """The answer of ``item``, ``tolist`` or ``numpy``: the value's."""
        return getattr(self.value, method)()

    def text(self, tensor):
        """What ``repr`` shows."""
        name = self.level.title
        return f"{name}(lvl={self.level.number}, value={self.value!r})"


class Level:
    """One transformation at work; subclasses say what it does with a call.

    A level that records gradients does so whatever the mode that it is opened in, but
    a ``no_grad`` inside holds for all levels outside, too: grad mode is handed on as it
    is when a call leaves the level, and is off there if it was off at the opening.

    Attributes:
        number: 1 for the outermost.
        alive: False once the transformation is over; its tensors are values then.
        outer_grad_mode: whether grad mode was on when a recording level was opened;
            a level that does not record never switches it off.
        outer_inference: whether it was opened in inference mode.
    """

    title = "Tensor"
    records = False  # whether recording of gradients is switched on inside

    # Compiled: no signal comes between what these change (`rushlight.core.state`).

    def __enter__(self):
        _install()
        self.hidden = THREAD.open
        # A new list: calls under way, and `__exit__`, still hold the one before.
        THREAD.open = [*THREAD.open[: THREAD.at], self]
        self.number = THREAD.at = THREAD.at + 1
        self.alive = True
        self.outer_keys = state.set_keys(
            state.included_keys() | STANDS, state.excluded_keys() & ~STANDS
        )
        self.outer_inference = state.is_inference_mode_enabled()
        self.outer_grad_mode = True
        if self.records:
            self.outer_grad_mode = state.set_grad_enabled(True)
            state.set_inference_mode(False)
        return self

    def __exit__(self, kind, error, trace):
        self.alive = False
        THREAD.open, THREAD.at = self.hidden, self.number - 1
        state.set_keys(*self.outer_keys)
        if self.records:
            state.set_grad_enabled(self.outer_grad_mode)
            state.set_inference_mode(self.outer_inference)

    # -- tensors ---------------------------------------------------------------------

    def wrap(self, value):
        """A tensor of this level for a value of the level outside."""
        raise NotImplementedError(f"{type(self).__name__} wraps nothing")

    def owns(self, tensor):
        """Whether a tensor is of this level."""
        stand = tensor._stand
        return stand is not None and stand.level is self

    def unwrap(self, tensor):
        """The value behind a tensor of this level; others as they are."""
        stand = tensor._stand
        return stand.value if stand is not None and stand.level is self else tensor

    # -- calls -----------------------------------------------------------------------

    def process(self, op, args):
        """Do this level's part of a call, then `outside` the rest of it."""
        raise NotImplementedError(f"{type(self).__name__} interprets nothing")

    def outside(self, op, args):
        """The call as the level outside sees it."""
        with Outside(self):
            return op.redispatch(None, *args)


class Outside:
    """Calls inside the block are those of the levels outside of one."""

    __slots__ = ("at", "inference", "keys", "level", "recording")

    def __init__(self, level):
        self.level = level

    def __enter__(self):
        level = self.level
        self.recording = state.is_grad_enabled()
        if not level.outer_grad_mode:
            state.set_grad_enabled(False)
        self.inference = state.is_inference_mode_enabled()
        if level.outer_inference:
            state.set_inference_mode(True)
        self.keys = state.set_keys(*level.outer_keys)
        self.at, THREAD.at = THREAD.at, level.number - 1

    def __exit__(self, kind, error, trace):
        THREAD.at = self.at
        state.set_keys(*self.keys)
        state.set_grad_enabled(self.recording)
        state.set_inference_mode(self.inference)


def _interpret(op, *args):
    """The fallback of all operators: the innermost level takes the call."""
    thread = THREAD
    at = thread.at
    if not at:
        return op.redispatch(None, *each(plain, args))
    return thread.open[at - 1].process(op, each(revived, args))


def revived(tensor):
    """The value of a tensor whose transformation is over."""
    stand = tensor._stand
    while stand is not None and not stand.level.alive:
        tensor = stand.value
        stand = tensor._stand
    return tensor


def _below(op, *args):
    """Autograd has recorded the call: the level outside computes it."""
    level = THREAD.open[THREAD.at - 1]
    return level.below(op, args)


_installed = []


def _install():
    """Registers the fallbacks when the first level opens: until then calls pay nothing."""
    if not _installed:
        set_fallback(DispatchKey.Batched, _interpret)
        set_fallback(DispatchKey.Below, _below)
        _installed.append(True)  # last: no other thread goes on before


# -- arguments -----------------------------------------------------------------------


def each(function, args):
    """The arguments with a function applied to every tensor, in lists too."""
    found = []
    for arg in args:
        kind = type(arg)
        if kind is Tensor:
            arg = function(arg)
        elif kind in _SINGLE:
            pass
        elif kind is list or kind is tuple:
            if arg and type(arg[0]) is not int:
                arg = _each_listed(function, arg)
        elif isinstance(arg, Tensor):
            arg = function(arg)
        elif isinstance(arg, (list, tuple)):
            arg = _each_listed(function, arg)
        found.append(arg)
    return found


# What most arguments are that are no tensors: nothing is looked for in them.
_SINGLE = frozenset([int, float, bool, str, type(None)])


def _each_listed(function, arg):
    if any(isinstance(t, Tensor) for t in arg):
        return [function(t) if isinstance(t, Tensor) else t for t in arg]
    return arg


def tensors(args):
    """All tensors among arguments, in lists too."""
    for arg in args:
        kind = type(arg)
        if kind is Tensor:
            yield arg
        elif kind in _SINGLE:
            continue
        elif isinstance(arg, Tensor):
            yield arg
        elif isinstance(arg, (list, tuple)):
            if arg and type(arg[0]) is int:
                continue
            for item in arg:
                if isinstance(item, Tensor):
                    yield item


def nested(value):
    """All tensors of a nest, as `mapped` comes to them."""
    found = []
    mapped(found.append, value)
    return found


def mapped(function, result):
    """A value with a function applied to its tensors, in whatever nest they are."""
    if isinstance(result, Tensor):
        return function(result)
    if isinstance(result, tuple):
        parts = [mapped(function, item) for item in result]
        return type(result)(*parts) if hasattr(result, "_fields") else tuple(parts)
    if isinstance(result, list):
        return [mapped(function, item) for item in result]
    if isinstance(result, dict):
        return {key: mapped(function, item) for key, item in result.items()}
    return result


def refused_write(op):
    """The refusal to write what a transformation did not make, nor was given."""
    return RuntimeError(
        "During a grad (vjp, jvp, grad, etc) transform, the function provided attempted "
        f"to call in-place operation (aten::{op.name}) that would mutate a captured "
        "Tensor. This is not supported; please rewrite the function being transformed to "
        "explicitly accept the mutated Tensor(s) as inputs."
    )


def plain(tensor):
    """The tensor with memory behind one that stands for it."""
    while tensor._stand is not None:
        tensor = tensor._stand.value
    return tensor


def levels_of(tensor):
    """The levels that a tensor, or what it stands for, belongs to."""
    found = set()
    while tensor._stand is not None:
        found.add(tensor._stand.level)
        tensor = tensor._stand.value
    return found


def follow(tensor, value, without=-1):
    """Lets a tensor show what its value has come to show."""
    if tensor.shape != value.shape or without >= 0 or tensor.stride() != value.stride():
        take_window(tensor, value, without)


def imitate(value, keys, without=-1):
    """A fresh tensor with a value's window and the keys of stand-ins."""
    return stand_in(value, keys, without)
