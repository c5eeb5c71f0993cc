"""Arguments against a schema: binding without building a tuple or a dict."""

from __future__ import annotations

from types import FunctionType

import cython
from cython.cimports.cpython.long import PyLong_AsLongLongAndOverflow
from cython.cimports.cpython.ref import Py_DECREF, Py_INCREF
from cython.cimports.rushlight.core._python import PyTypeObject, p_object, pp_object
from cython.cimports.rushlight.core.descriptors import Py_TYPE
from cython.cimports.rushlight.core.device import Device, as_device
from cython.cimports.rushlight.core.dtype import INTEGER, DType
from cython.cimports.rushlight.core.keys import KEY_BATCHED
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.enums import (
    ARG_ANY,
    ARG_BOOL,
    ARG_BOOLS,
    ARG_DEVICE,
    ARG_DTYPE,
    ARG_FLOAT,
    ARG_FLOATS,
    ARG_INT,
    ARG_LAYOUT,
    ARG_MEMORY_FORMAT,
    ARG_OPTIONAL_BOOL,
    ARG_OPTIONAL_FLOAT,
    ARG_OPTIONAL_INT,
    ARG_OPTIONAL_INTS,
    ARG_OPTIONAL_SCALAR,
    ARG_OPTIONAL_STR,
    ARG_OPTIONAL_TENSOR,
    ARG_OPTIONAL_TENSORS,
    ARG_SCALAR,
    ARG_SCALARS,
    ARG_STR,
    ARG_TENSOR,
    ARG_TENSOR_OR_SCALAR,
    ARG_TENSORS,
)

from rushlight.core import dtype as _dtypes
from rushlight.core import factories as _factories
from rushlight.core import layout as _layouts
from rushlight.core.state import pop_mode as _pop_mode
from rushlight.core.state import push_mode as _push_mode
from rushlight.core.state import silenced_overrides
from rushlight.core.warning import warn_once
from rushlight.dispatch.enums import KIND_NAMES, OPTIONAL_KINDS

_OPTIONAL = cython.declare(frozenset, OPTIONAL_KINDS)
_KEYWORD_ALIASES = cython.declare(
    dict,
    {
        "input": "self",
        "axis": "dim",
        "keepdims": "keepdim",
        "x": "self",
        "x2": "other",
        "x1": "self",
    },
)
_PYTHON_DTYPES = cython.declare(
    dict, {float: "float64", int: "int64", bool: "bool", complex: "complex128"}
)

# Counts and places that PyTorch may know by name only: it takes them from tensors of one
# element, and from whatever has `__index__`. Other integers are numbers that are written
# down, of which only tensors without dimensions stand for one.
_SIZES = cython.declare(
    frozenset,
    frozenset(
        "C HxW N diagonal end groups high ignore_index index k length low m minlength n num_samples"
        " output_size padding_idx repeats sections shape size split_size start step"
        " storage_offset".split()
    ),
)
_NO_SIZES = cython.declare(
    frozenset,
    frozenset(
        {
            *(("rot90", "k"), ("diag", "diagonal"), ("istft", "length")),
            *(("vander", "N"), ("diff", "n"), ("polygamma", "n")),
            *(("fft_fftfreq", "n"), ("fft_rfftfreq", "n")),
            *(("matrix_power", "n"), ("linalg_matrix_power", "n")),
            *(("dsplit", "sections"), ("hsplit", "sections"), ("vsplit", "sections")),
            *(("unfold", "size"), ("unfold", "step")),
            *(("unfold_copy", "size"), ("unfold_copy", "step")),
        }
    ),
)
SIZE = cython.declare(cython.int, 8)  # among an argument's flags
NEEDED = cython.declare(cython.int, 16)
STRIDED = cython.declare(cython.int, 128)  # a layout that no other is taken for
# Lists in whose place one integer may stand, but to PyTorch that is another overload's:
# it is written down, or a tensor without dimensions.
_LISTS = cython.declare(
    frozenset, frozenset({"all", "any", "count_nonzero", "squeeze", "squeeze_copy"})
)
WRITTEN = cython.declare(cython.int, 32)
CONSTANT = cython.declare(cython.int, 64)
AS_TENSOR = cython.declare(cython.int, 256)  # a number makes a tensor

