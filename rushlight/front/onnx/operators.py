"""Operations on shapes that an export keeps as such; here they are computed."""

import rushlight as rl

__all__ = ["reshape_from_tensor_shape", "shape_as_tensor"]


def shape_as_tensor(x):
    """The sizes of a tensor in a tensor."""
    return rl.tensor(tuple(x.shape), dtype=rl.int64)


def reshape_from_tensor_shape(x, shape):
    """A tensor with sizes that are given in a tensor."""
    return x.reshape(shape.tolist())
