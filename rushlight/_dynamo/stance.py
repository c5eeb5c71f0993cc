"""What programs say to, and ask of, PyTorch's capture: nothing is ever captured."""

from __future__ import annotations

import functools

_STANCES = (
    "default",
    "eager_on_recompile",
    "eager_then_compile",
    "fail_on_recompile",
    "force_eager",
)


def is_compiling():
    """Whether the program is being captured: never, here it runs.

    >>> is_compiling()
    False
    """
    return False


def is_dynamo_compiling():
    """Whether the program is being captured: never."""
    return False


def is_exporting():
    """Whether the program is being exported: never."""
    return False


def disable(fn=None, recursive=True, *, reason=None):
    """The function itself: nothing is captured."""
    if fn is None:
        return functools.partial(disable, recursive=recursive, reason=reason)
    return fn


def allow_in_graph(fn):
    """The function itself: there is no graph to leave it whole in."""
    return fn


def forbid_in_graph(fn):
    """The function itself: there is no graph to keep it from."""
    return fn


def assume_constant_result(fn):
    """The function itself: it is called each time."""
    return fn


def nested_compile_region(fn=None, **options):
    """The function itself: there is no graph to hold it once."""
    if fn is None:
        return functools.partial(nested_compile_region, **options)
    return fn


def substitute_in_graph(original_fn, **options):
    """A decorator that gives the function itself: nothing is captured."""
    return lambda fn: fn


def graph_break(msg=""):
    """Would end a graph: there is none."""


def mark_dynamic(t, index, **options):
    """Notes that a size may change: none is fixed."""


maybe_mark_dynamic = mark_static = mark_dynamic


def mark_static_address(t, guard=True):
    """Notes that a tensor stays in its place: none is expected to."""


def reset():
    """Forgets what was captured: nothing was."""


def cudagraph_mark_step_begin():
    """Notes the beginning of a step: calls are not recorded."""


def list_backends(exclude_tags=("debug", "experimental")):
    """The names of backends for captured programs that do something: none.

    >>> list_backends()
    []
    """
    return []


class set_stance:
    """Says what is to happen where a program would be captured again: none is.

    A function, a context manager and a decorator.

    Raises:
        RuntimeError: the stance is unknown.
    """

    def __init__(
        self, stance="default", *, skip_guard_eval_unsafe=False, force_backend=None
    ):
        if stance not in _STANCES:
            raise RuntimeError(f"invalid torch.compile stance '{stance}'")
        self.stance = stance

    def __enter__(self):
        return self

    def __exit__(self, *raised):
        return False

    def __call__(self, fn):
        return fn
