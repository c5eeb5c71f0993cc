"""Borders made of a tensor's own elements, over up to three dimensions at once."""

from __future__ import annotations

from math import prod

from rushlight.codegen.loops import Integers, T, loops, loops_inline, vectorized
from rushlight.core.dtypes import float32, int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import (
    MOVERS,
    expect,
    filled,
    fresh,
    name_of,
    require,
    run,
)
from rushlight.operators.shape.formats import format_of, laid_out
from rushlight.operators.type_groups import USUAL

NAMES = {"reflect": "reflection", "replicate": "replication"}
TRUTH = 11  # the number of the type
MODES = {"reflect": 0, "replicate": 1, "circular": 2}


# The sizes before, in front and behind, and what is repeated, along three dimensions.
VIEW = Integers(
    "depth height width front top left layers rows columns "
    "start_z start_y start_x length_z length_y length_x mode"
)


@loops_inline
def taken(place, size, start, length, mode):
    """The element that stands at a place, counted from the first element."""
    last = size - 1
    found = place
    if mode == 0:
        found = last - abs(last - abs(place))
    elif mode == 1:
        found = min(max(place, 0), last)
    else:
        found = place - start
        if found < 0:
            found = found + length
        elif found >= length:
            found = found - length
        if found < 0 or found >= length:  # more than once around
            found = found % length
        found = found + start
    return found


@loops
def pad_rows(
    out: "T*",
    x: "T*",
    depth: int,
    height: int,
    width: int,
    front: int,
    top: int,
    left: int,
    layers: int,
    rows: int,
    columns: int,
    start_z: int,
    start_y: int,
    start_x: int,
    length_z: int,
    length_y: int,
    length_x: int,
    mode: int,
    begin: int,
    end: int,
):
    """Rows of the padded tensor: an edge, a piece of a row, another edge."""
    low = min(max(left + start_x, 0), columns)  # an edge may be all that is left
    high = max(min(left + start_x + length_x, columns), low)
    line = begin % rows
    layer = begin // rows % layers
    plane = begin // rows // layers
    for row in range(begin, end):
        z = taken(layer - front, depth, start_z, length_z, mode)
        y = taken(line - top, height, start_y, length_y, mode)
        source = ((plane * depth + z) * height + y) * width
        target = row * columns
        for j in range(low):
            place = taken(j - left, width, start_x, length_x, mode)
            out[target + j] = x[source + place]
        for j in vectorized(low, high):
            out[target + j] = x[source - left + j]
        for j in range(high, columns):
            place = taken(j - left, width, start_x, length_x, mode)
            out[target + j] = x[source + place]
        line = line + 1
        if line == rows:
            line = 0
            layer = layer + 1
        if layer == layers:
            layer = 0
            plane = plane + 1


@loops
def pad_elements(out: "T*", x: "T*", view: VIEW, begin: int, end: int):
    """`pad_rows` with an item an element."""
    for at in range(begin, end):
        row = at // view.columns
        line = row // view.rows
        z = line % view.layers - view.front
        y = row % view.rows - view.top
        j = at % view.columns - view.left
        z = taken(z, view.depth, view.start_z, view.length_z, view.mode)
        y = taken(y, view.height, view.start_y, view.length_y, view.mode)
        j = taken(j, view.width, view.start_x, view.length_x, view.mode)
        plane = line // view.layers
        out[at] = x[((plane * view.depth + z) * view.height + y) * view.width + j]


