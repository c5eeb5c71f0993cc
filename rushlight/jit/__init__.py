"""TorchScript: programs that are translated once, saved with their code, and run without it.

``script`` translates functions, classes and modules from their source: types are checked,
errors underline the line. ``trace`` records what a module does with examples. Both give
programs with a ``graph`` and a ``code``, which ``save`` and ``load`` write and read in
PyTorch's archives; nothing of an archive is unpickled or run as Python.
"""

from __future__ import annotations

import functools
import types
import typing
import warnings
from typing import Final

from rushlight.core import warning as _warning
from rushlight.futures import Future
from rushlight.jit import _overloads
from rushlight.jit import annotations as _annotations
from rushlight.jit._sources import Error, TracerWarning

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
    "jit_module_from_flatbuffer",
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


def _warn_of_age(name):
    """Says what has taken the place of a function of this module."""
    _warning.warn(
        f"`torch.jit.{name}` is deprecated. Please switch to `torch.compile` or "
        "`torch.export`.",
        DeprecationWarning,
    )


# -- translated and recorded programs --------------------------------------------------


def script(obj, optimize=None, _frames_up=0, _rcb=None, example_inputs=None):
    """Translates a function, class or module into a program of its own.

    Args:
        obj: a function, a class whose methods are translated, a module (its ``forward``
            and what it calls), or a dictionary or list of plain values.
        example_inputs: not looked at; types come from annotations.

    Returns:
        A :class:`ScriptFunction`, the class itself, or a :class:`RecursiveScriptModule`
        that shares the module's parameters.

    Raises:
        RuntimeError: the program is not of the language; the place is underlined.

    >>> import pytest
    >>> import rushlight as rl
    >>> def count(x, n: int):
    ...     for i in range(n):
    ...         x = x + i
    ...     return x
    >>> with pytest.warns(DeprecationWarning):
    ...     count = rl.jit.script(count)
    >>> count(rl.zeros(2), 4), count.schema.returns
    (tensor([6., 6.]), [Tensor])
    """
    _warn_of_age("script")
    from rushlight.jit import _script_api

    return _script_api.script(obj)


def trace(func, example_inputs=None, *args, **kwargs):
    """Records what a function or module does with examples.

    Args:
        func: a function of tensors, or a module.
        example_inputs: a tensor or a tuple of them; sizes may differ in later calls.

    Returns:
        A :class:`ScriptFunction` or :class:`TopLevelTracedModule`.

    Raises:
        RuntimeError: what was recorded gives other values than the original.

    >>> import pytest
    >>> import rushlight as rl
    >>> with pytest.warns(DeprecationWarning):
    ...     double = rl.jit.trace(lambda x: x * 2, rl.ones(2))
    >>> double(rl.ones(3))
    tensor([2., 2., 2.])
    """
    _warn_of_age("trace")
    from rushlight.jit import _tracing

    return _tracing.trace(func, example_inputs, *args, **kwargs)


def trace_module(mod, inputs, *args, **kwargs):
    """Records methods of a module with examples.

    Args:
        mod: the module.
        inputs: examples by method name.
    """
    from rushlight.jit import _tracing

    return _tracing.trace_module(mod, inputs, *args, **kwargs)


def script_method(fn):
    """Marks a method of a :class:`ScriptModule` that is translated.

    Args:
        fn: the method.
    """
    fn._torchscript_modifier = "export (compile this method)"
    return fn


def script_if_tracing(fn):
    """A function that is translated where a recording calls it.

    Args:
        fn: the function.
    """

    @functools.wraps(fn)
    def wrapper(*args, **kwargs):
        return script(fn)(*args, **kwargs) if is_tracing() else fn(*args, **kwargs)

    wrapper.__original_fn = fn
    wrapper.__script_if_tracing_wrapper = True
    return wrapper


_script_if_tracing = script_if_tracing


def is_scripting():
    """Whether the code that asks was translated: False in Python, True in programs."""
    return False


def is_tracing():
    """Whether a program is being recorded."""
    from rushlight.jit import _state

    return _state.tracing > 0


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
    """Declares one of several signatures; the last definition is the one that runs."""
    return _overloads.declare(func)