# Mismatch codes: 0 fits; the argument's index is in the low byte.
TOO_MANY = cython.declare(cython.int, 256)
UNKNOWN_KEYWORD = cython.declare(cython.int, 512)
REPEATED = cython.declare(cython.int, 768)
MISSING = cython.declare(cython.int, 1024)
WRONG_TYPE = cython.declare(cython.int, 1280)


@cython.cfunc
@cython.exceptval(check=False)
def release(bound: cython.pointer(Bound)) -> cython.void:
    i: cython.int
    for i in range(bound.n_made):
        Py_DECREF(cython.cast(object, bound.made[i]))
    bound.n_made = 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def own(bound: cython.pointer(Bound), slot: cython.int, value: object) -> cython.int:
    """Keep ``value`` alive for the call and put it in a slot."""
    if bound.n_made == MAX_ARGS:
        raise TypeError("too many arguments had to be converted")
    Py_INCREF(value)
    bound.made[bound.n_made] = cython.cast(p_object, value)
    bound.n_made += 1
    bound.slots[slot] = cython.cast(p_object, value)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def postpone(
    bound: cython.pointer(Bound), slot: cython.int, fault: object
) -> cython.int:
    """Keep what is wrong with a value of the right type: types are told of first."""
    own(bound, slot, fault)
    if bound.fault == cython.NULL:
        bound.fault = bound.slots[slot]
    return 0


# type -> the version that it had when it was asked, and whether it has a hook for calls
_TAKES_CALLS = cython.declare(dict, {})


_PLAIN = cython.declare(p_object, cython.NULL)  # the last one without
_PLAIN_VERSION = cython.declare(cython.uint, 0)
watchers = cython.declare(cython.int, 0)  # function modes that are on, in any thread


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def version_of(kind: p_object) -> cython.uint:
    """Which version of a type's attributes it is; 0 where Python counts none."""
    return cython.cast(cython.pointer(PyTypeObject), kind).tp_version_tag


@cython.cfunc
@cython.exceptval(-1, check=False)
def asks(item: object) -> cython.bint:
    kind: p_object = cython.cast(p_object, Py_TYPE(cython.cast(p_object, item)))
    if (
        (kind == _PLAIN and version_of(kind) == _PLAIN_VERSION)
        or kind == cython.cast(p_object, Tensor)
        or kind == cython.cast(p_object, bool)
        or kind == cython.cast(p_object, tuple)
        or kind == cython.cast(p_object, DType)
        or kind == cython.cast(p_object, int)
        or kind == cython.cast(p_object, float)
        or kind == cython.cast(p_object, list)
        or kind == cython.cast(p_object, str)
        or kind == cython.cast(p_object, Device)
    ):
        return False
    return type_asks(type(item))


def declared_hook(kind):
    """The hook for calls as its class declares it, before it is bound."""
    for base in kind.__mro__:
        if "__torch_function__" in vars(base):
            return vars(base)["__torch_function__"]
    return None


@cython.cfunc
@cython.exceptval(-1, check=False)
def type_asks(kind: object) -> cython.bint:
    """Whether a type has a hook for calls, and the thread asks it."""
    global _PLAIN, _PLAIN_VERSION
    place: p_object = cython.cast(p_object, kind)
    row = _TAKES_CALLS.get(kind)
    known: cython.bint = row is not None and row[1]
    if row is None or row[0] != version_of(place) or row[0] == 0:
        if len(_TAKES_CALLS) > 4096:  # classes made in a loop do not stay for good
            _PLAIN = cython.NULL
            _TAKES_CALLS.clear()
        hook = getattr(kind, "__torch_function__", None)
        known = hook is not None and not getattr(hook, "passes_by", False)
        if known and isinstance(declared_hook(kind), FunctionType):
            warn_once(
                "Defining your `__torch_function__` as a plain method is deprecated and "
                "will be an error in future, please define it as a classmethod.",
                key="a plain __torch_function__",
            )
        _TAKES_CALLS[kind] = version_of(place), known
    if not known:
        if version_of(place):  # the table keeps it alive
            _PLAIN, _PLAIN_VERSION = place, version_of(place)
        return False
    return not silenced_overrides()


def push_mode(mode):
    """Makes a function mode the first to see this thread's calls."""
    global watchers
    _push_mode(mode)
    watchers += 1


def pop_mode():
    """Takes the innermost function mode off this thread's stack."""
    global watchers
    mode = _pop_mode()
    watchers -= 1
    return mode


