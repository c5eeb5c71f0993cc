"""What a process has chosen for its kernels: one number that holds every choice.

What was made while some choice held (a plan of launches, a path of a compiled function) is
for that choice: it is found by this number, so that a new switch needs no list of those who
must be told. Each switch has its own bits of it.

>>> switch("math_sdp")
1
>>> set_switch("math_sdp", 0)
1
>>> set_switch("math_sdp", 1)
0
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t

# Name, bits, value at the start.
_DECLARED = (
    ("deterministic", 2, 0),  # 1: warn of what is not, 2: refuse it
    ("fill_uninitialized_memory", 1, 1),
    ("warn_always", 1, 0),
    ("flash_sdp", 1, 1),
    ("mem_efficient_sdp", 1, 1),
    ("math_sdp", 1, 1),
    ("cudnn_sdp", 1, 1),
    # What products of float32 matrices may lose: nothing, or the bits that TF32 has not
    ("float32_matmul", 2, 0),
)
BITS = sum(width for _, width, _ in _DECLARED)
_bits = cython.declare(int64_t, 0)
_FIELDS: dict = {}


def switch(name):
    """The value of a switch."""
    shift, mask = _FIELDS[name]
    return (_bits >> shift) & mask


def set_switch(name, value):
    """Changes a switch and returns what it was.

    Raises:
        ValueError: the switch has no such position.
    """
    global _bits
    shift, mask = _FIELDS[name]
    if not 0 <= value <= mask:
        raise ValueError(f"{name} is no more than {mask}, got {value}")
    before = (_bits >> shift) & mask
    _bits = (_bits & ~(mask << shift)) | (value << shift)
    return before


def bits():
    """All of them as one number."""
    return _bits


@cython.cfunc
@cython.exceptval(check=False)
def switch_bits() -> int64_t:
    """The same for compiled callers."""
    return _bits


def _declare():
    at = 0
    for name, width, value in _DECLARED:
        _FIELDS[name] = (at, (1 << width) - 1)
        at += width
        set_switch(name, value)


_declare()
