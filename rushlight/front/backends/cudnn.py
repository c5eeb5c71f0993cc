"""cuDNN, which convolves on cards where it is there, and the switches that it obeys.

The precision of float32 is a word for each kind of operator, ``ieee`` or ``tf32``; where
it is ``none``, that of the library holds, and then that of all backends.

>>> import rushlight.backends.cudnn as cudnn
>>> cudnn.allow_tf32, cudnn.conv.fp32_precision
(True, 'tf32')
>>> cudnn.allow_tf32 = False
>>> cudnn.conv.fp32_precision
'none'
>>> cudnn.allow_tf32 = True
"""

from __future__ import annotations

import sys
import types

from rushlight import backends
from rushlight.backends import set_flags

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False

_WORDS = ("ieee", "tf32", "none")
_own = "none"


class Precision:
    """The precision of one kind of operator.

    Attributes:
        own: its word, before that of the library is asked.
    """

    def __init__(self):
        self.own = "tf32"

    @property
    def fp32_precision(self):
        """``ieee``, ``tf32``, or ``none`` where nobody said."""
        found = (self.own, _own, backends.fp32_precision)
        return next((word for word in found if word != "none"), "none")

    @fp32_precision.setter
    def fp32_precision(self, word):
        self.own = _known(word)


def _known(word):
    if word not in _WORDS:
        raise RuntimeError(f"Unknown precision: {word}")
    return word


conv = Precision()
rnn = Precision()


class _Switches(types.ModuleType):
    """This module: two of its switches are functions of the others."""

    @property
    def allow_tf32(self):
        """Whether convolutions of float32 may round factors to ten digits."""
        return conv.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        conv.own = rnn.own = "tf32" if allowed else "none"

    @property
    def fp32_precision(self):
        """The word for all of the library's operators that have none of their own."""
        return backends.fp32_precision if _own == "none" else _own

    @fp32_precision.setter
    def fp32_precision(self, word):
        global _own
        _own = _known(word)


def _library():
    """The library's functions, or None where it is not on this machine."""
    from rushlight.runtime.cuda.libraries import CUDNN

    return CUDNN.bindings() if CUDNN.present() else None


def version():
    """The version of the library as a number; None where there is none."""
    found = _library()
    return None if found is None else int(found.backend_version())


def is_available():
    """Whether the library is there, and a card."""
    from rushlight.cuda import is_available

    return is_available() and _library() is not None


def is_acceptable(tensor):
    """Whether the library would take a tensor."""
    names = ("float16", "float32", "float64")
    return bool(
        enabled and tensor.is_cuda and tensor.dtype.name in names and is_available()
    )


def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
):
    """A block with other values of the switches."""
    return set_flags(
        sys.modules[flags.__module__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


sys.modules[__name__].__class__ = _Switches
