"""Types that are stored but not computed with: which kernels take them all the same."""

from __future__ import annotations

from rushlight.ir.expr import FLOAT8

# Kernels that PyTorch has for numbers of eight bits too.
TAKEN = frozenset(("copy", "where", "mul", "eq", "ne", "isnan", "all", "any"))
OF_INFINITIES = {
    "isinf": ("float8_e5m2",),
    "isfinite": ("float8_e5m2", "float8_e8m0fnu"),
}
MOVERS = ("copy", "where")
# Types without any arithmetic, and the integers that their bits are moved as.
OPAQUE = {
    **dict.fromkeys(
        (f"{sign}int{bits}" for sign in ("", "u") for bits in range(1, 8)), "uint8"
    ),
    **dict.fromkeys(("bits1x8", "bits2x4", "bits4x2", "bits8"), "uint8"),
    **dict.fromkeys(("qint8", "quint8", "quint4x2", "quint2x4"), "uint8"),
    **{"bits16": "uint16", "float4_e2m1fn_x2": "uint8", "qint32": "uint32"},
}
# Kernels that PyTorch has for complex numbers of half precision.
OF_HALF_PAIRS = frozenset(
    """
    copy where add sub rsub mul eq ne neg absolute sgn conjugate isfinite isinf isnan
    masked_fill
    """.split()
)
NARROW = {"float16": "uint16", "bfloat16": "uint16", **dict.fromkeys(FLOAT8, "uint8")}
NARROW |= OPAQUE
# How PyTorch's refusals name its kernels, where that is not the name and "_cpu".
_VECTOR_MATH = (
    "acos asin atan ceil cos erf erfc erfinv exp expm1 floor i0 lgamma log log10 log1p "
    "log2 round sin sqrt tan tanh trunc"
).split()
_SPELLED = {
    **{name: f"{name}_vml_cpu" for name in _VECTOR_MATH},
    **{name: name for name in ("digamma", "exp2", "hardsigmoid_backward", "pow")},
    **{name: name for name in ("isfinite", "isinf", "masked_fill")},
    **dict.fromkeys(("add", "sub", "rsub"), "add_stub"),
    **dict.fromkeys(("deg2rad", "rad2deg", "ndtr"), "mul_cpu_reduced_float"),
    **dict.fromkeys(("mean", "sum"), "sum_cpu"),
    **dict.fromkeys(("max", "max_with_index"), "max_all"),
    **dict.fromkeys(("min", "min_with_index"), "min_all"),
    **dict.fromkeys(("var_mean", "std_mean"), "std_cpu"),
    "addcdiv": "addcdiv_cpu_out",
    "addcmul": "addcmul_cpu_out",
    "amax": "max_values_cpu",
    "amin": "min_values_cpu",
    "bitwise_left_shift": "lshift_cpu",
    "bitwise_right_shift": "rshift_cpu",
    "clamp_max": "clamp_max_scalar_cpu",
    "clamp_min": "clamp_min_scalar_cpu",
    "clamp_both": "clamp_scalar_cpu",
    "conjugate": "conj_cpu",
    "copy": "copy_",
    "count_nonzero": "nonzero_count_cpu",
    "absolute": "abs_cpu",
    "cumprod_kernel": "cumprod_out_cpu",
    "cumsum_kernel": "cumsum_out_cpu",
    "floor_divide": "div_floor_cpu",
    "gelu": "GeluKernelImpl",
    "gelu_backward": "GeluBackwardKernelImpl",
    "hardtanh": "clamp_scalar_cpu",
    "lerp": "lerp_kernel_tensor",
    "prelu_kernel": "prelu_cpu",
    "prod": "prod_out_cpu",
    "relu": "clamp_min_scalar_cpu",
    "sgn": "sign_cpu",
    "softmax_kernel": "softmax_lastdim_kernel_impl",
    "triangle_kernel": "tril",
    "sigmoid": "sigmoid_cpu_reduced_float",
    "square": "pow",
}


def refuse_stored_only(name, computing):
    """Refuses to compute with a type that is only stored, as PyTorch does.

    Args:
        name: the kernel's name.
        computing: the dtypes that it is to compute in.

    Raises:
        NotImplementedError: one of them is such a type, and the kernel is none of those
            that take it.
    """
    if "complex32" in computing and name not in OF_HALF_PAIRS:
        kernel = _SPELLED.get(name, f"{name}_cpu")
        raise NotImplementedError(f"\"{kernel}\" not implemented for 'ComplexHalf'")
    for dtype in computing:
        if dtype in OPAQUE and name != "copy":
            _refuse(name, dtype)
    if name in TAKEN:
        return
    for dtype in computing:
        if dtype in FLOAT8 and not _takes(name, dtype):
            _refuse(name, dtype)


def _refuse(name, dtype):
    word = dtype.removeprefix("q").capitalize().replace("Uint", "UInt")
    word = f"Q{word}" if dtype[0] == "q" else word
    raise NotImplementedError(
        f"\"{_SPELLED.get(name, f'{name}_cpu')}\" not implemented for '{word}'"
    )


def _takes(name, dtype):
    if name == "absolute":
        return dtype != "float8_e8m0fnu"
    return dtype in OF_INFINITIES.get(name, ())


def as_bits(name, in_dtypes, out_dtypes, compute):
    """The types in which a kernel that only moves narrow floats keeps every bit of NaN."""
    if name not in MOVERS:
        return in_dtypes, out_dtypes, compute
    kinds = {compute} if isinstance(compute, str) else set(compute)
    (kind,) = kinds if len(kinds) == 1 else ("",)
    bits = NARROW.get(kind)
    asked = in_dtypes[:1] if name == "where" else ()  # the condition, not moved
    moved = {*in_dtypes[len(asked) :], *out_dtypes}
    if bits and moved == {kind} and set(asked) <= {"bool"}:
        named = (*asked, *(bits for _ in in_dtypes[len(asked) :]))
        return named, (bits,) * len(out_dtypes), bits
    for dtype in moved:
        if dtype in OPAQUE:
            _refuse(name, dtype)
    return in_dtypes, out_dtypes, compute
