"""Memory that kernels work in: one block for each thread, kept from call to call.

A kernel whose arrays would not fit a small stack asks for it as it starts; kernels do
not call one another, so one block is enough. It grows to the largest request, and goes
with its thread.
"""

import cython
from cython.cimports.libc.stdint import int64_t, uintptr_t
from cython.cimports.libc.stdlib import free
from cython.cimports.rushlight.core.posix import (
    posix_memalign,
    pthread_getspecific,
    pthread_key_create,
    pthread_key_t,
    pthread_setspecific,
)

PAGE = cython.declare(int64_t, 4096)
block = cython.declare(pthread_key_t)  # a thread's memory: its size, then what is lent


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def scratch(size: int64_t) -> cython.p_char:
    """At least ``size`` bytes on a page of their own; NULL where there is no memory."""
    held: cython.p_void = pthread_getspecific(block)
    if held == cython.NULL or cython.cast(cython.pointer(int64_t), held)[0] < size:
        pthread_setspecific(block, cython.NULL)
        free(held)
        if posix_memalign(cython.address(held), PAGE, PAGE + size) != 0:
            return cython.NULL
        cython.cast(cython.pointer(int64_t), held)[0] = size
        pthread_setspecific(block, held)
    return cython.cast(cython.p_char, held) + PAGE


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def give_back(held: cython.p_void) -> cython.void:
    """Frees the block of a thread that ends."""
    free(held)


def scratch_address() -> int:
    """Where `scratch` lies, for code that is loaded by other means than `image`."""
    return cython.cast(uintptr_t, cython.cast(cython.p_void, scratch))


if pthread_key_create(cython.address(block), give_back) != 0:
    raise ImportError("rushlight: no thread-specific storage key is left")