@cython.cfunc
@cython.exceptval(-1, check=False)
def asks_within(item: object) -> cython.bint:
    if isinstance(item, (tuple, list)):
        for element in item:
            if type(element) is not int and asks(element):
                return True
    return asks(item)


def takes_calls(item) -> bool:
    """Whether a value takes calls by its type, in this thread, now."""
    return asks(item)


@cython.cfunc
def resolve_default(kind: cython.int, value: object) -> object:
    """Defaults that the tables give by name, as the objects that they name."""
    if not isinstance(value, str):
        return tuple(value) if isinstance(value, list) else value
    if kind == ARG_DTYPE:
        return _dtypes.all_dtypes()[value]
    if kind == ARG_LAYOUT or kind == ARG_MEMORY_FORMAT:
        return getattr(_layouts, value)
    if kind == ARG_DEVICE:
        return Device(value)
    return value


@cython.no_gc  # what it refers to never leads back to it
@cython.cclass
class Signature:
    """A schema's arguments: names, kinds, defaults; binds calls to them."""

    def __init__(self, name: str, rows: tuple):
        if len(rows) > MAX_ARGS:
            raise ValueError(f"{name}: more than {MAX_ARGS} arguments")
        i: cython.int
        self.name = name
        self.rows = rows
        self.n_args = len(rows)
        self.n_positional = 0
        for i in range(self.n_args):
            row = rows[i]
            self.kinds[i] = row[1]
            self.list_size[i] = row[4]
            self.flags[i] = row[5]
            if counts(name, row[0]):
                self.flags[i] |= SIZE
            if row[0] == "dim" and name.split(".")[0] in _LISTS:
                self.flags[i] |= WRITTEN
            if not row[3]:
                self.n_positional += 1
        self.names = tuple([row[0] for row in rows])
        self.defaults = tuple([resolve_default(row[1], row[2]) for row in rows])

    def refuse_layouts(self):
        """Have layouts other than the dense one refused: only dense tensors are made."""
        for i in range(self.n_args):
            if self.names[i] == "layout":
                self.flags[i] |= STRIDED

    def take_numbers(self):
        """Have numbers taken for tensors behind the first argument."""
        for i in range(1, self.n_args):
            self.flags[i] |= AS_TENSOR

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def bind(
        self,
        args: pp_object,
        n: cython.Py_ssize_t,
        kwnames: p_object,
        bound: cython.pointer(Bound),
    ) -> cython.int:
        i: cython.int
        code: cython.int
        taken: cython.Py_ssize_t = n
        bound.exotic = False
        bound.fault = cython.NULL
        for i in range(self.n_args):
            bound.slots[i] = cython.NULL
        i = 0
        while i < taken:
            if i >= self.n_positional:
                return TOO_MANY
            if self.flags[i] & 4 and self.is_first_of_many(i, args[i], bound):
                code = self.gather(i, args, n, bound)
                if code:
                    return code
                taken = i + 1
                break
            code = self.accept(i, args[i], bound)
            if code:
                return code
            i += 1
        if kwnames != cython.NULL:
            names: tuple = cython.cast(tuple, cython.cast(object, kwnames))
            for i in range(len(names)):
                code = self.bind_keyword(names[i], args[n + i], bound)
                if code:
                    return code
        code = self.fill_defaults(bound)
        if bound.fault != cython.NULL and not code and not bound.exotic:
            raise cython.cast(object, bound.fault)
        return code

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def is_first_of_many(
        self, i: cython.int, value: p_object, bound: cython.pointer(Bound)
    ) -> cython.bint:
        """Whether sizes or tensors are given one by one, from this value on."""
        if asks(cython.cast(object, value)):
            return not (bound.strict > 0 and i)
        if self.kinds[i] <= 3:
            return is_tensor(value)
        item = cython.cast(object, value)
        return is_place(item, self.flags[i] & SIZE) and not (bound.strict > 0 and i)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def fill_defaults(self, bound: cython.pointer(Bound)) -> cython.int:
        i: cython.int
        for i in range(self.n_args):
            if bound.slots[i] == cython.NULL:
                default = self.defaults[i]
                if default is Ellipsis:
                    return MISSING + i
                if bound.strict > 0 and self.flags[i] & CONSTANT:
                    default = 0  # PyTorch's functions read the constant's name as zero
                bound.slots[i] = cython.cast(p_object, default)
        return 0

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def gather(
        self,
        i: cython.int,
        args: pp_object,
        n: cython.Py_ssize_t,
        bound: cython.pointer(Bound),
    ) -> cython.int:
        """Sizes or tensors given one by one, ``x.view(2, 3)``, as one tuple."""
        j: cython.int
        if self.kinds[i] <= 3:
            for j in range(i, n):
                if asks(cython.cast(object, args[j])):
                    bound.exotic = True
                elif not is_tensor(args[j]):
                    return WRONG_TYPE + i
            own(bound, i, tuple([cython.cast(object, args[j]) for j in range(i, n)]))
            return 0
        for j in range(i, n):
            value = cython.cast(object, args[j])
            if type(value) is not int and asks(value):
                bound.exotic = True
            elif not is_place(value, self.flags[i] & SIZE) and (
                j == i or type(value) is not bool
            ):
                return WRONG_TYPE + i
        if bound.exotic:
            bound.slots[i] = args[i]
            return 0
        numbers = tuple([as_integer(cython.cast(object, args[j])) for j in range(i, n)])
        return take_integers(bound, i, numbers, True)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def bind_keyword(
        self, key: object, value: p_object, bound: cython.pointer(Bound)
    ) -> cython.int:
        i: cython.int = self.find(key)
        if i < 0:
            return UNKNOWN_KEYWORD
        if bound.strict > 0 and key == "self" and is_tensor(value):
            if self.kinds[i] != ARG_SCALAR:  # of functions, a tensor is the input
                return UNKNOWN_KEYWORD
        if bound.slots[i] != cython.NULL:
            return REPEATED + i
        return self.accept(i, value, bound)

    @cython.cfunc
    def find(self, key: object) -> cython.int:
        i: cython.int
        for i in range(self.n_args):
            if self.names[i] is key:
                return i
        for i in range(self.n_args):
            if self.names[i] == key:
                return i
        alias = _KEYWORD_ALIASES.get(key)
        if alias is not None:
            for i in range(self.n_args):
                if self.names[i] == alias:
                    return i
        return -1

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accept(
        self, i: cython.int, value: p_object, bound: cython.pointer(Bound)
    ) -> cython.int:
        """Put a value in its slot if the argument's kind allows it."""
        kind: cython.int = self.kinds[i]
        item = cython.cast(object, value)
        if type(item) is Tensor:
            if (
                kind == ARG_TENSOR
                or kind == ARG_OPTIONAL_TENSOR
                or kind == ARG_TENSOR_OR_SCALAR
            ):
                bound.slots[i] = value
                return 0
        elif (
            item is None
            and (kind in _OPTIONAL or self.defaults[i] is None or kind == ARG_ANY)
            and not self.flags[i] & NEEDED
        ):
            bound.slots[i] = value
            return 0
        elif item is True or item is False:
            if kind == ARG_BOOL or kind == ARG_OPTIONAL_BOOL:
                bound.slots[i] = value
                return 0
        elif kind == ARG_INT or kind == ARG_OPTIONAL_INT:
            if type(item) is int:
                if too_wide(item):
                    return postpone(bound, i, overflow())
                bound.slots[i] = value
                return 0
        elif (
            kind == ARG_TENSOR_OR_SCALAR
            or kind == ARG_SCALAR
            or kind == ARG_OPTIONAL_SCALAR
        ):
            if type(item) is float or type(item) is int:
                bound.slots[i] = value
                return 0
        return self.accept_slowly(i, kind, item, bound)

    @cython.cfunc
    @cython.exceptval(-1, check=False)
    def accept_slowly(
        self,
        i: cython.int,
        kind: cython.int,
        item: object,
        bound: cython.pointer(Bound),
    ) -> cython.int:
        if asks(item):
            bound.exotic = True
            bound.slots[i] = cython.cast(p_object, item)
            return 0
        if kind <= ARG_OPTIONAL_TENSOR or (
            kind == ARG_TENSOR_OR_SCALAR and isinstance(item, Tensor)
        ):
            if not isinstance(item, Tensor):
                number = isinstance(item, (int, float, complex)) or is_numpy(item)
                # an overload alone that takes a number for one tensor takes it for all
                alone = bound.strict < 0 and [
                    row for row in self.rows if row[1] == ARG_TENSOR_OR_SCALAR
                ]
                if number and (self.flags[i] & AS_TENSOR or alone):
                    return own(bound, i, _factories.wrapped_number(item))
                return WRONG_TYPE + i
            bound.slots[i] = cython.cast(p_object, item)
            return 0
        if kind == ARG_TENSORS or kind == ARG_OPTIONAL_TENSORS:
            return accept_tensors(i, kind, item, bound)
        if kind <= ARG_OPTIONAL_SCALAR:
            return accept_number(i, item, bound)
        if kind <= ARG_OPTIONAL_INT:
            if self.flags[i] & SIZE:
                if not is_integer(cython.cast(p_object, item)):
                    return WRONG_TYPE + i
            elif not is_number(item):
                return WRONG_TYPE + i
            return own_integer(bound, i, as_integer(item))
        if kind <= ARG_OPTIONAL_INTS:
            default = self.defaults[i]
            if item is None and isinstance(default, (tuple, list)) and not default:
                bound.slots[i] = cython.cast(p_object, default)
                return 0  # None stands for no sizes where these are the default
            return accept_integers(i, self.list_size[i], self.flags[i], item, bound)
        if self.flags[i] & STRIDED and isinstance(item, _layouts.Layout):
            if item is not _layouts.strided:
                fault = f"{called(self.name)}(...) is not implemented for layout {item}"
                return postpone(bound, i, NotImplementedError(fault))
        return accept_rare(i, kind, self.list_size[i], item, bound)

    def explain(
        self, args: tuple, keywords: dict, code: cython.int, method: cython.bint
    ):
        """PyTorch's words for why a call does not fit; a method's own tensor counts not."""
        kind: cython.int = code & ~255
        i: cython.int = code & 255
        base = self.name.split(".")[0]
        if kind == TOO_MANY:
            taken, given = self.n_positional - method, len(args) - method
            return (
                f"{base}() takes {taken} positional argument{'' if taken == 1 else 's'} "
                f"but {given} {'was' if given == 1 else 'were'} given"
            )
        if kind == UNKNOWN_KEYWORD:
            wrong = [key for key in keywords if self.find(key) < 0] or ["self"]
            return f"{base}() got an unexpected keyword argument '{wrong[0]}'"
        if kind == REPEATED:
            return f"{base}() got multiple values for argument '{self.names[i]}'"
        if kind == MISSING:
            missing = [
                f'"{called(self.names[j])}"'
                for j in range(len(args), self.n_args)
                if self.defaults[j] is Ellipsis and self.names[j] not in keywords
            ]
            return (
                f"{base}() missing {len(missing)} required positional "
                f"argument{'' if len(missing) == 1 else 's'}: {', '.join(missing)}"
            )
        return self.explain_type(base, args, keywords, i, method)

    def explain_type(self, base, args, keywords, i: cython.int, method: cython.bint):
        """Which argument has a type that its kind refuses."""
        name = called(self.names[i])
        wanted = KIND_NAMES[self.kinds[i]]
        if i < len(args):
            value, place = args[i], f" (position {i + 1 - method})"
        else:
            given = [v for k, v in keywords.items() if self.find(k) == i]
            value, place = (given[0] if given else None), ""
        found = type_name(value)
        if isinstance(value, (list, tuple)) and value and wanted.startswith("tuple of"):
            odd = [
                (k, v)
                for k, v in enumerate(value)
                if not isinstance(v, Tensor if "Tensor" in wanted else int)
            ]
            if odd and "Tensor" in wanted:
                return wrong_element(base, i - method, odd[0][0], odd[0][1])
            if odd:
                return (
                    f"{base}(): argument '{name}'{place} must be {wanted}, but found "
                    f"element of type {type_name(odd[0][1])} at pos {odd[0][0]}"
                )
        return f"{base}(): argument '{name}'{place} must be {wanted}, not {found}"

    def explain_element(self, args):
        """What is no tensor where a list of them is wanted, or None."""
        i: cython.int
        for i in range(min(len(args), len(self.names))):
            value = args[i]
            if not isinstance(value, (list, tuple)):
                continue
            if KIND_NAMES[self.kinds[i]] != "tuple of Tensors":
                continue
            for place, element in enumerate(value):
                if not isinstance(element, Tensor):
                    return wrong_element(self.name.split(".")[0], i, place, element)
        return None


