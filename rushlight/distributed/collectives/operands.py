"""Tensors as collectives take them: flat, on the host, of a type that kernels add."""

import ctypes

import rushlight as rl

KERNELS = {
    "sum": rl.add,
    "product": rl.mul,
    "min": rl.minimum,
    "max": rl.maximum,
    "band": rl.bitwise_and,
    "bor": rl.bitwise_or,
    "bxor": rl.bitwise_xor,
}
# Of truth values a sum is "any" and a product "all", so that they stay 0 and 1.
ON_TRUTHS = {"sum": "bor", "product": "band", "min": "band", "max": "bor"}


def octets(tensor):
    """The memory of a flat tensor, as a memoryview of octets.

    Args:
        tensor: contiguous, on the host; it must live as long as the view is used.
    """
    size = tensor.numel() * tensor.element_size()
    if size == 0:
        return memoryview(b"")
    run = (ctypes.c_char * size).from_address(tensor.data_ptr())
    return memoryview(run).cast("B")


def type_name(tensor):
    """The name of a tensor's type, as ``float32``."""
    return str(tensor.dtype).rpartition(".")[2]


class Operand:
    """A tensor as a flat run of elements on the host, and the way back.

    Args:
        tensor: any tensor.
        reduction: what its values go through; empty where they only move.
        parts: what a mean divides the sum by: the number of ranks.
    """

    __slots__ = ("tensor", "whole", "flat", "reduction", "parts")

    def __init__(self, tensor, reduction="", parts=1):
        self.tensor = whole = tensor.detach()
        if not (whole.is_contiguous() and whole.device.type == "cpu"):
            whole = whole.cpu().contiguous()
        self.whole = whole
        if whole.is_complex():
            whole = rl.view_as_real(whole.resolve_conj())
        self.flat = whole.view(-1)
        if whole.dtype is rl.bool:
            self.flat = self.flat.view(rl.uint8)
            reduction = ON_TRUTHS.get(reduction, reduction)
        self.parts = parts if reduction == "avg" else 1
        self.reduction = "sum" if reduction == "avg" else reduction

    def store(self):
        """Finish a mean, and fill a tensor that is not itself flat on the host."""
        if self.parts != 1:
            self.whole.div_(self.parts)
        if self.whole is not self.tensor:
            _distinct(self.tensor).copy_(_distinct(self.whole, self.tensor))


def _distinct(tensor, expanded=None):
    """The part of a tensor that holds each element of an expanded one once."""
    for dim, stride in enumerate((tensor if expanded is None else expanded).stride()):
        if stride == 0 and tensor.shape[dim] > 1:
            tensor = tensor.narrow(dim, 0, 1)
    return tensor


def reduce_into(out, values, reduction):
    """Reduce flat tensors in the order given.

    Args:
        out: where the result goes; it may be one of the first two.
        values: the flat tensors, one or more.
        reduction: its name.
    """
    kernel = KERNELS[reduction]
    if len(values) == 1:
        out.copy_(values[0])
        return
    kernel(values[0], values[1], out=out)
    for value in values[2:]:
        kernel(out, value, out=out)
