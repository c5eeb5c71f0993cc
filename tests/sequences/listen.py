"""Runs of a function whose operators are written down, by a mode or by a subclass."""

from __future__ import annotations

import contextlib
import io
import logging
import warnings


def name_of(func):
    """An operator as PyTorch writes it: ``addmm.default``."""
    return str(func).removeprefix("aten.")


def mode_of(lib):
    """A class of modes that write down the names of the operators they see."""

    class Names(lib.utils._python_dispatch.TorchDispatchMode):
        def __init__(self):
            super().__init__()
            self.seen = []

        def __torch_dispatch__(self, func, types, args=(), kwargs=None):
            self.seen.append(name_of(func))
            return func(*args, **(kwargs or {}))

    return Names


def wrapper_of(lib, seen):
    """A class of tensors around a tensor; its operators' names are appended to a list.

    Args:
        lib: PyTorch, or Rushlight.
        seen: the list.
    """
    tree_map = lib.utils._pytree.tree_map
    aliasing = lib.utils._python_dispatch.return_and_correct_aliasing

    class Wrapper(lib.Tensor):
        @staticmethod
        def __new__(cls, inner, requires_grad=False):
            return lib.Tensor._make_wrapper_subclass(
                cls,
                inner.shape,
                strides=inner.stride(),
                storage_offset=inner.storage_offset(),
                dtype=inner.dtype,
                device=inner.device,
                requires_grad=requires_grad,
            )

        def __init__(self, inner, requires_grad=False):
            self.inner = inner

        def __repr__(self):
            return f"Wrapper({self.inner!r})"

        def __tensor_flatten__(self):
            return ["inner"], None

        @staticmethod
        def __tensor_unflatten__(inner, context, size, stride):
            return Wrapper(inner["inner"])

        @classmethod
        def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
            seen.append(name_of(func))
            kwargs = kwargs or {}

            def unwrapped(value):
                return value.inner if isinstance(value, Wrapper) else value

            def wrapped(value):
                return Wrapper(value) if isinstance(value, lib.Tensor) else value

            out = func(*tree_map(unwrapped, args), **tree_map(unwrapped, kwargs))
            return aliasing(func, args, kwargs, tree_map(wrapped, out))

    return Wrapper


@contextlib.contextmanager
def quietly():
    """A block that says nothing."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(before)


def under_mode(lib, function):
    """What a mode sees of a call, and what the call gives or is refused with."""
    mode = mode_of(lib)()
    lib.manual_seed(7)
    with quietly():
        try:
            with mode:
                result = function()
        except Exception as error:  # every kind is an outcome
            return mode.seen, error
    return mode.seen, result


def on_wrappers(lib, function):
    """What a subclass sees of a function of its class.

    Args:
        lib: PyTorch, or Rushlight.
        function: ``function(lib, Wrapper)``.
    """
    seen: list = []
    kind = wrapper_of(lib, seen)
    lib.manual_seed(7)
    with quietly():
        try:
            result = function(lib, kind)
        except Exception as error:
            return seen, error
    return seen, result


def verdict_of(theirs, ours):
    """The outcome of two runs: ``(word, detail)``."""
    if isinstance(theirs[1], Exception):
        if isinstance(ours[1], Exception):
            return "refused by both", ""
        return "only here", f"{type(theirs[1]).__name__}: {theirs[1]}"[:200]
    if isinstance(ours[1], Exception):
        return "refused", f"{type(ours[1]).__name__}: {ours[1]}"[:200]
    if ours[0] != theirs[0]:
        return "differs", f"{' '.join(ours[0])} | {' '.join(theirs[0])}"
    return "same", ""