@cython.cfunc
def wrong_element(base: str, i: cython.int, place: cython.Py_ssize_t, element) -> str:
    """An element of a list of tensors that is none."""
    return (
        f"expected Tensor as element {place} in argument {i}, but got "
        f"{type_name(element)}: {base}() takes tensors there"
    )


@cython.cfunc
def called(name: str) -> str:
    """A method's own tensor is never wrong: functions call it their input."""
    return "input" if name == "self" else name


@cython.cfunc
@cython.exceptval(check=False)
def is_integer(value: p_object) -> cython.bint:
    """Whether a value can serve as a size: an int, or what has ``__index__``."""
    item = cython.cast(object, value)
    if type(item) is int:
        return True
    if isinstance(item, bool):
        return False
    if isinstance(item, Tensor):
        t: Tensor = item
        return t.numel_ == 1 and t.dtype_.category == INTEGER
    if isinstance(item, (float, str, list, tuple)) or item is None:
        return False
    if not hasattr(type(item), "__index__"):
        return False
    if hasattr(item, "_as_argument"):
        return True
    return isinstance(item, int) or has_index(item)


@cython.cfunc
@cython.exceptval(check=False)
def is_place(item: object, is_size: cython.bint) -> cython.bint:
    """Whether a value can be one of several integers: a tensor of a truth, too.

    But not among sizes.
    """
    if isinstance(item, Tensor) and not is_size:
        t: Tensor = item
        return t.numel_ == 1 and t.dtype_.category <= INTEGER
    return is_integer(cython.cast(p_object, item))


