"""Types of values in translated programs: what annotations and schemas are told by."""

from __future__ import annotations


class Type:
    """A type of values; equal to another of the same kind and parts."""

    _word = "Any"

    def __init__(self, *parts):
        self._parts = parts

    def kind(self):
        """The name of the kind of type."""
        return type(self).__name__

    def str(self):
        """How schemas spell the type."""
        parts = ", ".join(map(repr, self._parts))
        return f"{self._word}[{parts}]" if parts else self._word

    @property
    def annotation_str(self):
        """How annotations of Python spell the type."""
        return self.str()

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
            return isinstance(self, NoneType) or self.isSubtypeOf(other._parts[0])
        return False

    def __eq__(self, other):
        return type(self) is type(other) and self._parts == other._parts

    def __hash__(self):
        return hash((type(self), self._parts))

    def __repr__(self):
        return self.str()

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
PyObjectType = _plain("PyObjectType", "PyObject")
StreamObjType = _plain("StreamObjType", "Stream")
StringType = _plain("StringType", "str")
SymBoolType = _plain("SymBoolType", "bool")
SymIntType = _plain("SymIntType", "int")
TensorType = _plain("TensorType", "Tensor")


class _OfOne(Type):
    """A type of one part."""

    def __init__(self, element):
        super().__init__(element)

    def getElementType(self):
        """The type of what is held."""
        return self._parts[0]


class ListType(_OfOne):
    """Lists of values of one type.

    >>> ListType.ofInts(), ListType(TensorType.get()) == ListType.ofTensors()
    (List[int], True)
    """

    _word = "List"

    @staticmethod
    def ofInts():
        """Lists of integers."""
        return ListType(IntType.get())

    @staticmethod
    def ofFloats():
        """Lists of floats."""
        return ListType(FloatType.get())

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

    def getKeyType(self):
        """The keys' type."""
        return self._parts[0]

    def getValueType(self):
        """The values' type."""
        return self._parts[1]


class TupleType(Type):
    """Tuples of one type for each place."""

    _word = "Tuple"

    def __init__(self, elements):
        super().__init__(*elements)

    def elements(self):
        """The types, place by place."""
        return list(self._parts)


class UnionType(Type):
    """Values of any of some types."""

    _word = "Union"

    def __init__(self, types):
        super().__init__(*types)
