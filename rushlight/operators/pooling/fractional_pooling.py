"""Max pooling over windows whose places are drawn at random."""

from __future__ import annotations

from math import prod

from rushlight.codegen.language import isnan
from rushlight.codegen.loops import A, T, i64, loops, loops_inline, lowest
from rushlight.core.dtypes import int64
from rushlight.operators import call as ops
from rushlight.operators.loop_calls import fresh, name_of, require, run_nest
from rushlight.operators.type_groups import FLOATS


@loops_inline
def start_of(at, sample, size, wanted, window):
    """Where a window starts: steps of one number's multiples, the last at the end."""
    start = i64(size - window)
    if at < wanted - 1:
        step = A(size - window) / A(wanted - 1)
        start = i64((A(at) + sample) * step) - i64(sample * step)
    return start


@loops
def fractional_max(
    out: "T*", positions: "i64*", x: "T*", samples: "T*", dims: int, depth: int,
    height: int, width: int, layers: int, rows: int, columns: int, deep: int, high: int,
    wide: int, begin: int, end: int,
):  # fmt: skip
    """One plane or volume at a time."""
    for plane in range(begin, end):
        base = plane * depth * height * width
        draw = plane * dims
        first = A(0)
        second = A(samples[draw + 1])
        third = A(samples[draw])
        if dims == 3:
            first = A(samples[draw])
            third = A(samples[draw + 2])
        for c in range(layers):
            z0 = start_of(c, first, depth, layers, deep)
            for b in range(rows):
                y0 = start_of(b, second, height, rows, high)
                for a in range(columns):
                    x0 = start_of(a, third, width, columns, wide)
                    best = A(lowest(T))
                    place = (z0 * height + y0) * width + x0
                    for z in range(z0, z0 + deep):
                        for y in range(y0, y0 + high):
                            for i in range(x0, x0 + wide):
                                here = (z * height + y) * width + i
                                value = A(x[base + here])
                                if value > best or isnan(value):
                                    best = value
                                    place = here
                    target = ((plane * layers + c) * rows + b) * columns + a
                    out[target] = T(best)
                    positions[target] = place


FARTHEST = 1 << 40  # elements of a window, by which nothing overflows


def fractional_max_pool(dims, self, kernel_size, output_size, random_samples):
    """The largest of each window, and where it is.

    Raises:
        RuntimeError: the sizes don't fit.
        NotImplementedError: the type is not floating.
    """
    samples = check_shapes(dims, self, kernel_size, output_size, random_samples)
    require(f"fractional_max_pool{dims}d_out_frame", self.dtype, FLOATS, self)
    lead = list(self.shape[:-dims])
    missing = [1] * (3 - dims)
    sizes = missing + list(self.shape[-dims:])
    out = fresh(self, [*lead, *output_size])
    positions = fresh(self, [*lead, *output_size], int64)
    ints = [dims, *sizes, *missing, *output_size, *missing, *kernel_size]
    operands = [out, positions, self.contiguous(), samples]
    run_nest(
        fractional_max, operands, ints, out.numel(), prod(lead), prod(kernel_size),
        T=name_of(self.dtype),
    )  # fmt: skip
    return out, positions


def check_shapes(dims, self, kernel_size, output_size, samples):
    """The samples of the input's planes; refuses what doesn't fit.

    Raises:
        RuntimeError: a window is larger than the input, or shapes differ.
    """
    name = f"fractional_max_pool{dims}d"
    if self.ndim not in (dims + 1, dims + 2):
        raise RuntimeError(
            f"{name}: Expected {dims + 1}D or {dims + 2}D tensor, but got: "
            f"{list(self.shape)}"
        )
    for dim in range(self.ndim - dims - 1, self.ndim):
        if self.shape[dim] == 0:
            raise RuntimeError(
                f"{name}: Expected input to have non-zero size for non-batch "
                f"dimensions, but got: {list(self.shape)} with dimension {dim} being "
                "empty"
            )
    if samples.dtype is not self.dtype:
        raise RuntimeError("Expect _random_samples to have the same dtype as input")
    for given, what in ((output_size, "output_size"), (kernel_size, "kernel_size")):
        if len(given) != dims:
            raise RuntimeError(
                f"{name}: {what} must either be a single Int or tuple of "
                f"{'two' if dims == 2 else 'three'} Ints"
            )
    letters = "THW"[-dims:]
    words = {"T": "time", "H": "height", "W": "width"}
    for letter, size, window, wanted in zip(
        letters, self.shape[-dims:], kernel_size, output_size, strict=True
    ):
        # volumes have to be larger than what images may be as large as
        if wanted + window - 1 >= size + (dims == 2) or window < -FARTHEST:
            label = words[letter]
            raise RuntimeError(
                f"{name}: pool {label} {window} too large relative to input {label} "
                f"{size}"
            )
    if samples.ndim != 3 or samples.shape[2] != dims:
        raise RuntimeError(
            "Expect _random_samples to have 3 dimensions, one for each axis"
        )
    batch = 1 if self.ndim == dims + 1 else self.shape[0]
    if samples.shape[0] < batch:
        raise RuntimeError(
            "Expect _random_samples.size(0) no less then input batch size."
        )
    if samples.shape[1] != self.shape[-dims - 1]:
        raise RuntimeError(
            "Expect _random_samples.size(1) equals to input channel size."
        )
    return samples[:batch].contiguous()


def fractional_max_pool2d(self, kernel_size, output_size, random_samples):
    """Planes."""
    return fractional_max_pool(2, self, kernel_size, output_size, random_samples)


def fractional_max_pool3d(self, kernel_size, output_size, random_samples):
    """Volumes."""
    return fractional_max_pool(3, self, kernel_size, output_size, random_samples)


def scattered(grad_output, self, indices, dims):
    """What arrives at each window's largest element."""
    flat = ops.zeros_like(self).flatten(-dims)
    flat = flat.scatter_add(-1, indices.flatten(-dims), grad_output.flatten(-dims))
    return flat.reshape(self.shape)
