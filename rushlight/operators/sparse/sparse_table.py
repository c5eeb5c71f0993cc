"""Which operators there are for sparse tensors: rows that are registered at import.

Operators of ``sparse.yaml`` are only for sparse tensors. Those below are for dense ones
too, and have a kernel more for coordinates, for compressed tensors, or for both.
"""

from __future__ import annotations

from rushlight.core.factories import bind_layouts
from rushlight.dispatch.keys import DispatchKey
from rushlight.dispatch.python_kernels import LazyKernel, PythonKernel, set_fallback
from rushlight.io.pickling import bind_makers

COO, COMPRESSED = DispatchKey.SparseCPU, DispatchKey.SparseCsrCPU
_COO, _MATH, _CSR = "sparse_coo", "sparse_math", "sparse_compressed"
_FILL = "sparse_refill"

# Operators that leave zeros alone: they are applied to the values.
ON_VALUES = """
    abs asin asinh atan atanh ceil deg2rad erf erfinv expm1 floor frac
    isinf isnan isneginf isposinf log1p rad2deg round sgn sign signbit sin sinh
    sqrt tan tanh trunc relu sin
""".split()
# Those that need no order: they are linear.
LINEAR = ("neg", "_conj_physical", "real", "imag")
ROWS = {
    # operator: (kernel for coordinates, kernel for compressed tensors)
    "add.Tensor": (f"{_MATH}.add", f"{_CSR}.add"),
    "add_.Tensor": (f"{_MATH}.add_", f"{_FILL}.add_"),
    "sub.Tensor": (f"{_MATH}.sub", None),
    "sub_.Tensor": (f"{_MATH}.sub_", None),
    "rsub.Tensor": (f"{_MATH}.rsub", None),
    "mul.Tensor": (f"{_MATH}.mul", f"{_CSR}.mul"),
    "mul_.Tensor": (f"{_MATH}.mul_", None),
    "div.Tensor": (f"{_MATH}.div", f"{_CSR}.div"),
    "div.Tensor_mode": (f"{_MATH}.div_mode", None),
    "floor_divide": (f"{_MATH}.floor_divide", None),
    "pow.Tensor_Scalar": (f"{_MATH}.pow", None),
    "square": (f"{_MATH}.square", None),
    "_threshold_backward": (
        f"{_FILL}.threshold_backward_coo",
        f"{_FILL}.threshold_backward",
    ),
    "nan_to_num": (f"{_MATH}.nan_to_num", None),
    "sum": (f"{_MATH}.total", f"{_CSR}.total"),
    "sum.dim_IntList": (f"{_MATH}.sum_dims", f"{_FILL}.sum_dims"),
    "any": (f"{_MATH}.any_all", None),
    "linalg_vector_norm": (f"{_MATH}.vector_norm", None),
    "reshape": (f"{_MATH}.refuse_reshape", None),
    "mm": (f"{_MATH}.mm", f"{_CSR}.mm"),
    "mv": (f"{_MATH}.mv", f"{_CSR}.mv"),
    "addmv": (None, f"{_FILL}.addmv"),
    "bmm": (f"{_MATH}.bmm", None),
    "addmm": (f"{_MATH}.addmm", f"{_CSR}.addmm"),
    "_sparse_addmm": (None, f"{_CSR}.addmm"),
    "_sparse_sparse_matmul": (None, f"{_MATH}.multiply_sparse"),
    "linear": (f"{_MATH}.linear", f"{_MATH}.linear"),
    "clone": (f"{_FILL}.clone_coo", f"{_CSR}.clone"),
    "copy_": (f"{_COO}.copy_", f"{_CSR}.copy_"),
    "_to_copy": (f"{_COO}.to_copy", f"{_CSR}.to_copy"),
    "empty_like": (f"{_COO}.empty_like", f"{_FILL}.empty_like"),
    "ones_like": (None, f"{_FILL}.ones_like"),
    "full_like": (None, f"{_FILL}.full_like"),
    "randn_like": (None, f"{_FILL}.randn_like"),
    "fill_": (None, f"{_FILL}.fill_"),
    "normal_": (None, f"{_FILL}.normal_"),
    "resize_": (None, f"{_FILL}.resize_"),
    "resize_as_sparse_": (None, f"{_FILL}.resize_as_"),
    "_conj": (None, f"{_FILL}.conj"),
    "angle": (None, f"{_FILL}.angle"),
    "zeros_like": (f"{_COO}.zeros_like", f"{_CSR}.zeros_like"),
    "new_empty": (f"{_COO}.new_empty", None),
    "new_zeros": (f"{_COO}.new_empty", None),
    "zero_": (f"{_COO}.zero_", f"{_FILL}.zero_"),
    "t": (f"{_COO}.t", f"{_CSR}.t"),
    "transpose.int": (f"{_COO}.transpose", f"{_CSR}.transpose"),
    "transpose_": (f"{_FILL}.transpose_", None),
    "t_": (f"{_FILL}.t_", None),
    "permute": (f"{_COO}.permute", None),
    "unsqueeze": (f"{_COO}.unsqueeze", None),
    "select.int": (f"{_COO}.select", f"{_CSR}.select"),
    "unbind.int": (f"{_COO}.unbind", f"{_CSR}.unbind"),
    "index_select": (f"{_COO}.index_select", None),
    "narrow_copy": (f"{_COO}.narrow_copy", None),
    "cat": (f"{_COO}.cat", None),
    "stack": (f"{_MATH}.stack", None),
    "detach": ("core.views.detach", "core.views.detach"),
    "alias": ("core.views.alias", "core.views.alias"),
}


