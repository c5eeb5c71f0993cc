"""Copies that rearrange whole blocks: flip, roll, triangles."""

from __future__ import annotations

from math import prod

from rushlight.codegen.frontend.type_support import refuse_stored_only
from rushlight.codegen.loops import T, loops
from rushlight.core.device import backend_for
from rushlight.core.geometry import around
from rushlight.core.geometry import canonical_dim as wrap_dim
from rushlight.core.window import address_of
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators.loop_calls import (
    MOVERS,
    brief,
    fresh,
    laid_as,
    mover,
    name_of,
    run,
)
from rushlight.operators.shape.conversion import copy
from rushlight.operators.shape.formats import format_of, laid_out


@loops(error_name="flip_cpu")
def flip_kernel(out: "T*", x: "T*", size: int, inner: int, begin: int, end: int):
    """Reverses the middle axis of ``(outer, size, inner)``."""
    for o in range(begin, end):
        base = o * size * inner
        for k in range(size):
            for i in range(inner):
                out[base + k * inner + i] = x[base + (size - 1 - k) * inner + i]


@loops
def roll_kernel(out: "T*", x: "T*", block: int, shift: int, begin: int, end: int):
    """Moves each block's elements by ``shift`` places, around its end."""
    for o in range(begin, end):
        base = o * block
        for i in range(shift):
            out[base + i] = x[base + block - shift + i]
        for i in range(block - shift):
            out[base + shift + i] = x[base + i]


@loops(error_name="tril")
def triangle_kernel(
    out: "T*",
    x: "T*",
    rows: int,
    columns: int,
    diagonal: int,
    upper: int,
    begin: int,
    end: int,
):
    """Zeroes what lies above (or below) a diagonal of each matrix."""
    for r in range(begin, end):
        edge = min(max(r % rows + diagonal + (0 if upper else 1), 0), columns)
        base = r * columns
        for c in range(edge):
            out[base + c] = T(0) if upper else x[base + c]
        for c in range(edge, columns):
            out[base + c] = x[base + c] if upper else T(0)


@loops
def triangle_elements(
    out: "T*",
    x: "T*",
    rows: int,
    columns: int,
    lifted: int,
    upper: int,
    begin: int,
    end: int,
):
    """The same with an item an element; ``lifted`` is the diagonal plus the rows."""
    for at in range(begin, end):
        column = at % columns + rows
        last = at // columns % rows + lifted
        kept = column >= last if upper else column <= last
        out[at] = x[at] if kept else T(0)


def _runs(dims):
    """First and last of the dimensions that follow each other: they turn as one."""
    stretches = []
    for dim in sorted(dims):
        if stretches and stretches[-1][1] == dim - 1:
            stretches[-1][1] = dim
        else:
            stretches.append([dim, dim])
    return stretches


def _flip_on_host(x, dims):
    """Kernels over what ``dims`` are, a run of neighbours at a time."""
    for first, last in _runs(dims):
        x = _flip_run(x, first, last)
    return x


def _flip_on_device(x, dims):
    """One copy, read backwards: its threads take elements, which no row of loops is for."""
    x = x.resolve_conj().resolve_neg()
    out, width = fresh(x, x.shape), x.dtype.itemsize
    if not x.numel():
        return out
    sizes, to, back, first = [], [], [], address_of(x)
    for dim in reversed(range(x.dim())):
        size, step = x.shape[dim], x.stride(dim) * width
        if dim in dims:
            first += (size - 1) * step
            step = -step
        if sizes and step == back[-1] * sizes[-1]:
            sizes[-1] *= size
        elif size > 1 or not dim:
            sizes.append(size)
            back.append(step)
            to.append(out.stride(dim) * width)
    launch, kind = backend_for(x.device).launch, MOVERS[width]
    launch.run_elements(
        launch.specialize(copy, (kind,), (kind,), kind, ()),
        *(x.device, (address_of(out), first), tuple(sizes), (tuple(to), tuple(back))),
        *(b"", x.numel()),
    )
    return out


_flipped = KernelTable(cpu=_flip_on_host, cuda=_flip_on_device, meta=_flip_on_host)


