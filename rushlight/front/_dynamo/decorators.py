"""What programs say to, and ask of, the capture of compiled functions."""

from __future__ import annotations

import functools
import threading
from typing import NamedTuple

from rushlight._dynamo.backends.registry import find_backend
from rushlight.core.state import is_following
from rushlight.graph import capture, compiled_call, compiled_function
from rushlight.graph.export_state import recording_export

_STANCES = (
    "aot_eager_then_compile",
    "default",
    "eager_on_recompile",
    "eager_then_compile",
    "fail_on_recompile",
    "force_eager",
)


def is_compiling():
    """Whether this thread's operators are recorded, by ``compile`` or ``export``.

    A compiled function runs as it is in each call, so it is true in each.

    >>> import rushlight as rl
    >>> is_compiling(), rl.compile(is_compiling)()
    (False, True)
    """
    return is_following() or is_exporting()


def is_dynamo_compiling():
    """Whether this thread's operators are recorded by a compiled function."""
    return is_following()


def is_exporting():
    """Whether this thread's program is being exported."""
    return recording_export()


def disable(fn=None, recursive=True, *, reason=None):
    """A function whose operators run as they come, inside of compiled functions too.

    Args:
        fn: a function or a module's class.
        recursive: kept for PyTorch's programs.
        reason: what logs say.

    >>> @torch.compiler.disable
    ... def double(x):
    ...     return x * 2
    >>> double(torch.ones(2))
    tensor([2., 2.])
    """
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    if isinstance(fn, type) or not callable(fn):
        return fn

    @functools.wraps(fn)
    def disabled(*args, **kwargs):
        if not capture.pause():
            return fn(*args, **kwargs)
        try:
            return fn(*args, **kwargs)
        finally:
            capture.resume()

    disabled._torchdynamo_disable = True
    return disabled


_disable_dynamo = disable


def is_disabled(fn):
    """Whether a function was given to `disable`."""
    return getattr(fn, "_torchdynamo_disable", False)


def allow_in_graph(fn):
    """The function itself: there is no graph to leave it whole in.

    Args:
        fn: the function.

    >>> torch.compiler.allow_in_graph(len)([1, 2])
    2
    """
    return fn


def forbid_in_graph(fn):
    """The function itself: there is no graph to keep it from."""
    return fn


def disallow_in_graph(fn):
    """The function itself, or a list of them: what they call may be in any graph."""
    return fn


def nonstrict_trace(traceable_fn):
    """The function itself: all functions run in Python while their operators are followed.

    Args:
        traceable_fn: the function.

    >>> nonstrict_trace(len)([1, 2])
    2
    """
    return traceable_fn


def run(fn=None):
    """A function, or a block, that takes programs that are there, and makes none.

    Args:
        fn: a compiled function; a context manager without it.

    >>> double = torch.compile(lambda x: x * 2)
    >>> run(double)(torch.ones(2))
    tensor([2., 2.])
    """
    stance = set_stance("eager_on_recompile")
    if fn is not None:
        return stance(fn)
    stance.put(stance.before)  # the block sets it
    return stance


def assume_constant_result(fn):
    """The function itself: it is called each time.

    Args:
        fn: the function.

    >>> torch.compiler.assume_constant_result(len)([1, 2])
    2
    """
    return fn


def nested_compile_region(fn=None, **options):
    """The function itself: there is no graph to hold it once.

    Args:
        fn: the function; a decorator without it.
        options: accepted.

    >>> torch.compiler.nested_compile_region(len)([1, 2])
    2
    """
    if fn is None:
        return functools.partial(nested_compile_region, **options)
    return fn


def substitute_in_graph(original_fn, **options):
    """A decorator that gives the function itself: nothing is captured.

    Args:
        original_fn: the function that another would stand for.
        options: accepted.

    >>> torch.compiler.substitute_in_graph(len)(lambda x: 3)([1])
    3
    """
    return lambda fn: fn


def graph_break(msg=""):
    """Ends the graph: what waits runs."""
    if is_following():
        capture.break_graph(f"torch._dynamo.graph_break({msg})")


def _note(t, name, index):
    """Adds dimensions to those that a tensor has under a name."""
    known = t.__dict__.setdefault(name, set())
    known.update(index if isinstance(index, (list, tuple)) else [index])
    t._has_dynamo_dim_marking = True


