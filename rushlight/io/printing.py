"""Tensors as text: PyTorch's layout of numbers, columns, summaries and suffixes."""

import math
import sys
from collections import namedtuple

from rushlight.core.dtype import get_default_dtype
from rushlight.core.layout import sparse_coo, strided
from rushlight.core.state import AttributeScope, sees_tangents
from rushlight.core.window import make_tensor
from rushlight.io.sparse_printing import parts_suffixes, parts_text, quantized_suffixes


class PrintOptions(
    namedtuple(
        "PrintOptions",
        "precision threshold edgeitems linewidth sci_mode",
        defaults=(4, 1000, 3, 80, None),
    )
):
    """How tensors print: digits, summary from ``threshold`` elements on, line width."""

    __slots__ = ()


PROFILES = {
    "default": PrintOptions(),
    "short": PrintOptions(precision=2, edgeitems=2),
    "full": PrintOptions(threshold=math.inf),
}
_options = PROFILES["default"]


def set_printoptions(
    precision=None,
    threshold=None,
    edgeitems=None,
    linewidth=None,
    profile=None,
    sci_mode=None,
):
    """Sets how tensors print from now on.

    Args:
        precision: digits after the point.
        threshold: the number of elements beyond which a tensor is summarised.
        edgeitems: elements shown at each end of a summarised dimension.
        linewidth: characters in a line.
        profile: "default", "short" or "full", as a start for the other options.
        sci_mode: scientific notation always, never, or as the values ask for (None).

    >>> import rushlight as rl
    >>> rl.set_printoptions(precision=2)
    >>> rl.tensor([1 / 3])
    tensor([0.33])
    >>> rl.set_printoptions(profile="default")
    """
    global _options
    given = precision, threshold, edgeitems, linewidth
    _options = _changed(*given, profile=profile, sci_mode=sci_mode)


def _changed(
    precision=None, threshold=None, edgeitems=None, linewidth=None, *, profile=None, sci_mode
):  # fmt: skip
    options = _options
    if profile is not None:
        start = PROFILES.get(profile.lower())
        if start is None:
            raise ValueError(
                f"set_printoptions: unknown profile {profile!r}; "
                f"the profiles are {', '.join(PROFILES)}"
            )
        # A profile says nothing of scientific notation.
        options = start._replace(sci_mode=options.sci_mode)
    given = {
        "precision": precision,
        "threshold": threshold,
        "edgeitems": edgeitems,
        "linewidth": linewidth,
    }
    changes = {name: value for name, value in given.items() if value is not None}
    return options._replace(sci_mode=sci_mode, **changes)


def get_printoptions() -> dict:
    """How tensors print, by the names that ``set_printoptions`` takes."""
    return _options._asdict()


def printoptions(**kwargs):
    """Sets how tensors print inside a ``with`` block."""
    options = _changed(**{"sci_mode": _options.sci_mode, **kwargs})
    return AttributeScope(sys.modules[__name__], _options=options)


class RealColumn:
    """One width and notation for all the real numbers shown."""

    def __init__(self, values, options):
        self.digits = options.precision
        shown = [value for value in values if value != 0 and math.isfinite(value)]
        self.scientific = False
        self.integral = True
        self.width = 1
        if not shown:
            return
        sizes = [abs(value) for value in shown]
        least, largest = min(sizes), max(sizes)
        self.integral = all(value == int(value) for value in shown)
        self.scientific = options.sci_mode
        if options.sci_mode is None:
            self.scientific = largest / least > 1000 or largest > 1e8 or least < 1e-4
        self.width = max(1, *(len(self.number(value)) for value in shown))

    def number(self, value):
        """One number, at its own width."""
        if self.scientific:
            return f"{value:.{self.digits}e}"
        if self.integral:
            return f"{value:.0f}" + ("." if math.isfinite(value) else "")
        return f"{value:.{self.digits}f}"

    def format(self, value):
        """One number, at the column's width."""
        return self.number(value).rjust(self.width)


class PlainColumn:
    """One width for integers and truth values."""

    def __init__(self, values, options):
        self.width = max([1, *(len(str(value)) for value in values)])

    def format(self, value):
        return str(value).rjust(self.width)


class ComplexColumn:
    """A column for the real parts and one for the imaginary parts."""

    def __init__(self, values, options):
        self.real = RealColumn([value.real for value in values], options)
        self.imaginary = RealColumn([value.imag for value in values], options)
        self.width = self.real.width + self.imaginary.width + 1

    def format(self, value):
        imaginary = self.imaginary.format(value.imag).lstrip() + "j"
        sign = "" if imaginary[0] in "+-" else "+"
        return self.real.format(value.real) + sign + imaginary


