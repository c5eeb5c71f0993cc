"""Which sizes of an exported program's arguments stay open."""

import dataclasses
import inspect
from typing import Any

from rushlight._dynamo.exc import UserError, UserErrorType
from rushlight.core.tensor import Tensor
from rushlight.utils._pytree import (
    MappingKey,
    SequenceKey,
    keystr,
    tree_flatten_with_path,
    tree_map_with_path,
)

__all__ = [
    "AdditionalInputs",
    "Constraint",
    "Dim",
    "ShapesCollection",
    "dims",
    "refine_dynamic_shapes_from_suggested_fixes",
]

_UNBOUNDED = float("inf")
_ALONE = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
_SEVERAL = inspect.Parameter.VAR_POSITIONAL, inspect.Parameter.VAR_KEYWORD


def _invalid(text):
    invalid = UserErrorType.INVALID_INPUT
    return UserError(invalid, text, case_name="dynamic_shapes_validation")


@dataclasses.dataclass(frozen=True)
class _DimHint:
    """What is wanted of a size: ``AUTO``, ``DYNAMIC`` or ``STATIC``, between bounds."""

    type: str
    min: int | None = None
    max: int | None = None
    _factory: bool = True

    def __call__(self, min=None, max=None):
        """The same within bounds."""
        if not self._factory:
            raise TypeError("'DimHint' object is not callable")
        for bound in (min, max):
            if bound is not None and bound < 0:
                raise AssertionError(f"{bound} must be non-negative")
        if min is not None and max is not None and min > max:
            raise AssertionError(f"min={min} must be <= max={max}")
        return _DimHint(self.type, min, max, False)

    def __repr__(self):
        bounds = [
            f"{name}={value}"
            for name, value in (("min", self.min), ("max", self.max))
            if value is not None
        ]
        return f"DimHint({', '.join([self.type, *bounds])})"


def is_hint(one):
    """Whether something is ``AUTO``, ``DYNAMIC`` or ``STATIC``, with bounds or without."""
    return isinstance(one, _DimHint)


class Dim:
    """A name for a size that stays open, between bounds.

    Sizes with one name are equal. Integer multiples of a name, and sums with integers,
    are sizes, too. ``Dim.AUTO`` leaves open what the program leaves open,
    ``Dim.DYNAMIC`` asks for it, ``Dim.STATIC`` fixes the size.

    Args:
        name: the name, which could be a variable's.
        min: the least size; ``max`` the largest.

    Raises:
        AssertionError: the name is none, or the bounds leave nothing.

    >>> import rushlight as rl
    >>> batch = Dim("batch", max=64)
    >>> program = rl.export.export(
    ...     rl.nn.ReLU(), (rl.ones(3, 2),), dynamic_shapes=({0: batch},)
    ... )
    >>> program.module()(-rl.ones(5, 2)).shape
    rushlight.Size([5, 2])
    """

    AUTO = _DimHint("AUTO")
    DYNAMIC = _DimHint("DYNAMIC")
    STATIC = _DimHint("STATIC")

    def __init__(self, name, *, min=None, max=None):
        low = 0 if min is None else min
        high = _UNBOUNDED if max is None else max
        if high <= low:
            raise AssertionError(
                f"Cannot create Dim with inconsistent min={min}, max={max}"
            )
        if not name.isidentifier():
            raise AssertionError(f"Dim name must be a valid identifier, got {name}")
        self.__name__ = name
        self.min, self.max = low, high

    def _derive(self, factor, rest):
        return _DerivedDim(self, factor, rest)

    def __add__(self, other):
        return self._derive(1, _whole(other))

    def __radd__(self, other):
        return self + other

    def __sub__(self, other):
        return self._derive(1, -_whole(other))

    def __rsub__(self, other):
        raise NotImplementedError(
            "Attempted to negate a dimension. Only increasing linear operations with "
            "integer coefficients are supported."
        )

    def __mul__(self, other):
        other = _whole(other)
        if other <= 0:
            raise NotImplementedError(
                f"Attempted to multiply {other} with {self.__name__}, where a positive "
                "integer was expected. Only increasing linear operations with integer "
                "coefficients are supported."
            )
        return self._derive(other, 0)

    def __rmul__(self, other):
        return self * other

    @property
    def root(self):
        """The name that the size is computed from."""
        return self

    def solved(self, size):
        """What the root is where this size is ``size``; None where there is none."""
        return size

    def computed(self, root):
        """The size of a root."""
        return root

    def __repr__(self):
        low = "" if self.min in (0,) else f", min={self.min}"
        high = "" if self.max == _UNBOUNDED else f", max={self.max}"
        return f"Dim('{self.__name__}'{low}{high})"


