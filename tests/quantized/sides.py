"""Quantized values on both sides: the same integers, scales and zero points."""

import warnings

import numpy as np

import rushlight as rl


def both(torch, x, scale, point, dtype="quint8"):
    """The same numbers quantized on both sides."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = rl.quantize_per_tensor(
            rl.tensor(x.numpy()), scale, point, getattr(rl, dtype)
        )
        two = torch.quantize_per_tensor(x, scale, point, getattr(torch, dtype))
    return one, two


def both_by_channel(torch, x, scales, points, axis=0, dtype="qint8"):
    """The same by channels."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        one = rl.quantize_per_channel(
            rl.tensor(x.numpy()),
            rl.tensor(scales.numpy()),
            rl.tensor(points.numpy()),
            axis,
            getattr(rl, dtype),
        )
        two = torch.quantize_per_channel(x, scales, points, axis, getattr(torch, dtype))
    return one, two


def difference(one, two):
    """How many elements of two results differ; all where sizes or scales do."""
    if isinstance(two, tuple | list):
        return sum(difference(a, b) for a, b in zip(one, two, strict=True))
    assert tuple(one.shape) == tuple(two.shape), (one.shape, two.shape)
    assert str(one.dtype).partition(".")[2] == str(two.dtype).partition(".")[2]
    if two.is_quantized:
        assert one.q_zero_point() == two.q_zero_point()
        assert np.float32(one.q_scale()) == np.float32(two.q_scale())
        one, two = one.int_repr(), two.int_repr()
    return int((one.numpy() != two.numpy()).sum())
