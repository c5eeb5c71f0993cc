"""Host memory that betrays its misuse, for tests: RUSHLIGHT_GUARD=1 turns it on.

Each block is mapped on its own and ends at a page that nobody may touch, so that an
access behind it, or after it has been given back, stops the program where it happens.
The bytes before a block, and the few that alignment leaves behind it, hold a pattern
that is checked when the block is given back. Fresh memory is full of the pattern, too:
as a float it is a huge number, which shows where something is read before it is written.
"""

import os

import cython
from cython.cimports.libc.stdio import fprintf, stderr
from cython.cimports.libc.stdlib import abort
from cython.cimports.libc.string import memset
from cython.cimports.rushlight.core.posix import (
    MAP_ANONYMOUS,
    MAP_FAILED,
    MAP_PRIVATE,
    PROT_NONE,
    PROT_READ,
    PROT_WRITE,
    mmap,
    mprotect,
    munmap,
)

PAGE = cython.declare(cython.size_t, 4096)
ENDS = cython.declare(cython.size_t, 1 << 28)
LINE = cython.declare(cython.size_t, 64)  # every block starts at a multiple
PATTERN = cython.declare(cython.uchar, 0x7B)
guarding = cython.declare(cython.bint, os.environ.get("RUSHLIGHT_GUARD") == "1")


@cython.cfunc
@cython.exceptval(check=False)
def rounded(n_bytes: cython.size_t, unit: cython.size_t) -> cython.size_t:
    return (n_bytes + unit - 1) // unit * unit


@cython.cfunc
@cython.exceptval(check=False)
def guarded_block(n_bytes: cython.size_t) -> cython.p_char:
    """A block of its own mapping, or NULL where the system has none."""
    body: cython.size_t = rounded(n_bytes, LINE)
    size: cython.size_t = rounded(body + LINE, PAGE)
    block: cython.p_void = mmap(
        cython.NULL,
        size + PAGE,
        PROT_READ | PROT_WRITE,
        MAP_PRIVATE | MAP_ANONYMOUS,
        -1,
        0,
    )
    if block == MAP_FAILED:
        return cython.NULL
    start: cython.p_char = cython.cast(cython.p_char, block)
    mprotect(cython.cast(cython.p_void, start + size), PAGE, PROT_NONE)
    # of a huge block, which the system may not really have, both ends
    memset(block, PATTERN, min(size, ENDS))
    if size > ENDS:
        memset(cython.cast(cython.p_void, start + size - ENDS), PATTERN, ENDS)
    return start + size - body


@cython.cfunc
@cython.exceptval(check=False)
def drop_guarded(data: cython.p_char, n_bytes: cython.size_t) -> cython.void:
    body: cython.size_t = rounded(n_bytes, LINE)
    size: cython.size_t = rounded(body + LINE, PAGE)
    start: cython.p_char = data + body - size
    i: cython.size_t
    for i in range(size - body):
        if cython.cast(cython.uchar, start[i]) != PATTERN:
            betray(data, n_bytes, cython.cast(cython.Py_ssize_t, i) - (data - start))
    for i in range(n_bytes, body):
        if cython.cast(cython.uchar, data[i]) != PATTERN:
            betray(data, n_bytes, i)
    munmap(cython.cast(cython.p_void, start), size + PAGE)


@cython.cfunc
@cython.exceptval(check=False)
def betray(
    data: cython.p_char, n_bytes: cython.size_t, at: cython.Py_ssize_t
) -> cython.void:
    fprintf(
        stderr,
        b"rushlight: byte %zd of a block of %zu bytes at %p was written\n",
        at,
        n_bytes,
        cython.cast(cython.p_void, data),
    )
    abort()
