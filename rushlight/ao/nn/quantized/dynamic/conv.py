"""Convolutions with weights of integers, of numbers."""

import rushlight as rl
from rushlight.ao.nn.quantized import conv


class _Dynamic:
    """A convolution of numbers that are quantized by the scale that they ask for."""

    def _get_name(self):
        return "Dynamic" + super()._get_name()

    def forward(self, input, reduce_range=True):
        """The convolution.

        Args:
            input: numbers.
            reduce_range: whether they are quantized to seven bits.

        Raises:
            ValueError: the input has other dimensions.
        """
        if input.ndim != self._COUNT + 2:
            shape = "(N, C, L)" if self._COUNT == 1 else "(N, C, ...)"
            raise ValueError(f"Input shape must be `{shape}`!")
        word = "conv_transpose" if self.transposed else "conv"
        convolve = getattr(rl.ops.quantized, f"{word}{self._COUNT}d_dynamic")
        return convolve(input, self._packed_params, reduce_range)


def _made(base):
    return type(
        base.__name__,
        (_Dynamic, base),
        {"__doc__": f"`{base.__name__}` of numbers.", "__module__": __name__},
    )


Conv1d, Conv2d, Conv3d = map(_made, (conv.Conv1d, conv.Conv2d, conv.Conv3d))
ConvTranspose1d, ConvTranspose2d, ConvTranspose3d = map(
    _made, (conv.ConvTranspose1d, conv.ConvTranspose2d, conv.ConvTranspose3d)
)
