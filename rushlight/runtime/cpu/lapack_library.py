"""OpenBLAS, the library that LAPACK's routines come from: found, loaded when first needed.

It is the one of the wheel `scipy-openblas32`. Its own threads are for large matrices that
come alone: they wait for each other by spinning, which costs more than it brings where
another process has a core.
"""

from __future__ import annotations

import contextlib
import glob
import importlib.util
import os
import threading

import cython
from cython.cimports.libc.stdint import uintptr_t
from cython.cimports.posix.dlfcn import RTLD_LOCAL, RTLD_NOW, dlerror, dlopen, dlsym

# The routines in the order of their numbers, as they are called for real and for complex
# numbers.
_NAMES = (
    ("potrf", "potrf"),
    ("potri", "potri"),
    ("potrs", "potrs"),
    ("getrf", "getrf"),
    ("getrs", "getrs"),
    ("trsm", "trsm"),
    ("geqrf", "geqrf"),
    ("orgqr", "ungqr"),
    ("ormqr", "unmqr"),
    ("gesdd", "gesdd"),
    ("geev", "geev"),
    ("syevd", "heevd"),
    ("sytrf", "sytrf"),
    ("sytrs", "sytrs"),
    ("sytrf", "hetrf"),
    ("sytrs", "hetrs"),
    ("gels", "gels"),
    ("gelsy", "gelsy"),
    ("gelsd", "gelsd"),
    ("gelss", "gelss"),
)

_functions = cython.declare(cython.p_void[80])
_library = cython.declare(cython.p_void)
_set_threads = cython.declare(set_threads_t)
_threads = cython.declare(cython.int, 0)
_loading = threading.Lock()


def library_path() -> str:
    """Where OpenBLAS's shared library lies.

    Raises:
        RuntimeError: it is not installed.
    """
    spec = importlib.util.find_spec("scipy_openblas32")
    if spec is not None:
        for folder in spec.submodule_search_locations:
            found = glob.glob(os.path.join(folder, "lib", "libscipy_openblas*.*"))
            if found:
                return sorted(found)[0]
    raise RuntimeError(
        "linear algebra needs LAPACK, and it was not found\n"
        "  remedy: pip install scipy-openblas32"
    )


@contextlib.contextmanager
def plain_kernels():
    """While the library is loaded it takes its kernels for AVX2, unless told otherwise.

    Those for AVX-512 solve triangles at half their speed, and are no faster elsewhere.
    """
    from rushlight.runtime.cpu.code_cache import cpu_identity

    chosen = "OPENBLAS_CORETYPE" in os.environ or "avx512" not in cpu_identity()
    if not chosen:
        os.environ["OPENBLAS_CORETYPE"] = "Haswell"
    try:
        yield
    finally:
        if not chosen:
            del os.environ["OPENBLAS_CORETYPE"]


def load() -> None:
    """Loads the library and looks up every routine; later calls find it done."""
    global _library, _set_threads
    with _loading:
        if _library != cython.NULL:
            return
        path = os.fsencode(library_path())
        with plain_kernels():
            found: cython.p_void = dlopen(path, RTLD_NOW | RTLD_LOCAL)
        if found == cython.NULL:
            raise RuntimeError(f"LAPACK: {dlerror().decode()}")
        for number in range(len(_NAMES)):
            for kind in range(4):
                symbol = symbol_of(number, kind).encode()
                _functions[4 * number + kind] = dlsym(found, symbol)
                if _functions[4 * number + kind] == cython.NULL:
                    raise RuntimeError(
                        f"LAPACK: {os.fsdecode(path)} has no {symbol.decode()}"
                    )
        _set_threads = cython.cast(
            set_threads_t, dlsym(found, b"scipy_openblas_set_num_threads")
        )
        _library = found


@cython.cfunc
def routine(number: cython.int, kind: cython.int) -> cython.p_char:
    """A routine's address, as the tasks take it."""
    if _library == cython.NULL:
        load()
    return cython.cast(cython.p_char, _functions[4 * number + kind])


_by_address: dict = {}


def routine_name(address):
    """What the library calls the routine that starts at an address; None if none does."""
    if not _by_address and _library != cython.NULL:
        for number in range(len(_NAMES)):
            for kind in range(4):
                at = cython.cast(uintptr_t, _functions[4 * number + kind])
                _by_address[at] = symbol_of(number, kind)
    return _by_address.get(address)


def symbol_of(number, kind) -> str:
    """What the library calls a routine for a kind of numbers."""
    return f"scipy_{'sdcz'[kind]}{_NAMES[number][kind > 1]}_"


@cython.cfunc
@cython.exceptval(-1)
def use_threads(wanted: cython.int) -> cython.int:
    """Tells the library how many threads of its own it may use, if it is loaded."""
    global _threads
    if wanted != _threads and _library != cython.NULL:
        _threads = wanted
        _set_threads(wanted)
    return 0
