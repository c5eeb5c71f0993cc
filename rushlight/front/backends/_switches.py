"""What the modules of switches share: truth values, words of precision, blocks."""

import types

from rushlight.core.state import AttributeScope
from rushlight.core.truth import truth_of_switch

ARGUMENTS = (
    "_set_fp32_precision_setter(): incompatible function arguments. The following argument "
    "types are supported:\n    1. (arg0: str, arg1: str, arg2: str) -> str"
)


class Switches(types.ModuleType):
    """A module that refuses to have its truth values replaced by something else.

    Such a module names PyTorch's setter of each in ``SETTERS``.
    """

    SETTERS: dict[str, str]

    def __setattr__(self, name, value):
        setter = self.SETTERS.get(name)
        if setter is not None:
            truth_of_switch(setter, value)
        super().__setattr__(name, value)


class LibrarySwitches(Switches):
    """A library's module: its precision, kept in ``_all``, is that of all its operators."""

    @property
    def fp32_precision(self):
        """The word for all of the library's operators that have none of their own."""
        return self._all.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, word):
        self._all.fp32_precision = word


class Precision:
    """The precision of float32 in some operators, as a word.

    Attributes:
        backend: ``generic`` for all, ``cuda`` or ``mkldnn``.
        own: its word, before that of the wider one is asked.
        wider: the precision of more operators, or None.
    """

    def __init__(self, backend, own="none", wider=None):
        self.backend, self.own, self.wider = backend, own, wider

    @property
    def fp32_precision(self):
        """``ieee``, ``tf32`` or ``bf16``, or ``none`` where nobody said."""
        if self.own != "none" or self.wider is None:
            return self.own
        return self.wider.fp32_precision

    @fp32_precision.setter
    def fp32_precision(self, word):
        self.own = checked_precision(self.backend, word)


def checked_precision(backend, word):
    """A word for a precision that a backend has.

    Args:
        backend: ``generic``, ``cuda`` or ``mkldnn``.
        word: what was given.

    Raises:
        TypeError: it is no word.
        RuntimeError: no precision, or not one of the backend's.

    >>> checked_precision("cuda", "tf32")
    'tf32'
    """
    if not isinstance(word, str):
        raise TypeError(f"{ARGUMENTS}\n\nInvoked with: {backend!r}, {word!r}")
    if word not in ("ieee", "tf32", "bf16", "none"):
        raise RuntimeError(f"Unknown precision: {word}")
    if word == "bf16" and backend == "cuda":
        raise RuntimeError(f"backend {backend!r} does not support precision {word!r}")
    return word


GENERIC = Precision("generic")


def replace(module, names, values):
    """Gives a module's switches other values.

    Args:
        module: the module.
        names: names of switches.
        values: a new value of each; None leaves it as it is.

    Returns:
        the values before.
    """
    before = tuple(getattr(module, name) for name in names)
    for name, value in zip(names, values):
        if value is not None:
            setattr(module, name, value)
    return before


def replaced(module, **values):
    """A block in which a module's switches have other values; None leaves one as it is."""
    given = {name: value for name, value in values.items() if value is not None}
    return AttributeScope(module, **given)