@cython.cfunc
@cython.exceptval(check=False)
def has_index(item: object) -> cython.bint:
    """Whether a value gives an integer: an array may have the method in vain."""
    try:
        item.__index__()
    except Exception:
        return False
    return True


@cython.cfunc
@cython.exceptval(check=False)
def is_number(item: object) -> cython.bint:
    """Whether a value is an integer itself: Python's, NumPy's, a tensor without sizes."""
    if isinstance(item, bool):
        return False
    if isinstance(item, Tensor):
        t: Tensor = item
        return t.ndim_ == 0 and t.numel_ == 1 and t.dtype_.category == INTEGER
    if isinstance(item, int) or hasattr(item, "_as_argument"):
        return hasattr(type(item), "__index__")
    return is_numpy(item) and hasattr(type(item), "__index__")


@cython.cfunc
@cython.exceptval(check=False)
def is_numpy(item: object) -> cython.bint:
    """Whether a value is a number of NumPy's, and no array."""
    kind = type(item)
    return (
        kind.__module__ == "numpy"
        and hasattr(kind, "item")
        and not hasattr(kind, "__len__")
        and item.dtype.kind in "biufc"  # a date is no number
    )


@cython.cfunc
@cython.exceptval(check=False)
def is_array(item: object) -> cython.bint:
    """Whether a value is an array of NumPy's, of any number of dimensions."""
    kind = type(item)
    return kind.__module__ == "numpy" and hasattr(kind, "__len__")


