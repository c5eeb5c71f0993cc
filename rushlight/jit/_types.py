"""Types of values in translated programs: what annotations and schemas are told by."""


class Type:
    """A type of values; equal to another of the same kind and parts."""

    _word = "Any"

    def __init__(self, *parts):
        self._parts = parts

    def kind(self):
        """The name of the kind of type."""
        return type(self).__name__

    def str(self):
        """How graphs and schemas spell the type."""
        return self._word

    @property
    def annotation_str(self):
        """How annotations of Python spell the type."""
        parts = ", ".join(part.annotation_str for part in self._parts)
        return f"{self._word}[{parts}]" if parts else self._word

    def containedTypes(self):
        """The types that this one is made of."""
        return list(self._parts)

    def isSubtypeOf(self, other):
        """Whether every value of this type is one of the other."""
        if isinstance(other, AnyType) or self == other:
            return True
        if isinstance(other, NumberType):
            return isinstance(self, (IntType, FloatType, ComplexType))
        if isinstance(other, OptionalType):
            inner = other._parts[0]
            if isinstance(self, OptionalType):
                return self._parts[0].isSubtypeOf(inner)
            return isinstance(self, NoneType) or self.isSubtypeOf(inner)
        if isinstance(other, UnionType):
            mine = self._parts if isinstance(self, UnionType) else [self]
            if isinstance(self, OptionalType):
                mine = [self._parts[0], NoneType.get()]
            return all(any(m.isSubtypeOf(o) for o in other._parts) for m in mine)
        if isinstance(other, InterfaceType):
            return other.is_met_by(self)
        if isinstance(other, CustomType):  # the registry keeps no names of classes
            return isinstance(self, AnyType)
        if isinstance(self, TupleType) and isinstance(other, TupleType):
            return self.fits(other)
        return False

    def __eq__(self, other):
        return type(self) is type(other) and self._parts == other._parts

    def __hash__(self):
        return hash((type(self), self._parts))

    def __repr__(self):
        return self.annotation_str

    __str__ = __repr__


class _Plain(Type):
    """A type without parts, of which there is one."""

    _one = None

    @classmethod
    def get(cls):
        """The type."""
        if cls.__dict__.get("_one") is None:
            cls._one = cls()
        return cls._one


def _plain(name, word):
    body = {"_word": word, "__module__": __name__, "__doc__": f"The type ``{word}``."}
    return type(name, (_Plain,), body)


AnyType = _plain("AnyType", "Any")
BoolType = _plain("BoolType", "bool")
ComplexType = _plain("ComplexType", "complex")
DeviceObjType = _plain("DeviceObjType", "Device")
FloatType = _plain("FloatType", "float")
IntType = _plain("IntType", "int")
NoneType = _plain("NoneType", "NoneType")
NumberType = _plain("NumberType", "number")
NumberType.str = lambda self: "Scalar"  # in graphs; errors say number
PyObjectType = _plain("PyObjectType", "PyObject")
StreamObjType = _plain("StreamObjType", "Stream")
StringType = _plain("StringType", "str")
SymBoolType = _plain("SymBoolType", "bool")
SymIntType = _plain("SymIntType", "int")
TensorType = _plain("TensorType", "Tensor")


class _OfOne(Type):
    """A type of one part."""

    _graph = "{}({})"

    def __init__(self, element):
        super().__init__(element)

    def str(self):
        """How graphs spell the type."""
        return self._graph.format(self._word, self._parts[0].str())

    def getElementType(self):
        """The type of what is held."""
        return self._parts[0]


class ListType(_OfOne):
    """Lists of values of one type.

    >>> ListType.ofInts(), ListType(TensorType.get()) == ListType.ofTensors()
    (List[int], True)
    """

    _word = "List"
    _graph = "{1}[]"

    @staticmethod
    def ofInts():
        """Lists of integers."""
        return ListType(IntType.get())

    @staticmethod
    def ofFloats():
        """Lists of floats."""
        return ListType(FloatType.get())

    @staticmethod
    def ofComplexDoubles():
        """Lists of complex numbers."""
        return ListType(ComplexType.get())

    @staticmethod
    def ofBools():
        """Lists of truth values."""
        return ListType(BoolType.get())

    @staticmethod
    def ofStrings():
        """Lists of texts."""
        return ListType(StringType.get())

    @staticmethod
    def ofTensors():
        """Lists of tensors."""
        return ListType(TensorType.get())


class OptionalType(_OfOne):
    """Values of a type, or None."""

    _word = "Optional"
    _graph = "{1}?"

    @staticmethod
    def ofTensor():
        """A tensor, or None."""
        return OptionalType(TensorType.get())


class FutureType(_OfOne):
    """Values that are there later."""

    _word = "Future"


class AwaitType(_OfOne):
    """Values that are computed when they are waited for."""

    _word = "Await"


class RRefType(_OfOne):
    """Values of other processes."""

    _word = "RRef"


class DictType(Type):
    """Dictionaries from keys of one type to values of one."""

    _word = "Dict"

    def __init__(self, key, value):
        super().__init__(key, value)

    def str(self):
        """How graphs spell the type."""
        return f"Dict({self._parts[0].str()}, {self._parts[1].str()})"

    def getKeyType(self):
        """The keys' type."""
        return self._parts[0]

    def getValueType(self):
        """The values' type."""
        return self._parts[1]


