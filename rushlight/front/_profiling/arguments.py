"""Recorded arguments of calls: bytes, until somebody looks at them."""

import struct
from typing import NamedTuple

from rushlight.core.dtype import all_dtypes


class TensorFacts(NamedTuple):
    """What a recording knows of a tensor that a call was given, or gave."""

    shape: tuple
    strides: tuple
    dtype: object
    address: int
    offset: int


_DTYPES = {dtype.code: dtype for dtype in all_dtypes().values()}


def read_facts(fact):
    """A recorded argument: of tensors `TensorFacts`, or a list of them; other values."""
    if type(fact) is bytes:
        numbers = struct.unpack(f"{len(fact) // 8}q", fact)
        n = (len(numbers) - 3) // 2
        sizes, strides = numbers[3 : 3 + n], numbers[3 + n :]
        return TensorFacts(sizes, strides, _DTYPES[numbers[0]], *numbers[1:3])
    if type(fact) is tuple:
        return [read_facts(one) for one in fact]
    return fact
