"""Conditions that programs state and graphs keep."""

from __future__ import annotations

from rushlight.codegen.loops import loops
from rushlight.core.device import Device
from rushlight.core.dtype import TYPE_NAMES, DType
from rushlight.core.tensor import Tensor
from rushlight.dispatch import torch_function
from rushlight.operators import call
from rushlight.operators.loop_calls import fault_flag, refuse_fault, run


@loops
def find_false(holds: "boolean*", fault: "i64*", begin: int, end: int):
    """Reports a place that is not true."""
    for at in range(begin, end):
        if not holds[at]:
            fault[0] = at


def refuse_unless(holds, operator, make, *args):
    """Raises where not all elements are true; a device is not waited for.

    Args:
        holds: truth values.
        operator: its name.
        make: from a place that is not true and ``args`` to the exception.
    """
    flag = fault_flag(holds)
    run(find_false, [holds.contiguous(), flag], [], holds.numel())
    refuse_fault(flag, operator, make, *args)


def _assert(condition, message):
    """Python's ``assert``, as a function.

    Raises:
        AssertionError: the condition does not hold.
    """
    if type(condition) is not Tensor and torch_function.has_torch_function(
        (condition,)
    ):
        return torch_function.handle_torch_function(
            _assert, (condition,), condition, message
        )
    assert condition, message


def _assert_async(condition, message=None):
    """Raises where a condition is not true.

    Raises:
        RuntimeError: it is not.
    """
    given = () if message is None else (message,)
    call._assert_async(condition, *given)


def _assert_tensor_metadata(
    a, size=None, stride=None, dtype=None, *, device=None, layout=None
):
    """Raises where a tensor is not what a program was told it would be.

    Args:
        a: the tensor.
        size: its sizes; any without.
        stride: its strides; any without.
        dtype: its type; any without.
        device: where it is; anywhere without.
        layout: how it is stored; any without.

    Raises:
        RuntimeError: it is something else.
    """
    for what, expected, found in (
        ("sizes", size, list(a.shape)),
        ("strides", stride, list(a.stride()) if stride is not None else None),
        ("dtype", dtype, a.dtype),
        ("device", device, a.device),
        ("layout", layout, a.layout),
    ):
        if expected is None:
            continue
        if what in ("sizes", "strides"):
            expected = list(expected)
        if what == "device":
            expected = Device(expected)
        if expected != found:
            raise RuntimeError(
                f"Tensor {what} mismatch! Expected: {_word_for(expected)}, Got: {_word_for(found)}"
            )


def _word_for(value):
    """A type or a layout by PyTorch's word for it, and anything else as it is."""
    if isinstance(value, DType):
        return TYPE_NAMES.get(value.name, value.name)
    word = str(value).rpartition(".")[2]
    if word.startswith(("sparse_", "strided")):
        return word.replace("_coo", "").title().replace("_", "")
    return value
