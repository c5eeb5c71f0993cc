"""A rank that has diverged is named before its NaN reaches the others.

Looking costs a pass over what is sent, so it is asked for: ``TORCH_NCCL_NAN_CHECK=1``, as for
PyTorch's NCCL, or ``TORCH_DISTRIBUTED_DEBUG=DETAIL``. Infinities are left alone: scaled losses
of half precision have them, and know what to do.
"""

import os

from rushlight.distributed.errors import DistBackendError
from rushlight.distributed.transport.frames import describe


def is_wanted():
    """Whether the environment asks for it."""
    asked = os.environ.get("TORCH_NCCL_NAN_CHECK", "").lower() in (
        "1",
        "true",
        "y",
        "yes",
    )
    return asked or os.environ.get("TORCH_DISTRIBUTED_DEBUG", "").upper() == "DETAIL"


def _count(tensor):
    """How many elements are NaN."""
    if not tensor.dtype.is_floating_point and not tensor.dtype.is_complex:
        return 0
    found = tensor.detach().isnan()
    return int(found.sum()) if found.any() else 0


def _refuse(group, message):
    """Leaves the group, so that all others know why, and raises.

    Args:
        group: the processes.
        message: what was found, as others hear it.
    """
    group.shutdown(f"it has diverged: {message}")
    raise DistBackendError(
        f"rank {group.rank()} has diverged: {message}\n  remedy: look for the operator with "
        "inspection.NonFiniteTrap(), or go on from an earlier checkpoint"
    )


def refuse_inputs(group, call, tensors):
    """Raises where what goes into a collective has NaN; the other ranks are told.

    Args:
        group: the processes.
        call: the collective, as it is named in errors.
        tensors: what this rank gives.

    Raises:
        DistBackendError: some of it is NaN.
    """
    for tensor in tensors:
        count = _count(tensor)
        if count:
            given = f"{count} of {tensor.numel()} elements that it gives to"
            _refuse(group, f"{given} {describe(call.signature)} are NaN")


def refuse_gradients(group, step, named):
    """Raises where a gradient has NaN; the other ranks are told which and when.

    Args:
        group: the processes.
        step: the number of backward passes before this one.
        named: the name and the gradient of each parameter.

    Raises:
        DistBackendError: some of one is NaN.
    """
    for name, gradient in named:
        count = _count(gradient)
        if count:
            message = f"{count} of {gradient.numel()} elements of the gradient of {name} are NaN"
            _refuse(group, f"{message} in step {step}")
