"""``assert_close``: equal within the tolerances that a data type deserves."""

from numbers import Number

from numpy import generic, ndarray

from rushlight.core.dtype import COMPLEX, FLOATING
from rushlight.core.layout import strided
from rushlight.dispatch.kernels import promoted_type
from rushlight.operators import call as ops
from rushlight.operators.functions import as_tensor, is_tensor

# (relative, absolute) by data type; other types must be equal.
TOLERANCES = {
    "float16": (1e-3, 1e-5),
    "bfloat16": (1.6e-2, 1e-5),
    "float32": (1.3e-6, 1e-5),
    "float64": (1e-7, 1e-7),
    "complex64": (1.3e-6, 1e-5),
    "complex128": (1e-7, 1e-7),
}


_NO_PAIR = "No comparison pair was able to handle inputs of type {} and {}."


def assert_close(
    actual,
    expected,
    *,
    allow_subclasses=True,
    rtol=None,
    atol=None,
    equal_nan=False,
    check_device=True,
    check_dtype=True,
    check_layout=True,
    check_stride=False,
    msg=None,
):
    """Holds ``|actual - expected| <= atol + rtol * |expected|`` for every element.

    Args:
        actual: a tensor, a number, or a sequence or mapping of them.
        expected: what it should be.
        rtol: relative tolerance; by the data types where it is left out.
        atol: absolute tolerance; given together with ``rtol``.
        equal_nan: whether NaN equals NaN.
        check_device: whether devices must agree.
        check_dtype: whether data types must agree.
        check_stride: whether strides must agree.
        msg: text of the error, or a function of the text that it would have.

    Raises:
        AssertionError: something differs.
        ValueError: only one of the tolerances is given.

    >>> import rushlight as rl
    >>> assert_close(rl.ones(2) / 3, rl.tensor([1 / 3, 1 / 3]))
    """
    if (rtol is None) != (atol is None):
        missing = "atol" if atol is None else "rtol"
        raise ValueError(
            "Both 'rtol' and 'atol' must be either specified or omitted, "
            f"but got no {missing}."
        )
    strange = type(actual) is not type(expected) and is_tensor(actual)
    if strange and not allow_subclasses:
        raise TypeError(_NO_PAIR.format(type(actual), type(expected)))
    checks = (check_device, check_dtype, check_layout, check_stride)
    fault = find_fault(actual, expected, (rtol, atol, equal_nan), checks)
    if fault is not None:
        raise AssertionError(msg(fault) if callable(msg) else msg or fault)


def find_fault(actual, expected, tolerance, checks, where=""):
    """What differs, as text; None where nothing does."""
    if isinstance(expected, dict) and isinstance(actual, dict):
        if actual.keys() != expected.keys():
            missing = sorted(expected.keys() - actual.keys(), key=str)
            more = sorted(actual.keys() - expected.keys(), key=str)
            return (
                f"The keys of the mappings do not match{where}:\n"
                f"Missing keys in the actual mapping: {missing}\n"
                f"Additional keys in the actual mapping: {more}"
            )
        pairs = [(key, actual[key], expected[key]) for key in expected]
    elif isinstance(expected, (list, tuple)) and isinstance(actual, (list, tuple)):
        if len(actual) != len(expected):
            return (
                f"The length of the sequences mismatch{where}: "
                f"{len(actual)} != {len(expected)}"
            )
        pairs = [(i, *pair) for i, pair in enumerate(zip(actual, expected))]
    elif actual is None and expected is None:
        return None
    else:
        refuse_strangers(actual, expected)
        return compare_values(actual, expected, tolerance, checks, where)
    for key, a, e in pairs:
        place = f"{where or ' at item '}[{key!r}]"
        fault = find_fault(a, e, tolerance, checks, place)
        if fault is not None:
            return fault
    return None


def refuse_strangers(actual, expected):
    """Raise where two values are not of one kind: tensors, arrays or numbers."""
    for kind in (is_tensor, lambda value: isinstance(value, (ndarray, generic))):
        if kind(actual) and kind(expected):
            return
    if not (isinstance(actual, Number) and isinstance(expected, Number)):
        raise TypeError(_NO_PAIR.format(type(actual), type(expected)))


