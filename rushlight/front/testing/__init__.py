"""Comparisons and drawn tensors for tests."""

import warnings

from rushlight.testing.comparison import assert_close
from rushlight.testing.creation import make_tensor
from rushlight.testing.file_check import FileCheck

__all__ = ["FileCheck", "assert_allclose", "assert_close", "make_tensor"]


def assert_allclose(actual, expected, rtol=None, atol=None, equal_nan=True, msg=""):
    """The former ``assert_close``: takes numbers and arrays, and passes types by.

    Args:
        actual: what was computed.
        expected: what it ought to be.
        rtol, atol: what it may differ by; the types decide by default.
        equal_nan: whether NaN is like NaN.
        msg: the words of the error.

    Raises:
        AssertionError: the values differ.

    >>> import pytest
    >>> with pytest.warns(FutureWarning):
    ...     assert_allclose([1.0], [1.0])
    """
    import rushlight as rl

    warnings.warn(
        "`torch.testing.assert_allclose()` is deprecated since 1.12 and will be removed "
        "in a future release. Please use `torch.testing.assert_close()` instead. You can "
        "find detailed upgrade instructions in "
        "https://github.com/pytorch/pytorch/issues/61844.",
        FutureWarning,
        stacklevel=2,
    )
    if not isinstance(actual, rl.Tensor):
        actual = rl.tensor(actual)
    if not isinstance(expected, rl.Tensor):
        expected = rl.tensor(expected, dtype=actual.dtype)
    if rtol is None and atol is None:
        rtol, atol = _LOOSE.get(actual.dtype.name, (0.0, 0.0))
    assert_close(
        actual,
        expected,
        rtol=rtol,
        atol=atol,
        equal_nan=equal_nan,
        check_device=True,
        check_dtype=False,
        check_stride=False,
        msg=msg or None,
    )


# What it takes for equal, by the type of its first argument.
_LOOSE = {"float16": (1e-3, 1e-3), "float32": (1e-4, 1e-5), "float64": (1e-5, 1e-8)}
