"""What programs that were translated call while they run."""

import functools
import math

import rushlight as torch
from rushlight.core import warning
from rushlight.jit import _types
from rushlight.jit._sources import Error
from rushlight.jit._tasks import start

# PyTorch's numbers of types of elements, layouts and memory formats.
TYPE_CODES = (
    "uint8 int8 int16 int32 int64 float16 float32 float64 complex32 complex64 complex128 "
    "bool qint8 quint8 qint32 bfloat16 quint4x2 quint2x4 bits1x8 bits2x4 bits4x2 bits8 "
    "bits16 float8_e5m2 float8_e4m3fn float8_e5m2fnuz float8_e4m3fnuz uint16 uint32 uint64"
).split()
LAYOUTS = (
    "strided",
    "sparse_coo",
    "sparse_csr",
    "_mkldnn",
    "sparse_csc",
    "sparse_bsr",
    "sparse_bsc",
)
FORMATS = ("contiguous_format", "preserve_format", "channels_last", "channels_last_3d")


class Handed:
    """What modules above hand in: how functions run, and types by Python class."""

    ready = None
    classes: dict = {}


handed = Handed()


def _objects(names):
    return [getattr(torch, name, None) for name in names]


@functools.cache
def codes():
    """Types of elements, layouts and formats -> their numbers."""
    found = {}
    for names in (TYPE_CODES, LAYOUTS, FORMATS):
        found.update((o, n) for n, o in enumerate(_objects(names)) if o is not None)
    return found


@functools.cache
def _tables():
    names = {"ScalarType": TYPE_CODES, "Layout": LAYOUTS, "MemoryFormat": FORMATS}
    return {kind: _objects(each) for kind, each in names.items()}


def code_of(value):
    """The number of a type of elements, layout or memory format."""
    return codes().get(value, value)


def decoded(kind, value):
    """The type, layout or format that a number stands for; None is None."""
    return _tables()[kind][value] if type(value) is int else value


def dtype(value):
    """A type of elements from its number."""
    return decoded("ScalarType", value)


def layout(value):
    """A layout from its number."""
    return decoded("Layout", value)


def memory_format(value):
    """A memory format from its number."""
    return decoded("MemoryFormat", value)


def device(value):
    """A device, from a device or its text."""
    return torch.device(value) if isinstance(value, str) else value


def tensor(number):
    """A tensor of a number."""
    return torch.tensor(number)


def number(value, kind):
    """The number in a tensor that gives it without being asked."""
    if value.requires_grad:
        raise RuntimeError(
            "Cannot input a tensor that requires grad as a scalar argument"
        )
    if value.dim():
        raise RuntimeError(
            "Cannot input a tensor of dimension other than 0 as a scalar argument"
        )
    if kind is int and (value.is_floating_point() or value.is_complex()):
        raise RuntimeError(
            "Cannot input a tensor of type Float as an integral argument"
        )
    return kind(value.item())


def real(function, value):
    """A function of :mod:`math` that gives NaN or infinity where Python raises."""
    try:
        return float(function(value))
    except (ValueError, OverflowError):
        return float(
            getattr(torch, function.__name__, _nan)(
                torch.tensor(float(value), dtype=torch.float64)
            )
        )


def _nan(value):
    return math.nan


def text(value):
    """``str`` of a value."""
    return str(value)


def upto(whole, end):
    """The end of a search, where -1 is the end of the text."""
    return len(whole) if end == -1 else end


def extended(values, more):
    """The list, with more at its end."""
    values.extend(more)
    return values


def appended(values, value):
    """The list, with one more at its end."""
    values.append(value)
    return values


def set_item(values, index, value):
    """The list, with a value changed."""
    values[index] = value
    return values


def percent(template, *values):
    """A text with values put in by ``%``."""
    return template % (values[0] if len(values) == 1 else values)


def unwrapped(value):
    """A value that is not None."""
    if value is None:
        raise RuntimeError("Unwrapping null optional")
    return value


def set_grad(on):
    """Whether what follows is recorded for gradients."""
    torch.set_grad_enabled(on)


def warn(message):
    """A program's warning, at the line that called the program."""
    warning.warn(message)


def unpacked(values, count):
    """The items of a list, of which there are so many."""
    if len(values) != count:
        raise RuntimeError(
            f"Expected {count} elements in a list but found {len(values)}"
        )
    return tuple(values)


def exception(message, kind=None):
    """The exception that a translated program raises."""
    made = Error(message)
    made.kind = kind or ""
    return made


# -- objects of classes ----------------------------------------------------------------


class ScriptObject:
    """An object of a class of an archive, which has no class in Python."""

    def __init__(self, kind):
        self._script_type = kind

    def __repr__(self):
        return f"<{self._script_type.name} object>"

    def __getattr__(self, name):
        kind = self.__dict__.get("_script_type")
        method = kind.methods.get(name) if kind is not None else None
        if method is None:
            raise AttributeError(
                f"'{getattr(kind, 'name', '?')}' object has no attribute '{name}'"
            )
        return functools.partial(call_method, self, name)


def created(kind):
    """A new object of a class, before its ``__init__``."""
    if kind.python is not None:
        return kind.python.__new__(kind.python)
    return ScriptObject(kind)


def set_attribute(owner, name, value):
    """Sets an attribute; a module's tensors stay registered."""
    setattr(owner, name, value)


def type_of(owner):
    """The class that an object of Python is of in its program."""
    kind = getattr(owner, "_script_type", None)
    if kind is None:
        kind = handed.classes.get(type(owner))
    return kind


def call_method(owner, name, *operands):
    """The result of a method, by the class that the object is of."""
    kind = type_of(owner)
    if kind.is_module and name == "forward":
        return owner(*operands)
    return handed.ready(kind.methods[name])(owner, *operands)


_OF_PYTHON = {
    "int": int,
    "float": float,
    "bool": bool,
    "complex": complex,
    "str": str,
    "Tensor": torch.Tensor,
    "NoneType": type(None),
    "Device": torch.device,
}


def is_instance(value, kinds):
    """Whether a value is of one of some types."""
    return any(_is_of(value, kind) for kind in kinds)


def _is_of(value, kind):
    if isinstance(kind, str):
        return isinstance(value, {"list": list, "tuple": tuple, "dict": dict}[kind])
    if isinstance(kind, _types.ListType):
        return isinstance(value, list) and all(
            _is_of(v, kind.getElementType()) for v in value
        )
    if isinstance(kind, _types.DictType):
        return isinstance(value, dict) and all(
            _is_of(k, kind.getKeyType()) and _is_of(v, kind.getValueType())
            for k, v in value.items()
        )
    if isinstance(kind, _types.TupleType):
        parts = kind.elements()
        return (
            isinstance(value, tuple)
            and len(parts) == len(value)
            and all(map(_is_of, value, parts))
        )
    if isinstance(kind, _types.OptionalType):
        return value is None or _is_of(value, kind.getElementType())
    if isinstance(kind, _types.ClassType):
        return type_of(value) is kind
    if isinstance(kind, _types.NumberType):
        return type(value) in (int, float, complex)
    python = _OF_PYTHON.get(kind.annotation_str)
    if python is int and isinstance(value, bool):
        return False
    return python is not None and isinstance(value, python)


def forked(task):
    """Runs a task on a thread of its own; gives the future of its result."""
    return start(task)
