"""``OrderedSet``: a set whose elements stay in the order in which they came."""

from collections.abc import Iterable, MutableSet, Reversible

__all__ = ["OrderedSet"]


class OrderedSet(MutableSet, Reversible):
    """A set that is gone through in the order of insertion.

    Args:
        iterable: its first elements.

    >>> OrderedSet([3, 1, 3]) | [2]
    OrderedSet([3, 1, 2])
    """

    __slots__ = ("_dict",)

    def __init__(self, iterable=None):
        self._dict = dict.fromkeys(() if iterable is None else iterable)

    def __contains__(self, elem):
        return elem in self._dict

    def __iter__(self):
        return iter(self._dict)

    def __len__(self):
        return len(self._dict)

    def __reversed__(self):
        return reversed(self._dict)

    def __repr__(self):
        return f"{type(self).__name__}({list(self)})"

    def __getstate__(self):
        return list(self._dict.keys())

    def __setstate__(self, state):
        self._dict = dict.fromkeys(state)

    def add(self, elem):
        """Puts an element last that is not there yet."""
        self._dict[elem] = None

    def discard(self, elem):
        """Takes an element out that may be there."""
        self._dict.pop(elem, None)

    def clear(self):
        """Takes all elements out."""
        self._dict.clear()

    def pop(self):
        """Takes out the last element and gives it.

        Raises:
            KeyError: there is none.
        """
        if not self:
            raise KeyError("pop from an empty set")
        return self._dict.popitem()[0]

    def copy(self):
        """A set of the same elements."""
        return OrderedSet(self)

    def update(self, *others):
        """Puts the elements of others last."""
        for other in others:
            self |= other

    def union(self, *others):
        """Its elements, and then those of others."""
        result = self.copy()
        result.update(*others)
        return result

    def intersection(self, *others):
        """The elements that all others have, too."""
        kept = [set(other) for other in others]
        return OrderedSet(x for x in self if all(x in other for other in kept))

    def intersection_update(self, *others):
        """Keeps the elements that all others have."""
        self._dict = self.intersection(*others)._dict

    def difference(self, *others):
        """The elements that no other has."""
        gone = set().union(*others)
        return OrderedSet(x for x in self if x not in gone)

    def difference_update(self, *others):
        """Keeps the elements that no other has."""
        self._dict = self.difference(*others)._dict

    def symmetric_difference(self, other):
        """The elements that only one of two sets has."""
        return self ^ OrderedSet(other)

    def symmetric_difference_update(self, other):
        """Keeps what only one of two sets has."""
        self ^= OrderedSet(other)

    def issubset(self, other):
        """Whether another set has all of its elements."""
        return self <= _as_set(other)

    def issuperset(self, other):
        """Whether it has all elements of another."""
        return self >= _as_set(other)

    def __and__(self, other):
        return OrderedSet(x for x in _iterable(other) if x in self)

    def __or__(self, other):
        return self.union(_iterable(other))

    def __sub__(self, other):
        return self.difference(_iterable(other))

    def __ior__(self, other):
        for elem in _iterable(other):
            self._dict[elem] = None
        return self


def _iterable(other):
    if not isinstance(other, Iterable):
        raise TypeError(f"'{type(other).__name__}' object is not iterable")
    return other


def _as_set(other):
    return other if isinstance(other, OrderedSet) else OrderedSet(other)
