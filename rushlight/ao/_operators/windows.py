"""Where windows of images in bytes lie, and the images with room for them.

Images have their channels innermost. Around one lies its zero point as far as windows
reach beyond it; rows of a matrix are windows of one position.
"""

from __future__ import annotations

import functools
from itertools import product
from math import prod

from rushlight.ao._operators.products import starts_of, way_for, words_of
from rushlight.codegen.language import minimum, select
from rushlight.codegen.loops import T, i64, local, loops, u8, vectorized
from rushlight.core import dtypes
from rushlight.core.dtypes import int64
from rushlight.core.roles import host
from rushlight.operators.functions import tensor
from rushlight.operators.loop_calls import fresh, run, run_whole
from rushlight.operators.matmul.matmul_int8 import has_sevens

STRIP = 96  # positions that go together; of tiles some more
STRIP_OF_TILES = 128
SPREAD = 8  # pieces that work has, where it has so many, for threads


@loops
def padded_kernel(out: "T*", x: "u8*", sizes: "i64*", begin: int, end: int):
    """Lines of an image between what lies around it.

    ``sizes``: of planes and lines how many come before, there are, and come of it; of
    elements how many come before, are copied, are left out first, and lines have in both;
    what lies around.
    """
    front, depth, planes = sizes[0], sizes[1], sizes[2]
    top, height, lines = sizes[3], sizes[4], sizes[5]
    left, count, lead = sizes[6], sizes[7], sizes[8]
    out_line, line, around = sizes[9], sizes[10], T(sizes[11])
    for at in range(begin, end):
        y, rest = at % lines - top, at // lines
        z, image = rest % planes - front, rest // planes
        start = at * out_line
        if y >= 0 and y < height and z >= 0 and z < depth:
            source = ((image * depth + z) * height + y) * line + lead
            for k in vectorized(left):
                out[start + k] = around
            for k in vectorized(count):
                out[start + left + k] = T(x[source + k])
            for k in vectorized(out_line - left - count):
                out[start + left + count + k] = around
        else:
            for k in vectorized(out_line):
                out[start + k] = around


