"""The rules of `out=`: which types it may have, when and how it is resized."""

from __future__ import annotations

import cython
from cython.cimports.libc.stdint import int64_t
from cython.cimports.rushlight.core._python import pp_object
from cython.cimports.rushlight.core.dtype import CODE_BOOL, CODE_UINT8, COMPLEX, DType
from cython.cimports.rushlight.core.geometry import is_dense
from cython.cimports.rushlight.core.overlap import (
    refuse_internal_overlap,
    refuse_overlap,
    refuse_partial_overlap,
)
from cython.cimports.rushlight.core.state import state
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.writing import NO_OUT, NO_PARTIAL_OUT

from rushlight.core.dtype import TYPE_NAMES
from rushlight.core.views import resize_
from rushlight.core.warning import warn, warn_once

_OVERLAPPING = cython.declare(object, None)

# How the type of `out` relates to the result's, by the number of the rule.
OUT_RULES = {
    "cast": CAST,  # any type of no lower category
    "exact": EXACT,  # the result's own type
    "any": ANY,  # every type
    "joined": JOINED,  # as "cast", refused with TypeError
    "kernel": KERNEL,  # as "cast", refused as a missing kernel
    "truth": TRUTH,  # bool or uint8
    "field": FIELD,  # of any precision, but real or complex as the result
    "lone": LONE,  # as "exact", or as "cast" where the last operand has no dimensions
}


@cython.cfunc
def type_name(dtype: DType) -> str:
    """``Float`` for ``float32``, as messages spell types."""
    return TYPE_NAMES.get(dtype.name, dtype.name)


def _transform(name):
    """What PyTorch calls a Fourier transform: those of two dimensions are of several."""
    plain = name.removeprefix("fft_")
    several = plain.replace("2", "n")
    return "fftn" if several == "ifftn" else several


# How messages about `out=` spell types: as C++ does.
_PLAIN = {
    "uint8": "unsigned char", "int8": "signed char", "int16": "short int",
    "int32": "int", "int64": "long int", "float16": "c10::Half",
    "bfloat16": "c10::BFloat16", "float32": "float", "float64": "double",
    "complex64": "c10::complex<float>", "complex128": "c10::complex<double>",
}  # fmt: skip


def spelled(dtype):
    """A type as C++ spells it."""
    return plain_name(dtype)


@cython.cfunc
def plain_name(dtype: DType) -> str:
    """``long int`` for ``int64``."""
    return _PLAIN.get(dtype.name, dtype.name)


@cython.cfunc
@cython.exceptval(-1, check=False)
def check_output_type(
    rule: cython.int, result: DType, target: Tensor, name: str
) -> cython.int:
    """Refuse an output whose type the operator's rule does not allow."""
    own: DType = target.dtype_
    if own is result or rule == ANY:
        return 0
    if rule == TRUTH and (own.code == CODE_UINT8 or own.code == CODE_BOOL):
        return 0
    if rule == FIELD and own.category != result.category:
        kind = "complex" if result.category == COMPLEX else "floating point"
        raise RuntimeError(
            f"{_transform(name)} expects a {kind} output tensor, but got {type_name(own)}"
        )
    if rule == EXACT or rule == TRUTH:
        if name == "multinomial":
            raise RuntimeError(
                f"multinomial expects Long tensor out, got: {type_name(own)}"
            )
        if name in ("amax", "amin"):
            raise RuntimeError(
                f"Expected the dtype for input and out to match, but got "
                f"{type_name(result)} for input's dtype and {type_name(own)} for out's "
                "dtype."
            )
        if name in ("complex", "polar"):
            raise RuntimeError(
                f"Expected object of scalar type {type_name(result)} but got scalar "
                f"type {type_name(own)} for argument 'out'"
            )
        raise RuntimeError(
            f"{name}: Expected out tensor to have dtype {plain_name(result)}, but got "
            f"{plain_name(own)} instead"
        )
    if result.category <= own.category:
        return 0
    message = (
        f"result type {type_name(result)} can't be cast to the desired output type "
        f"{type_name(own)}"
    )
    if rule == JOINED:
        raise TypeError(f"{name}: {message}")
    if rule == KERNEL:
        raise NotImplementedError(f"{name}: not implemented for '{type_name(own)}'")
    raise RuntimeError(message)


@cython.cfunc
@cython.exceptval(-1, check=False)
def fit_output(
    target: Tensor,
    ndim: cython.int,
    sizes: cython.pointer(cython.const[int64_t]),
    strides: cython.pointer(cython.const[int64_t]),
    quiet: cython.bint,
) -> cython.int:
    """Give an output the result's sizes and strides where its sizes differ."""
    d: cython.int
    same: cython.bint = target.ndim_ == ndim
    if same:
        for d in range(ndim):
            if target.sizes[d] != sizes[d]:
                same = False
                break
    if same:
        return 0
    resize_output(target, [sizes[d] for d in range(ndim)], quiet)
    if strides != cython.NULL:
        target.set_geometry(ndim, sizes, strides, target.offset)
    return 0


