"""cuDNN, which convolves on devices where it is there, and the switches that it obeys.

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

import sys

from rushlight.backends._switches import (
    GENERIC,
    LibrarySwitches,
    Precision,
    replace,
    replaced,
)
from rushlight.core.truth import truth_of_switch

enabled = True
benchmark = False
benchmark_limit = 10
deterministic = False

NAMES = (
    "enabled benchmark benchmark_limit deterministic allow_tf32 fp32_precision".split()
)
_all = Precision("cuda", wider=GENERIC)
conv = Precision("cuda", "tf32", _all)
rnn = Precision("cuda", "tf32", _all)


class _Switches(LibrarySwitches):
    """This module: two of its switches are functions of the others."""

    SETTERS = {
        "enabled": "set_enabled_cudnn",
        "benchmark": "set_benchmark_cudnn",
        "deterministic": "set_deterministic_cudnn",
    }

    @property
    def allow_tf32(self):
        """Whether convolutions of float32 may round factors to ten digits."""
        return conv.fp32_precision == "tf32"

    @allow_tf32.setter
    def allow_tf32(self, allowed):
        truth_of_switch("set_allow_tf32_cublas", allowed)
        conv.own = rnn.own = "tf32" if allowed else "none"


def _library():
    """The library's functions, or None where it is not on this machine."""
    from rushlight.runtime.cuda.libraries import CUDNN

    return CUDNN.bindings() if CUDNN.present() else None


def version():
    """The version of the library as a number; None where there is none."""
    found = _library()
    return None if found is None else int(found.backend_version())


def is_available():
    """Whether the library is there, and a device."""
    from rushlight.cuda import is_available

    return is_available() and _library() is not None


def is_acceptable(tensor):
    """Whether the library would take a tensor."""
    names = ("float16", "float32", "float64")
    return bool(
        enabled and tensor.is_cuda and tensor.dtype.name in names and is_available()
    )


def set_flags(
    _enabled=None,
    _benchmark=None,
    _benchmark_limit=None,
    _deterministic=None,
    _allow_tf32=None,
    _fp32_precision="none",
):
    """Gives switches other values; returns those before.

    Args: the switches in their order; None leaves one as it is.
    """
    given = (_enabled, _benchmark, _benchmark_limit, _deterministic, _allow_tf32)
    return replace(sys.modules[__name__], NAMES, (*given, _fp32_precision))


def flags(
    enabled=False,
    benchmark=False,
    benchmark_limit=10,
    deterministic=False,
    allow_tf32=True,
    fp32_precision="none",
):
    """A block with other values of the switches."""
    return replaced(
        sys.modules[__name__],
        enabled=enabled,
        benchmark=benchmark,
        benchmark_limit=benchmark_limit,
        deterministic=deterministic,
        allow_tf32=allow_tf32,
        fp32_precision=fp32_precision,
    )


sys.modules[__name__].__class__ = _Switches
