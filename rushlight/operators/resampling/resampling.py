"""Resampling by weighted neighbours, one dimension after another.

Every output element along a dimension is a sum of a few input elements. Which ones, and
by which weights, is a table that depends on the sizes alone: tables are kept between
calls, on each device that uses them, and one kernel serves all modes. Positions are
computed in the dtype that the oracle computes them in, so that the same neighbours are
chosen at ties.
"""

from __future__ import annotations

import functools
import math
from math import prod
from typing import Any, NamedTuple

from rushlight.codegen.language import select
from rushlight.codegen.loops import A, T, i64, loops
from rushlight.core import dtypes
from rushlight.core.device import backend_for
from rushlight.core.dtypes import float32, float64, int64, uint8
from rushlight.core.roles import host
from rushlight.dispatch.guard import GradMode
from rushlight.operators import call as ops
from rushlight.operators.functions import tensor as make_tensor
from rushlight.operators.loop_calls import (
    brief,
    expect,
    filled,
    fresh,
    name_of,
    run_nest,
    scalar_name,
)
from rushlight.operators.shape.formats import format_of, laid_out
from rushlight.operators.shared import has_elements

# Elements on either side of a position that count, for each mode.
_MODES = "nearest nearest-exact linear bilinear trilinear bicubic lanczos".split()
_REACH = {"nearest": 0, "nearest-exact": 0, "linear": 1, "cubic": 2, "lanczos": 3}
# Up to so many taps are written out in the kernel, which then works on vectors.
_FEW_TAPS = 12
# Weights of 8-bit images are integers of 16 bits; products have at most 22 more.
_MOST_BITS = 22


@loops
def resample_axis(
    out: "T*",
    x: "T*",
    index: "i64*",
    weight: "A*",
    size: int,
    wanted: int,
    taps: int,
    inner: int,
    ragged: int,
    begin: int,
    end: int,
):
    """``out[o, j, i]`` is the sum of ``weight[j, t] * x[o, index[j, t], i]``.

    Where sums differ in length (``ragged``) those that are shorter end in indices of -1.
    """
    for o in range(begin, end):
        for j in range(wanted):
            row = (o * wanted + j) * inner
            for i in range(inner):
                mass = A(0)
                for t in range(taps):
                    source = index[j * taps + t]
                    from_row = max(source, 0) if ragged else source
                    place = (o * size + from_row) * inner + i
                    part = weight[j * taps + t] * A(x[place])
                    mass = mass + (select(source < 0, A(0), part) if ragged else part)
                out[row + i] = T(mass)


@loops
def pick_axis(
    out: "T*",
    x: "T*",
    index: "i64*",
    size: int,
    wanted: int,
    inner: int,
    begin: int,
    end: int,
):
    """``out[o, j, i] = x[o, index[j], i]``."""
    for o in range(begin, end):
        for j in range(wanted):
            row = (o * wanted + j) * inner
            source = (o * size + index[j]) * inner
            for i in range(inner):
                out[row + i] = x[source + i]


@loops
def resample_bytes(
    out: "T*",
    x: "T*",
    index: "i64*",
    weight: "i64*",
    size: int,
    wanted: int,
    taps: int,
    inner: int,
    bits: int,
    begin: int,
    end: int,
):
    """The same for bytes: weights are whole numbers over ``2 ** bits``."""
    half = i64(1) << (bits - 1)
    for o in range(begin, end):
        for j in range(wanted):
            row = (o * wanted + j) * inner
            for i in range(inner):
                mass = half
                for t in range(taps):
                    place = (o * size + index[j * taps + t]) * inner + i
                    mass = mass + weight[j * taps + t] * i64(x[place])
                out[row + i] = T(min(max(mass >> bits, 0), 255))


# Tables


def _step(size, wanted, scale, align_corners):
    """Input elements from one output element to the next."""
    if align_corners:
        return (size - 1) / (wanted - 1) if wanted > 1 else 0.0
    return 1.0 / scale if scale > 0 else size / wanted


def _positions(size, wanted, scale, align_corners, dtype, shift):
    """Where in the input each output element lies, computed in ``dtype``."""
    step = make_tensor(_step(size, wanted, scale, align_corners), dtype=dtype)
    positions = ops.arange(wanted, dtype=dtype)
    if align_corners or shift == 0:
        return positions * step
    return (positions + shift) * step - shift