class _DimRange(NamedTuple):
    """The bounds of a size that may change."""

    dim: int
    min: int | None
    max: int | None


def mark_dynamic(t, index, *, min=None, max=None, **options):
    """Notes on a tensor that a size may change: kernels take sizes as they come.

    Args:
        t: the tensor.
        index: the dimension, or a list of them.
        min: the size is no less; no more than ``max``.

    >>> import rushlight as rl
    >>> x = rl.ones(3, 4)
    >>> mark_dynamic(x, 0)
    >>> x._dynamo_dynamic_indices
    {0}
    """
    _note(t, "_dynamo_dynamic_indices", index)
    ranges = t.__dict__.setdefault("_dynamo_dynamic_range", set())
    for dim in index if isinstance(index, (list, tuple)) else [index]:
        ranges.add(_DimRange(dim, min, max))


def mark_unbacked(t, index, hint_override=None, strict=False, **options):
    """Notes on a tensor that a size may be any, 0 and 1 too.

    Args:
        t: the tensor.
        index: the dimension, or a list of them.
        strict: whether a program that needs one size is to be refused; here each size that
            needs other operators has a graph of its own.

    >>> import rushlight as rl
    >>> x = rl.ones(3, 4)
    >>> mark_unbacked(x, [0, 1])
    >>> x._dynamo_unbacked_indices
    {0, 1}
    """
    _note(t, "_dynamo_unbacked_indices", index)
    if strict:
        _note(t, "_dynamo_strict_unbacked_indices", index)


def maybe_mark_dynamic(t, index, **options):
    """Notes on a tensor that a size may change, if that can be."""
    _note(t, "_dynamo_weak_dynamic_indices", index)


def mark_static(t, index=None):
    """Notes on a tensor that a size, or each, stays as it is.

    Args:
        t: the tensor.
        index: the dimension, or a list of them; all where it is left out.
    """
    _note(t, "_dynamo_static_indices", list(range(t.dim())) if index is None else index)


def mark_static_address(t, guard=True):
    """Notes that a tensor stays in its place: none is expected to."""


def reset():
    """Forgets all that was captured of all compiled functions."""
    compiled_function.reset()


_stances = threading.local()
_ever_set: list = []  # asking a thread that has none costs more than a small program


def current_stance():
    """What this thread's compiled functions do: see `set_stance`."""
    return getattr(_stances, "now", "default") if _ever_set else "default"


def current_backend():
    """The backend that this thread's compiled functions have in place of their own."""
    return getattr(_stances, "backend", None) if _ever_set else None


class set_stance:
    """Says what compiled functions do; a function, a context manager and a decorator.

    ``"force_eager"`` has them run as they are, ``"eager_on_recompile"`` where no path that
    was noted has what is called, which is an error by ``"fail_on_recompile"``. By
    ``"eager_then_compile"`` and ``"aot_eager_then_compile"`` a function's first call runs as
    it is.

    Args:
        stance: one of these, or ``"default"``.
        force_backend: a backend in place of the functions' own.

    Args:
        stance: ``"force_eager"``, or ``"default"`` and the others.
        skip_guard_eval_unsafe: accepted.
        force_backend: accepted.

    Raises:
        RuntimeError: the stance is unknown, or another than the default with a backend.

    >>> with set_stance("force_eager"):
    ...     current_stance()
    'force_eager'
    """

    def __init__(
        self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None
    ):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        if force_backend is not None and stance != "default":
            raise RuntimeError("non-default stance cannot have force_backend set")
        self.now = (
            stance,
            None if force_backend is None else find_backend(force_backend),
        )
        self.before = current_stance(), current_backend()
        _ever_set[:] = [True]
        compiled_call.heed_stances()
        self.put(self.now)

    def put(self, now):
        """Sets the thread's stance and backend."""
        _stances.now, _stances.backend = now

    def __enter__(self):
        self.put(self.now)
        return self

    def __exit__(self, *raised):
        self.put(self.before)
        return False

    def __call__(self, fn):
        self.put(self.before)
        stance, backend = self.now

        @functools.wraps(fn)
        def with_stance(*args, **kwargs):
            with set_stance(stance, force_backend=backend):
                return fn(*args, **kwargs)

        return with_stance