class _DerivedDim(Dim):
    """A multiple of a name, and an integer beside it."""

    def __init__(self, root, factor, rest):
        times = f"{factor}*{root.__name__}" if factor != 1 else root.__name__
        sign = "" if not rest else f" + {rest}" if rest > 0 else f" - {-rest}"
        self.__name__ = times + sign
        self._root, self.factor, self.rest = root, factor, rest

    @property
    def root(self):
        return self._root

    @property
    def min(self):
        """The least size."""
        return self.computed(self._root.min)

    @property
    def max(self):
        """The largest size."""
        return self.computed(self._root.max)

    def _derive(self, factor, rest):
        return _DerivedDim(self._root, self.factor * factor, self.rest * factor + rest)

    def solved(self, size):
        root, over = divmod(size - self.rest, self.factor)
        return None if over else root

    def computed(self, root):
        made = root * self.factor if self.factor != 1 else root
        return made + self.rest if self.rest else made

    def __repr__(self):
        return self.__name__


def _whole(value):
    if type(value) is not int:
        raise NotImplementedError(
            f"Attempted to combine a dimension with {value}, where an integer was "
            "expected. Only increasing linear operations with integer coefficients are "
            "supported."
        )
    return value


Constraint = Dim  # what a size has to obey is what its name says


def dims(*names, min=None, max=None):
    """Several `Dim` at once.

    Args:
        names: a name for each.
        min, max: bounds for all of them.

    >>> dims("batch", "length", max=10)
    (Dim('batch', max=10), Dim('length', max=10))
    """
    return tuple(Dim(name, min=min, max=max) for name in names)


class ShapesCollection:
    """Sizes that stay open, said of the tensors themselves.

    >>> import rushlight as rl
    >>> x = rl.ones(4, 2)
    >>> shapes = ShapesCollection()
    >>> shapes[x] = {0: Dim("n")}
    >>> shapes.dynamic_shapes(rl.nn.ReLU(), (x,))
    {'input': {0: Dim('n')}}
    """

    def __init__(self):
        self._shapes: dict = {}

    def __setitem__(self, tensor, shape):
        if not isinstance(tensor, (Tensor, _Integer)):
            raise AssertionError(
                f"Cannot assign shape to non-tensor type {type(tensor)}"
            )
        known = self._shapes.get(id(tensor))
        if known is not None and known[1] != shape:
            raise AssertionError(
                f"Shapes assigned to input is a {shape} that does not match the shape "
                f"{known[1]} assigned before"
            )
        self._shapes[id(tensor)] = tensor, shape

    def __getitem__(self, tensor):
        if id(tensor) not in self._shapes:
            self._shapes[id(tensor)] = tensor, {}
        return self._shapes[id(tensor)][1]

    def __len__(self):
        return len(self._shapes)

    def dynamic_shapes(self, m, args, kwargs=None):
        """The same as ``export`` takes it.

        Args:
            m: the module.
            args: its arguments; ``kwargs`` too.

        Raises:
            ValueError: a tensor is no argument.
        """
        met = set()

        def found(path, one):
            known = self._shapes.get(id(one))
            if known is None:
                return None
            met.add(id(one))
            return known[1]

        arguments = combined_args(m, args, kwargs)
        result = tree_map_with_path(found, arguments)
        missing = [one for key, (one, _) in self._shapes.items() if key not in met]
        if missing:
            raise ValueError(
                "Some tensors that were assigned shapes were not found in args: "
                + ", ".join(str(tuple(one.shape)) for one in missing)
            )
        return result