def compare_values(actual, expected, tolerance, checks, where):
    """The fault of two tensors or numbers."""
    kind = "Tensor-likes" if is_tensor(actual) or is_tensor(expected) else "Scalars"
    check_device, check_dtype, check_layout, check_stride = checks
    if check_dtype and kind == "Scalars" and type(actual) is not type(expected):
        return f"The (d)types do not match{where}: {type(actual)} != {type(expected)}."
    actual, expected = as_tensor(actual).detach(), as_tensor(expected).detach()
    facts = [("shape", True), ("layout", check_layout), ("is_quantized", True)]
    facts += [("device", check_device and kind != "Scalars")]
    facts += [("dtype", check_dtype and kind != "Scalars")]
    for name, wanted in facts:
        a, e = getattr(actual, name), getattr(expected, name)
        if wanted and a != e:
            return f"The values for attribute '{name}' do not match{where}: {a} != {e}."
    if check_stride and actual.stride() != expected.stride():
        return (
            f"The values for attribute 'stride()' do not match{where}: "
            f"{actual.stride()} != {expected.stride()}."
        )
    if actual.layout == expected.layout != strided and actual._nnz() != expected._nnz():
        name = str(actual.layout).rpartition("_")[2].upper()
        return (
            f"The number of specified values in sparse {name} tensors does not match"
            f"{where}: {actual._nnz()} != {expected._nnz()}"
        )
    for title, a, e, exact in parts_of(actual, expected, kind):
        allowed = (0.0, 0.0, True) if exact else tolerance
        if not a.is_meta:
            fault = compare_elements(a, e, allowed, title, where)
            if fault is not None:
                return fault
    return None


_INDICES = {
    "sparse_coo": ("_indices",),
    "sparse_csr": ("crow_indices", "col_indices"),
    "sparse_bsr": ("crow_indices", "col_indices"),
    "sparse_csc": ("ccol_indices", "row_indices"),
    "sparse_bsc": ("ccol_indices", "row_indices"),
}


def parts_of(actual, expected, kind):
    """What two tensors of one shape are compared by: a title, both, whether exactly."""
    if actual.is_quantized:
        yield (
            "Quantized tensor-likes",
            actual.dequantize(),
            expected.dequantize(),
            False,
        )
        return
    name = str(actual.layout).rpartition(".")[2]
    if name not in _INDICES or actual.layout != expected.layout:
        dense = [t.to_dense() if t.layout != strided else t for t in (actual, expected)]
        yield kind, *dense, False
        return
    title = f"Sparse {name.removeprefix('sparse_').upper()}"
    for part in _INDICES[name]:
        shown = f"{title} {part.strip('_')}"
        yield shown, getattr(actual, part)(), getattr(expected, part)(), True
    values = "_values" if name == "sparse_coo" else "values"
    yield (
        f"{title} values",
        getattr(actual, values)(),
        getattr(expected, values)(),
        False,
    )


def compare_elements(actual, expected, tolerance, kind, where):
    """The fault of two tensors of one shape."""
    rtol, atol, equal_nan = tolerance
    if rtol is None:
        pairs = [TOLERANCES.get(t.dtype.name, (0.0, 0.0)) for t in (actual, expected)]
        rtol, atol = (max(values) for values in zip(*pairs))
    common = promoted_type((actual, expected))
    actual, expected = actual.to(common), expected.to(common)
    close = ops.isclose(actual, expected, rtol=rtol, atol=atol, equal_nan=equal_nan)
    if bool(close.all()):
        return None
    wide = actual.double() if common.category < COMPLEX else actual
    gap = ops.abs(wide - expected.to(wide.dtype))
    gap = ops.where(close, ops.zeros_like(gap), gap)
    size = gap / ops.abs(expected.to(wide.dtype))
    size = ops.where(close, ops.zeros_like(size), size)
    wrong, count = int((~close).sum()), close.numel()
    if actual.ndim == 0:
        return (
            f"{kind} are not close{where}!\n\n"
            f"Expected {expected.item()} but got {actual.item()}.\n"
            f"Absolute difference: {gap.item()} (up to {atol} allowed)\n"
            f"Relative difference: {size.item()} (up to {rtol} allowed)"
        )
    whole = common.category < FLOATING
    absolute = "" if not (rtol or atol) else f" (up to {atol} allowed)"
    relative = "" if not (rtol or atol) else f" (up to {rtol} allowed)"
    largest = int(gap.max().item()) if whole else gap.max().item()
    return (
        f"{kind} are not {'close' if rtol or atol else 'equal'}{where}!\n\n"
        f"Mismatched elements: {wrong} / {count} ({100 * wrong / count:.1f}%)\n"
        f"Greatest absolute difference: {largest} at index "
        f"{place_of_largest(gap)}{absolute}\n"
        f"Greatest relative difference: {size.max().item()} at index "
        f"{place_of_largest(size)}{relative}"
    )


def place_of_largest(values):
    """The index of the largest element, as a tuple."""
    flat = int(values.argmax())
    place = []
    for size in reversed(values.shape):
        flat, at = divmod(flat, size)
        place.append(at)
    return tuple(reversed(place))