@loops
def unpad_rows(
    out: "T*",
    x: "T*",
    depth: int,
    height: int,
    width: int,
    front: int,
    top: int,
    left: int,
    layers: int,
    rows: int,
    columns: int,
    start_z: int,
    start_y: int,
    start_x: int,
    length_z: int,
    length_y: int,
    length_x: int,
    mode: int,
    begin: int,
    end: int,
):
    """Sums, for each element, of what arrives where it stands in the padded tensor."""
    low = min(max(left + start_x, 0), columns)  # an edge may be all that is left
    high = max(min(left + start_x + length_x, columns), low)
    size = depth * height * width
    for plane in range(begin, end):
        for k in range(size):
            out[plane * size + k] = T(0)
        for row in range(layers * rows):
            z = taken(row // rows - front, depth, start_z, length_z, mode)
            y = taken(row % rows - top, height, start_y, length_y, mode)
            target = ((plane * depth + z) * height + y) * width
            source = (plane * layers * rows + row) * columns
            for j in range(low):
                place = target + taken(j - left, width, start_x, length_x, mode)
                out[place] = out[place] + x[source + j]
            inner = target - left
            for j in vectorized(low, high):
                out[inner + j] = out[inner + j] + x[source + j]
            for j in range(high, columns):
                place = target + taken(j - left, width, start_x, length_x, mode)
                out[place] = out[place] + x[source + j]


def numbers(sizes, pad, mode):
    """The kernels' integers, and the padded sizes; missing dimensions are of size one."""
    spatial = len(pad) // 2
    own = [1] * (3 - spatial) + list(sizes[len(sizes) - spatial :])
    befores = [0] * (3 - spatial) + [*pad[::2]][::-1]
    afters = [0] * (3 - spatial) + [*pad[1::2]][::-1]
    wide = [n + a + b for n, a, b in zip(own, befores, afters)]
    starts, lengths = [0, 0, 0], own
    if mode == "circular":  # what is cut off at one edge is not at the other
        starts = [max(-a, 0) for a in befores]
        lengths = [n + min(a, 0) + min(b, 0) for n, a, b in zip(own, befores, afters)]
    return [*own, *befores, *wide, *starts, *lengths, MODES[mode]], wide[3 - spatial :]


def check(operator, sizes, pad, mode):
    """The padded sizes.

    Raises:
        RuntimeError: no elements are where the borders would take them from.
    """
    spatial, wide = len(pad) // 2, list(sizes)
    fits = mode in MODES and len(pad) in (2, 4, 6) and spatial <= len(wide)
    for index in range(spatial if fits else 0):
        wide[-1 - index] += pad[2 * index] + pad[2 * index + 1]
    fits = fits and min(*sizes, *wide) >= 0 and prod(wide) < 2**63
    for index in range(spatial if fits and prod(wide) else 0):
        size, *border = sizes[-1 - index], pad[2 * index], pad[2 * index + 1]
        if mode == "circular":  # what is cut off at one edge is not at the other
            size += sum(min(each, 0) for each in border)
        fits = fits and size > (max(border) if mode == "reflect" else 0)
    if not fits:
        raise RuntimeError(
            f"{operator}: expected two widths for each of up to three last dimensions "
            f"of {list(sizes)}, and elements to fill them with\n  pad: {list(pad)}\n"
            f"  mode: {mode!r}"
        )
    return wide


def autocast(self, pad, mode):
    """In float32, as PyTorch's operators for these borders; for the others it has none."""
    known = {"replicate": 3, "reflect": 2}.get(mode, 0)
    return "long" if len(pad) <= 2 * known else None


def pad_around(self, pad, mode):
    """The last dimensions, with borders that their own elements make.

    Raises:
        NotImplementedError: the elements are truth values, which only circles repeat.
    """
    check("_pad_around", self.shape, pad, mode)
    if mode != "circular":
        kinds = USUAL - {TRUTH}
        require(f"{NAMES[mode]}_pad{len(pad) // 2}d", self.dtype, kinds, self)
    format = format_of(self) if mode != "circular" else None
    x, spatial = self.contiguous(), len(pad) // 2
    ints, wide = numbers(x.shape, pad, mode)
    out = fresh(x, [*x.shape[:-spatial], *wide])
    if out.numel():
        _pad(out, x, ints, wide[-1], MOVERS[x.dtype.itemsize])
    return laid_out(out, format)


def _pad_by_rows(out, x, ints, columns, name):
    run(pad_rows, [out, x], ints, out.numel() // columns, columns, T=name)


def _pad_by_elements(out, x, ints, columns, name):
    run(pad_elements, [out, x], ints, out.numel(), T=name)


_pad = KernelTable(cpu=_pad_by_rows, cuda=_pad_by_elements, meta=_pad_by_rows)


def _unpad_by_planes(grad, ints, planes, size):
    out = fresh(grad, (planes, size))
    run(unpad_rows, [out, grad], ints, planes, 2 * size, T=name_of(grad.dtype))
    return out


def _unpad_by_index(grad, ints, planes, size):
    """Pads the numbers of a plane's elements, which say where each gradient is added."""
    own, wide = ops.arange(size, device=grad.device), ints[6:9]
    index = fresh(own, [prod(wide)])
    _pad(index, own, ints, wide[-1], name_of(int64))
    out = filled(grad, (planes, size), 0)
    return ops.index_add(out, 1, index, grad.view(planes, -1))


_unpad = KernelTable(cpu=_unpad_by_planes, cuda=_unpad_by_index, meta=_unpad_by_planes)


def pad_around_backward(grad_output, sizes, pad, mode):
    """What arrives at the places of each element, in sum."""
    wide = check("_pad_around_backward", sizes, pad, mode)
    expect("_pad_around_backward", grad_output=(grad_output, wide, None))
    format = format_of(grad_output)
    grad = grad_output.contiguous()
    if grad.dtype.is_floating_point and grad.dtype.itemsize == 2:
        grad = grad.to(float32)
    ints, _ = numbers(sizes, pad, mode)
    planes, size = prod(sizes[: -(len(pad) // 2)]), prod(sizes[-(len(pad) // 2) :])
    if not grad.numel():
        return laid_out(filled(grad_output, sizes, 0), format)
    out = _unpad(grad, ints, planes, size).view(sizes)
    out = out if out.dtype is grad_output.dtype else out.to(grad_output.dtype)
    return laid_out(out, format)
