"""Padding, and other ways of rearranging elements in space."""

from __future__ import annotations

from collections.abc import Iterable

from rushlight.operators import call


def pad(input, pad, mode="constant", value=None):
    """Add elements before and after the last dimensions.

    Args:
        input: any tensor; the modes other than ``"constant"`` pad the last one, two
            or three dimensions of a sample.
        pad: ``(before, after)`` of the last dimension, then of the one before it, and
            so on; negative numbers cut off.
        mode: ``"constant"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.
        value: what ``"constant"`` puts there; 0 where it is left out.
    """
    return call.pad(input, pad, mode, value)


def _two(value):
    return tuple(value) if isinstance(value, Iterable) else (value, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns: ``(N, C * kh * kw, L)``."""
    return call.im2col(input, *map(_two, (kernel_size, dilation, padding, stride)))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns ``(N, C * kh * kw, L)`` into the image that they are windows of."""
    settings = output_size, kernel_size, dilation, padding, stride
    return call.col2im(input, *map(_two, settings))