def _nearest(size, wanted, scale, exact, dtype):
    if exact:
        positions = _positions(size, wanted, scale, False, dtype, 0.5) + 0.5
    else:
        positions = _positions(size, wanted, scale, False, dtype, 0.0)
    return positions.floor().to(int64).clamp(0, size - 1), None


def _linear(size, wanted, scale, align_corners, dtype):
    if size == wanted:
        return ops.arange(wanted), None
    positions = _positions(size, wanted, scale, align_corners, dtype, 0.5).clamp_min(0)
    first = positions.floor().to(int64).clamp(0, size - 1)
    share = (positions - first.to(dtype)).clamp(0, 1)
    index = ops.stack([first, (first + 1).clamp_max(size - 1)], 1)
    return index, ops.stack([1 - share, share], 1)


def _cubic(size, wanted, scale, align_corners, dtype):
    """Cubic convolution with the slope -0.75; the outer elements are repeated."""
    positions = _positions(size, wanted, scale, align_corners, dtype, 0.5)
    floors = positions.floor()
    t, a = (positions - floors).clamp(0, 1), -0.75

    def near(x):
        return ((a + 2) * x - (a + 3)) * x * x + 1

    def far(x):
        return ((a * x - 5 * a) * x + 8 * a) * x - 4 * a

    weights = [far(t + 1), near(t), near(1 - t), far(2 - t)]
    first = floors.to(int64)
    index = [(first + k).clamp(0, size - 1) for k in (-1, 0, 1, 2)]
    return ops.stack(index, 1), ops.stack(weights, 1)


def _cubic_filter(x, a):
    x = abs(x)
    if x < 1:
        return ((a + 2) * x - (a + 3)) * x * x + 1
    return (((x - 5) * x + 8) * x - 4) * a if x < 2 else 0.0


def _sinc(x):
    return 1.0 if x == 0 else math.sin(math.pi * x) / (math.pi * x)


def _filter(mode, antialias):
    if mode == "linear":
        return lambda x: max(1.0 - abs(x), 0.0)
    if mode == "lanczos":
        return lambda x: _sinc(x) * _sinc(x / 3) if abs(x) < 3 else 0.0
    slope = -0.5 if antialias else -0.75
    return lambda x: _cubic_filter(x, slope)


def _windows(size, wanted, scale, mode, align_corners):
    """Indices and weights of filters that are cut off at the edges and normalised."""
    step = _step(size, wanted, scale, align_corners)
    wide = max(step, 1.0)
    support = _REACH[mode] * wide
    taps = min(math.ceil(support) * 2 + 1, size)
    weigh = _filter(mode, True)
    index, weights = [], []
    for place in range(wanted):
        center = step * (place + 0.5)
        low = max(int(center - support + 0.5), 0)
        high = min(int(center + support + 0.5), size)
        count = min(max(high - low, 0), taps)
        row = [weigh((low + k - center + 0.5) / wide) for k in range(count)]
        mass = sum(row)
        row = [w / mass if mass else w for w in row]
        index.append([min(low + k, size - 1) for k in range(taps)])
        weights.append(row + [0.0] * (taps - count))
    return index, weights


def _repeated_edges(size, wanted, scale, mode, align_corners):
    """Indices and weights where what reaches over an edge counts for the edge."""
    step = _step(size, wanted, scale, align_corners)
    reach, weigh = _REACH[mode], _filter(mode, False)
    index, weights = [], []
    for place in range(wanted):
        center = step * place if align_corners else step * (place + 0.5) - 0.5
        first = math.floor(center) - reach + 1
        low = min(max(first, 0), max(size - 2 * reach, 0))
        row = [0.0] * (2 * reach)
        for k in range(first, first + 2 * reach):
            row[min(max(k, 0), size - 1) - low] += weigh(k - center)
        index.append([min(low + k, size - 1) for k in range(2 * reach)])
        weights.append(row)
    return index, weights