def _kernel(path):
    module, attribute = path.rsplit(".", 1)
    return LazyKernel(_module(module), attribute)


def _module(name):
    """A module of this folder, of the core, or that of quantized tensors."""
    if name.startswith("core."):
        return f"rushlight.{name}"
    if name in (_Q, _MADE):
        return f"rushlight.operators.quantized.{name}"
    return f"rushlight.operators.sparse.{name}"


def attach(operators, copied):
    """Registers the rows; called once, when all operators are defined.

    Args:
        operators: by name and overload.
        copied: the kernel of in-place and ``out=`` forms, which copies a fresh result.
    """
    bind_layouts(_empty_in_parts)
    bind_makers({name: operators[name] for name in _MAKERS})
    for name, kernels in ROWS.items():
        for key, path in zip((COO, COMPRESSED), kernels):
            if path is not None:
                operators[name].set_kernel(key, _kernel(path))
    _attach_quantized(operators)
    for name in ROWS:
        _derive(operators[name], copied)
    for name in (*ON_VALUES, *LINEAR):
        if name in operators:
            _attach_values(operators[name], name, (name not in LINEAR,))
            _derive(operators[name], copied)


def _empty_in_parts(size, dtype, layout, device):
    from rushlight.operators.sparse.sparse_access import empty_in_layout

    return empty_in_layout(list(size), dtype, layout, device)


def _derive(op, copied):
    """In-place and ``out=`` forms compute a fresh result and copy it."""
    for form in (op.inplace, op.out):
        for key in (COO, COMPRESSED):
            if form is not None and op.has_kernel(key) and not form.has_kernel(key):
                form.set_kernel(key, copied)


def _attach_values(op, name, options):
    op.set_kernel(COO, _lazy(_MATH, "on_values", name, options))
    op.set_kernel(COMPRESSED, _lazy(_CSR, "on_values", name, ()))
    if op.inplace is not None:
        op.inplace.set_kernel(COO, _lazy(_MATH, "on_values_", name, options))
        op.inplace.set_kernel(COMPRESSED, _lazy(_FILL, "on_values_", name, ()))


def _lazy(family, maker, name, options):
    return LazyKernel(_module(family), maker, _Maker(name, options))


_MAKERS = (
    "_sparse_coo_tensor_unsafe",
    "_sparse_compressed_tensor_unsafe",
    "_make_per_tensor_quantized_tensor",
    "_make_per_channel_quantized_tensor",
)


