"""Modules whose weights are rounded as they train, for dynamic quantization."""

from importlib import import_module

from rushlight.ao.nn.qat import modules as layers

__all__ = ["Linear"]


class Linear(layers.Linear):
    """A linear layer whose weight is rounded.

    Args:
        in_features, out_features, bias, qconfig, device, dtype: as for `qat.Linear`.

    Raises:
        ValueError: activations would not be quantized dynamically.
    """

    def __init__(
        self,
        in_features,
        out_features,
        bias=True,
        qconfig=None,
        device=None,
        dtype=None,
    ):
        super().__init__(in_features, out_features, bias, qconfig, device, dtype)
        activation = qconfig.activation()
        inner = getattr(activation, "activation_post_process", activation)
        averaging = getattr(inner, "averaging_constant", 1)
        if not activation.is_dynamic or averaging != 1:
            raise ValueError(
                "Dynamic QAT requires a memoryless observer."
                "This means a MovingAverage observer with averaging constant equal to 1"
            )


modules = import_module(f"{__name__}.modules")  # an alias