_Integer = int


class AdditionalInputs:
    """Further arguments of a program: what differs between them stays open.

    >>> import rushlight as rl
    >>> inputs = AdditionalInputs()
    >>> inputs.add((rl.ones(5, 2),))
    >>> inputs.dynamic_shapes(rl.nn.ReLU(), (rl.ones(4, 2),))
    {'input': (DimHint(DYNAMIC), None)}
    """

    def __init__(self):
        self._examples: list = []

    def add(self, args, kwargs=None):
        """One more set of arguments."""
        if type(args) is not tuple:
            raise AssertionError(f"Representative args {args} must be a tuple")
        if kwargs is not None and type(kwargs) is not dict:
            raise AssertionError(
                f"Representative kwargs {kwargs} must be None or a dict"
            )
        self._examples.append((args, kwargs))

    def dynamic_shapes(self, m, args, kwargs=None):
        """The same as ``export`` takes it.

        Args:
            m: the module.
            args: its arguments; ``kwargs`` too.
        """
        sets = [
            tree_flatten_with_path(combined_args(m, *one))[0]
            for one in ((args, kwargs), *self._examples)
        ]
        wanted = {}
        for positions in zip(*sets):
            path, values = positions[0][0], [value for _, value in positions]
            if isinstance(values[0], Tensor):
                wanted[path] = tuple(
                    Dim.DYNAMIC if len(set(sizes)) > 1 else None
                    for sizes in zip(*(value.shape for value in values))
                )
            elif type(values[0]) is int and len(set(values)) > 1:
                wanted[path] = Dim.DYNAMIC
        return tree_map_with_path(
            lambda path, one: wanted.get(path), combined_args(m, args, kwargs)
        )

    def verify(self, ep):
        """Runs the program on each set of arguments; it raises where one does not fit."""
        module = ep.module()
        for args, kwargs in self._examples:
            module(*args, **(kwargs or {}))


def combined_args(f, args, kwargs=None):
    """The arguments of a call by the names that a module has for them."""
    forward = getattr(f, "forward", f)
    kwargs = kwargs or {}
    try:
        bound = inspect.signature(forward).bind(*args, **kwargs)
        return dict(bound.arguments)
    except (TypeError, ValueError):
        return {**{f"arg{at}": one for at, one in enumerate(args)}, **kwargs}


def argument_paths(f, args, kwargs):
    """Where the arguments of a call are among those of `combined_args`.

    Args:
        f: the module.
        args, kwargs: its arguments.

    Returns:
        the path of each, by its number or its name.
    """
    forward = getattr(f, "forward", f)
    try:
        parameters = inspect.signature(forward).parameters.values()
        inspect.signature(forward).bind(*args, **kwargs)
    except (TypeError, ValueError):
        names = [f"arg{at}" for at in range(len(args))]
        return {
            **{at: (MappingKey(name),) for at, name in enumerate(names)},
            **{name: (MappingKey(name),) for name in kwargs},
        }
    named = [one.name for one in parameters if one.kind in _ALONE]
    rest = {one.kind: one.name for one in parameters}
    found: dict = {}
    for at in range(len(args)):
        over = at - len(named)
        found[at] = (
            (MappingKey(named[at]),)
            if over < 0
            else (MappingKey(rest[inspect.Parameter.VAR_POSITIONAL]), SequenceKey(over))
        )
    known = {one.name for one in parameters if one.kind not in _SEVERAL}
    for name in kwargs:
        found[name] = (MappingKey(name),)
        if name not in known:
            several = rest[inspect.Parameter.VAR_KEYWORD]
            found[name] = MappingKey(several), MappingKey(name)
    return found


