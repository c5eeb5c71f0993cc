"""Runs the source of a loop kernel as plain Python over NumPy arrays."""

import types

import numpy as np

from rushlight.codegen.emit.reference import NAMESPACE
from rushlight.codegen.frontend.loop_words import (
    Inline,
    Integers,
    TypeName,
    atomic_add,
    atomic_max,
    bounds,
    highest,
    is_float,
    local,
    lowest,
    stored,
    vectorized,
)
from rushlight.codegen.frontend.storage import COMPUTED_IN, computed

# Words of the language that the emitters' reference doesn't know under the same name.
FUNCTIONS = {
    "select": lambda condition, yes, no: yes if condition else no,
    "isinf": np.isinf,
    "is_complex": np.iscomplexobj,
    "log_add_exp": lambda x, y: np.log(np.exp(x) + np.exp(y)),
    "isfinite": np.isfinite,
    "bits_of": lambda x: x.view(f"int{8 * x.itemsize}"),
    "float_of": lambda x: x.view(f"float{8 * x.itemsize}"),
}


def run_reference(kernel, table, arrays, ints, begin, end):
    """Runs a `Loops` kernel on copies in the computed dtypes, then copies back."""
    function = rebind(kernel.function, table)
    work = [widen(array) for array in arrays]
    pointers, numbers = iter(work), iter(ints)
    values = []
    for _, note in kernel.parameters[:-2]:
        record = kernel.lookup(note)
        if isinstance(record, Integers):
            values.append(record.of(numbers))
        else:
            values.append(int(next(numbers)) if note == "int" else next(pointers))
    with np.errstate(all="ignore"):
        function(*values, begin, end)
    for array, copy in zip(arrays, work):
        if copy is not array:
            array[...] = copy.astype(array.dtype)


def widen(array):
    """float16 and bfloat16 as float32; the rest as it is."""
    if array is not None and array.dtype.name in COMPUTED_IN:
        return array.astype(COMPUTED_IN[array.dtype.name])
    return array


def scalar_type(name):
    """The NumPy scalar type in which a dtype is computed."""
    return np.dtype(computed(name).name).type


def rebind(function, table):
    """The function with type names, and words of the language, as NumPy knows them."""
    scope = dict(function.__globals__)
    for name in function.__code__.co_names:
        if name in scope:
            scope[name] = _as_numpy(name, scope[name], table)
    free = zip(function.__code__.co_freevars, function.__closure__ or ())
    cells = [
        types.CellType(_as_numpy(name, cell.cell_contents, table))
        for name, cell in free
    ]
    return types.FunctionType(
        function.__code__, scope, function.__name__, function.__defaults__, tuple(cells)
    )


def _as_numpy(name, value, table):
    if isinstance(value, TypeName):
        return scalar_type(table[value.name])
    if isinstance(value, Inline):
        return rebind(value.function, table)
    if value is local:
        return _local_maker(table)
    if value is vectorized:
        return range
    if value is atomic_add:
        return _add_at
    if value is atomic_max:
        return _max_at
    if value is is_float:
        return _is_float
    if value is stored:
        return _stored_maker(table)
    if value is lowest or value is highest:
        return _limit(table, value is highest)
    if getattr(value, "__module__", None) == "rushlight.codegen.language":
        return FUNCTIONS.get(name) or NAMESPACE[name]
    return value


def _local_maker(table):
    def make(kind, size):
        named = table[kind] if isinstance(kind, str) else kind.__name__
        return np.zeros(size, scalar_type(named))

    return make


def _add_at(array, place, value):
    array[place] = array[place] + value


def _max_at(array, place, value):
    array[place] = max(array[place], value)


def _stored_maker(table):
    def stored(kind, value):
        return type(value)(np.dtype(table[kind]).type(value))

    return stored


def _is_float(kind):
    return np.issubdtype(kind, np.floating)


def _limit(table, high):
    def limit(kind):
        name = np.dtype(kind).name
        return kind(bounds(computed(name))[high])

    return limit
