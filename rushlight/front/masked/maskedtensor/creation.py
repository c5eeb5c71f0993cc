"""How masked tensors are made: as leaves, or of tensors that gradients flow back to."""

from rushlight.masked.maskedtensor import _layouts
from rushlight.masked.maskedtensor.core import MaskedTensor, checked, of_data

__all__ = ["as_masked_tensor", "masked_tensor"]


def masked_tensor(data, mask, requires_grad=False):
    """A masked tensor of copies, a leaf.

    Args:
        data: the elements.
        mask: of the same sizes, true where an element counts.
        requires_grad: whether gradients flow to it.

    Raises:
        TypeError: one is no tensor, or of a type that is not taken.
        ValueError: the sizes differ.

    >>> masked_tensor(rl.tensor([1, 2]), rl.tensor([True, False])).sum()
    MaskedTensor(1, True)
    """
    return MaskedTensor(data, mask, requires_grad)


def as_masked_tensor(data, mask):
    """A masked tensor through which gradients flow back to its data.

    Args:
        data: the elements.
        mask: of the same sizes, true where an element counts.

    Raises:
        TypeError: one is no tensor, or of a type that is not taken.
        ValueError: the sizes differ.

    >>> x = rl.tensor([1.0, 2.0], requires_grad=True)
    >>> as_masked_tensor(x, rl.tensor([True, False])).sum().backward()
    >>> x.grad
    MaskedTensor(
      [  1.0000,       --]
    )
    """
    checked(data, mask)
    data, mask = _layouts.prepared(data, mask)
    return of_data(data, mask.clone(), masked_gradient=True)