def refine_dynamic_shapes_from_suggested_fixes(msg, dynamic_shapes):
    """What ``dynamic_shapes`` is with the fixes that an error has suggested.

    Args:
        msg: the error's text.
        dynamic_shapes: what ``export`` was given.
    """
    from rushlight.utils._pytree import tree_map

    fixes: dict[str, Any] = {}
    names: dict[str, Any] = {}
    for line in msg.partition("Suggested fixes:")[2].strip().splitlines():
        name, _, value = line.partition(" = ")
        fixes[name.strip()] = value.strip()

    def named(one):
        if isinstance(one, Dim):
            names[one.root.__name__] = one.root
        return one

    leaf = {"is_leaf": lambda one: isinstance(one, (Dim, _DimHint))}
    tree_map(named, dynamic_shapes, **leaf)

    def fixed(text, name):
        if text.isdigit():
            return int(text)
        if text.startswith("Dim("):
            parts = dict(
                part.split("=") for part in text[4:-1].replace(" ", "").split(",")[1:]
            )
            return Dim(name, **{key: int(value) for key, value in parts.items()})
        return names.get(text, text)

    made = {name: fixed(text, name) for name, text in fixes.items()}

    def refined(one):
        if not isinstance(one, Dim):
            return one
        new = made.get(one.__name__, made.get(one.root.__name__, one.root))
        if one.__name__ in made or one is one.root:
            return new
        return (
            one.computed(new) if isinstance(new, int) else new * one.factor + one.rest
        )

    return tree_map(refined, dynamic_shapes, **leaf)


# -- what is wanted of each argument -------------------------------------------------------


@dataclasses.dataclass
class Wanted:
    """What was said of one size of one argument, or of an argument that is an integer."""

    path: tuple
    dim: int | None
    spec: Any  # Dim, _DimHint, int or None

    @property
    def source(self):
        """The size, as messages name it."""
        root, *rest = self.path
        name = root.key if isinstance(root, MappingKey) else root.idx
        place = f"L['{name}']{keystr(tuple(rest))}"
        return place if self.dim is None else f"{place}.size()[{self.dim}]"


def wanted_sizes(arguments, dynamic_shapes):
    """What is wanted of the sizes of each tensor among named arguments.

    Args:
        arguments: the arguments by name.
        dynamic_shapes: what ``export`` was given.

    Returns:
        a dict from a tensor's path to a list of `Wanted`.

    Raises:
        UserError: it has another structure than the arguments.
    """
    if not dynamic_shapes:
        return {}
    if isinstance(dynamic_shapes, (tuple, list)):
        if len(dynamic_shapes) != len(arguments):
            raise _invalid(
                "Detected mismatch between the structure of `inputs` and "
                f"`dynamic_shapes`: `inputs` has {len(arguments)} elements, but "
                f"`dynamic_shapes` has {len(dynamic_shapes)} elements"
            )
        dynamic_shapes = dict(zip(arguments, dynamic_shapes))
    elif isinstance(dynamic_shapes, dict):
        if set(dynamic_shapes) != set(arguments):
            raise _invalid(
                "When `dynamic_shapes` is specified as a dict, its top-level keys must "
                f"be the arg names {list(arguments)} of `inputs`, but here they are "
                f"{list(dynamic_shapes)}. Alternatively, you could also ignore arg names "
                "entirely and specify `dynamic_shapes` as a list/tuple matching "
                "`inputs`."
            )
    else:
        raise TypeError(
            "Expecting `dynamic_shapes` to be a dict, tuple or list, got "
            f"{type(dynamic_shapes)}"
        )
    found: dict = {}
    bounds: dict = {}
    for name, value in arguments.items():
        _match((MappingKey(name),), value, dynamic_shapes[name], found, bounds)
    return found


