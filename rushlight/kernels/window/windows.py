"""Windows along one axis: which elements one covers, and which windows cover an element.

`pooling_kernels` puts three axes together. Windows lie inside of the plane, or may reach
over its border or have gaps, or divide it as evenly as they can.
"""

from typing import Any, NamedTuple

from rushlight.codegen.loops import Integers, i64, loops_inline

# How many elements and windows, and the window's taps, stride, padding and dilation.
AXIS = Integers("size count taps stride pad dilation")


@loops_inline
def inside_span(o, axis):
    """First element, number of elements and their distance in a window inside."""
    return o * axis.stride - axis.pad, axis.taps, axis.dilation


@loops_inline
def strided_span(o, axis):
    """The same without what lies beyond the border."""
    first = o * axis.stride - axis.pad
    taps = i64(axis.taps)
    while first < 0:
        first = first + axis.dilation
        taps = taps - 1
    while taps > 0 and first + (taps - 1) * axis.dilation >= axis.size:
        taps = taps - 1
    return first, taps, axis.dilation


@loops_inline
def even_span(o, axis):
    """The same of windows that divide the axis."""
    first = o * axis.size // axis.count
    return first, ((o + 1) * axis.size + axis.count - 1) // axis.count - first, 1


@loops_inline
def all_inside(zs, ys, depth, height, width):
    """First and end of the windows of a row that lie inside: all."""
    return 0, width.count


@loops_inline
def some_inside(zs, ys, depth, height, width):
    """The same where windows may reach over the border; none where the row does."""
    z0, nz, dz = zs
    y0, ny, dy = ys
    first = i64(width.count)
    end = i64(width.count)
    if nz == depth.taps and ny == height.taps:
        last = width.size - 1 + width.pad - (width.taps - 1) * width.dilation
        first = min(width.count, (width.pad + width.stride - 1) // width.stride)
        if last >= 0:
            end = min(width.count, last // width.stride + 1)
        end = max(first, end)
    return first, end


@loops_inline
def inside_extent(o, axis, padded):
    """How many elements an average over a window divides by."""
    return axis.taps


@loops_inline
def strided_extent(o, axis, padded):
    """The same; elements of the padding count where ``padded``."""
    first = o * axis.stride - axis.pad
    extent = min(first + axis.taps, axis.size + axis.pad) - first
    if padded == 0:
        extent = min(first + axis.taps, axis.size) - max(first, 0)
    return extent


@loops_inline
def even_extent(o, axis, padded):
    """The same of windows that divide the axis."""
    end = ((o + 1) * axis.size + axis.count - 1) // axis.count
    return end - o * axis.size // axis.count


@loops_inline
def strided_cover(i, axis):
    """First and end of the windows that reach over the element ``i``."""
    at = i + axis.pad
    before = at - (axis.taps - 1) * axis.dilation + axis.stride - 1
    return max(0, before // axis.stride), min(axis.count, at // axis.stride + 1)


@loops_inline
def even_cover(i, axis):
    """The same of windows that divide the axis."""
    end = ((i + 1) * axis.count + axis.size - 1) // axis.size
    return i * axis.count // axis.size, end


class WindowKind(NamedTuple):
    """How windows lie along every axis.

    Attributes:
        name: of the kind, for the names of kernels.
        span: first element of a window, number of elements and their distance.
        extent: how many elements an average divides by.
        cover: first and end of the windows over an element.
        inside: first and end of the windows that are looked at as vectors; None where
            all are looked at one by one.
    """

    name: str
    span: Any
    extent: Any
    cover: Any
    inside: Any = None


INSIDE = WindowKind("inside", inside_span, inside_extent, strided_cover, all_inside)
STRIDED = WindowKind(
    "strided", strided_span, strided_extent, strided_cover, some_inside
)
SINGLE = WindowKind("single", strided_span, strided_extent, strided_cover)
WHOLE = WindowKind("whole", inside_span, inside_extent, strided_cover)
EVEN = WindowKind("even", even_span, even_extent, even_cover)
