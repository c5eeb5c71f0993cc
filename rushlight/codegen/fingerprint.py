"""A digest of all that decides what a function computes, found without running it.

Equal digests must mean equal programs; unequal ones only cost a second look. So a walk
over the function takes in its code, constants, defaults, closure and every global that
its code names, and goes on into the functions, kernels, classes and modules among them.
What belongs to the compiler is left out: its sources are part of every kernel's key.
"""

import os
import sys
import types

from rushlight.core.roles import host

COMPILER = ("rushlight.codegen", "rushlight.ir")
PLAIN = (type(None), bool, int, float, complex, str, bytes, type(Ellipsis))
LIMIT = 20000  # values that one walk looks at


def fingerprint(function, *more) -> str:
    """The digest of a function, and of other values beside it.

    A function over values that nothing tells apart, such as an object without a
    representation of its own, has another digest each time.

    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 1)
    True
    >>> fingerprint(lambda x: x + 1) == fingerprint(lambda x: x + 2)
    False
    """
    walk = _Walk()
    for value in (function, *more):
        walk.look(value)
    return host.image.checksum("\0".join(walk.parts).encode()).hex()


class _Walk:
    """What has been seen, in order, as text."""

    def __init__(self):
        self.parts, self.seen = [], {}

    def look(self, value):
        """Notes a value, and what it refers to."""
        pending = [value]
        while pending:
            # What a value refers to comes before what lies beside it.
            pending.extend(reversed(list(self.note(pending.pop()))))

    def note(self, value):
        """Notes one value; returns what it refers to."""
        if isinstance(value, PLAIN):
            self.parts.append(f"{type(value).__name__} {value!r}")
            return ()
        if id(value) in self.seen:
            self.parts.append(f"again {self.seen[id(value)][0]}")
            return ()
        self.seen[id(value)] = len(self.seen), value
        if len(self.seen) > LIMIT:
            return self.unknown()
        for kind, read in READERS:
            if isinstance(value, kind):
                return read(self, value)
        return self.thing(value)

    def unknown(self):
        """Makes this walk unlike every other."""
        self.parts.append(os.urandom(16).hex())
        return ()

    def sequence(self, value):
        self.parts.append(f"{type(value).__name__} of {len(value)}")
        return value

    def unordered(self, value):
        self.parts.append(f"{type(value).__name__} of {len(value)}")
        return sorted(value, key=repr)

    def mapping(self, value):
        self.parts.append(f"{type(value).__name__} of {len(value)}")
        return [item for pair in value.items() for item in pair]

    def code(self, value):
        self.parts.append(f"{value.co_name} {value.co_code.hex()}")
        return (
            value.co_consts,
            value.co_names,
            value.co_varnames,
            value.co_freevars,
            value.co_argcount,
            value.co_flags,
        )

    def function(self, value):
        home = value.__module__ or ""
        self.parts.append(f"function {home}.{value.__qualname__}")
        cells = [_content(cell) for cell in value.__closure__ or ()]
        if home.startswith(COMPILER) and _is_of(value, sys.modules.get(home)):
            return cells  # its source is part of every key
        parts = [
            value.__code__,
            value.__defaults__,
            value.__kwdefaults__,
            value.__annotations__,
            cells,
        ]
        names = _names(value.__code__)
        for name in sorted(names):
            if name in value.__globals__:
                found = value.__globals__[name]
                parts += [name, found]
                if isinstance(found, types.ModuleType):
                    parts += _used(found, names)
        return parts

    def bound(self, value):
        self.parts.append("method")
        return value.__func__, value.__self__

    def builtin(self, value):
        self.parts.append(f"builtin {value.__module__}.{value.__qualname__}")
        return ()

    def module(self, value):
        self.parts.append(f"module {value.__name__} {_file_digest(value)}")
        return ()

    def type(self, value):
        home = value.__module__
        self.parts.append(f"class {home}.{value.__qualname__}")
        if home.startswith(COMPILER) or value.__flags__ & (1 << 9) == 0:
            return ()  # the compiler's own, or one made in C
        known = _file_digest(sys.modules.get(home))
        if known:
            self.parts.append(known)
            return ()
        hidden = ("__dict__", "__weakref__")
        return [v for k, v in sorted(vars(value).items()) if k not in hidden]

    def thing(self, value):
        """An object: its class, and what it holds."""
        bytes_of = getattr(value, "tobytes", None)
        if callable(bytes_of):
            self.parts.append(f"{value.dtype} {value.shape} {bytes_of().hex()}")
            return (type(value),)
        wrapped = getattr(value, "function", None)
        if isinstance(wrapped, types.FunctionType):
            return type(value), wrapped  # a kernel or a helper of one
        held = getattr(value, "__dict__", None)
        if held is not None:
            return type(value), held
        text = repr(value)
        if " at 0x" in text or type(value).__repr__ is object.__repr__:
            return self.unknown()
        self.parts.append(text)
        return (type(value),)


def _is_of(function, module):
    """Whether a function stands in its module's file, and was not made from elsewhere."""
    return function.__code__.co_filename == getattr(module, "__file__", None)


def _content(cell):
    try:
        return cell.cell_contents
    except ValueError:
        return "empty"


def _names(code):
    """The names that code and the code inside it look up."""
    names = set(code.co_names)
    for value in code.co_consts:
        if isinstance(value, types.CodeType):
            names |= _names(value)
    return names


def _used(module, names):
    """What code takes from a module, by the names it mentions anywhere."""
    if module.__name__.startswith(COMPILER):
        return []
    held = vars(module)
    kinds = (types.FunctionType, *PLAIN)
    return [
        item
        for name in sorted(names)
        if name in held
        for item in (name, held[name])
        if isinstance(item, kinds) or hasattr(item, "function")
    ]


def _file_digest(module):
    """The digest of a module's file; empty where it has none."""
    path = getattr(module, "__file__", None)
    try:
        return host.code_cache.source_digest(path) if path else ""
    except OSError:
        return ""


READERS = (
    ((tuple, list), _Walk.sequence),
    ((set, frozenset), _Walk.unordered),
    (dict, _Walk.mapping),
    (types.CodeType, _Walk.code),
    (types.FunctionType, _Walk.function),
    (types.MethodType, _Walk.bound),
    (types.BuiltinFunctionType, _Walk.builtin),
    (types.ModuleType, _Walk.module),
    (type, _Walk.type),
)