def _bytes_table(size, wanted, scale, mode, align_corners, antialias):
    if antialias:
        index, weights = _windows(size, wanted, scale, mode, align_corners)
    else:
        index, weights = _repeated_edges(size, wanted, scale, mode, align_corners)
    largest = max((w for row in weights for w in row), default=0.0)
    bits = 0
    while bits < _MOST_BITS and int(0.5 + largest * 2 ** (bits + 1)) < 2**15:
        bits += 1
    whole = [
        [math.trunc(w * 2**bits + math.copysign(0.5, w)) for w in r] for r in weights
    ]
    return make_tensor(index), make_tensor(whole), bits


class Table(NamedTuple):
    """What each element along a dimension is a sum of.

    Attributes:
        index: of what is summed, ``(elements, taps)``.
        weights: by which it is multiplied; None where each element is another's copy.
        bits: of the weights' fractions, where they are whole numbers.
        ragged: whether some sums are shorter, and have indices of -1.
    """

    index: Any
    weights: Any = None
    bits: int | None = None
    ragged: bool = False


@functools.lru_cache(maxsize=256)
def table(size, wanted, scale, mode, align_corners, antialias, kind):
    """The `Table` of outputs.

    Args:
        kind: the dtype that positions are computed in, or ``"uint8"``.
    """
    with GradMode(False):
        dtype = float64 if kind == "float64" else float32
        if mode in ("nearest", "nearest-exact"):
            exact = mode == "nearest-exact"
            return Table(*_nearest(size, wanted, scale, exact, dtype))
        if kind == "uint8":
            made = _bytes_table(size, wanted, scale, mode, align_corners, antialias)
            return Table(*made)
        if antialias:
            index, weights = _windows(size, wanted, scale, mode, align_corners)
            weights = make_tensor(weights, dtype=dtype)
            return Table(make_tensor(index), weights)
        make = _linear if mode == "linear" else _cubic
        return Table(*make(size, wanted, scale, align_corners, dtype))


@functools.lru_cache(maxsize=256)
def table_of_uses(size, wanted, scale, mode, align_corners, antialias, kind):
    """The table the other way round: which outputs each input element is a part of."""
    made = table(size, wanted, scale, mode, align_corners, antialias, kind)
    index, weights = made.index, made.weights
    taps = 1 if index.ndim == 1 else index.shape[1]
    with GradMode(False):
        flat = index.reshape(-1)
        order = flat.argsort(stable=True)
        if weights is None:
            weights = ops.ones(wanted, dtype=getattr(dtypes, kind))
        uses = ops.bincount(flat, minlength=size)
        most, few = int(uses.max()), int(uses.min())
        place = ops.arange(most)
        first = (uses.cumsum(0) - uses).unsqueeze(1) + place
        order = order[first.clamp_max(len(order) - 1)]  # (size, most)
        made = order // taps, weights.reshape(-1)[order]
        if most == few:
            return Table(*made)
        lacks = place >= uses.unsqueeze(1)
        return Table(made[0].masked_fill(lacks, -1), made[1], ragged=True)


def _tables(own, sizes, scales, mode, align_corners, antialias, kind, make=table):
    mode = {"bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}.get(
        mode, mode
    )
    return [
        make(size, wanted, scale, mode, align_corners, antialias, kind)
        for size, wanted, scale in zip(own, sizes, scales)
    ]


KEPT_TABLES = 256
_placed: dict = {}  # tables on devices, with the host's that they are copies of


def table_on(device, made):
    """A table on a device, and kept there.

    The first call waits for the copy, so that work of any stream may read it, and work that
    a graph was captured with.
    """
    if made.index.device == device:
        return made
    key = device, id(made.index), id(made.weights)
    found = _placed.get(key)
    if found is None:
        host.launch.count_launch()  # a plan of this call would copy again
        parts = (x.to(device) if hasattr(x, "to") else x for x in made)
        found = Table(*parts), made
        if has_elements(found[0].index):
            if len(_placed) >= KEPT_TABLES:
                backend_for(device).streams.synchronize(device)
                _placed.clear()
            _placed[key] = found
    return found[0]


def forget_tables():
    """Lets go of what is kept on devices: of a driver that another takes the place of."""
    _placed.clear()


