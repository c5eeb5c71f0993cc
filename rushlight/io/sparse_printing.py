"""Tensors of parts as text: the parts, then sizes and layout."""

from rushlight.core import naming
from rushlight.core.layout import sparse_coo


def parts_text(tensor, indent, contents):
    """The parts of a sparse tensor, one below the other.

    Args:
        indent: the column that they start at.
        contents: the numbers of a dense tensor that starts at a column, as text.
    """
    texts = []
    for name, part in _parts(tensor):
        head = f"{name}=tensor("
        is_shown = part.numel() and part.device.has_memory
        note = "" if is_shown else f", size={tuple(part.shape)}"
        texts.append(f"{head}{contents(part, indent + len(head))}{note})")
    return (",\n" + " " * indent).join(texts)


def parts_suffixes(tensor, words):
    """What follows the parts: size, number of values and layout among the other words."""
    last = [word for word in words if word.startswith(("grad_fn", "requires_grad"))]
    first = [word for word in words if word.startswith("device")]
    dtype = [word for word in words if word.startswith("dtype")]
    count = [f"nnz={tensor._nnz()}"] if tensor.device.has_memory else []
    size = [f"size={tuple(tensor.shape)}", *count]
    layout = f"layout={naming.package}.{tensor.layout.name}"
    return [*first, *size, *dtype, layout, *last]


def _parts(tensor):
    if tensor.layout is sparse_coo:
        names = ("_indices", "_values")
    elif tensor.layout.name in ("sparse_csr", "sparse_bsr"):
        names = ("crow_indices", "col_indices", "values")
    else:
        names = ("ccol_indices", "row_indices", "values")
    return [(name.strip("_"), getattr(tensor.detach(), name)()) for name in names]


def quantized_suffixes(tensor):
    """What follows a quantized tensor's numbers: sizes, type, scales, zero points."""
    scheme = tensor.qscheme()
    words = [
        f"size={tuple(tensor.shape)}",
        f"dtype={tensor.dtype}",
        f"quantization_scheme={scheme}",
    ]
    if scheme.name == "per_tensor_affine":
        found = {"scale": tensor.q_scale(), "zero_point": tensor.q_zero_point()}
    else:
        found = {
            "scale": tensor.q_per_channel_scales(),
            "zero_point": tensor.q_per_channel_zero_points(),
            "axis": tensor.q_per_channel_axis(),
        }
    return [*words, *(f"{name}={value}" for name, value in found.items())]
