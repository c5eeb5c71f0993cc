"""Masked tensors: reductions that leave elements out of account, and a type that carries
which elements count.

>>> import rushlight as rl
>>> sum(rl.tensor([1.0, 2.0, 4.0]), mask=rl.tensor([True, False, True])).item()
5.0
>>> masked_tensor(rl.tensor([1.0, 2.0]), rl.tensor([True, False]))
MaskedTensor(
  [  1.0000,       --]
)
"""

from rushlight.masked import _ops
from rushlight.masked._ops import *
from rushlight.masked.maskedtensor import (
    MaskedTensor,
    as_masked_tensor,
    is_masked_tensor,
    masked_tensor,
)

__all__ = [
    "MaskedTensor",
    "_ops",
    "as_masked_tensor",
    "is_masked_tensor",
    "masked_tensor",
]
__all__ += _ops.__all__