def _flip_run(x, first, last):
    x = x.contiguous()
    out = fresh(x, x.shape)
    outer, size, inner = around(x.shape, last)
    size *= prod(x.shape[first:last])
    outer = prod(x.shape[:first])
    name, parts = mover(x.dtype)
    wide = inner * parts
    types = {"T": name, **({"inner": 1} if wide == 1 else {})}
    run(flip_kernel, [out, x], [size, wide], outer, size * wide, **types)
    return out


def _roll_on_device(x, dim, shift):
    """Two copies, of what goes around the end and of the rest."""
    out, kept = fresh(x, x.shape), x.shape[dim] - shift
    out.narrow(dim, 0, shift).copy_(x.narrow(dim, kept, shift))
    out.narrow(dim, shift, kept).copy_(x.narrow(dim, 0, kept))
    return out


def _roll_on_host(x, dim, shift):
    x = x.contiguous()
    out = fresh(x, x.shape)
    outer, size, inner = around(x.shape, dim)
    name, parts = mover(x.dtype)
    wide = inner * parts
    ints = [size * wide, shift * wide]
    run(roll_kernel, [out, x], ints, outer, size * wide, T=name)
    return out


_rolled = KernelTable(cpu=_roll_on_host, cuda=_roll_on_device, meta=_roll_on_host)


def flip(self, dims):
    """A copy with the order of elements reversed along each of ``dims``."""
    dims = [dims] if isinstance(dims, int) else list(dims)
    chosen = [wrap_dim(dim, self.dim()) for dim in dims]
    refuse_stored_only(flip_kernel, (self.dtype.name,))
    for dim in chosen:
        if chosen.count(dim) > 1:
            raise RuntimeError(f"dim {dim} appears multiple times in the list of dims")
    return laid_as(self, _flipped(self, chosen)) if chosen else self.clone()


def roll_autocast(self, shifts, dims):
    """As for `stack`, which joins the rolled parts on PyTorch."""
    return "widest" if self.numel() else None


def roll(self, shifts, dims=()):
    """A copy whose elements move by ``shifts`` along ``dims``, around the end."""
    shifts = [shifts] if isinstance(shifts, int) else list(shifts)
    dims = [dims] if isinstance(dims, int) else list(dims)
    if not shifts:
        raise RuntimeError("`shifts` required")
    if not dims and len(shifts) == 1:
        flat = self.contiguous().view(-1)
        return roll(flat, shifts, [0]).view(self.shape)
    if len(shifts) != len(dims):
        raise RuntimeError(
            f"shifts and dimensions must align. shifts: {len(shifts)}, dims:{len(dims)}"
        )
    if not self.numel():
        return self.clone()
    if dims and self.dim() == 0:
        raise IndexError(
            f"Dimension specified as {dims[0]} but tensor has no dimensions"
        )
    out = self
    for shift, dim in zip(shifts, dims):
        dim = wrap_dim(dim, self.dim())
        size = self.shape[dim] if self.dim() else 1
        if self.numel():
            out = _rolled(out, dim, shift % size)
    return self.clone() if out is self else laid_out(out, format_of(self))


def _triangle(operator, x, diagonal, upper):
    if x.dim() < 2:
        raise RuntimeError(
            f"{operator}: input tensor must have at least 2 dimensions\n"
            f"  self: {brief(x)}"
        )
    x = x.contiguous()
    out = fresh(x, x.shape)
    rows, columns = x.shape[-2:]
    diagonal = max(-rows, min(columns, diagonal))  # all or nothing beyond
    _cut_triangle(x, out, rows, columns, diagonal, upper)
    return out


def _cut_rows(x, out, rows, columns, diagonal, upper):
    types = {"T": name_of(x.dtype), "upper": upper}
    ints, total = [rows, columns, diagonal, upper], prod(x.shape[:-1])
    run(triangle_kernel, [out, x], ints, total, columns, **types)


def _cut_elements(x, out, rows, columns, diagonal, upper):
    types = {"T": name_of(x.dtype), "upper": upper}
    ints = [rows, columns, diagonal + rows, upper]  # none is negative
    run(triangle_elements, [out, x], ints, x.numel(), **types)


_cut_triangle = KernelTable(cpu=_cut_rows, cuda=_cut_elements, meta=_cut_rows)


def tril(self, diagonal=0):
    """The lower triangle of each matrix; the rest is zero."""
    return _triangle("tril", self, diagonal, 0)


def triu(self, diagonal=0):
    """The upper triangle of each matrix; the rest is zero."""
    return _triangle("triu", self, diagonal, 1)