def _run_axis(x, dim, wanted, made):
    index, weights, bits, ragged = table_on(x.device, made)
    out = fresh(x, [*x.shape[:dim], wanted, *x.shape[dim + 1 :]])
    size, inner = x.shape[dim], prod(x.shape[dim + 1 :])
    types = {"T": name_of(x.dtype), **({"inner": 1} if inner == 1 else {})}
    taps = 1 if weights is None else index.shape[1]
    if weights is None:
        kernel, operands, ints = pick_axis, [out, x, index], [size, wanted, inner]
    else:
        operands, ints = [out, x, index, weights], [size, wanted, taps, inner]
        kernel = resample_axis if bits is None else resample_bytes
        ints.append(int(ragged) if bits is None else bits)
        if bits is None:
            types["ragged"] = int(ragged)
            types |= {"taps": taps} if taps <= _FEW_TAPS else {}
    run_nest(kernel, operands, ints, out.numel(), prod(x.shape[:dim]), taps, **types)
    return out


def check(operator, tensor, own, sizes, scales, mode, kinds):
    """Refuses sizes that no table resamples into each other.

    Args:
        own: the sizes that those told are resampled from.
        kinds: the types, besides fractions, that there are kernels for.

    Raises:
        RuntimeError: sizes and scales are not as many, or not positive, or the mode or
            the type is none that there is.
    """
    fits = 0 < len(sizes) == len(scales) <= len(own) and mode in _MODES
    fits = fits and (tensor.is_floating_point() or tensor.dtype in kinds)
    fits = fits and min(*own[len(own) - len(sizes) :], *sizes) > 0
    if not fits:
        raise RuntimeError(
            f"{operator}: expected as many positive sizes as scales for the last "
            f"dimensions of {list(own)}\n  operand: {brief(tensor)}\n"
            f"  sizes: {list(sizes)}\n  scales: {list(scales)}\n  mode: {mode!r}"
        )


def resample(self, sizes, scales, mode, align_corners, antialias):
    """Each of the last dimensions by its table, the fastest one first."""
    check("_resample", self, self.shape, sizes, scales, mode, (uint8,))
    format = format_of(self)
    x, first = self.contiguous(), self.ndim - len(sizes)
    if not has_elements(x):
        return laid_out(fresh(x, [*x.shape[:first], *sizes]), format)
    smooth = not mode.startswith("nearest")
    if smooth and x.dtype.itemsize == 2:
        x = x.to(float32)
    tables = _tables(
        *(x.shape[first:], sizes, scales, mode, align_corners, antialias),
        name_of(x.dtype),
    )
    for at in reversed(range(len(sizes))):
        x = _run_axis(x, first + at, sizes[at], tables[at])
    return laid_out(x if x.dtype is self.dtype else x.to(self.dtype), format)


def resample_backward(
    grad_output, input_size, sizes, scales, mode, align_corners, antialias
):
    """The same tables, the other way round: each element sums its outputs' gradients."""
    check("_resample_backward", grad_output, input_size, sizes, scales, mode, ())
    made = [*input_size[: len(input_size) - len(sizes)], *sizes]
    expect("_resample_backward", grad_output=(grad_output, made, None))
    format = format_of(grad_output)
    grad, first = grad_output.contiguous(), grad_output.ndim - len(sizes)
    if not has_elements(grad):
        return laid_out(filled(grad, input_size, 0), format)
    if grad.dtype.itemsize == 2:
        grad = grad.to(float32)
    settings = input_size[first:], sizes, scales, mode, align_corners, antialias
    kind = name_of(grad.dtype)
    for at, uses in enumerate(_tables(*settings, kind, table_of_uses)):
        grad = _run_axis(grad, first + at, input_size[first + at], uses)
    if grad.dtype is not grad_output.dtype:
        grad = grad.to(grad_output.dtype)
    return laid_out(grad, format)


# The operators of each mode


