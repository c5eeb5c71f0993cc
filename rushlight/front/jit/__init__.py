"""PyTorch's names for scripting and tracing. Programs stay Python here.

Rushlight has no second language that programs would be translated to: ``script`` and
``trace`` give back what they were given, as PyTorch does with ``PYTORCH_JIT=0``, and the
program computes the same. What only a translated program can do, such as being saved
without its source, raises ``NotImplementedError``.
"""

from __future__ import annotations

import functools
import types
import typing
import warnings
from typing import Final

from rushlight.core import warning as _warning
from rushlight.futures import Future
from rushlight.jit import annotations as _annotations
from rushlight.nn import Module as _Module

__all__ = [
    "Attribute",
    "CompilationUnit",
    "Error",
    "Final",
    "Future",
    "ScriptFunction",
    "RecursiveScriptModule",
    "ScriptModule",
    "TopLevelTracedModule",
    "TracedModule",
    "TracerWarning",
    "annotate",
    "enable_onednn_fusion",
    "export",
    "export_opnames",
    "fork",
    "freeze",
    "ignore",
    "interface",
    "is_scripting",
    "is_tracing",
    "isinstance",
    "load",
    "onednn_fusion_enabled",
    "optimize_for_inference",
    "save",
    "script",
    "script_if_tracing",
    "script_method",
    "set_fusion_strategy",
    "strict_fusion",
    "trace",
    "trace_module",
    "unused",
    "wait",
]


class Error(RuntimeError):
    """What a translated program would raise."""


class TracerWarning(Warning):
    """What a recorded program may do otherwise than the original; never given here."""

    @staticmethod
    def ignore_lib_warnings():
        """Nothing: no such warning is given."""


def _untranslated(name, remedy):
    return NotImplementedError(
        f"torch.jit.{name}: Rushlight does not translate programs: script() and trace() "
        f"give them back as they are\n  remedy: {remedy}"
    )


# -- programs that stay as they are ---------------------------------------------------


def _warn_of_age(name):
    """Says what has taken the place of a function of this module."""
    _warning.warn(
        f"`torch.jit.{name}` is deprecated. Please switch to `torch.compile` or "
        "`torch.export`.",
        DeprecationWarning,
    )


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """The function, class or module itself: it runs as Python.

    >>> import pytest
    >>> with pytest.warns(DeprecationWarning):
    ...     script(abs)(-2)
    2
    """
    _warn_of_age("script")
    return obj


def trace(func, example_inputs=None, *args, **kwargs):
    """The function or module itself: it is not recorded."""
    _warn_of_age("trace")
    return func


def trace_module(mod, inputs, *args, **kwargs):
    """The module itself: it is not recorded."""
    _warn_of_age("trace_method")
    return mod


def script_method(fn):
    """The method itself."""
    _warn_of_age("script_method")
    return fn


def script_if_tracing(fn):
    """The function itself: nothing is ever being recorded."""

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return fn(*args, **kwargs)

    wrapper.__original_fn = fn
    wrapper.__script_if_tracing_wrapper = True
    return wrapper


_script_if_tracing = script_if_tracing


def is_scripting():
    """Whether a translated program is running: never."""
    return False


def is_tracing():
    """Whether the program is being recorded: never."""
    return False


def export(fn):
    """Marks a method that a translation would keep."""
    fn._torchscript_modifier = "export (compile this method)"
    return fn


def unused(fn):
    """Marks a function, or a property, that a translation would leave out."""
    if type(fn) is property:
        for part in (fn.fget, fn.fset):
            if part is not None:
                part._torchscript_modifier = "unused (ignore and replace with raise)"
        return fn
    fn._torchscript_modifier = "unused (ignore and replace with raising an exception)"
    return fn


def ignore(drop=False, **kwargs):
    """Marks a function that a translation would leave to Python."""
    if callable(drop):
        drop._torchscript_modifier = "ignore (leave as a call to Python)"
        return drop
    if type(drop) is not bool:
        raise RuntimeError(
            f"Argument to @torch.jit.ignore must be a bool or a function but got {drop}"
        )

    def mark(fn):
        modifier = "unused" if drop else "ignore"
        fn._torchscript_modifier = f"{modifier} (leave as a call to Python)"
        return fn

    return mark


def _overload(func):
    """Marks one of several signatures; the last definition is the one that runs."""
    return func


def _overload_method(func):
    """Marks one of several signatures of a method; the last one is what runs."""
    return func


def interface(obj):
    """Marks a class that only says which methods others have."""
    if not type.__instancecheck__(type, obj):
        raise RuntimeError("interface must be applied to a class")
    return obj


def annotate(the_type, the_value):
    """The value: its type is for a translation to know."""
    return the_value


class Attribute(typing.NamedTuple):
    """A value of a module, with a type for a translation to know."""

    value: typing.Any
    type: typing.Any