@cython.cfunc
def resize_output(target: Tensor, wanted: list, quiet: cython.bint):
    """Give an output other sizes, with PyTorch's warning where it had elements."""
    if target.numel_ and not quiet:
        warn(
            "An output with one or more elements was resized since it had shape "
            f"{list(target.shape)}, which does not match the required output shape "
            f"{wanted}. This behavior is deprecated, and in a future release outputs "
            "will not be resized unless they have zero elements. You can explicitly "
            "reuse an out tensor t by resizing it, inplace, to zero elements with "
            "t.resize_(0)."
        )
    resize_(target, wanted)


@cython.ccall
def prepared(
    name: str,
    target: Tensor,
    sizes: object,
    quiet: cython.bint = True,
    operands: tuple = (),
):
    """An output that its operator writes itself: with the result's sizes.

    Args:
        name: the operator, for messages.
        target: the output.
        sizes: the result's sizes.
        quiet: whether it is resized without a warning.
        operands: what the operator was called with.

    Raises:
        RuntimeError: gradients would have to flow through it, or one of its elements
            stands at several places.
    """
    if state().grad_mode:
        for item in (target, *operands):
            if isinstance(item, Tensor) and cython.cast(Tensor, item).wants_grad:
                refuse_gradient(name)
    if target.shape != tuple(sizes):
        resize_output(target, list(sizes), quiet)
    refuse_internal_overlap(target)
    return target


@cython.cfunc
@cython.exceptval(-1, check=False)
def fit_like(
    target: Tensor, result: Tensor, quiet: cython.bint, plain: cython.bint
) -> cython.int:
    """Give an output the sizes of a result, and its strides if they leave no gaps."""
    if not plain and is_dense(result.ndim_, result.sizes, result.strides):
        return fit_output(target, result.ndim_, result.sizes, result.strides, quiet)
    return fit_output(target, result.ndim_, result.sizes, cython.NULL, quiet)


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_shared(
    slots: pp_object,
    first: cython.int,
    last: cython.int,
    target: Tensor,
    least: cython.int,
) -> cython.int:
    """Refuse an output in memory that is read: in part, or from ``least`` 2 on in all."""
    i: cython.int
    for i in range(first, last):
        value = cython.cast(object, slots[i])
        for item in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(item, Tensor):
                if least == 2:
                    refuse_overlap(target, item)
                else:
                    refuse_partial_overlap(target, item)
    return 0


@cython.cfunc
@cython.exceptval(-1, check=False)
def refuse_reading(
    slots: pp_object, last: cython.int, target: object, overlap: cython.int
) -> cython.int:
    """Refuse outputs in memory that is read, as the operator's declaration has it."""
    for item in target if isinstance(target, (list, tuple)) else (target,):
        if not isinstance(item, Tensor):
            continue
        if overlap & (NO_PARTIAL_OUT | NO_OUT):
            refuse_shared(slots, 0, last, item, overlap & (NO_PARTIAL_OUT | NO_OUT))
        else:
            refuse_shared(slots, 0, 1, item, 1)
            refuse_shared(slots, 1, last, item, 2)
    return 0


@cython.ccall
def write_to_overlapping(target: Tensor, result: Tensor, changed_only: cython.bint):
    """Writes to a tensor that shows one element at several places."""
    return _OVERLAPPING(target, result, changed_only)


@cython.ccall
def warn_of_expanded(name: str):
    """Says that programs will not write to such tensors forever."""
    warn(
        f"Use of {name} on expanded tensors is deprecated. Please clone() the tensor "
        "before performing this operation. This also applies to advanced indexing e.g. "
        "tensor[indices] = tensor"
    )


def set_overlapping_writer(function):
    """Name the function that writes to tensors that show elements several times."""
    global _OVERLAPPING
    _OVERLAPPING = function


def refuse_count(name, expected, target):
    """Refuse an ``out=`` of another number of tensors than there are results."""
    if isinstance(target, (tuple, list)) and len(target) != expected:
        raise TypeError(
            f"{name}(): argument 'out' must be {expected} tensors, not {len(target)}"
        )


@cython.cfunc
def refuse_gradient(name: str):
    """Refuse to write to ``out=`` what gradients would have to flow through."""
    raise RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic "
        "differentiation, but one of the arguments requires grad."
    )


def refuse_mask(name, kind):
    """Masks are boolean: numbers as masks are mostly mistakes.

    Raises:
        RuntimeError: the mask is of another type.
    """
    if name != "where":
        raise RuntimeError(
            f"{name} only supports boolean masks, but got mask with dtype {kind.name}\n"
            "  remedy: mask.bool()"
        )
    if kind.name != "uint8":
        raise RuntimeError(
            "where expected condition to be a boolean tensor, but got a tensor with "
            f"dtype {TYPE_NAMES.get(kind.name)}\n  remedy: condition.bool()"
        )
    warn_once(
        "where received a uint8 condition tensor. This behavior is deprecated and will be "
        "removed in a future version. Use a boolean condition instead."
    )


@cython.cfunc
def refuse_output(name: str, target: object, result: Tensor):
    """Refuse what is no tensor, or one of another shape than the result's."""
    if not isinstance(target, Tensor):
        raise TypeError(
            f"{name}(): argument 'out' must be Tensor, not {type(target).__name__}"
        )
    raise RuntimeError(
        f"{name}: output with shape {list(target.shape)} doesn't match the broadcast "
        f"shape {list(result.shape)}"
    )