_Q, _MADE = "quantized_operators", "quantized"
ON_INTEGERS = (
    "select.int slice.Tensor t transpose.int permute unsqueeze squeeze squeeze.dim view "
    "reshape index_select unfold narrow flip repeat expand split.Tensor split_with_sizes "
    "unbind.int index.Tensor"
).split()
QUANTIZED = {
    "clone": f"{_Q}.clone",
    "contiguous": f"{_Q}.contiguous",
    "copy_": f"{_Q}.copy_",
    "fill_": f"{_Q}.fill_",
    "_to_copy": f"{_Q}.refuse_conversion",
    "empty_like": f"{_MADE}.empty_like",
    "relu": f"{_Q}.relu",
    "clamp": f"{_Q}.clamp",
    "equal": f"{_Q}.equal",
    "cat": f"{_Q}.cat",
    "stack": f"{_Q}.stack",
    "masked_fill.Scalar": f"{_Q}.masked_fill",
    "max": f"{_Q}.largest",
    "min": f"{_Q}.smallest",
    "mean": f"{_Q}.mean",
    "mean.dim": f"{_Q}.mean_of_dims",
    "constant_pad_nd": f"{_Q}.pad",
    "sigmoid": f"{_Q}.sigmoid",
    "max_pool1d": f"{_MADE}.max_pool1d",
    "max_pool2d": f"{_MADE}.max_pool2d",
    "max_pool3d": f"{_MADE}.max_pool3d",
    "detach": "core.views.detach",
    "alias": "core.views.alias",
}
ON_NUMBERS = (
    "avg_pool2d avg_pool3d _adaptive_avg_pool2d _adaptive_avg_pool3d _resample"
).split()
OF_EACH = "leaky_relu hardtanh hardsigmoid hardswish tanh elu".split()
WITH_PLACES = ("sort", "topk")
COMPARED = ("eq", "ne", "lt", "le", "gt", "ge")


KINDS_OF_KERNELS = (
    ("on_numbers", ON_NUMBERS), ("of_each", OF_EACH), ("with_places", WITH_PLACES)
)  # fmt: skip


def _attach_quantized(operators):
    for name, path in QUANTIZED.items():
        if name in operators:
            operators[name].set_kernel(DispatchKey.QuantizedCPU, _kernel(path))
    for name in ON_INTEGERS:
        if name in operators:
            kernel = _lazy(_Q, "on_integers", name.split(".")[0], ())
            operators[name].set_kernel(DispatchKey.QuantizedCPU, kernel)
    for maker, names in KINDS_OF_KERNELS:
        for name in names:
            if name in operators:
                kernel = _lazy(_Q, maker, name.split(".")[0], ())
                operators[name].set_kernel(DispatchKey.QuantizedCPU, kernel)
    for name, op in operators.items():
        if name.split(".")[0] in COMPARED:
            kernel = _lazy(_Q, "compared", name.split(".")[0], ())
            op.set_kernel(DispatchKey.QuantizedCPU, kernel)


class _Maker:
    """From a function that makes kernels, the kernel of one operator."""

    def __init__(self, name, options):
        self.name, self.options = name, options

    def __call__(self, found, op):
        return PythonKernel(found(self.name, *self.options))


_REMEDIES = {DispatchKey.QuantizedCPU: "dequantize(), or its form in ops.quantized"}


def _unavailable(key):
    def refuse(op, *args):
        known = ", ".join(DispatchKey(each).name for each in sorted(op.kernels))
        on_card = any(getattr(item, "is_cuda", False) for item in args)
        name = key.name.replace("CPU", "CUDA") if on_card else key.name
        raise NotImplementedError(
            f"Could not run '{op.namespace}::{op.name}' with arguments from the "
            f"'{name}' backend.\n  '{op.namespace}::{op.name}' is available for: "
            f"{known or 'nothing'}\n  remedy: {_REMEDIES.get(key, 'to_dense()')}"
        )

    return refuse


def refuse_others():
    """What has no kernel is refused before a dense one reads memory that isn't there."""
    for key in (COO, COMPRESSED, DispatchKey.QuantizedCPU):
        set_fallback(key, _unavailable(key))
