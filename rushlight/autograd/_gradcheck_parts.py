"""Numbers of tensors in order, and random tensors: what checks of gradients vary."""

from rushlight.core.tensor import Tensor
from rushlight.operators import call


def parts_of(tensor):
    """The real numbers of a tensor in order: a complex one has two for each element."""
    if tensor.is_complex():
        tensor = call.view_as_real(tensor.resolve_conj())
    return tensor.reshape(-1)


def unit_of(like, i):
    """Zeros, but for a one in the ``i``-th of `parts_of`."""
    count = like.numel() * (2 if like.is_complex() else 1)
    made = call.zeros(count, dtype=like.dtype.to_real())
    made[i] = 1
    if like.is_complex():
        made = call.view_as_complex(made.reshape(-1, 2))
    return made.reshape(like.shape)


def as_tuple(value):
    """Several values, or one, as a tuple."""
    return tuple(value) if isinstance(value, (tuple, list)) else (value,)


def differentiable(outputs):
    """The outputs that gradients flow back from."""
    return tuple(
        out
        for out in as_tuple(outputs)
        if isinstance(out, Tensor) and out.requires_grad
    )


def random_like(output, strided):
    """A random tensor that requires a gradient; every second element if strided."""
    made = call.rand(*output.shape, 2 if strided else 1, dtype=output.dtype)
    made = (made * 2 - 1)[..., 0]
    return (made if strided else made.contiguous()).detach().requires_grad_()
