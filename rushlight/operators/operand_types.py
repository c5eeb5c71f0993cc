"""What elementwise operators refuse by the types of their operands.

These run where operands are of several types, truth values, integers or complex, or
where a number beside them is given: never in the usual case of floats of one type.
"""

from rushlight.core.dtype import BOOLEAN, FLOATING, INTEGER, iinfo
from rushlight.core.state import is_grad_enabled
from rushlight.core.tensor import Tensor
from rushlight.dispatch.kernels import promoted_type
from rushlight.dispatch.outputs import TYPE_NAMES

# How C++ spells the types, as PyTorch's messages about `lerp` do.
SPELLED = {
    "uint8": "unsigned char",
    "int8": "signed char",
    "int16": "short int",
    "int32": "int",
    "int64": "long int",
    "float16": "c10::Half",
    "bfloat16": "c10::BFloat16",
    "float32": "float",
    "float64": "double",
    "bool": "bool",
    "complex64": "c10::complex<float>",
    "complex128": "c10::complex<double>",
}


def kind_of(value):
    """0 for truth values, 1 for integers, 2 for floats, 3 for complex numbers."""
    if isinstance(value, Tensor):
        return value.dtype.category
    if hasattr(value, "dtype"):  # NumPy's scalars have dtypes of their own
        value = value.item()
    for category, kind in enumerate((bool, int, float, complex)):
        if isinstance(value, kind):
            return category
    return 2


def scale(self, other, alpha=None):
    """A scale of no larger kind than the result.

    Raises:
        RuntimeError: the scale is of a larger kind, or a truth value.
    """
    if alpha is not None:
        scale_of(promoted_type([self, other]), alpha)


def scale_of(dtype, alpha):
    """`scale`, the result's type known."""
    result, kind = dtype.category, kind_of(alpha)
    if kind == 0 and result:
        raise RuntimeError("Boolean alpha only supported for Boolean results.")
    if kind == 2 and result < 2:
        raise RuntimeError(
            "For integral input tensors, argument alpha must not be a floating point "
            "number."
        )
    if kind == 3 and result < 3:
        raise RuntimeError(
            "For non-complex input tensors, argument alpha must not be a complex number."
        )


def subtraction(self, other, alpha=None):
    """No truth values.

    Raises:
        RuntimeError: an operand is a truth value.
    """
    truths = (kind_of(self) == 0) + (kind_of(other) == 0)
    if truths == 2:
        raise RuntimeError(
            "Subtraction, the `-` operator, with two bool tensors is not supported. "
            "Use the `^` or `logical_xor()` operator instead."
        )
    if truths:
        raise RuntimeError(
            "Subtraction, the `-` operator, with a bool tensor is not supported. If you "
            "are trying to invert a mask, use the `~` or `logical_not()` operator "
            "instead."
        )
    scale(self, other, alpha)


def same_for_step(self, values):
    """Both operands of one real type.

    Raises:
        RuntimeError: the types differ, or are complex.
    """
    if self.dtype.is_complex or values.dtype.is_complex:
        raise RuntimeError("heaviside is not yet implemented for complex tensors.")
    if self.dtype != values.dtype:
        raise RuntimeError(
            "heaviside is not yet implemented for tensors with different dtypes."
        )


def same_for_line(self, end, weight):
    """Floats of one type; a weight without dimensions may be of another.

    Raises:
        RuntimeError: the types differ.
        NotImplementedError: they are not floats.
    """
    own = self.dtype
    lone = not hasattr(weight, "dtype")
    others = {"end": end}
    if not lone and weight.ndim:
        others["weight"] = weight
    for name, value in others.items():
        if value.dtype != own:
            raise RuntimeError(
                f"expected dtype {SPELLED.get(own.name, own.name)} for `{name}` but got "
                f"dtype {SPELLED.get(value.dtype.name, value.dtype.name)}"
            )
    if own.category < FLOATING and (lone or weight.dtype.category < FLOATING):
        kind = "scalar" if lone else "tensor"
        raise NotImplementedError(
            f"\"lerp_kernel_{kind}\" not implemented for '{TYPE_NAMES.get(own.name)}'"
        )


