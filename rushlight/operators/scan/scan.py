"""Running sums, products and extremes along one axis: the compiled part.

The kernels, and how they see a tensor, are in `rushlight.kernels.scan.scan_kernels`.
"""

from __future__ import annotations

import importlib

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.device import backend_of
from cython.cimports.rushlight.core.dtype import (
    CODE_BOOL,
    COMPLEX,
    FLOATING,
    DType,
    dtype_of,
)
from cython.cimports.rushlight.core.geometry import wrap_dim
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.tensor import Tensor, new_empty
from cython.cimports.rushlight.dispatch.kernel_table import KernelTable
from cython.cimports.rushlight.dispatch.launchers import grain_for, launch_host

from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators.loop_calls import run

COLUMNS = cython.declare(int64_t, 64)  # rows this wide are added whole, in vectors
EXACT = ("float32", "float64", "int64")  # types that are accumulated as themselves
_NATIVE = cython.declare(dict, {})


@cython.cfunc
def native_for(name: str, dtype: DType, frozen: int64_t):
    """A kernel for a type; ``frozen`` is the inner size or which axis is divided."""
    key = (name, dtype, frozen)
    found = _NATIVE.get(key)
    if found is None:
        source = importlib.import_module("rushlight.kernels.scan.scan_kernels")
        types = choices(name, dtype, frozen)
        found = _NATIVE.setdefault(key, getattr(source, name).specialize(**types))
    return found


@cython.cfunc
def choices(name: str, dtype: DType, frozen: int64_t) -> dict:
    """What a kernel is specialised for."""
    types: dict = {"T": dtype.name}
    if dtype.name == "float32":  # long sums would lose what a double keeps
        types["A"] = "float64"
    if name.endswith("_columns"):
        types["across"] = frozen
    elif frozen == 1:
        types["inner"] = 1
    return types


@cython.cfunc
@cython.exceptval(-1, check=False)
def launch(
    native: object,
    data: cython.pp_char,
    n: cython.int,
    ints: cython.pointer(int64_t),
    n_ints: cython.int,
    total: int64_t,
    grain: int64_t,
) -> cython.int:
    """Runs a kernel of so many pointers and of as many integers as there may be."""
    launch_host(
        native, data, n, ints, n_ints, total, grain, cython.NULL, 0, OBSERVE_ALL
    )
    return 0


@cython.cfunc
@cython.exceptval(check=False)
def around(
    x: Tensor, axis: cython.int, extents: cython.pointer(int64_t)
) -> cython.void:
    """Elements before, along and after a dimension."""
    d: cython.int
    extents[0] = extents[1] = extents[2] = 1
    for d in range(x.ndim_):
        extents[0 if d < axis else 1 if d == axis else 2] *= x.sizes[d]


@cython.cclass
class Scans:
    """Scans on devices whose backend is asked."""

    def cumulate(self, name, out, x, extents):
        """Writes what a kernel makes of the elements so far, in the result's type."""
        frozen: int64_t = 1 if extents[2] == 1 else 0
        ints = [extents[1], extents[2]]
        self.run(name, out.dtype_, frozen, [out, x], ints, extents)
        return 0

    def extremes(self, out, index, x, extents, largest):
        """Writes the extremes so far, and where they were."""
        frozen: int64_t = 1 if extents[2] == 1 else 0
        ints = [extents[1], extents[2]]
        kind = "cummax_kernel" if largest else "cummin_kernel"
        self.run(kind, x.dtype_, frozen, [out, index, x], ints, extents)
        return 0

    def run(self, name, dtype, frozen, tensors, ints, extents):
        """Launches a scan: the backend's own, or one that takes a thread for a row."""
        source = importlib.import_module("rushlight.kernels.scan.scan_kernels")
        found = source.states_of(name, dtype.name)
        if found is not None:
            first: Tensor = tensors[0]
            if backend_of(first.storage.device).libraries.run_scan(
                *found, tensors, extents[0], extents[1], extents[2]
            ):
                return 0
        types = choices(name, dtype, frozen)
        types.pop("A", None)  # GPUs have few units for doubles, and short chains
        run(getattr(source, name), tensors, ints, extents[0] * extents[2], **types)
        return 0


@cython.final
@cython.cclass
class HostScans(Scans):
    """Scans by machine code on the pool: of rows, or of blocks of columns."""

    def cumulate(self, name, out, x, extents):
        ints: int64_t[4]
        data: cython.p_char[2]
        dtype: DType = out.dtype_
        outer: int64_t = extents[0]
        size: int64_t = extents[1]
        inner: int64_t = extents[2]
        data[0] = out.pointer()
        data[1] = x.pointer()
        plain: cython.bint = name == "cumsum_kernel" or name == "cumprod_kernel"
        native: object
        if inner >= COLUMNS and plain and dtype.name in EXACT:
            across: cython.bint = outer == 1
            native = native_for(name.partition("_")[0] + "_columns", dtype, across)
            ints[0] = outer
            ints[1] = size
            ints[2] = inner
            ints[3] = across
            total: int64_t = inner if across else outer
            work: int64_t = grain_for(2 * size * (1 if across else inner))
            launch(native, data, 2, ints, 4, total, max(COLUMNS if across else 1, work))
            return 0
        native = native_for(name, dtype, 1 if inner == 1 else 0)
        ints[0] = size
        ints[1] = inner
        launch(native, data, 2, ints, 2, outer * inner, grain_for(2 * size))
        return 0

    def extremes(self, out, index, x, extents, largest):
        ints: int64_t[2]
        data: cython.p_char[3]
        data[0] = out.pointer()
        data[1] = index.pointer()
        data[2] = x.pointer()
        if extents[2] >= COLUMNS:
            extremes_of_columns(x.dtype_, data, extents, largest)
            return 0
        ints[0] = extents[1]
        ints[1] = extents[2]
        frozen: int64_t = 1 if extents[2] == 1 else 0
        name = "cummax_kernel" if largest else "cummin_kernel"
        native = native_for(name, x.dtype_, frozen)
        total: int64_t = extents[0] * extents[2]
        launch(native, data, 3, ints, 2, total, grain_for(2 * extents[1]))
        return 0