@loops
def narrow_kernel(out: "u8*", x: "u8*", count: int, begin: int, end: int):
    """Whether no byte is above 128; the first 4096 with one are the last that are read."""
    most = local("u8", 64)
    for c in vectorized(64):
        most[c] = u8(0)
    at, top = i64(0), u8(0)
    while at + 64 <= count and top <= u8(128):
        for block in range(at, minimum(at + 4096, count - 63), 64):
            for c in vectorized(64):
                value = x[block + c]
                most[c] = select(value > most[c], value, most[c])
        for c in range(64):
            top = select(most[c] > top, most[c], top)
        at = at + 4096
    for k in range(count // 64 * 64, count):
        top = select(x[k] > top, x[k], top)
    out[0] = u8(top <= u8(128))


def is_narrow(levels):
    """Whether no byte is above 128: sums of two products with such fit in 16 bits."""
    out = fresh(levels, (), dtypes.uint8)
    run_whole(narrow_kernel, [out, levels.contiguous()], [levels.numel()], 1)
    return bool(out.item())


@functools.lru_cache(1024)
def _sizes(values):
    return tensor(values, dtype=int64)


class Windows:
    """Windows of a padded image, as `kernels.conv.int8_conv` reads them.

    Args:
        sizes: of the padded image: images, planes, lines, elements of a line, channels.
        kernel, stride, dilation: over planes, lines and elements.
        groups: of channels.
        outputs: of a group.
        narrow: whether no byte of the image is above 128.

    Attributes:
        grid: how many windows there are over planes, lines and elements.
        count: of all images.
        way: how they are multiplied.
        numbers, table, chunks, grain: what the kernel is told.
        slack: elements behind the image that may be read.
        in_place: whether an image is read where it lies if nothing is around it.
    """

    def __init__(self, sizes, kernel, stride, dilation, groups, outputs, narrow=False):
        self.given = sizes, kernel, stride, dilation, groups
        self.outputs, self.narrow = outputs, narrow
        images, *spatial, channels = sizes
        self.grid = [
            (size - d * (k - 1) - 1) // step + 1
            for size, k, d, step in zip(spatial, kernel, dilation, stride, strict=True)
        ]
        self.count = images * prod(self.grid)
        alone = is_depthwise(channels, groups, outputs)
        self.groups, each = (1, 1) if alone else (groups, channels // groups)
        outputs = groups if alone else outputs
        self.depth = each * prod(kernel)
        steps = channels * spatial[1] * spatial[2], channels * spatial[2], channels
        starts = [
            sum(a * b * c for a, b, c in zip(at, dilation, steps, strict=True))
            for at in product(*map(range, taps_of(kernel, dilation, groups)))
        ]
        self.run = run = self.depth // len(starts)
        sizes = self.count, self.depth, outputs * self.groups
        self.way = way_for(*sizes, alone, run, narrow)
        self.runs = len(starts)
        if self.way.name == "sevens":  # where each word is, since they are in any order
            words = range(0, 4 * words_of(run, self.way), 4)
            starts = [start + word for start in starts for word in words]
        self.table = tensor(starts, dtype=int64)
        self._plan(images, [a * b for a, b in zip(steps, stride)], steps, each, outputs)
        self.in_place = self.tight and self.way.element != "int16"

    def _plan(self, images, across, steps, each, outputs):
        planes, height, width = self.grid
        groups, way = self.groups, self.way
        lines, positions, pitch = _lines(height, width, across, way)
        # what may be read beyond an image, and whether something is
        self.slack, self.tight = 4, self.run % (way.words * way.together) == 0
        if way.name == "tiles":
            self.slack = 32 * across[2] + 64
            self.tight = self.tight and (positions >= 32 or positions == 16)
        elif way.name == "channels":
            self.slack, self.tight = way.columns, outputs % way.columns == 0
        strip = STRIP_OF_TILES if way.name == "tiles" else STRIP
        strip = max(1, min(strip, positions))
        strips, panels = -(-positions // strip), -(-outputs // way.columns)
        if way.name != "tiles":  # threads have as many positions each
            strip = -(-positions // strips) if positions else 1
        pieces = images * planes * lines * strips * groups
        together = min(panels, max(2, -(-panels * pieces // SPREAD)))
        parts = -(-panels // together)
        line_out = width if lines > 1 else height * width
        image = steps[0] * self.given[0][1]
        words = words_of(self.run, way)
        self.numbers = (
            parts * groups, parts, together, strips, strip, lines, positions, pitch, width,
            planes, image, across[0], across[1], across[1], across[2], height * width,
            line_out, self.runs, words, each, outputs, outputs * groups, panels,
            starts_of(outputs), groups,
        )  # fmt: skip
        self.chunks = pieces * parts
        work = strip * self.depth * together * way.columns // 16
        self.grain = max(1, host.launch.SMALLEST_TASK // max(1, work))

    def of(self, outputs):
        """The same with another number of outputs of a group."""
        return windows_of(*self.given, outputs, self.narrow)

    def suited(self, levels, point=0):
        """The same as bytes of an image are multiplied fastest.

        Args:
            levels: uint8.
            point: what is around the image.
        """
        if self.way.name != "shorts" or not has_sevens():
            return self
        if point > 128 or not is_narrow(levels):
            return self
        return windows_of(*self.given, self.outputs, True)


def is_depthwise(channels, groups, outputs):
    """Whether each of several channels has a window of its own, and one output."""
    return groups == channels > 1 and outputs == 1


def taps_of(kernel, dilation, groups):
    """The kernel as a grid of runs: elements of a line are one where nothing is between."""
    joined = groups == 1 and dilation[-1] == 1
    return (*kernel[:-1], 1 if joined else kernel[-1])


def _lines(height, width, across, way):
    """Lines of a plane, positions of a line, and those from row to row.

    Tiles take positions at equal steps: of all rows at once with what lies between them,
    or of each row.
    """
    if way.name != "tiles":
        return 1, height * width, width
    row, step = across[1], across[2]

    def cost(count):
        return 1 if count <= 16 else 2 * -(-count // 32)

    pitch = row // step if step and row % step == 0 else 0
    together = (height - 1) * pitch + width
    if height == 1 or pitch >= width and cost(together) <= height * cost(width):
        return 1, together, max(pitch, width)
    return height, width, width


windows_of = functools.lru_cache(1024)(Windows)


def rows_of(count, depth, outputs, narrow=False):
    """The rows of a matrix, as windows."""
    sizes, one = (1, 1, 1, count, depth), (1, 1, 1)
    return windows_of(sizes, one, one, one, 1, outputs, narrow)


NOTHING = (0, 0, 0)


def room(x, windows, around, point=0):
    """An image as its windows read it: with something around it, or as it is.

    Args:
        x: uint8, images, planes, lines, elements and channels, in this order in memory.
        windows: of the image with what is around it.
        around: planes, lines and elements of the image, and how many of each come before
            and after; less than none takes something off.
        point: what is around it.
    """
    inner, before, after = around
    if windows.in_place and before == NOTHING == after:
        return x
    images, planes, lines, elements, channels = windows.given[0]
    kind = getattr(dtypes, windows.way.element)
    size = images * planes * lines * elements * channels
    out = fresh(x, (size + windows.slack,), kind)
    depth, height, width = inner
    lead = max(0, -before[2])
    count = width - lead - max(0, -after[2])
    sizes = _sizes((
        before[0], depth, planes, before[1], height, lines, max(0, before[2]) * channels,
        count * channels, lead * channels, elements * channels, width * channels, point,
    ))  # fmt: skip
    work = elements * channels
    run(padded_kernel, [out, x, sizes], [], images * planes * lines, work, T=kind.name)
    return out
