"""Half precision is widened where squares and sums are taken, and narrowed behind them."""

from rushlight.core.dtypes import float32


def statistics_dtype(dtype):
    """The dtype to compute statistics in."""
    return float32 if dtype.itemsize == 2 else dtype


def widened(tensors):
    """Tensors, or None, of half precision in single precision."""
    return [None if t is None else t.to(statistics_dtype(t.dtype)) for t in tensors]


def narrowed(gradients, input, weight, bias):
    """The gradients in the types of what they are of."""
    kinds = [t.dtype if t is not None else input.dtype for t in (input, weight, bias)]
    if bias is None:
        kinds[2] = kinds[1]
    return tuple(
        None if grad is None else grad.to(kind)
        for grad, kind in zip(gradients, kinds, strict=True)
    )
