"""Random bits as a launch, for who writes launches down to do them again elsewhere.

The words are those that the generator would give to whoever fills memory himself, so that
what is made of them by other launches is what a distribution of `random` gives.
"""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t, uint32_t, uintptr_t
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.random.generator import (
    Generator,
    generator_or_default,
    tempered,
    twist,
)
from cython.cimports.rushlight.runtime.cpu.launch import (
    launch_kernel,
    run_here,
    watched,
)

STREAM_BYTES = 2504  # of a generator: 624 words, how many are left, and which is next


@cython.cfunc
@cython.inline
@cython.nogil
@cython.exceptval(check=False)
def next_word(stream: cython.pointer(uint32_t)) -> uint32_t:
    """The next word of a generator's 624, of how many are left and which is next."""
    if stream[624] == 1:
        twist(stream)
        stream[624] = 625
        stream[625] = 0
    at: uint32_t = stream[625]
    stream[624] -= 1
    stream[625] = at + 1
    return tempered(stream[at])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def random_bits(
    data: cython.pp_char,
    ints: cython.pointer(cython.const[int64_t]),
    begin: int64_t,
    end: int64_t,
) -> cython.int:
    """Integers of 24 bits, or of 53 where ``ints[0]``, of the generator at ``data[0]``."""
    stream: cython.pointer(uint32_t) = cython.cast(cython.pointer(uint32_t), data[0])
    out: cython.pointer(int64_t) = cython.cast(cython.pointer(int64_t), data[1])
    i: int64_t
    word: int64_t
    for i in range(begin, end):
        word = next_word(stream)
        if ints[0]:
            out[i] = ((word & 0x1FFFFF) << 32) | next_word(stream)
        else:
            out[i] = word & 0xFFFFFF
    return 0


def stream_address(generator=None) -> int:
    """Where a generator's words are."""
    return cython.cast(uintptr_t, generator_or_default(generator).state)


def host_tasks() -> dict:
    """The task that a library without Python has in C, by where it starts here."""
    return {cython.cast(uintptr_t, random_bits): "random_bits"}


def draw_bits(out: Tensor, wide: cython.bint) -> None:
    """Fills int64 elements with 53 random bits each, or with 24.

    Args:
        out: a row-major tensor on the host.
        wide: whether they are 53.
    """
    source: Generator = generator_or_default(None)
    data: cython.p_char[2]
    ints: int64_t[1]
    ints[0] = wide
    data[0], data[1] = cython.cast(cython.p_char, source.state), out.pointer()
    count: int64_t = out.numel_
    if watched:
        launch_kernel(random_bits, data, 2, ints, 1, count, count, cython.NULL, 0)
    run_here(random_bits, data, ints, count)
