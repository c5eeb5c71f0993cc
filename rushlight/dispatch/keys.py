"""Dispatch keys: their names and their order. A higher number runs first."""

import enum


class DispatchKey(enum.IntEnum):
    """What may want a say in a call, lowest priority first.

    Args:
        value: the key's number.

    >>> DispatchKey.Autograd > DispatchKey.CPU
    True
    """

    CPU = 0
    CUDA = 1
    Meta = 2
    PrivateUse1 = 3
    SparseCPU = 4
    SparseCsrCPU = 5
    QuantizedCPU = 6
    Recording = 7
    BackendSelect = 8
    Planning = 9
    Python = 10
    Functionalize = 11
    Conjugate = 12
    Negative = 13
    Below = 14
    ADInplaceOrView = 16
    Autograd = 17
    Decompose = 18
    ValueType = 19  # of types that compute on values, whose calls are recorded
    Autocast = 20
    Batched = 24
    ForwardAD = 25
    OperatorTrace = 28
    PreDispatch = 29
    PythonDispatcher = 30
    Profiling = 31


BACKENDS = (
    DispatchKey.CPU,
    DispatchKey.CUDA,
    DispatchKey.Meta,
    DispatchKey.PrivateUse1,
)

_BACKEND_NAMES = tuple(key.name for key in BACKENDS)
# Names that stand for several keys.
ALIASES = {"CompositeExplicitAutograd": BACKENDS}
# What each backend may have an entry of its own for, under names such as "AutogradCPU".
BY_BACKEND = (DispatchKey.Autograd, DispatchKey.Autocast)


def keys_named(name):
    """The keys that ``name`` stands for.

    A key that is meant for one backend alone comes as a pair with the backend's.

    Raises:
        ValueError: no key has that name.

    >>> keys_named("Meta")
    (<DispatchKey.Meta: 2>,)
    >>> keys_named("AutogradCPU")
    ((<DispatchKey.Autograd: 17>, <DispatchKey.CPU: 0>),)
    """
    if isinstance(name, DispatchKey):
        return (name,)
    if name in ALIASES:
        return ALIASES[name]
    if name in DispatchKey.__members__:
        return (DispatchKey[name],)
    for key in BY_BACKEND:
        backend = name.removeprefix(key.name)
        if name.startswith(key.name) and backend in _BACKEND_NAMES:
            return ((key, DispatchKey[backend]),)
    raise ValueError(
        f"could not parse dispatch key: '{name}'. Keys are "
        + ", ".join(DispatchKey.__members__)
        + ", "
        + ", ".join(ALIASES)
        + ", "
        + ", ".join(
            f"{key.name}{backend}" for key in BY_BACKEND for backend in _BACKEND_NAMES
        )
        + ", CompositeImplicitAutograd"
    )


class KeySet:
    """The keys alive for one call, one bit a key.

    >>> KeySet.of(DispatchKey.CPU, DispatchKey.Autograd).highest()
    <DispatchKey.Autograd: 17>
    """

    __slots__ = ("bits",)

    def __init__(self, bits=0):
        self.bits = bits

    @classmethod
    def of(cls, *keys):
        """The set of the given keys."""
        bits = 0
        for key in keys:
            bits |= 1 << key
        return cls(bits)

    def highest(self):
        """The key that runs first; None in an empty set."""
        return DispatchKey(self.bits.bit_length() - 1) if self.bits else None

    def has(self, key):
        """Whether ``key`` is in the set."""
        return bool(self.bits >> key & 1)

    def add(self, key):
        """The set with ``key``."""
        return KeySet(self.bits | 1 << key)

    def remove(self, key):
        """The set without ``key``."""
        return KeySet(self.bits & ~(1 << key))

    def below(self, key):
        """The keys still to run once ``key`` has handled the call."""
        return KeySet(self.bits & ((1 << key) - 1))

    def __or__(self, other):
        return KeySet(self.bits | other.bits)

    def __and__(self, other):
        return KeySet(self.bits & other.bits)

    def __sub__(self, other):
        return KeySet(self.bits & ~other.bits)

    def __eq__(self, other):
        return isinstance(other, KeySet) and self.bits == other.bits

    def __hash__(self):
        return hash(self.bits)

    def __iter__(self):
        return (key for key in sorted(DispatchKey, reverse=True) if self.has(key))

    def __repr__(self):
        return f"KeySet({', '.join(key.name for key in self)})"
