"""By what the integers of quantized tensors stand for numbers."""

from rushlight.core.layout import _ALL, _Named


class QScheme(_Named):
    """One scale for all elements, or one for each channel."""

    __slots__ = ()


qscheme = QScheme  # PyTorch's name
per_tensor_affine = QScheme("per_tensor_affine")
per_channel_affine = QScheme("per_channel_affine")
per_tensor_symmetric = QScheme("per_tensor_symmetric")
per_channel_symmetric = QScheme("per_channel_symmetric")
per_channel_affine_float_qparams = QScheme("per_channel_affine_float_qparams")
_ALL.update(
    (value.name, value)
    for value in (
        per_tensor_affine,
        per_channel_affine,
        per_tensor_symmetric,
        per_channel_symmetric,
        per_channel_affine_float_qparams,
    )
)
