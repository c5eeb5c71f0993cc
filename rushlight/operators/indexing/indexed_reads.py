"""How elements and slices are read by an index: a form for each kind of device.

Indices outside of a dimension are noted by the kernels in a word on the stack of the
call; the operators turn that into an error once the kernel is through.
"""

from __future__ import annotations

import importlib
import threading

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core.keys import OBSERVE_ALL
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.kernel_table import KernelTable
from cython.cimports.rushlight.dispatch.launchers import (
    grain_for,
    launch_host,
    launcher_of,
)

from rushlight.dispatch import trace
from rushlight.operators.loop_calls import MOVERS, brief, fault_flag, mover, run

COLUMNS = cython.declare(int64_t, 128)  # of a row divided among threads
NO_FAULT = cython.declare(int64_t, trace.NO_FAULT)
LATER = cython.declare(int64_t, trace.NO_FAULT + 1)
_NATIVE = cython.declare(dict, {})


@cython.cfunc
def native_for(name: str, x: Tensor, index: Tensor, a: cython.int, b: cython.int):
    """The kernel for the operands' types; ``a`` and ``b`` are frozen into some."""
    key = (name, x.dtype_, index.dtype_, a, b)
    found = _NATIVE.get(key)
    if found is None:
        source = importlib.import_module(
            "rushlight.operators.indexing.indexing_kernels"
        )
        types = {"T": x.dtype_.name}
        if name == "gather_kernel":
            types["line"], types["across"] = a, b
        else:
            types["T"] = mover(x.dtype_)[0]
            types["I"] = index.dtype_.name
            types["wrap"] = a
        found = getattr(source, name).specialize(**types)
        found = _NATIVE.setdefault(key, found)
    return found


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_place(x: Tensor, index: Tensor) -> cython.int:
    """Refuses an index without data beside a tensor that has them."""
    if _READS.form(index) is not _READS.form(x):
        raise RuntimeError(
            f"Tensor on device {index.storage.device} is not on the expected device "
            f"{x.storage.device}!\n  self: {brief(x)}\n  index: {brief(index)}"
        )
    return 0


@cython.cfunc
def worst_place(index: Tensor, size: int64_t):
    """An index that names nothing, or NO_FAULT: where nothing is copied it is looked for."""
    low, high = int(index.min().item()), int(index.max().item())
    return low if low < 0 else high if high >= size else NO_FAULT


def copy_words(
    out: Tensor, x: Tensor, index: Tensor, flag, outer, size, width: int64_t, wrap
):
    """Copies rows of ``width`` words of at most 8 bytes, four words a thread.

    Args:
        flag: where a bad index is noted; None where all are known to be good.
    """
    source = importlib.import_module("rushlight.operators.indexing.indexing_kernels")
    count: int64_t = index.numel_
    operands = [out, x, index, flag]
    unit: int64_t = min(8, x.dtype_.itemsize)
    positions: int64_t = cython.cast(int64_t, out.pointer())
    positions |= cython.cast(int64_t, x.pointer())
    while unit < 8 and width % 2 == 0 and positions % (2 * unit) == 0:
        unit, width = 2 * unit, width // 2
    types = {"T": MOVERS[unit], "I": index.dtype_.name}
    types["names_slices"], types["names_wrap"] = 1, wrap
    total = outer * count * width
    types["each"] = 4 if total % 4 == 0 else 1
    steps: int64_t = total // types["each"]
    ints = [count, size, width, 1, wrap, steps]
    run(source.read_elements, operands, ints, steps, **types)