def visible(tensor, edge):
    """Nested lists of the elements to show; ``...`` stands for those left out.

    ``edge`` is how many to show at each end of a dimension, ``None`` for all.
    """
    shape, steps = tensor.shape, tensor.stride()
    storage, dtype = tensor.untyped_storage(), tensor.dtype

    def row(start, count, step):
        return make_tensor(storage, (count,), (step,), start, dtype).tolist()

    def block(dim, start):
        size, step = shape[dim], steps[dim]
        leading = range(size)
        tails = range(0)
        if edge is not None and size > 2 * edge:
            leading, tails = range(edge), range(size - edge, size)
        if dim == len(shape) - 1:
            parts = [
                row(start + part.start * step, len(part), step) if part else []
                for part in (leading, tails)
            ]
        else:
            parts = [
                [block(dim + 1, start + i * step) for i in part]
                for part in (leading, tails)
            ]
        return parts[0] if len(leading) == size else [*parts[0], ..., *parts[1]]

    return block(0, tensor.storage_offset())


def leaves(nested):
    """The elements of nested lists, without the ``...``."""
    for item in nested:
        if isinstance(item, list):
            yield from leaves(item)
        elif item is not ...:
            yield item


def lay_out(nested, depth, indent, column, options):
    """The text of nested lists of ``depth`` levels, starting at column ``indent``."""
    if depth == 1:
        texts = [" ..." if item is ... else column.format(item) for item in nested]
        if nested == [...]:
            texts = ["..."]
        room = max(1, (options.linewidth - indent) // (column.width + 2))
        lines = [", ".join(texts[i : i + room]) for i in range(0, len(texts), room)]
        return "[" + (",\n" + " " * (indent + 1)).join(lines) + "]"
    parts = [
        "..." if item is ... else lay_out(item, depth - 1, indent + 1, column, options)
        for item in nested
    ]
    between = "," + "\n" * (depth - 1) + " " * (indent + 1)
    return "[" + between.join(parts) + "]"


def column_for(dtype, values, options):
    """The column that shows elements of a type."""
    if dtype.is_complex:
        return ComplexColumn(values, options)
    if dtype.is_floating_point:
        return RealColumn(values, options)
    return PlainColumn(values, options)


def contents(tensor, indent):
    """The numbers alone, without ``tensor(`` and suffixes."""
    options = _options
    if not tensor.device.has_memory:
        return "..."
    if tensor.numel() == 0:
        return "[]"
    if tensor.dim() == 0:
        value = tensor.item()
        return column_for(tensor.dtype, [value], options).format(value)
    tensor = tensor.resolve_conj().resolve_neg()
    edge = options.edgeitems if tensor.numel() > options.threshold else None
    nested = visible(tensor, edge)
    column = column_for(tensor.dtype, list(leaves(nested)), options)
    return lay_out(nested, tensor.dim(), indent, column, options)


def suffixes(tensor):
    """What follows the numbers: device, size, type, history; where not the default."""
    found = []
    default = get_default_dtype()
    plain = {default.name, "int64", "bool"}
    plain.add("complex128" if default.name == "float64" else "complex64")
    if tensor.device.type != "cpu":
        found.append(f"device='{tensor.device}'")
    if not tensor.device.has_memory:
        found.append(f"size={tuple(tensor.shape)}")
        plain = {default.name}
    elif tensor.numel() == 0:
        plain = {default.name}
        if tensor.dim() != 1:
            found.append(f"size={tuple(tensor.shape)}")
    elif not _options.edgeitems:
        found.append(f"size={tuple(tensor.shape)}")
    if tensor.dtype.name not in plain:
        found.append(f"dtype={tensor.dtype}")
    try:
        node = tensor.grad_fn
        maker = None if node is None else node_name(node)
    except RuntimeError:  # a view that was written to where its history cannot follow
        maker = "Invalid"
    if maker is not None:
        found.append(f"grad_fn=<{maker}>")
    elif tensor.requires_grad:
        found.append("requires_grad=True")
    if tensor._tangent is not None and sees_tangents():
        tangent = tensor._tangent.look()
        if tangent is not None:
            found.append(f"tangent={tangent!r}")
    return found


def node_name(node):
    """The name of a graph node without its namespace."""
    return node.name().rsplit("::", 1)[-1].rsplit(".", 1)[-1]


def tensor_repr(tensor) -> str:
    """The text that ``repr`` gives for a tensor.

    >>> tensor_repr(rl.tensor([[1.0, 2.5], [-3.0, 4.0]]))
    'tensor([[ 1.0000,  2.5000],\\n        [-3.0000,  4.0000]])'
    """
    if tensor._stand is not None:
        return tensor._stand.text(tensor)
    kind = type(tensor).__name__
    text = "tensor(" if kind in ("Tensor", "Parameter", "Buffer") else f"{kind}("
    indent = len(text)
    words, below = suffixes(tensor), False
    if tensor.is_quantized:
        text += contents(tensor.dequantize(), indent)
        words = quantized_suffixes(tensor)
    elif tensor.layout is not strided:
        text += parts_text(tensor, indent, contents)
        words, below = parts_suffixes(tensor, words), tensor.layout is sparse_coo
    else:
        text += contents(tensor, indent)
    width = len(text) - text.rfind("\n") + 1
    for suffix in words:
        if below or width + len(suffix) + 2 > _options.linewidth:
            below = False
            text += ",\n" + " " * indent + suffix
            width = indent + len(suffix)
        else:
            text += ", " + suffix
            width += len(suffix) + 2
    return text + ")"
