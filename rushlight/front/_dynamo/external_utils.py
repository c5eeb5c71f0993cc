"""Functions around those that programs compile."""

import functools

import numpy as np

from rushlight.core.tensor import Tensor
from rushlight.operators.functions import as_tensor
from rushlight.utils._pytree import tree_map_only

__all__ = ["wrap_numpy"]


def wrap_numpy(fn):
    """A function of tensors that does what one of NumPy's arrays does.

    NumPy computes it, in compiled functions, too: a graph ends before it, and it has no
    gradients.

    Args:
        fn: a function of arrays.

    >>> import numpy, rushlight as rl
    >>> wrap_numpy(numpy.cumsum)(rl.ones(3))
    tensor([1., 2., 3.])
    """

    @functools.wraps(fn)
    def wrapped(*args, **kwargs):
        args, kwargs = tree_map_only(Tensor, lambda one: one.numpy(), (args, kwargs))
        kinds = np.ndarray, np.generic
        return tree_map_only(kinds, as_tensor, fn(*args, **kwargs))

    return wrapped
