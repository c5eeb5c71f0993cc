"""``MaskedTensor``: elements, and which of them count."""

from rushlight.masked.maskedtensor import _ops_refs
from rushlight.masked.maskedtensor.core import MaskedTensor, is_masked_tensor
from rushlight.masked.maskedtensor.creation import as_masked_tensor, masked_tensor

__all__ = [
    "MaskedTensor",
    "_ops_refs",
    "as_masked_tensor",
    "is_masked_tensor",
    "masked_tensor",
]