@cython.cclass
class IndexedReads:
    """Reading by an index on devices whose backend is asked; what is bad, or NO_FAULT.

    LATER is given where that is not known yet: `refuse_later` says what it is worth then.
    """

    def __init__(self):
        self.flags = threading.local()

    def pick(self, out, x, index, outer, size, inner, wrap):
        """Copies slices of ``(outer, size, inner)`` by index."""
        width: int64_t = inner * max(1, x.dtype_.itemsize // 8)
        count: int64_t = index.numel_
        if outer == 0 and not wrap and count:
            return worst_place(index, size)
        if outer * count == 0:
            return NO_FAULT
        check_place(x, index)
        if size == 0 and not wrap and x.ndim_ < 2:
            raise IndexError("index out of range in self")
        if size == 0 and not wrap:
            raise RuntimeError(
                "index_select(): self indexing axis dim should be positive\n"
                f"  self: {brief(x)}\n  index: {brief(index)}"
            )
        if size == 0:  # the first index is as bad as any
            return int(index.reshape(-1)[0].item())
        return self.copy_rows(out, x, index, outer, size, width, wrap)

    def copy_rows(self, out, x, index, outer, size, width, wrap):
        """Copies rows of ``width`` words of at most 8 bytes."""
        flag = fault_flag(out)
        copy_words(out, x, index, flag, outer, size, width, wrap)
        self.flags.last = flag
        return LATER

    def gather(self, out, x, positions, extents):
        """Copies an element for each place, where ``extents`` are outer, count, size, inner."""
        source = importlib.import_module(
            "rushlight.operators.indexing.indexing_kernels"
        )
        check_place(x, positions)
        flag = fault_flag(out)
        operands = [out, x, positions, flag]
        ints = [extents[1], extents[2], extents[3], 0, 0, 0]
        total = extents[0] * extents[1] * extents[3]
        types = {"T": x.dtype_.name, "I": "int64", "each": 1}
        types["names_slices"] = types["names_wrap"] = 0
        run(source.read_elements, operands, ints, total, **types)
        self.flags.last = flag
        return LATER

    def refuse_later(self, operator, make, args):
        """Says what is raised of the index that this thread's last call may have met."""
        flag: Tensor = self.flags.last
        self.flags.last = None
        launcher_of(flag).refuse_fault(flag, operator, make, args)
        return 0

    def bring(self, x, index):
        """An index of a device where ``x`` is: only the host's go to others."""
        raise RuntimeError(
            "index.Tensor: indices should be either on cpu or on the same device as "
            f"the indexed tensor ({x.storage.device})\n  {brief(x)}\n"
            f"  {brief(index)}\n  remedy: move one of them with .to(device)"
        )

    def take(self, x, indices):
        """Indices where the tensor is."""
        return [
            item
            if item is None or _READS.form(item) is self
            else item.to(x.storage.device)
            for item in indices
        ]


@cython.final
@cython.cclass
class HostIndexedReads(IndexedReads):
    """The same by machine code on the pool; the last pointer is the word of a bad index."""

    def copy_rows(self, out, x, index, outer, size, width, wrap):
        data: cython.p_char[4]
        ints: int64_t[4]
        fault: int64_t = NO_FAULT
        native: object
        total: int64_t = outer
        work: int64_t = index.numel_
        data[0] = out.pointer()
        data[1] = x.pointer()
        data[2] = index.pointer()
        data[3] = cython.cast(cython.p_char, cython.address(fault))
        ints[0] = work
        ints[1] = size
        if width == 1:
            native = native_for("copy_lines", x, index, wrap, 0)
            ints[2] = wrap
            ints[3] = 0
        else:
            native = native_for("copy_rows", x, index, wrap, 0)
            ints[2] = width
            ints[3] = wrap
            total = outer * work
            work = width
        grain: int64_t = grain_for(work)
        launch_host(native, data, 4, ints, 4, total, grain, data[3], 8, OBSERVE_ALL)
        return fault

    def gather(self, out, x, positions, extents):
        data: cython.p_char[4]
        ints: int64_t[6]
        native: object
        fault: int64_t = NO_FAULT
        inner: int64_t = extents[3]
        across: cython.bint = extents[0] == 1 and inner > 1
        total: int64_t = inner if across else extents[0]
        check_place(x, positions)
        data[0] = out.pointer()
        data[1] = x.pointer()
        data[2] = positions.pointer()
        data[3] = cython.cast(cython.p_char, cython.address(fault))
        native = native_for("gather_kernel", x, positions, inner == 1, across)
        ints[0] = extents[0]
        ints[1] = extents[1]
        ints[2] = extents[2]
        ints[3] = inner
        ints[4] = across
        ints[5] = inner == 1
        work: int64_t = max(
            COLUMNS if across else 1, grain_for(positions.numel_ // total)
        )
        launch_host(native, data, 4, ints, 6, total, work, data[3], 8, OBSERVE_ALL)
        return fault

    def bring(self, x, index):
        return index


@cython.final
@cython.cclass
class MetaIndexedReads(IndexedReads):
    """Nothing is read where there are no elements."""

    def pick(self, out, x, index, outer, size, inner, wrap):
        return NO_FAULT

    def gather(self, out, x, positions, extents):
        return NO_FAULT

    def take(self, x, indices):
        return indices


_READS = cython.declare(
    KernelTable,
    KernelTable(cpu=HostIndexedReads(), cuda=IndexedReads(), meta=MetaIndexedReads()),
)
read_forms: object = _READS  # the same for modules that are not compiled


@cython.cfunc
def reads_of(tensor: Tensor) -> IndexedReads:
    return cython.cast(IndexedReads, _READS.form(tensor))
