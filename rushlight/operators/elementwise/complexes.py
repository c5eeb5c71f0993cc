"""Operators that make complex numbers of real ones, and real ones of complex."""

import math

from rushlight.codegen import language as L
from rushlight.codegen.language import pointwise
from rushlight.core.dtype import FLOATING, get_default_dtype
from rushlight.dispatch.kernels import run_pointwise
from rushlight.dispatch.outputs import TYPE_NAMES
from rushlight.operators import call as ops
from rushlight.operators.shared import conjugated

PARTS = ("float16", "float32", "float64")


@pointwise
def from_parts(real, imag):
    """``real + imag i``."""
    return L.make_complex(real, imag)


@pointwise
def from_polar(length, angle):
    """``length (cos(angle) + sin(angle) i)``."""
    return L.make_complex(length * L.cos(angle), length * L.sin(angle))


@pointwise
def angle(x):
    """The angle of the point; for real numbers, pi below zero, NaN kept."""
    if L.is_complex(x):
        return L.atan2(L.imag(x), L.real(x))
    return L.nan_where(L.isnan(x), L.select(x < 0, math.pi, L.constant(0, x)))


def angle_of(self):
    """The angles; those of complex numbers are laid out anew, as PyTorch's are."""
    return ops._angle_of_complex(self) if self.is_complex() else ops._angle(self)


def check_parts(first, second):
    """Refuses parts of which no complex number can be made.

    Raises:
        RuntimeError: the parts are not floating, or not of one type.
    """
    kinds = [TYPE_NAMES.get(t.dtype.name, t.dtype.name) for t in (first, second)]
    if first.dtype.name not in PARTS or second.dtype.name not in PARTS:
        raise RuntimeError(
            "Expected both inputs to be Half, Float or Double tensors but got "
            f"{kinds[0]} and {kinds[1]}"
        )
    if first.dtype is not second.dtype:
        raise RuntimeError(
            f"Expected object of scalar type {kinds[0]} but got scalar type {kinds[1]} "
            "for second argument"
        )


def _make(source, first, second):
    check_parts(first, second)
    kinds = [first.dtype.to_complex().name]
    compute = first.dtype.name
    return run_pointwise(source, [first, second], None, kinds, compute)


def complex_of_parts(real, imag):
    """Both parts side by side."""
    return _make(from_parts, real, imag)


def complex_of_polar(length, angle):
    """Lengths and angles as real and imaginary parts."""
    return _make(from_polar, length, angle)


def part(grad, which):
    """The real or imaginary part of a gradient; a real one has no imaginary part."""
    if grad.is_complex():
        return ops.imag(grad) if which else ops.real(grad)
    return ops.zeros_like(grad) if which else grad


def polar_gradients(grad, result, needs):
    """How far the gradient points along the number, and across it."""
    back = conjugated(grad)
    length = ops.real(back * ops.sgn(result)) if needs & 1 else None
    rotation = ops.real(back * (result * 1j)) if needs & 2 else None
    return length, rotation


def angle_gradient(grad, self):
    """Across the number, over its length; nothing for real numbers and at zero."""
    if not self.is_complex():
        return ops.zeros_like(self)
    size = ops.abs(self)
    across = ops.complex(-ops.imag(self) / size, ops.real(self) / size)
    return ops.where(size == 0, 0.0, across * (grad / size))


def real_float(dtype):
    """Computed in the promoted type; the result is its real counterpart."""
    if dtype.category < FLOATING:
        dtype = get_default_dtype()
    return dtype.name, (dtype.to_real().name,)
