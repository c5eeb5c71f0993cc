"""Comparisons: tensors of truth values, and questions with one answer."""

from rushlight.codegen import language as L
from rushlight.codegen.frontend.type_support import ALL_FLOAT8
from rushlight.codegen.language import pointwise
from rushlight.codegen.loops import i64, local, loops
from rushlight.core.dtype import BOOLEAN, COMPLEX, FLOATING
from rushlight.core.dtypes import bool_, float64
from rushlight.core.subclass import make_subclass
from rushlight.core.tensor import Tensor
from rushlight.operators import call as ops
from rushlight.operators.assertions import refuse_unless
from rushlight.operators.creation.creation import number_type
from rushlight.operators.functions import result_type
from rushlight.operators.loop_calls import brief, fresh, run, scalar_name
from rushlight.operators.quantized.quantized import quantized_name
from rushlight.operators.shared import readable

logical_and = pointwise(L.logical_and)
logical_or = pointwise(L.logical_or)
logical_xor = pointwise(L.logical_xor)


@pointwise(float8=ALL_FLOAT8, complex_half=True)
def eq(x, y):
    """``x == y``."""
    return x == y


@pointwise(float8=ALL_FLOAT8, complex_half=True)
def ne(x, y):
    """``x != y``."""
    return x != y


@pointwise
def lt(x, y):
    """``x < y``."""
    return x < y


@pointwise
def le(x, y):
    """``x <= y``."""
    return x <= y


@pointwise
def gt(x, y):
    """``x > y``."""
    return x > y


@pointwise
def ge(x, y):
    """``x >= y``."""
    return x >= y


def isclose(self, other, rtol, atol, equal_nan):
    """``|self - other| <= atol + rtol * |other|``; equal infinities are close.

    Raises:
        RuntimeError: the dtypes differ, or a tolerance is negative.
    """
    if self.dtype != other.dtype:
        raise RuntimeError(
            f"{quantized_name(self.dtype)} did not match {quantized_name(other.dtype)}"
        )
    if self.is_quantized:
        raise RuntimeError("isclose is not supported for quantized inputs.")
    rtol, atol = float(rtol), float(atol)
    if not (rtol >= 0 and atol >= 0):
        name, value = ("atol", atol) if rtol >= 0 else ("rtol", rtol)
        raise RuntimeError(
            f"{name} must be greater than or equal to zero, but got {value}"
        )
    close = self == other
    if equal_nan and (self.is_floating_point() or self.is_complex()):
        close |= ops.isnan(self) & ops.isnan(other)
    if rtol == 0 and atol == 0:
        return close
    if self.dtype.category < FLOATING:
        self, other = self.to(float64), other.to(float64)
    allowed = atol + ops.abs(rtol * other)
    gap = ops.abs(self - other)
    finite = ops.isfinite(gap)
    finite &= gap <= allowed
    close |= finite  # in place: the layout is that of the comparison
    return close


def allclose(self, other, rtol, atol, equal_nan):
    """Whether ``isclose`` holds everywhere."""
    return bool(ops.all(isclose(self, other, rtol, atol, equal_nan)).item())


def equal(self, other):
    """Whether sizes and all elements agree.

    Raises:
        RuntimeError: the tensors are on different devices.
    """
    if self.device != other.device:
        raise RuntimeError(
            "Expected all tensors to be on the same device, but found at least two "
            f"devices, {self.device} and {other.device}!"
        )
    if self.shape != other.shape:
        return False
    return bool(ops.all(ops.eq(self, other)).item())


FEW_PAIRS = 4096  # up to so many comparisons cost less than a sort's launch


def isin(elements, test_elements, assume_unique, invert):
    """Compares every element with every test element, or searches among many.

    Raises:
        RuntimeError: truth values or complex numbers are compared.
    """
    for value in (elements, test_elements):
        kind = value.dtype if hasattr(value, "dtype") else number_type(value)
        if kind.category in (BOOLEAN, COMPLEX):
            raise RuntimeError(
                f"Unsupported input type encountered for isin(): {scalar_name(kind)}"
            )
    if not hasattr(elements, "dtype"):
        if not hasattr(test_elements, "dtype"):
            raise TypeError(
                "isin() received an invalid combination of arguments - got "
                f"({type(elements).__name__}, {type(test_elements).__name__}), but one of "
                "the two has to be a Tensor"
            )
        elements = ops.scalar_tensor(elements, device=test_elements.device)
    if not hasattr(test_elements, "dtype"):
        found = elements.reshape(-1) == test_elements
        found = ops._unsafe_view(found, elements.shape)
    elif test_elements.numel() * elements.numel() <= FEW_PAIRS:
        found = ops.any(elements.unsqueeze(-1) == test_elements.reshape(-1), -1)
    else:
        found = ops._isin_sorted(elements, ops.sort(test_elements.reshape(-1))[0])
    return ops.logical_not(found) if invert else found


@loops
def search_equal(
    out: "boolean*", x: "T*", among: "T*", count: int, begin: int, end: int
):
    """Whether an element is in a sorted row, whose NaN come last and equal nothing."""
    first = local("i64", 16)
    for start in range(begin, end, 16):  # side by side: none waits for another's loads
        lanes = min(end - start, 16)
        for i in range(lanes):
            first[i] = i64(0)
        left = count
        while left > 1:
            half = left >> 1
            for i in range(lanes):
                below = among[first[i] + half - 1] < x[start + i]
                first[i] = first[i] + (half if below else i64(0))
            left = left - half
        for i in range(lanes):
            out[start + i] = among[first[i]] == x[start + i]


def isin_sorted(elements, among):
    """Whether each element is in a sorted row that is not empty."""
    if among.ndim != 1 or not among.shape[0]:
        raise RuntimeError(f"_isin_sorted: expected a row\n  among: {brief(among)}")
    common = result_type(elements, among)
    out = fresh(elements, elements.shape, bool_)
    x, among = elements.to(common).contiguous(), among.to(common).contiguous()
    ints = [among.shape[0]]
    run(search_equal, [out, x, among], ints, x.numel(), 32, T=common.name)
    return out


def local_scalar_dense(self):
    """The one element, read where the tensor lies."""
    return make_subclass(Tensor, self).item()


def item(self):
    """The one element as a number."""
    return ops._local_scalar_dense(self)


def assert_scalar(self, assert_msg):
    """Checks what a recorded program has promised.

    Raises:
        RuntimeError: the number is zero, or the truth false.
    """
    if not self:
        raise RuntimeError(assert_msg)


def assert_async(self, assert_msg=None):
    """Checks the only element; a device is not waited for.

    Raises:
        RuntimeError: it is zero, or not the only one.
    """
    if self.numel() != 1 or not readable(self):
        self = self.item()
    refuse_unless(self != 0, "_assert_async", _not_true, assert_msg)


def _not_true(at, message):
    return RuntimeError(
        message or "Expected Tensor with single nonzero value, but got zero"
    )


def is_nonzero(self):
    """The truth of the only element.

    Raises:
        RuntimeError: there isn't exactly one element.
    """
    if self.numel() != 1:
        many = "no values" if self.numel() == 0 else "more than one value"
        raise RuntimeError(f"Boolean value of Tensor with {many} is ambiguous")
    return bool(self.item())