def isinstance(obj, target_type):
    """Whether a value is of a type, looking inside of containers.

    >>> isinstance([1, 2], list[int]), isinstance([1, "a"], list[int])
    (True, False)
    """
    if type(target_type) is tuple:
        return any(isinstance(obj, one) for one in target_type)
    origin, parts = typing.get_origin(target_type), typing.get_args(target_type)
    if origin is None:
        if target_type is typing.Any:
            return True
        if target_type in (typing.List, typing.Dict, typing.Tuple, typing.Optional):  # noqa: UP006
            raise RuntimeError(
                f"Attempted to use {target_type} without a contained type. Please add a "
                "contained type, e.g. List[int]"
            )
        return issubclass(type(obj), type(None) if target_type is None else target_type)
    if origin in (typing.Union, types.UnionType):
        return any(isinstance(obj, part) for part in parts)
    if not issubclass(type(obj), origin):
        return False
    if origin is dict:
        return all(
            isinstance(k, parts[0]) and isinstance(v, parts[1]) for k, v in obj.items()
        )
    if origin is tuple:
        if len(parts) == 2 and parts[1] is Ellipsis:
            return all(isinstance(item, parts[0]) for item in obj)
        return len(parts) == len(obj) and all(map(isinstance, obj, parts))
    return all(isinstance(item, parts[0]) for item in obj)


_isinstance = isinstance


def fork(func, *args, **kwargs):
    """Calls a function, now; its result is in the ``Future`` that comes back.

    Args:
        func: the function.
        args, kwargs: its arguments.

    >>> torch.jit.fork(lambda x: x + 1, torch.ones(2)).wait()
    tensor([2., 2.])
    """
    future: Future = Future()
    try:
        future.set_result(func(*args, **kwargs))
    except Exception as error:
        future.set_exception(error)
    return future


def wait(future):
    """The result of a ``fork``.

    Args:
        future: what `fork` gave.

    >>> torch.jit.wait(torch.jit.fork(lambda x: x * 2, torch.ones(2)))
    tensor([2., 2.])
    """
    return future.wait()


_fork, _wait = fork, wait


# -- what a translation would be ------------------------------------------------------


class ScriptFunction:
    """A translated function: there is none, so that nothing is one."""

    def __init__(self, *args, **kwargs):
        raise _untranslated("ScriptFunction", "call the function itself")


class CompilationUnit:
    """Translated text: it cannot be made."""

    def __init__(self, lang=None, _frames_up=0):
        if lang is not None:
            raise _untranslated("CompilationUnit", "write the functions in Python")


class ScriptModule(_Module):
    """A module whose methods stay Python, as they do in PyTorch with ``PYTORCH_JIT=0``."""


class RecursiveScriptModule(ScriptModule):
    """A translated module: there is none, so that nothing is one."""

    def __init__(self, *args, **kwargs):
        raise _untranslated("RecursiveScriptModule", "use the module itself")


class TopLevelTracedModule(ScriptModule):
    """A module made of a trace: there is none, so that nothing is one."""

    def __init__(self, *args, **kwargs):
        raise _untranslated("TopLevelTracedModule", "use the module itself")


TracedModule = TopLevelTracedModule


class strict_fusion:
    """Would warn of operators left out of a fused kernel; nothing is translated here."""

    def __enter__(self):
        warnings.warn("Only works in script mode", stacklevel=2)

    def __exit__(self, *raised):
        pass


def save(m, f, _extra_files=None):
    """Not possible: a program cannot be saved without its source.

    Raises:
        NotImplementedError: always.
    """
    raise _untranslated("save", "save model.state_dict() with torch.save")


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Not possible: translated programs are not run.

    Raises:
        NotImplementedError: always.
    """
    raise _untranslated("load", "make the model in Python and load its state_dict")


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """Not possible: there is no translated module to freeze.

    Raises:
        NotImplementedError: always.
    """
    raise _untranslated("freeze", "use the module itself, in eval() and no_grad()")


def optimize_for_inference(mod, other_methods=None):
    """Not possible: there is no translated module.

    Raises:
        NotImplementedError: always.
    """
    raise _untranslated("optimize_for_inference", "use the module itself, in eval()")


def export_opnames(m):
    """Not possible: there is no translated module.

    Raises:
        NotImplementedError: always.
    """
    raise _untranslated("export_opnames", "none")


# -- switches of the machine for translated programs, which has nothing to run ---------

_switches = {"onednn": False, "fusion": [("STATIC", 2), ("DYNAMIC", 10)]}


def enable_onednn_fusion(enabled):
    """Notes the switch; it concerns translated programs only."""
    _switches["onednn"] = bool(enabled)


def onednn_fusion_enabled():
    """What ``enable_onednn_fusion`` was told."""
    return _switches["onednn"]


def set_fusion_strategy(strategy):
    """Notes a strategy for translated programs; returns the one before."""
    before, _switches["fusion"] = _switches["fusion"], list(strategy)
    return before
