"""Products whose results are rounded as they are written, or are complex, on other devices.

What multiplies on the host has kernels for these of its own; a device is asked through
`rushlight.core.device_roles.Libraries.run_product`.
"""

from rushlight.core.device import backend_for
from rushlight.core.roles import host
from rushlight.core.window import address_of
from rushlight.operators import call as ops

fresh = host.matmul.fresh


def serves(tensor):
    """Whether products of a tensor are formed here."""
    return backend_for(tensor.device).libraries.has_separate_sums()


def rounds(tensor):
    """The same, of numbers in half precision, which are rounded once."""
    return (
        tensor.dtype.itemsize == 2 and tensor.dtype.is_floating_point and serves(tensor)
    )


def product(a, b, compute, dtype, added=None, alpha=1, beta=1, activation=None):
    """``alpha a b + beta added`` of two matrices, or of two batches of them.

    Args:
        a, b: of sizes that agree, with elements.
        compute: the name of the dtype of sums.
        dtype: of the result, and of what is added.
        added: of the result's sizes, or None.
        activation: ``relu`` or ``gelu``, which is applied to the result.

    Raises:
        NotImplementedError: the device does not multiply such values.
    """
    device = a.device
    check_together(a, b, added)
    a, b = (x.resolve_conj() for x in (a, b))
    rows, depth, columns = *a.shape[-2:], b.shape[-1]
    out = fresh(a, (*a.shape[:-1], columns), dtype)
    operands = out, a, b, added
    done = backend_for(device).libraries.run_product(
        device,
        a.dtype.name,
        compute,
        (rows, columns, depth),
        tuple(None if x is None else steps(x) for x in operands),
        (alpha, beta),
        a.shape[0] if a.ndim == 3 else 1,
        dtype.name,
        activation,
    )
    if activation == "relu" and not done:
        out.relu_()
    elif activation == "gelu" and not done:
        return ops.gelu(out, approximate="tanh")
    return out


def check_together(first, *others):
    """Refuses operands of different devices; those that are None are none.

    Raises:
        RuntimeError: there are some.
    """
    device = first.device
    for other in others:
        if other is not None and other.device != device:
            raise RuntimeError(
                "Expected all tensors to be on the same device, but found at least two "
                f"devices, {device} and {other.device}!\n"
                "  remedy: move one of them with .to(device)"
            )


def steps(x):
    """The address of a matrix, and its steps along rows, columns and the batch."""
    batch = x.stride(0) if x.ndim == 3 and x.shape[0] > 1 else 0
    return address_of(x), x.stride(-2), x.stride(-1), batch