def _overload_method(func):
    """Declares one of several signatures of a method; the last one is what runs."""
    return _overloads.declare(func)


def interface(obj):
    """Marks a class that only says which methods others have."""
    if not type.__instancecheck__(type, obj):
        raise RuntimeError("interface must be applied to a class")
    obj._torch_script_interface = True
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


def _unwrap_optional(x):
    """The value, of which it is said that it is not None."""
    assert x is not None, "Unwrapping null optional"
    return x


_isinstance = isinstance


def fork(func, *args, **kwargs):
    """Calls a function on a thread of its own.

    Args:
        func: the function or module.
        args: what it is called with.

    Returns:
        The ``Future`` of its result, for :func:`wait`.

    >>> wait(fork(max, 2, 3))
    3
    """
    from rushlight.jit._tasks import start

    return start(func, *args, **kwargs)


def wait(future):
    """The result of a ``fork``.

    Args:
        future: what ``fork`` gave.

    Raises:
        Exception: what the task raised.

    >>> wait(fork(sorted, [2, 1]))
    [1, 2]
    """
    return future.wait()


_fork, _wait = fork, wait


# -- classes, made when they are first asked for ---------------------------------------

_LATE = {
    "ScriptFunction": "_callables",
    "ScriptMethod": "_callables",
    "ScriptModule": "_script_modules",
    "RecursiveScriptModule": "_script_modules",
    "TopLevelTracedModule": "_script_modules",
    "TracedModule": "_script_modules",
    "CompilationUnit": "_script_api",
    "CONSTANTS": "_script_api",
}


def __getattr__(name):
    from importlib import import_module

    if name not in _LATE:
        raise AttributeError(f"module 'torch.jit' has no attribute '{name}'")
    found = getattr(import_module(f"rushlight.jit.{_LATE[name]}"), name)
    globals()[name] = found
    return found


class strict_fusion:
    """Would warn of operators left out of a fused kernel; nothing is translated here."""

    def __enter__(self):
        warnings.warn("Only works in script mode", stacklevel=2)

    def __exit__(self, *raised):
        pass


def save(m, f, _extra_files=None):
    """Writes a translated function or module with its code.

    Args:
        m: what ``script`` or ``trace`` gave.
        f: a path or a file that is open for writing.
        _extra_files: texts or bytes by name that go into the archive.
    """
    m.save(f, _extra_files=_extra_files or {})


def load(f, map_location=None, _extra_files=None, _restore_shapes=False):
    """Reads a module or function of an archive, PyTorch's or ours.

    Nothing in the archive is unpickled or run as Python: the code is translated, the
    values are read by a reader that makes tensors, numbers, texts and containers.

    Args:
        f: a path or a file that is open for reading.
        map_location: where tensors go, as for ``torch.load``.
        _extra_files: names of extra files, which get their contents.

    Raises:
        RuntimeError: the file is no archive, is damaged or of another kind.
    """
    from rushlight.jit import _read

    return _read.load(f, map_location, _extra_files)


def jit_module_from_flatbuffer(f):
    """Not read: archives in flatbuffers' form.

    Args:
        f: the file.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "torch.jit.jit_module_from_flatbuffer: archives in flatbuffers' form are not read\n"
        "  remedy: write the module with torch.jit.save"
    )


def freeze(mod, preserved_attrs=None, optimize_numerics=True):
    """A module in ``eval()`` whose parameters are constants of its program.

    Args:
        mod: a scripted module in evaluation mode.
        preserved_attrs: names of attributes and methods that are kept.

    Raises:
        RuntimeError: the module is not scripted, or is training.
    """
    from rushlight.jit import _freeze

    return _freeze.freeze(mod, preserved_attrs, optimize_numerics)


def optimize_for_inference(mod, other_methods=None):
    """A frozen module, ready for inference.

    Args:
        mod: a scripted module.
        other_methods: names of further methods that are kept.
    """
    from rushlight.jit import _freeze

    return _freeze.optimize_for_inference(mod, other_methods)


def export_opnames(m):
    """The names of the operators that a module's program calls, sorted.

    Args:
        m: a translated module.
    """
    from rushlight.jit import _inline

    return _inline.operator_names(m)


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
