"""Gradients of convolutions, without a graph."""

from rushlight.nn.modules.utils import _pair, _single, _triple
from rushlight.operators import call

__all__ = [
    "conv1d_input",
    "conv1d_weight",
    "conv2d_input",
    "conv2d_weight",
    "conv3d_input",
    "conv3d_weight",
]


def _gradients(
    expand, input, weight, grad_output, stride, padding, dilation, groups, which
):
    positions = [index == which for index in range(3)]
    return call.convolution_backward(
        grad_output,
        input,
        weight,
        None,
        expand(stride),
        expand(padding),
        expand(dilation),
        False,
        [0],
        groups,
        positions,
    )[which]


def _of_input(expand):
    def gradient(
        input_size, weight, grad_output, stride=1, padding=0, dilation=1, groups=1
    ):
        # Its sizes are asked for, its numbers are not.
        input = grad_output.new_empty(1).expand(input_size)
        options = stride, padding, dilation, groups
        return _gradients(expand, input, weight, grad_output, *options, 0)

    return gradient


def _of_weight(expand):
    def gradient(
        input, weight_size, grad_output, stride=1, padding=0, dilation=1, groups=1
    ):
        weight = grad_output.new_empty(1).expand(weight_size)
        options = stride, padding, dilation, groups
        return _gradients(expand, input, weight, grad_output, *options, 1)

    return gradient


conv1d_input = _of_input(_single)
conv2d_input = _of_input(_pair)
conv3d_input = _of_input(_triple)
conv1d_weight = _of_weight(_single)
conv2d_weight = _of_weight(_pair)
conv3d_weight = _of_weight(_triple)
for _name in __all__:
    _function = globals()[_name]
    _function.__name__ = _function.__qualname__ = _name
    _function.__doc__ = (
        f"The gradient of ``{_name[:6]}`` by its {_name[7:]}, "
        f"for the gradient of its result."
    )
