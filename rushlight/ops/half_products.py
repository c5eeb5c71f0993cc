"""Products of half-precision matrices: summed in float32 and rounded once, in one pass."""

from __future__ import annotations

import functools

import rushlight
from rushlight.backends.roles import host
from rushlight.core.plans import PAIRED
from rushlight.ops import products_elsewhere as elsewhere

contraction = host.contraction


def serves(a, b):
    """Whether the product of these operands, of more than a row, is formed here."""
    return (
        a.dtype.itemsize == 2
        and a.dtype.category == 2
        and a.shape[-2] > 1
        and b.shape[-1] > 1
        and (a.device.on_host or elsewhere.serves(a))
    )


def product(a, b, bias=None, pairs=False):
    """``a @ b + bias`` of two matrices or two batches of them, of elements and depth.

    Args:
        bias: of as many elements as there are columns.
        pairs: whether the processor multiplies pairs of bfloat16.
    """
    shape = (*a.shape[:-1], b.shape[-1])
    others = () if bias is None else (bias.expand(shape),)
    along = others and shape[-1] > 1 and others[0].stride(-1) == 1
    if others and not along and shape[-1] > 1:
        others, along = (bias.contiguous().expand(shape),), True
    return _run(a, b, shape, others, (along,) if others else (), pairs)


def _run(a, b, shape, others, along, pairs):
    """The kernel for these operands, on them."""
    if not a.device.on_host:
        added = others[0] if others else None
        if 0 in shape:
            return contraction.fresh(a, shape)
        return elsewhere.product(a, b, "float32", a.dtype, added)
    name, code = a.dtype.name, -1
    if name == "bfloat16" and pairs:
        a, b = _beside(a), _beside(b.mT).mT
        code = PAIRED if _paired(a, b) else -1
    out = contraction.fresh(a, shape)
    if out.numel() == 0 or a.is_meta:
        return out
    kept = None
    if a.shape[-1] > _depth():
        kept = contraction.fresh(a, shape, rushlight.float32)
    find = _kernels(name, along)
    return contraction.product_after(
        out, a, b, rushlight.float32, find, others, kept, code
    )


@functools.cache
def _kernels(name, along):
    """What finds kernels by their kind.

    Args:
        along: for each further operand, whether it has a value for each column.
    """
    from rushlight.codegen.fingerprint import fingerprint
    from rushlight.ops.contraction import After, kernel_after

    function = _biased if along else _rounded
    after = After(function, tuple((name, one) for one in along), name)
    words = "_".join(
        ["", function.__name__.strip("_"), *map(str, map(int, along)), name]
    )
    digest = fingerprint(function)

    @functools.cache
    def find(kind):
        operand = "float32" if kind == "pairs" else name
        return kernel_after(kind, operand, operand, "float32", words, after, digest)

    return find


def _rounded(total):
    return total


def _biased(total, bias):
    return total + bias


def _beside(x):
    """The operand with the elements of its rows beside each other."""
    return x if x.stride(-1) == 1 else x.contiguous()


@functools.cache
def _depth():
    from rushlight.ops.contraction import depth_of

    return depth_of("float32")


def _paired(a, b):
    from rushlight.ops.contraction import paired

    return paired(a, b)