@cython.cfunc
def counts(operator: str, argument: str) -> cython.bint:
    """Whether an integer of an operator is a size to PyTorch."""
    base = operator.split(".")[0].rstrip("_")
    return argument in _SIZES and (base, argument) not in _NO_SIZES


@cython.cfunc
def type_name(value: object) -> str:
    kind = type(value)
    return f"numpy.{kind.__name__}" if kind.__module__ == "numpy" else kind.__name__


@cython.cfunc
@cython.exceptval(check=False)
def is_tensor(value: p_object) -> cython.bint:
    return isinstance(cython.cast(object, value), Tensor)


@cython.cfunc
@cython.inline
@cython.exceptval(-1, check=False)
def too_wide(item: object) -> cython.int:
    """Whether 64 bits cannot hold an integer."""
    over: cython.int = 0
    PyLong_AsLongLongAndOverflow(item, cython.address(over))
    return over != 0


@cython.cfunc
def overflow():
    return ValueError("Overflow when unpacking long long")


@cython.cfunc
@cython.exceptval(-1, check=False)
def own_integer(
    bound: cython.pointer(Bound), i: cython.int, number: object
) -> cython.int:
    """Put an integer in its slot, or what is wrong with it."""
    if too_wide(number):
        return postpone(bound, i, overflow())
    return own(bound, i, number)


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_integers(
    bound: cython.pointer(Bound), i: cython.int, numbers: object, made: cython.bint
) -> cython.int:
    """The same for a list of integers, which the caller has or which was made here."""
    place: cython.int = 0
    for number in numbers:
        place += 1
        if too_wide(number):
            fault = TypeError(
                f'failed to unpack the object at pos {place} with error "Overflow '
                'when unpacking long long"'
            )
            return postpone(bound, i, fault)
    return own(bound, i, numbers) if made else take_list(bound, i, numbers)


