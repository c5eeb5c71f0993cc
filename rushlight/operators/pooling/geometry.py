"""The geometry of pooling calls: windows checked, counted, and kept for the next call."""

from math import prod
from typing import NamedTuple

from rushlight.kernels.window.windows import AXIS
from rushlight.operators.loop_calls import brief

# Windows of few taps, and rows of few outputs, are compiled into the kernel: LLVM then
# unrolls the window and fits the vector width to the row.
FROZEN_TAPS = 9
FROZEN_ROW = 16
FROZEN_WORK = (
    1 << 15
)  # elements read, from which on windows over borders are compiled in
LARGEST = 2**31  # windows are measured in C integers
KEPT = 512  # geometries remembered between calls
_known: dict = {}
AXES = ("depth", "height", "width")


def axes_of(sizes, counts, *rest):
    """The integers of kernels over windows, axis by axis; see `windows.AXIS`.

    Windows that divide a plane evenly have no taps, strides, padding and dilation.
    """
    rest = rest or [(1, 1, 1)] * 2 + [(0, 0, 0), (1, 1, 1)]
    return [number for axis in zip(sizes, counts, *rest) for number in axis]


def spread(value, axes, what, operator):
    """A window parameter as one number for each axis: a lone number stands for all."""
    values = [value] if isinstance(value, int) else list(value)
    if len(values) == 1:
        return values * axes
    if len(values) != axes:
        raise RuntimeError(
            f"{operator}: {what} must either be a single int, or a tuple of {axes}"
            f" ints, but got {len(values)}"
        )
    return values


def pooled_size(size, kernel, stride, pad, dilation, ceil_mode):
    """How many windows fit along an axis; in ceil mode the last may reach over the end.

    >>> pooled_size(7, 2, 2, 0, 1, True), pooled_size(7, 2, 2, 0, 1, False)
    (4, 3)
    """
    span = size + 2 * pad - dilation * (kernel - 1) - 1
    count = (span + (stride - 1 if ceil_mode else 0)) // stride + 1
    if ceil_mode and (count - 1) * stride >= size + pad:
        count -= 1
    return count


def _check_rank(operator, x, axes):
    if x.ndim in (axes + 1, axes + 2):
        return
    if axes == 3:
        raise RuntimeError(
            f"{operator}: non-empty 4D or 5D (batch mode) tensor expected for input, but"
            f" got {list(x.shape)}\n  self: {brief(x)}"
        )
    _refuse_shape(operator, x, axes)


def _check_filled(operator, x, axes):
    """Refuses planes without elements; the batch alone may be empty."""
    if prod(x.shape[x.ndim - axes - 1 :]):
        return
    if axes == 3:
        dim = x.shape.index(0, x.ndim - 4)
        raise RuntimeError(
            f"{operator}: Expected input's non-batch dimensions to have positive length,"
            f" but input has a shape of {list(x.shape)} and non-batch dimension {dim}"
            " has length zero!"
        )
    _refuse_shape(operator, x, axes)


def _refuse_shape(operator, x, axes):
    raise RuntimeError(
        f"{operator}: Expected {axes + 1}D or {axes + 2}D (batch mode) tensor with"
        f" optional 0 dim batch size for input, but got:{list(x.shape)}\n"
        f"  self: {brief(x)}"
    )


