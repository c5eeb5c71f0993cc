"""Which types a kernel takes beside the usual ones, and how it refuses the others.

Types that are stored but not computed with are refused unless a kernel's own
`TypeSupport` says otherwise, which stands where the kernel is defined:
``@pointwise(error_name="GeluKernelImpl")``.
"""

from dataclasses import dataclass

from rushlight.ir.expr import FLOAT8

# Types without any arithmetic, and the integers that their bits are moved as.
OPAQUE = {
    **dict.fromkeys(
        (f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), "uint8"
    ),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8"), "uint8"),
    **dict.fromkeys(("qint8", "quint8", "quint4x2", "quint2x4"), "uint8"),
    **{"bits16": "uint16", "float4_e2m1fn_x2": "uint8", "qint32": "uint32"},
}
NARROW = {"float16": "uint16", "bfloat16": "uint16", **dict.fromkeys(FLOAT8, "uint8")}
NARROW |= OPAQUE
COMPLEX_NAMES = {
    "complex32": "ComplexHalf", "complex64": "ComplexFloat",
    "complex128": "ComplexDouble",
}  # fmt: skip


@dataclass(frozen=True)
class TypeSupport:
    """What a kernel does with types that most kernels refuse, as PyTorch's of its name.

    Attributes:
        error_name: what refusals call it; None for its name and ``_cpu``.
        float8: the floats of eight bits that it computes with.
        complex_half: whether it computes with complex numbers of half precision.
        moved_from: the first of the operands whose bits it only moves to the result;
            None if it computes. Where all are moved, types without arithmetic are too.
        complex_error: what is raised where its function is none of complex numbers.
    """

    error_name: str | None = None
    float8: tuple[str, ...] = ()
    complex_half: bool = False
    moved_from: int | None = None
    complex_error: Exception | None = None


ALL_FLOAT8 = tuple(FLOAT8)
SIGNED_FLOAT8 = tuple(one for one in FLOAT8 if one != "float8_e8m0fnu")
USUAL = TypeSupport()


def refusal(kernel, dtype):
    """The error that says that a kernel is not for a type, in PyTorch's words.

    Args:
        kernel: what has a ``name`` and a ``support``.
        dtype: the type's name as PyTorch's errors write it.
    """
    name = kernel.support.error_name or f"{kernel.name}_cpu"
    return NotImplementedError(f"\"{name}\" not implemented for '{dtype}'")


def refuse_stored_only(kernel, computing):
    """Refuses to compute with a type that is only stored, as PyTorch does.

    Args:
        kernel: what has a ``name`` and a ``support``.
        computing: the dtypes that it is to compute in.

    Raises:
        NotImplementedError: one of them is such a type, and the kernel does not take it.
        RuntimeError: the same of complex numbers, where PyTorch raises that.
    """
    support = kernel.support
    if "complex32" in computing and not support.complex_half:
        raise _refusal_of_complex(kernel, "complex32")
    for dtype in computing:
        if dtype in OPAQUE and support.moved_from != 0:
            raise refusal(kernel, _named(dtype))
    for dtype in computing:
        if dtype in FLOAT8 and dtype not in support.float8:
            raise refusal(kernel, _named(dtype))


def refuse_complex(kernel, dtypes, error):
    """Says that a kernel is not for complex values, where tracing failed over one.

    Args:
        kernel: what has a ``name`` and a ``support``.
        dtypes: what it was specialised for, as text.
        error: what tracing raised.

    Raises:
        NotImplementedError: the dtypes hold a complex one.
        RuntimeError: the same, for kernels whose callers expect that type.
    """
    for dtype in COMPLEX_NAMES:
        if dtype in dtypes:
            raise _refusal_of_complex(kernel, dtype) from error


def _refusal_of_complex(kernel, dtype):
    error = kernel.support.complex_error
    if error is None:
        return refusal(kernel, COMPLEX_NAMES[dtype])
    return type(error)(*error.args)  # not the shared one, which keeps its traceback


def _named(dtype):
    word = dtype.removeprefix("q").capitalize().replace("Uint", "UInt")
    return f"Q{word}" if dtype[0] == "q" else word


def as_bits(kernel, in_dtypes, out_dtypes, compute):
    """The types in which a kernel that only moves narrow floats keeps every bit of NaN."""
    first = kernel.support.moved_from
    if first is None:
        return in_dtypes, out_dtypes, compute
    kinds = {compute} if isinstance(compute, str) else set(compute)
    (kind,) = kinds if len(kinds) == 1 else ("",)
    bits = NARROW.get(kind)
    asked = in_dtypes[:first]  # conditions, not moved
    moved = {*in_dtypes[first:], *out_dtypes}
    if bits and moved == {kind} and set(asked) <= {"bool"}:
        named = (*asked, *(bits for _ in in_dtypes[first:]))
        return named, (bits,) * len(out_dtypes), bits
    for dtype in moved:
        if dtype in OPAQUE:
            raise refusal(kernel, _named(dtype))
    return in_dtypes, out_dtypes, compute