class TupleType(Type):
    """Tuples of one type for each place; with names, a named tuple of a class.

    Args:
        elements: the types, place by place.
        name: the qualified name of the class of named tuples.
        fields: its fields' names.
        defaults: their defaults, ``...`` where there is none.
        python: the class in Python.

    >>> TupleType([IntType.get(), FloatType.get()])
    Tuple[int, float]
    """

    _word = "Tuple"

    def __init__(self, elements, name=None, fields=(), defaults=(), python=None):
        super().__init__(*elements)
        self.name, self.fields = name, tuple(fields)
        self.defaults, self.python = tuple(defaults), python

    def elements(self):
        """The types, place by place."""
        return list(self._parts)

    def fits(self, other):
        """Whether each place holds what the other's place may."""
        if len(self._parts) != len(other._parts) or (
            other.name is not None and self.name != other.name
        ):
            return False
        return all(a.isSubtypeOf(b) for a, b in zip(self._parts, other._parts))

    def str(self):
        """How graphs spell the type."""
        parts = ", ".join(part.str() for part in self._parts)
        if self.name is None:
            return f"({parts})"
        named = zip(self.fields, self._parts)
        return f"NamedTuple({', '.join(f'{f} : {t.str()}' for f, t in named)})"

    @property
    def annotation_str(self):
        """How annotations spell the type."""
        if self.name is not None:
            return self.name
        parts = ", ".join(part.annotation_str for part in self._parts)
        return f"Tuple[{parts or '()'}]"

    def __eq__(self, other):
        return super().__eq__(other) and self.name == other.name

    def __hash__(self):
        return hash((TupleType, self._parts, self.name))


class UnionType(Type):
    """Values of any of some types."""

    _word = "Union"

    def __init__(self, types):
        super().__init__(*types)

    def str(self):
        """How graphs spell the type."""
        return f"Union({', '.join(part.str() for part in self._parts)})"

    def __eq__(self, other):
        return isinstance(other, UnionType) and set(self._parts) == set(other._parts)

    def __hash__(self):
        return hash((UnionType, frozenset(self._parts)))


class _Named(Type):
    """A type that is known by its qualified name."""

    def __init__(self, name):
        super().__init__()
        self.name = name

    def qualified_name(self):
        """The name, with what it is defined in before it."""
        return self.name

    def str(self):
        """How graphs spell the type."""
        return self.name

    @property
    def annotation_str(self):
        """How annotations spell the type."""
        return self.name

    def __eq__(self, other):
        return self is other

    def __hash__(self):
        return id(self)


class ClassType(_Named):
    """A class or a module of a translated program.

    ``attributes`` are types by name, in order; ``constants`` values by name;
    ``methods`` what :class:`rushlight.jit.ir.Function` each name runs.
    """

    def __init__(self, name, is_module=False):
        super().__init__(name)
        self.is_module = is_module
        self.attributes = {}
        self.constants = {}
        self.parameters, self.buffers = [], []
        self.methods = {}
        self.properties = {}
        self.static_methods = {}
        self.interface = None
        self.python = None
        self.hooks, self.pre_hooks = [], []  # the names of methods, in order

    @property
    def has_hooks(self):
        """Whether calls of the module do more than its ``forward``."""
        return bool(self.hooks or self.pre_hooks)


class CustomType(_Named):
    """A class that operators name in their schemas: objects that a program hands on."""

    _known: dict = {}

    @classmethod
    def named(cls, name):
        """The one type of a qualified name."""
        return cls._known.setdefault(name, cls(name))


class InterfaceType(_Named):
    """What methods a class has: schemas by name."""

    def __init__(self, name, is_module=False):
        super().__init__(name)
        self.is_module = is_module
        self.methods = {}

    def is_met_by(self, other):
        """Whether a class has each method, with the same types."""
        if not isinstance(other, (ClassType, InterfaceType)):
            return False
        return all(
            name in other.methods and schema.met_by(other.methods[name].schema)
            for name, schema in self.methods.items()
        )


class EnumType(_Named):
    """The members of an enumeration, all with values of one type."""

    def __init__(self, name, value, python):
        super().__init__(name)
        self.value, self.python = value, python

    def str(self):
        """How graphs spell the type."""
        return f"Enum<{self.name}>"


class GeneratorType(_Plain):
    """A generator of random numbers."""

    _word = "Generator"


def optional(inner):
    """The type of values of another, or None; of such a type itself."""
    if isinstance(inner, (OptionalType, NoneType, AnyType)):
        return inner
    return OptionalType(inner)


def unify(first, second):
    """The narrowest type that holds the values of both, or None."""
    if first.isSubtypeOf(second):
        return second
    if second.isSubtypeOf(first):
        return first
    if isinstance(first, NoneType):
        return optional(second)
    if isinstance(second, NoneType):
        return optional(first)
    if isinstance(first, OptionalType) or isinstance(second, OptionalType):
        bare = [
            t.getElementType() if isinstance(t, OptionalType) else t
            for t in (first, second)
        ]
        inner = unify(*bare)
        return None if inner is None else optional(inner)
    if isinstance(first, TupleType) and isinstance(second, TupleType):
        if len(first._parts) != len(second._parts) or first.name != second.name:
            return None
        parts = [unify(a, b) for a, b in zip(first._parts, second._parts)]
        return None if None in parts else TupleType(parts)
    return None
