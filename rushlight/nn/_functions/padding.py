"""Padding, and other ways of rearranging elements in space."""

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

    >>> pad(rl.tensor([[1.0, 2.0]]), (1, 2))
    tensor([[0., 1., 2., 0., 0.]])
    """
    return call.pad(input, pad, mode, value)


def _two(value):
    return tuple(value) if isinstance(value, Iterable) else (value, value)


def unfold(input, kernel_size, dilation=1, padding=0, stride=1):
    """The windows of an image as columns: ``(N, C * kh * kw, L)``.

    Args:
        input: images of shape ``(N, C, H, W)`` or ``(C, H, W)``.
        kernel_size: size of the window, one number or two.
        dilation: step between the elements of a window.
        padding: how many zeros go on each side.
        stride: step from one window to the next.

    >>> unfold(rl.arange(9.0).reshape(1, 1, 3, 3), 2)
    tensor([[[0., 1., 3., 4.],
             [1., 2., 4., 5.],
             [3., 4., 6., 7.],
             [4., 5., 7., 8.]]])
    """
    return call.im2col(input, *map(_two, (kernel_size, dilation, padding, stride)))


def fold(input, output_size, kernel_size, dilation=1, padding=0, stride=1):
    """Sum columns ``(N, C * kh * kw, L)`` into the image that they are windows of.

    Args:
        input: columns of shape ``(N, C * elements of a window, windows)``.
        output_size: height and width of the images.
        kernel_size: size of the window, one number or two.
        dilation: step between the elements of a window.
        padding: how many zeros go on each side.
        stride: step from one window to the next.

    >>> fold(rl.ones(1, 4, 4), (3, 3), 2)
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])
    """
    settings = output_size, kernel_size, dilation, padding, stride
    return call.col2im(input, *map(_two, settings))