@cython.cfunc
@cython.exceptval(-1, check=False)
def own_device(bound: cython.pointer(Bound), i: cython.int, item: object) -> cython.int:
    """Put the device of a name or of a number in its slot, or why there is none."""
    try:
        if not isinstance(item, str):
            item = as_integer(item)
            if too_wide(item):
                raise overflow()
        return own(bound, i, as_device(item))
    except (RuntimeError, ValueError) as fault:
        return postpone(bound, i, fault)


@cython.cfunc
def as_integer(item: object) -> object:
    if type(item) is int:
        return item
    symbolic = getattr(item, "_as_argument", None)  # a size that stands for any
    return item.__index__() if symbolic is None else symbolic()


@cython.cfunc
def as_argument(number: object) -> object:
    """A number as operators are called with it, which may be one that stands for any."""
    if isinstance(number, (int, float, complex)):
        return number
    return as_integer(number) if hasattr(number, "_as_argument") else number


@cython.cfunc
@cython.exceptval(-1, check=False)
def take_list(bound: cython.pointer(Bound), i: cython.int, item: object) -> cython.int:
    """Put a tuple in its slot, or a copy of a list: graphs and plans keep it."""
    if type(item) is list:
        return own(bound, i, cython.cast(list, item)[:])
    if not isinstance(item, tuple):
        return own(bound, i, list(item))
    bound.slots[i] = cython.cast(p_object, item)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def accept_tensors(
    i: cython.int, kind: cython.int, item: object, bound: cython.pointer(Bound)
) -> cython.int:
    if not isinstance(item, (list, tuple)):
        return WRONG_TYPE + i
    for element in item:
        if type(element) is Tensor:
            continue
        if asks(element):
            bound.exotic = True
        elif not isinstance(element, Tensor) and not (
            kind == ARG_OPTIONAL_TENSORS and element is None
        ):
            return WRONG_TYPE + i
    return take_list(bound, i, item)


@cython.cfunc
@cython.inline
@cython.exceptval(check=False)
def stands_in(t: Tensor) -> cython.bint:
    """Whether a transformation of functions sees more in a tensor than its number."""
    return (t.keys >> KEY_BATCHED) & 1


@cython.cfunc
@cython.exceptval(-1, check=False)
def accept_number(
    i: cython.int, item: object, bound: cython.pointer(Bound)
) -> cython.int:
    """A Scalar: any Python or NumPy number, or a tensor of no dimensions."""
    if isinstance(item, (bool, int, float, complex)):
        bound.slots[i] = cython.cast(p_object, item)
        return 0
    if isinstance(item, Tensor):
        t: Tensor = item
        if not t.device.has_memory:  # a form for tensors asks for no number
            return WRONG_TYPE + i
        if t.ndim_ == 0 and not t.wants_grad and not stands_in(t):
            own(bound, i, as_argument(t.item()))
            return 0
        return WRONG_TYPE + i
    if is_numpy(item):
        number = item.item()
        if isinstance(number, bool):
            number = float(number)  # PyTorch knows Python's truth values only
        own(bound, i, number)
        return 0
    if hasattr(type(item), "_as_argument"):
        own(bound, i, as_integer(item))
        return 0
    return WRONG_TYPE + i


@cython.cfunc
@cython.exceptval(-1, check=False)
def accept_integers(
    i: cython.int,
    size: cython.int,
    flags: cython.int,
    item: object,
    bound: cython.pointer(Bound),
) -> cython.int:
    plain: cython.bint = True
    first: cython.bint = True  # truth values are integers behind the first element
    if isinstance(item, (tuple, list)):
        for element in item:
            if type(element) is not int:
                plain = False
                if asks(element):
                    bound.exotic = True
                elif type(element) is bool:
                    if first:
                        return WRONG_TYPE + i
                elif not is_place(element, flags & SIZE):
                    return WRONG_TYPE + i
            first = False
        if bound.exotic or plain:
            if plain:
                return take_integers(bound, i, item, False)
            return take_list(bound, i, item)
        numbers = tuple([as_integer(element) for element in item])
        return take_integers(bound, i, numbers, True)
    if size == 2 and type(item) is int:
        if too_wide(item):
            return postpone(bound, i, overflow())
        return own(bound, i, (item, item))
    if size > 0 and (is_number(item) if flags & WRITTEN else is_place(item, False)):
        if is_array(item):  # a list of sizes if anything, and PyTorch takes lists only
            return WRONG_TYPE + i
        number = as_integer(item)
        if too_wide(number):
            return postpone(bound, i, overflow())
        return own(bound, i, (number,) * size)
    return WRONG_TYPE + i


