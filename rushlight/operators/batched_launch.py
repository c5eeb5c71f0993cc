"""One elementwise kernel over lists of tensors, in one launch, on devices that compile."""

import struct

from rushlight.core.device import backend_for
from rushlight.core.dtypes import float32
from rushlight.core.factories import empty
from rushlight.core.tensor import Tensor
from rushlight.core.window import address_of
from rushlight.operators.loop_calls import changed


def reaches(device):
    """Whether kernels over lists run on a device: the host, or one that compiles."""
    return backend_for(device).launch.compiles()


def singles_for(tensors):
    """A float32 of one element for each tensor, on the first one's device; unset."""
    made = empty((len(tensors),), dtype=float32, device=tensors[0].device)
    return list(made.unbind(0))


def run(rule, written, read, static=(), compute=None, fault=None):
    """Runs an elementwise kernel over every tensor of some lists, all at once.

    Args:
        rule: the kernel; it takes what is read, then ``static``.
        written: lists of tensors that it writes in place.
        read: lists of tensors, tensors of one element and numbers. The tensors of a
            place have as many elements as the first list's, or one.
        compute: the type that it computes in; float32, or float64 for such tensors.
        fault: an int32 tensor that gets what the kernel reports.

    Raises:
        RuntimeError: a tensor is on another device, has another size, or gaps.
    """
    first = written[0]
    device, kind = first[0].device, first[0].dtype.name
    compute = compute or ("float64" if kind == "float64" else "float32")
    counts = tuple(tensor.numel() for tensor in first)
    lists, known, operands, types, numbers = [], {}, [], [], b""
    for item in (*written, *read):
        if not isinstance(item, (list, Tensor)):
            operands.append(None)
            types.append(compute)
            word = struct.pack("d" if compute == "float64" else "f", item)
            numbers += word.ljust(16, b"\0")
            continue
        tensors = [item] * len(first) if isinstance(item, Tensor) else item
        if id(item) not in known:
            known[id(item)] = len(lists), _width(tensors, counts, device)
            lists.append(tuple(map(address_of, tensors)))
        operands.append(known[id(item)])
        types.append(tensors[0].dtype.name)
    backend = backend_for(device)
    kernel = backend.launch.specialize(
        rule,
        tuple(types[len(written) :]),
        tuple(types[: len(written)]),
        compute,
        tuple(static),
    )
    place = 0 if fault is None else address_of(fault)
    backend.launch.run_lists(
        kernel, device, tuple(operands), lists, counts, numbers, place
    )
    changed(written)


def _width(tensors, counts, device):
    """The bytes from one element of a list's tensors to the next; 0 for single ones.

    Raises:
        RuntimeError: they are no dense tensors of these sizes on the device.
    """
    kind = tensors[0].dtype
    sizes = tuple(tensor.numel() for tensor in tensors)
    fits = sizes == counts or set(sizes) == {1}
    for tensor in tensors:
        if tensor.device != device or tensor.dtype is not kind or not fits:
            break
        if not tensor.is_contiguous():
            break
    else:
        return kind.itemsize if sizes == counts else 0
    raise RuntimeError(
        "The size, dtype or layout of a tensor must match those of the tensor that is "
        f"updated with it: {[list(t.shape) for t in tensors][:4]} of {kind.name} on "
        f"{tensors[0].device} beside {list(counts)[:4]} elements on {device}"
    )
