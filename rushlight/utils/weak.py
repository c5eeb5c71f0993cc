"""Weak references to tensors, and dictionaries whose keys are objects themselves.

A tensor's ``==`` compares elements, so that a dictionary of tensors has to go by
identity; ``weakref.WeakKeyDictionary`` goes by equality.
"""

import collections.abc
import weakref

from rushlight.core.tensor import Tensor

__all__ = [
    "TensorWeakRef",
    "WeakIdKeyDictionary",
    "WeakIdRef",
    "WeakRef",
    "WeakTensorKeyDictionary",
]

WeakRef = weakref.ref


class WeakIdRef(weakref.ref):
    """A weak reference that equals others to the same object, and hashes by identity.

    >>> x = rl.ones(2)
    >>> WeakIdRef(x) == WeakIdRef(x), WeakIdRef(x) == WeakIdRef(rl.ones(2))
    (True, False)
    """

    __slots__ = ("_id",)

    def __init__(self, key, callback=None):
        self._id = id(key)
        super().__init__(key, callback)

    def __call__(self):
        return super().__call__()

    def __hash__(self):
        return self._id

    def __eq__(self, other):
        if not isinstance(other, weakref.ref):
            return NotImplemented
        one, another = self(), other()
        if one is not None and another is not None:
            return one is another
        return self is other


class WeakIdKeyDictionary(collections.abc.MutableMapping):
    """Values by objects, kept while the objects live; keys are compared by identity.

    Args:
        dict: pairs to begin with, or a mapping.
        ref_type: the kind of reference that keys are kept by.

    >>> key = rl.ones(2)
    >>> notes = WeakIdKeyDictionary({key: "ones"})
    >>> notes[key], len(notes)
    ('ones', 1)
    >>> del key
    >>> len(notes)
    0
    """

    def __init__(self, dict=None, ref_type=WeakIdRef):
        self.data = {}
        self.ref_type = ref_type
        me = weakref.ref(self)

        def forget(reference):
            mine = me()
            if mine is not None:
                mine.data.pop(reference, None)

        self._forget = forget
        if dict is not None:
            self.update(dict)

    def __getitem__(self, key):
        return self.data[self.ref_type(key)]

    def __setitem__(self, key, value):
        self.data[self.ref_type(key, self._forget)] = value

    def __delitem__(self, key):
        del self.data[self.ref_type(key)]

    def __contains__(self, key):
        try:
            return self.ref_type(key) in self.data
        except TypeError:  # what has no weak references is nobody's key
            return False

    def __len__(self):
        return sum(1 for reference in list(self.data) if reference() is not None)

    def __iter__(self):
        for reference in list(self.data):
            key = reference()
            if key is not None:
                yield key

    def __repr__(self):
        return f"<{type(self).__name__} at {id(self):#x}>"

    def keyrefs(self):
        """The weak references to the keys."""
        return list(self.data)

    def copy(self):
        """Another dictionary of the same keys and values."""
        made = type(self)(ref_type=self.ref_type)
        made.update(self)
        return made

    __copy__ = copy

    def __deepcopy__(self, memo):
        from copy import deepcopy

        made = type(self)(ref_type=self.ref_type)
        made.update({key: deepcopy(value, memo) for key, value in self.items()})
        return made

    def __ior__(self, other):
        self.update(other)
        return self

    def __or__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        made = self.copy()
        made.update(other)
        return made

    def __ror__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        made = type(self)(ref_type=self.ref_type)
        made.update(other)
        made.update(self)
        return made

    def __eq__(self, other):
        if not isinstance(other, collections.abc.Mapping):
            return NotImplemented
        mine = {id(key): value for key, value in self.items()}
        return mine == {id(key): value for key, value in other.items()}


# Tensors compare by identity in the references above already.
WeakTensorKeyDictionary = WeakIdKeyDictionary


class TensorWeakRef:
    """A weak reference to a tensor.

    Args:
        tensor: the tensor.

    >>> x = rl.ones(2)
    >>> TensorWeakRef(x)() is x
    True
    """

    __slots__ = ("ref",)

    def __init__(self, tensor):
        assert isinstance(tensor, Tensor), "a TensorWeakRef is of a tensor"
        self.ref = WeakIdRef(tensor)

    def __call__(self):
        return self.ref()
