"""How operator functions run loop kernels: allocate, specialise, launch, check."""

from __future__ import annotations

import threading
from math import prod

import rushlight
from rushlight.backends.cpu.launch import launch

# A flag tensor starts at this value; a kernel that meets a bad index writes it there.
NO_FAULT = -(2**63)

# Kernels that only move elements see them as integers of the same width.
MOVERS = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
GRAIN = 32768
_held = threading.local()


def fresh(like, sizes, dtype=None):
    """An uninitialised row-major tensor on the device of ``like``."""
    return rushlight.empty(
        tuple(sizes), dtype=like.dtype if dtype is None else dtype, device=like.device
    )


def filled(like, sizes, value, dtype=None):
    """A row-major tensor of one value on the device of ``like``."""
    return rushlight.full(
        tuple(sizes),
        value,
        dtype=like.dtype if dtype is None else dtype,
        device=like.device,
    )


def name_of(dtype):
    """The dtype's plain name: ``"float32"``."""
    return dtype if isinstance(dtype, str) else dtype.name


def run(kernel, tensors, ints, total, work=1, least=1, **types):
    """Specialises ``kernel`` and runs it over ``[0, total)``, split by work per item.

    A piece is never shorter than ``least`` items. Nothing runs for tensors without
    storage (meta), so one operator function serves both devices.
    """
    if total <= 0 or tensors[0].device.type == "meta":
        return
    grain = max(least, GRAIN // work if work > 0 else GRAIN)
    launch(kernel.specialize(**types), tensors, ints, total, grain)


def run_whole(kernel, tensors, ints, total, **types):
    """Runs ``kernel`` over ``[0, total)`` in one piece: items depend on each other."""
    if total <= 0 or tensors[0].device.type == "meta":
        return
    launch(kernel.specialize(**types), tensors, ints, total, total)


def mover(dtype):
    """The integer type that carries elements of ``dtype`` bit for bit, and how many."""
    width = dtype.itemsize
    return (MOVERS[width], 1) if width <= 8 else ("int64", width // 8)


def fault_flag(like):
    """One int64 of this thread that a kernel overwrites when it meets a bad index."""
    if like.device.type == "meta":
        return filled(like, (1,), NO_FAULT, rushlight.int64)
    flag = getattr(_held, "flag", None)
    if flag is None:
        flag = _held.flag = filled(like, (1,), NO_FAULT, rushlight.int64)
    return flag


def fault_in(flag):
    """The offending index that a kernel reported, or None; the flag is clear again."""
    if flag.device.type == "meta":
        return None
    value = flag.item()
    if value == NO_FAULT:
        return None
    _held.flag = None
    return value


def wrap_dim(dim, ndim, name="dim"):
    """``dim`` counted from the front; a scalar counts as one dimension.

    Raises:
        IndexError: the dimension doesn't exist.
    """
    span = max(ndim, 1)
    if not -span <= dim < span:
        raise IndexError(
            f"Dimension out of range (expected to be in range of [{-span}, {span - 1}],"
            f" but got {dim})"
        )
    return dim % span


def around(sizes, dim):
    """Elements before, along and after ``dim``: ``(outer, size, inner)``."""
    if not sizes:
        return 1, 1, 1
    return prod(sizes[:dim]), sizes[dim], prod(sizes[dim + 1 :])


def brief(tensor):
    """``float32[3, 4] on cpu``, for error messages."""
    return f"{name_of(tensor.dtype)}{list(tensor.shape)} on {tensor.device}"
