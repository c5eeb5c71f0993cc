"""What PyTorch's core tells of tensors that transformations made, by its names."""

from rushlight.autograd.levels import stack
from rushlight.autograd.levels.batch import Batched
from rushlight.core.tensor import Tensor


def is_batchedtensor(tensor):
    """Whether the tensor stands for one example of a batch.

    >>> is_batchedtensor(rl.ones(2))
    False
    """
    return isinstance(tensor._stand, Batched)


def is_functorch_wrapped_tensor(tensor):
    """Whether the tensor stands for another one, in any transformation."""
    return isinstance(tensor, Tensor) and tensor._stand is not None


def is_gradtrackingtensor(tensor):
    """Whether the tensor stands for one that is being differentiated."""
    return is_functorch_wrapped_tensor(tensor) and not is_batchedtensor(tensor)


def get_unwrapped(tensor):
    """What the tensor stands for, one transformation further out."""
    return tensor if tensor._stand is None else tensor._stand.value


def maybe_get_bdim(tensor):
    """The dimension that counts the examples; -1 where nothing does."""
    return tensor._stand.dim if is_batchedtensor(tensor) else -1


def maybe_get_level(tensor):
    """The number of the transformation that made the tensor; -1 for none."""
    return -1 if tensor._stand is None else tensor._stand.level.number


def current_level():
    """How many transformations are at work."""
    return stack.depth()


def maybe_current_level():
    """The number of the innermost transformation at work, or None."""
    return stack.depth() or None


def _add_batch_dim(tensor, in_dim, level):
    """One example that stands for all along a dimension, in a ``vmap`` at work.

    Raises:
        RuntimeError: no transformation has that number.
    """
    return stack.level_of(level).wrap(tensor, in_dim % tensor.dim())


def _remove_batch_dim(tensor, level, batch_size, out_dim):
    """All examples of what one stands for, along a dimension; others are repeated.

    Raises:
        RuntimeError: no transformation has that number.
    """
    owner = tensor._stand and tensor._stand.level
    if owner is not None and owner.number == level:
        value, dim = tensor._stand.value, tensor._stand.dim
        return value if dim == out_dim else value.movedim(dim, out_dim)
    spread = tensor.unsqueeze(out_dim)
    sizes = list(spread.shape)
    sizes[out_dim] = batch_size
    return spread.expand(sizes)