@cython.final
@cython.cclass
class MetaScans(Scans):
    """Nothing is scanned where there are no elements."""

    def cumulate(self, name, out, x, extents):
        return 0

    def extremes(self, out, index, x, extents, largest):
        return 0


_SCANS = cython.declare(
    KernelTable, KernelTable(cpu=HostScans(), cuda=Scans(), meta=MetaScans())
)
scan_forms: object = _SCANS  # `explain` shows them


@cython.cfunc
def scans_of(tensor: Tensor) -> Scans:
    return cython.cast(Scans, _SCANS.form(tensor))


@cython.cfunc
def scan(name: str, self: Tensor, dim: object, wanted: object):
    extents: int64_t[3]
    axis: cython.int = wrap_dim(dim, self.ndim_)
    dtype: DType
    x: Tensor = self
    if wanted is None:
        dtype = dtype_of(4) if x.dtype_.category < FLOATING else x.dtype_
    else:
        dtype = wanted
    if x.dtype_ is not dtype:
        x = self.to(dtype)
    if not x.row_major:
        x = x.contiguous()
    out: Tensor = new_empty(x.ndim_, x.sizes, cython.NULL, dtype, x.storage.device)
    if dtype.code == CODE_BOOL and x.numel_ and x.ndim_:
        kind: str = name.partition("_")[0]
        raise NotImplementedError(f"\"{kind}_out_cpu\" not implemented for 'Bool'")
    if x.numel_:
        around(x, axis, extents)
        scans_of(x).cumulate(name, out, x, extents)
    return out


def cumsum(self: Tensor, dim, dtype=None):
    """Sums of the elements so far along ``dim``; integers and bool become int64."""
    return scan("cumsum_kernel", self, dim, dtype)


def cumprod(self: Tensor, dim, dtype=None):
    """Products of the elements so far along ``dim``; integers and bool become int64."""
    return scan("cumprod_kernel", self, dim, dtype)


def logcumsumexp(self: Tensor, dim):
    """Logarithms of the sums of exponentials so far along ``dim``."""
    wrap_dim(dim, self.ndim_)
    if self.dtype_.category < FLOATING:
        raise NotImplementedError(
            f'"logcumsumexp_out_cpu" not implemented for '
            f"'{TYPE_NAMES[self.dtype_.name]}': convert it to a floating-point type"
        )
    if self.dtype_.category == COMPLEX:
        return scan("logcumsumexp_of_complex", self, dim, self.dtype_)
    return scan("logcumsumexp_kernel", self, dim, self.dtype_)


@cython.cfunc
@cython.exceptval(-1, check=False)
def extremes_of_columns(
    dtype: DType,
    data: cython.pp_char,
    extents: cython.pointer(int64_t),
    largest: cython.int,
) -> cython.int:
    """The kernel of whole rows, divided by columns where they are all one block."""
    ints: int64_t[4]
    work: int64_t = 2 * extents[1]
    across: cython.bint = extents[0] == 1
    name = "cummax_columns" if largest else "cummin_columns"
    native: object = native_for(name, dtype, across)
    ints[0] = extents[0]
    ints[1] = extents[1]
    ints[2] = extents[2]
    ints[3] = across
    if across:
        launch(native, data, 3, ints, 4, extents[2], max(COLUMNS, grain_for(work)))
    else:
        work *= extents[2]
        launch(native, data, 3, ints, 4, extents[0], grain_for(work))
    return 0


@cython.cfunc
def extremes(self: Tensor, dim: object, largest: cython.int) -> tuple:
    extents: int64_t[3]
    axis: cython.int = wrap_dim(dim, self.ndim_) if self.numel_ else 0
    x: Tensor = self if self.row_major else self.contiguous()
    out: Tensor = new_empty(x.ndim_, x.sizes, cython.NULL, x.dtype_, x.storage.device)
    index: Tensor = new_empty(
        x.ndim_, x.sizes, cython.NULL, dtype_of(4), x.storage.device
    )
    if x.ndim_ == 0:  # a number of any type is the largest of itself
        return out.copy_(x), index.zero_()
    if x.numel_:
        around(x, axis, extents)
        scans_of(x).extremes(out, index, x, extents, largest)
    return out, index


def cummax(self: Tensor, dim):
    """The largest value so far along ``dim``, and where it was last."""
    return extremes(self, dim, 1)


def cummin(self: Tensor, dim):
    """The smallest value so far along ``dim``, and where it was last."""
    return extremes(self, dim, 0)