def quotient_of_floats(self, tensor1, tensor2, value=None):
    """Quotients of integers are refused.

    Raises:
        RuntimeError: both tensors that are divided are of integers.
    """
    if tensor1.dtype.category < FLOATING and tensor2.dtype.category < FLOATING:
        raise RuntimeError(
            "Integer division with addcdiv is no longer supported, and in a future "
            " release addcdiv will perform a true division of tensor1 and tensor2. The "
            "historic addcdiv behavior can be implemented as (input + value * "
            "torch.trunc(tensor1 / tensor2)).to(input.dtype) for integer inputs and as "
            "(input + value * tensor1 / tensor2) for float inputs. The future addcdiv "
            "behavior is just the latter implementation: (input + value * tensor1 / "
            "tensor2), for all dtypes."
        )


def no_truth(name):
    """A rule that refuses truth values, as a kernel that is not there."""

    def check(*operands):
        if all(kind_of(operand) == 0 for operand in operands[:3]):
            raise NotImplementedError(f"\"{name}\" not implemented for 'Bool'")

    return check


def no_sign(operand):
    """Refuses complex numbers, before anything else."""
    if kind_of(operand) == 3:
        raise NotImplementedError("signbit is not implemented for complex tensors.")


def no_order(name):
    """`no_truth`, and no complex bounds of whole numbers."""
    refuse = no_truth(name)

    def check(*operands):
        refuse(*operands)
        if max(map(kind_of, operands)) == 3 and kind_of(operands[0]) != 2:
            raise NotImplementedError("clamp is not supported for complex types")

    return check


absolute = no_truth("abs_cpu")
ceiling = no_truth("ceil_vml_cpu")
flooring = no_truth("floor_vml_cpu")
rounding = no_truth("round_vml_cpu")
truncation = no_truth("trunc_vml_cpu")
left_shift = no_truth("lshift_cpu")
right_shift = no_truth("rshift_cpu")
powers = no_truth("pow")
clamping = no_order("clamp_cpu")
products = no_truth("addcmul_cpu_out")


def no_truth_by_number(name):
    """A rule that refuses truth values held by a number; a tensor may hold them."""
    refuse = no_order(name)

    def check(self, bound):
        if not hasattr(bound, "dtype"):
            refuse(self, bound)

    return check


clamping_from = no_truth_by_number("clamp_min_scalar_cpu")
clamping_to = no_truth_by_number("clamp_max_scalar_cpu")


def power(base, exponent):
    """No powers of truth values by truth values; powers within an integer type.

    Raises:
        NotImplementedError: both operands are truth values.
        RuntimeError: the exponent is beyond the type of the base.
    """
    powers(base, exponent)
    if isinstance(exponent, int) and hasattr(base, "dtype"):
        limits = iinfo(base.dtype) if base.dtype.category == INTEGER else None
        if limits is not None and exponent > limits.max:
            raise RuntimeError(
                f"value cannot be converted to type {base.dtype.name}_t without overflow"
            )


def thresholding(self, threshold, value):
    """No truth values.

    Raises:
        NotImplementedError: the input is boolean.
    """
    if self.dtype.category == BOOLEAN:
        raise NotImplementedError("\"threshold_cpu\" not implemented for 'Bool'")


def positive_part(self):
    """No truth values.

    Raises:
        RuntimeError: the input is boolean.
    """
    if self.dtype.category == BOOLEAN:
        raise RuntimeError("Boolean inputs not supported for relu")


def degrees(name):
    """A rule that refuses complex numbers for a conversion of angles."""

    def check(self):
        if self.dtype.is_complex:
            raise RuntimeError(f"{name} is not supported for complex tensors.")

    return check


deg2rad = degrees("deg2rad")
rad2deg = degrees("rad2deg")


def range_of_numbers(self, min_val, max_val):
    """No truth values, and no bounds below the least unsigned number.

    Raises:
        RuntimeError: the input is boolean, or unsigned beside negative bounds.
    """
    if self.dtype.category == BOOLEAN:
        raise RuntimeError("Bool inputs not supported for hardtanh")
    if self.dtype.name == "uint8" and (min_val < 0 or max_val < 0):
        raise RuntimeError(
            "cannot do hardtanh on an unsigned type with negative limits"
        )


def no_complex_gradient(name):
    """A rule that refuses complex numbers where a gradient is wanted of them."""

    def check(self, *rest):
        if self.dtype.is_complex and self.requires_grad and is_grad_enabled():
            raise RuntimeError(
                f"{name} does not support automatic differentiation for outputs with "
                "complex dtype."
            )

    return check


silu = no_complex_gradient("silu")
nan_to_num = no_complex_gradient("nan_to_num")
