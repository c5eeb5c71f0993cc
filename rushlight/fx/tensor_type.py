"""Types of tensors by their sizes, some of which may be anything."""

__all__ = ["Dyn", "TensorType", "is_consistent", "is_more_precise"]


class _DynType:
    """A size, or a type, that may be anything."""

    def __init__(self):
        self.__name__ = "_DynType"

    def __eq__(self, other):
        return isinstance(other, type(self))

    def __hash__(self):
        return hash(type(self).__name__)

    def __str__(self):
        return "Dyn"

    __repr__ = __str__


Dyn = _DynType()


class TensorType:
    """A tensor of given sizes.

    >>> TensorType((1, Dyn)) == TensorType([1, Dyn])
    True
    """

    def __init__(self, dim):
        self.__origin__ = TensorType
        self.__args__ = tuple(dim)

    def __repr__(self):
        return f"TensorType[{self.__args__}]"

    def __eq__(self, other):
        return isinstance(other, type(self)) and self.__args__ == other.__args__

    def __hash__(self):
        return hash(self.__args__)

    @staticmethod
    def __class_getitem__(*args):
        dim = args[0] if len(args) == 1 and isinstance(args[0], tuple) else args
        return TensorType(tuple(dim))


def is_consistent(t1, t2):
    """Whether two types can be of one value.

    >>> is_consistent(TensorType((1, Dyn)), TensorType((1, 2)))
    True
    """
    if t1 == t2 or t1 == Dyn or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        same = len(t1.__args__) == len(t2.__args__)
        return same and all(map(is_consistent, t1.__args__, t2.__args__))
    return False


def is_more_precise(t1, t2):
    """Whether the first type says all that the second does.

    >>> is_more_precise(TensorType((1, 2)), TensorType((1, Dyn)))
    True
    """
    if t1 == t2 or t2 == Dyn:
        return True
    if isinstance(t1, TensorType) and isinstance(t2, TensorType):
        same = len(t1.__args__) == len(t2.__args__)
        return same and all(map(is_more_precise, t1.__args__, t2.__args__))
    return False