def _match(path, value, shape, found, bounds):
    if shape is None:
        return
    if isinstance(value, Tensor):
        found[path] = [
            Wanted(path, dim, _checked(spec, path, dim, bounds))
            for dim, spec in _sizes(path, value, shape)
        ]
        return
    children: list = []
    if isinstance(value, dict):
        children = [(MappingKey(key), value[key], key) for key in value]
    elif isinstance(value, (list, tuple)):
        children = [(SequenceKey(at), one, at) for at, one in enumerate(value)]
    else:
        if isinstance(shape, Dim) and type(value) is int:
            raise ValueError(
                "Unable to specify input integers as dynamic through named Dims. Please "
                "use Dim.AUTO/DYNAMIC instead."
            )
        if isinstance(shape, _DimHint) and type(value) is int:
            found[path] = [Wanted(path, None, shape)]
            return
        raise _invalid(
            f"Cannot associate shape {shape} specified at `dynamic_shapes"
            f"{keystr(path)}` to non-tensor type {type(value)} at `inputs"
            f"{keystr(path)}` (expected None)"
        )
    if not isinstance(shape, (dict, list, tuple)) or len(shape) != len(children):
        count = len(shape) if isinstance(shape, (dict, list, tuple)) else shape
        raise _invalid(
            "Detected mismatch between the structure of `inputs` and `dynamic_shapes`: "
            f"`inputs{keystr(path)}` has {len(children)} elements, but `dynamic_shapes"
            f"{keystr(path)}` has {count} elements"
        )
    for key, one, place in children:
        if isinstance(shape, dict) and place not in shape:
            raise _invalid(
                "Detected mismatch between the structure of `inputs` and "
                f"`dynamic_shapes`: `dynamic_shapes{keystr(path)}` lacks {place!r}"
            )
        _match((*path, key), one, shape[place], found, bounds)


def _sizes(path, tensor, shape):
    if isinstance(shape, dict):
        for dim in shape:
            if not isinstance(dim, int) or not -tensor.dim() <= dim < tensor.dim():
                raise IndexError(
                    f"Expected dynamic shape spec {shape} specified at `dynamic_shapes"
                    f"{keystr(path)}` to have dimensions of the {tensor.dim()}-d tensor "
                    f"at `inputs{keystr(path)}`, not {dim}"
                )
        return [(dim % tensor.dim(), spec) for dim, spec in shape.items()]
    if isinstance(shape, (list, tuple)):
        if len(shape) != tensor.dim():
            raise _invalid(
                f"Expected dynamic shape spec {shape} specified at `dynamic_shapes"
                f"{keystr(path)}` to have the same length as the actual tensor shape "
                f"{tensor.shape} (expected {tensor.dim()}, but got {len(shape)} instead)"
            )
        return list(enumerate(shape))
    raise _invalid(
        f"Unexpected input tensor shape {shape} specified at `dynamic_shapes"
        f"{keystr(path)}` (expected either a list/tuple of dimensions, or a dict mapping "
        "indices to dimensions, where each dimension is an int, a Dim, Dim.AUTO, "
        "Dim.STATIC, or Dim.DYNAMIC)"
    )


def _checked(spec, path, dim, bounds):
    if spec is not None and not isinstance(spec, (int, Dim, _DimHint)):
        raise _invalid(
            f"Unexpected dimension mapped to index {dim} in input tensor shape "
            f"specified at `dynamic_shapes{keystr(path)}` (expected None, an int, a Dim, "
            f"Dim.AUTO, Dim.STATIC, or Dim.DYNAMIC, but got {spec} instead)"
        )
    if isinstance(spec, Dim):
        root = spec.root
        known = bounds.setdefault(root.__name__, root)
        if (known.min, known.max) != (root.min, root.max):
            raise _invalid(
                f"Found different definitions {known} and {root} for the same symbolic "
                f"dimension {root.__name__}!"
            )
    return spec