class Windows:
    """The checked geometry of one pooling call, as three axes; missing ones are 1."""

    def __init__(self, operator, x, axes, kernel, stride, padding, dilation, ceil_mode):
        self.operator = operator
        _check_rank(operator, x, axes)
        k = spread(kernel, axes, "kernel_size", operator)
        s = spread(stride, axes, "stride", operator) if _given(stride) else list(k)
        p = spread(padding, axes, "padding", operator)
        d = spread(dilation, axes, "dilation", operator)
        for value in (*k, *s, *p, *d):
            if not -LARGEST <= value < LARGEST:
                raise RuntimeError(
                    "value cannot be converted to type int without overflow\n"
                    f"  operator: {operator}\n  value: {value}"
                )
        self.check(k, s, p, d)
        _check_filled(operator, x, axes)
        sizes = list(x.shape[-axes:])
        out = [pooled_size(*row, ceil_mode) for row in zip(sizes, k, s, p, d)]
        if min(out) < 1 and axes == 1:
            raise RuntimeError(f"{operator}() Invalid computed output size: {out[0]}")
        if min(out) < 1:
            raise RuntimeError(
                f"{operator}: Given input size: ({'x'.join(map(str, sizes))})."
                f" Calculated output size: ({'x'.join(map(str, out))})."
                f" Output size is too small\n"
                f"  self: {brief(x)}"
            )
        self.inside = all(
            a == 0 and (o - 1) * t + e * (n - 1) + 1 <= m
            for a, o, t, e, n, m in zip(p, out, s, d, k, sizes)
        )
        self.lead = list(x.shape[:-axes])
        self.out_shape = self.lead + out
        self.planes = prod(self.lead)
        ones, zeros = [1] * (3 - axes), [0] * (3 - axes)
        self.sizes, self.out = ones + sizes, ones + out
        self.kernel, self.stride = ones + k, ones + s
        self.padding, self.dilation = zeros + p, ones + d
        self.taps = prod(k)
        self.work = prod(self.out) * self.taps  # elements read for one plane
        self.constants = self.frozen()
        self.kind = "single"
        if self.constants:
            self.kind = "inside" if self.inside else "strided"
        self.axes = axes_of(
            self.sizes, self.out, self.kernel, self.stride, self.padding, self.dilation
        )

    def check(self, kernel, stride, padding, dilation):
        """Refuses windows of no size and paddings wider than half a window."""
        named = ("kernel_size", kernel), ("stride", stride), ("dilation", dilation)
        for name, values in named:
            if min(values) <= 0:
                if len(values) == 1:
                    raise RuntimeError(
                        f"{self.operator}() {name} must be greater than zero, but got"
                        f" {values[0]}"
                    )
                raise RuntimeError(
                    f"{self.operator}: {name.replace('_', ' ')} should be greater than"
                    f" zero, but got {tuple(values)}"
                )
        for pad, taps, gap in zip(padding, kernel, dilation):
            if pad < 0:
                raise RuntimeError(
                    f"{self.operator}: pad must be non-negative, but got pad: {pad}"
                )
            if pad > ((taps - 1) * gap + 1) // 2:
                raise RuntimeError(
                    f"{self.operator}: pad should be at most half of effective kernel"
                    f" size, but got pad={pad}, kernel_size={taps} and dilation={gap}"
                )
        for pad, taps in zip(padding, kernel):
            if pad > taps // 2:  # of the window itself, whatever the dilation
                raise RuntimeError(
                    f"{self.operator}: pad should be smaller than or equal to half of"
                    f" kernel size, but got pad={pad}, kernel_size={taps}"
                )

    def frozen(self):
        """What becomes a constant of the kernel: small windows and short rows.

        Empty where windows are large, or so few that no kernel of their own pays.
        """
        few = self.planes * self.work < FROZEN_WORK and not self.inside
        if self.taps > FROZEN_TAPS or few:
            return {}
        constants = {}
        for axis, *numbers in zip(
            AXES, self.kernel, self.stride, self.padding, self.dilation
        ):
            names = [f"{axis}_{field}" for field in AXIS.names[2:]]
            constants |= dict(zip(names, numbers, strict=True))
        if self.out[2] <= FROZEN_ROW:
            constants["width_count"] = self.out[2]
        return constants

    def with_divisor(self, divisor):
        """The constants of an average; those over all taps know what they divide by."""
        if divisor or not self.constants:
            return self.constants
        return {**self.constants, "divisor": 0}


class EvenWindows(NamedTuple):
    """Windows that divide planes as evenly as they can, told as `Windows` tells its own."""

    out_shape: list
    planes: int
    sizes: list
    out: list

    kind = "even"

    @property
    def axes(self):
        """The integers of kernels."""
        return axes_of(self.sizes, self.out)

    @property
    def work(self):
        """Elements read for one plane."""
        return prod(self.sizes)

    def with_divisor(self, divisor):
        """The constants of kernels: none."""
        return {}


def windows(operator, x, axes, *choices):
    """The `Windows` of a call; those of earlier calls are kept."""
    key = (operator, x.shape, *choices)
    try:
        hash(key)
    except TypeError:  # lists among them
        key = [tuple(c) if isinstance(c, list) else c for c in key]
        key = tuple(key)
    win = _known.get(key)
    if win is None:
        if len(_known) >= KEPT:
            _known.clear()
        win = _known[key] = Windows(operator, x, axes, *choices)
    return win


def _given(stride):
    return stride is not None and stride != [] and stride != ()