@cython.cfunc
@cython.exceptval(-1, check=False)
def accept_rare(
    i: cython.int,
    kind: cython.int,
    size: cython.int,
    item: object,
    bound: cython.pointer(Bound),
) -> cython.int:
    good: cython.bint = True
    if kind == ARG_FLOAT or kind == ARG_OPTIONAL_FLOAT:
        if isinstance(item, Tensor):
            good = cython.cast(Tensor, item).ndim_ == 0 and not item.requires_grad
            good = good and not stands_in(item)
            if good:
                number = as_argument(item.item())
                if isinstance(number, complex):
                    fault = RuntimeError(
                        "value cannot be converted to type double without overflow"
                    )
                    return postpone(bound, i, fault)
                return own(bound, i, number)
            return WRONG_TYPE + i
        good = isinstance(item, (float, int))
        if isinstance(item, int) and abs(item) >> 63:  # no int64, but a float
            own(bound, i, float(item))
            return 0
        if not good and hasattr(type(item), "_as_argument"):
            number = as_argument(item)
            own(bound, i, number if isinstance(number, float) else float(item))
            return 0
        if not good and is_numpy(item):
            number = item.item()
            if isinstance(number, complex):
                return WRONG_TYPE + i
            own(bound, i, float(number))
            return 0
    elif kind == ARG_BOOL or kind == ARG_OPTIONAL_BOOL:
        good = isinstance(item, bool)
    elif kind == ARG_STR or kind == ARG_OPTIONAL_STR:
        if isinstance(item, bytes):
            own(bound, i, item.decode())
            return 0
        good = isinstance(item, str)
    elif kind == ARG_DTYPE:
        if isinstance(item, type) and item in _PYTHON_DTYPES:
            own(bound, i, _dtypes.all_dtypes()[_PYTHON_DTYPES[item]])
            return 0
        good = isinstance(item, DType)
    elif kind == ARG_DEVICE:
        if isinstance(item, bytes):
            item = item.decode()
        if isinstance(item, str) or (is_number(item) and not isinstance(item, Tensor)):
            return own_device(bound, i, item)
        good = isinstance(item, Device)
    elif kind == ARG_LAYOUT:
        good = isinstance(item, _layouts.Layout)
    elif kind == ARG_MEMORY_FORMAT:
        good = isinstance(item, _layouts.MemoryFormat)
    elif kind == ARG_FLOATS or kind == ARG_BOOLS or kind == ARG_SCALARS:
        if isinstance(item, (bool, int, float)) and size > 0:
            own(bound, i, (item,) * size)
            return 0
        good = isinstance(item, (list, tuple))
        if good and kind == ARG_FLOATS and len(item) > 0:
            good = not isinstance(item[0], Tensor)
        if good and kind != ARG_BOOLS:
            for element in item:
                if type(element) is not float and asks(element):
                    bound.exotic = True
                elif kind == ARG_SCALARS:
                    good = good and not isinstance(element, Tensor)
                    good = good and hasattr(
                        element,
                        "__complex__" if isinstance(element, complex) else "__float__",
                    )
                elif isinstance(
                    element, (str, bytes, complex, list, tuple)
                ) or is_array(element):
                    good = False
        if good:
            return take_list(bound, i, item)
    if not good:
        return WRONG_TYPE + i
    bound.slots[i] = cython.cast(p_object, item)
    return 0


@cython.cfunc
def keyword_dict(args: pp_object, n: cython.Py_ssize_t, kwnames: p_object) -> dict:
    keywords = {}
    i: cython.int = 0
    if kwnames != cython.NULL:
        for name in cython.cast(tuple, cython.cast(object, kwnames)):
            keywords[name] = cython.cast(object, args[n + i])
            i += 1
    return keywords
