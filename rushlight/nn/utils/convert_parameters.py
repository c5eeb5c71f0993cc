"""Parameters as one vector, and back."""

import rushlight as rl
from rushlight.core.tensor import Tensor

__all__ = ["parameters_to_vector", "vector_to_parameters"]


def parameters_to_vector(parameters):
    """All elements of the parameters, one after another.

    Args:
        parameters: the tensors.

    >>> parameters_to_vector([rl.tensor([1.0]), rl.tensor([[2.0, 3.0]])])
    tensor([1., 2., 3.])
    """
    return rl.cat([parameter.reshape(-1) for parameter in parameters])


def vector_to_parameters(vec, parameters):
    """Make slices of a vector the values of the parameters.

    Args:
        vec: as many elements as all parameters have.
        parameters: the tensors, which are changed.

    >>> x = rl.nn.Parameter(rl.zeros(2))
    >>> vector_to_parameters(rl.tensor([1.0, 2.0]), [x])
    >>> x.detach()
    tensor([1., 2.])
    """
    if not isinstance(vec, Tensor):
        raise TypeError(f"expected torch.Tensor, but got: {type(vec)}")
    start = 0
    for parameter in parameters:
        count = parameter.numel()
        parameter.data = vec[start : start + count].view_as(parameter).data
        start += count