def _check_elements(input, sizes, mode):
    own, axes = list(input.shape[2:]), input.ndim - 2
    if min(own) <= 0 or min(sizes) <= 0:
        names = "DHW"[3 - axes :]

        def describe(values):
            return ", ".join(f"{name}: {n}" for name, n in zip(names, values))

        raise RuntimeError(
            "Input and output sizes should be greater than 0, but got input "
            f"({describe(own)}) output ({describe(sizes)})"
        )
    if input.shape[1] == 0:
        raise RuntimeError(
            f"Non-empty {axes + 2}D data tensor expected but got a tensor with sizes "
            f"{list(input.shape)}"
        )
    cells = prod(input.shape[:2]) * prod(sizes)
    if cells * input.element_size() >= 2**63:
        raise RuntimeError(
            "Storage size calculation overflowed with sizes="
            f"{[*input.shape[:2], *sizes]}"
        )
    bytes_too = mode.startswith("nearest") or mode in ("bilinear", "bicubic", "lanczos")
    octets = input.dtype is uint8 or input.is_quantized
    if not input.is_floating_point() and not (octets and bytes_too):
        raise NotImplementedError(
            f'"upsample_{mode}{axes}d" not implemented for '
            f"'{scalar_name(input.dtype)}'"
        )


def _scaled(size, factor):
    """``size * factor`` as a whole number.

    Raises:
        RuntimeError: the product is no number of elements.
    """
    product = size * float(factor)
    if not math.isfinite(product) or abs(product) >= 2**63:
        raise RuntimeError(
            "value cannot be converted to type int64_t without overflow\n"
            f"  scale_factor: {factor}"
        )
    return math.trunc(product)


def _upsample(
    mode, axes, input, output_size, scale_factors, align_corners=False, antialias=False
):
    """The checked call of one mode.

    Raises:
        RuntimeError: sizes and factors don't fit the input.
    """
    if (output_size is None) == (scale_factors is None):
        raise RuntimeError("Must specify exactly one of output_size and scale_factors")
    given = scale_factors if output_size is None else output_size
    if input.ndim != axes + 2 or len(given) != axes:
        raise RuntimeError(
            f"It is expected input_size equals to {axes + 2} and output_size equals to "
            f"{axes}, but got size {input.ndim} and {len(given)}"
        )
    if output_size is None:
        sizes = [_scaled(*pair) for pair in zip(input.shape[2:], given)]
        factors = [float(factor) for factor in given]
    else:
        sizes, factors = list(given), [0.0] * axes
    _check_elements(input, sizes, mode)
    return ops._resample(input, sizes, factors, mode, align_corners, antialias)


def _without_corners(mode, axes):
    """The operator of a mode without corners, over so many dimensions."""

    def upsample(input, output_size, scale_factors):
        return _upsample(mode, axes, input, output_size, scale_factors)

    return upsample


def _with_corners(mode, axes, antialias=False):
    """The operator of a mode that makes pixels up between pixels."""

    def upsample(input, output_size, align_corners, scale_factors):
        return _upsample(
            mode, axes, input, output_size, scale_factors, align_corners, antialias
        )

    return upsample


upsample_nearest1d = _without_corners("nearest", 1)
upsample_nearest2d = _without_corners("nearest", 2)
upsample_nearest3d = _without_corners("nearest", 3)
_upsample_nearest_exact1d = _without_corners("nearest-exact", 1)
_upsample_nearest_exact2d = _without_corners("nearest-exact", 2)
_upsample_nearest_exact3d = _without_corners("nearest-exact", 3)
upsample_linear1d = _with_corners("linear", 1)
upsample_bilinear2d = _with_corners("bilinear", 2)
upsample_trilinear3d = _with_corners("trilinear", 3)
upsample_bicubic2d = _with_corners("bicubic", 2)
_upsample_bilinear2d_aa = _with_corners("bilinear", 2, antialias=True)
_upsample_bicubic2d_aa = _with_corners("bicubic", 2, antialias=True)
_upsample_lanczos2d_aa = _with_corners("lanczos", 2, antialias=True)


def antialiased_to_size(self, output_size, align_corners, scales_h, scales_w):
    """Linear interpolation, antialiased; scales say how far apart elements are.

    Raises:
        RuntimeError: the input isn't a batch of planes.
    """
    if self.ndim != 4:
        raise RuntimeError(
            "It is expected input_size equals to 4 and output_size equals to 2, but got "
            f"size {self.ndim} and {len(output_size)}"
        )
    sizes, factors = list(output_size), [scales_h or 0.0, scales_w or 0.0]
    _check_elements(self, sizes, "bilinear")
    return ops._resample(self, sizes, factors, "bilinear", align_corners, True)
