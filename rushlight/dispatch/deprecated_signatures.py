"""Orders of arguments that PyTorch took in its first years, and still takes.

``x.add_(2, y)`` was ``x.add_(y, alpha=2)``, and ``addmm(2, x, a, b)`` had its factor in
front. Programs of that time are still run. The forms are looked up only where a call
fits no schema, so that nobody else pays for them.
"""

from rushlight.core.dtype import all_dtypes
from rushlight.core.tensor import Tensor
from rushlight.core.warning import warn_once
from rushlight.dispatch.declared import DEPRECATED

# What single arguments are called where users call the operator. Those that say "a number"
# may only be numbers.
_RENAMED = {
    "copy_": {"other": "src"},
    "to": {"tensor": "other"},
    "isin": {"element": "elements", "test_element": "test_elements"},
}
_RESULTS = ("out", "dtype")
_TYPES = {bool: "bool", int: "int64", float: "float64", complex: "complex128"}
_NUMBERS = frozenset(("alpha", "beta", "value", "number"))


def forms(packet):
    """The older orders of an operator's arguments, the tensor itself among them.

    >>> import rushlight as rl
    >>> forms(rl.addcmul)
    [('self', 'value', 'tensor1', 'tensor2')]
    """
    found = []
    for op in packet.overloads:
        words = op.entry[DEPRECATED] if op.entry else ()
        if not words:
            continue
        rows = op.signature.rows
        tensors = [row[0] for row in rows[1:] if not row[3]]
        factors = [row[0] for row in rows if row[3] and row[0] not in _RESULTS]
        scaled = "factor_second" in words
        if scaled:
            found.append(("self", *factors, *tensors))
        if "factors_first" in words:
            for front in (factors, factors[:1]):
                if packet.method:
                    found.append(("self", *front, *tensors))
                else:
                    found.append((front[0], "self", *front[1:], *tensors))
        if "number_last" in words:
            # its factor comes first, of two numbers too, where it does of tensors
            last = (*factors, "number") if scaled else ("number", *factors)
            found.append(("self", *last))
    return found


def _fits(kind, value):
    if kind not in _NUMBERS:
        return isinstance(value, Tensor) or hasattr(type(value), "__torch_function__")
    if isinstance(value, Tensor):
        return value.ndim == 0 and not value.requires_grad
    import numbers

    return isinstance(value, numbers.Number)


def reordered(packet, values, keywords):
    """The arguments as the schemas of today have them, or None where nothing fits.

    Args:
        packet: the operator; of a method the first value is the tensor that it is called of.
        values: what was given by position.
        keywords: what was given by name.

    Returns:
        Positional values and the values of keywords, or None.

    >>> import rushlight as rl
    >>> x = rl.ones(2)
    >>> reordered(rl.Tensor.add, (x, 3, 2), {})
    ((tensor([1., 1.]), 2), {'alpha': 3})
    """
    name, method = packet.name, packet.method
    if name == "to" and len(values) > 1 and (dtype := _type_of_number(values[1])):
        return (values[0], dtype, *values[2:]), keywords
    if keywords:
        return _renamed(name, values, keywords)
    for form in forms(packet):
        if len(form) != len(values):
            continue
        if not all(_fits(k, v) for k, v in zip(form, values, strict=True)):
            continue
        given = dict(zip(form, values, strict=True))
        factors = {k: given.pop(k) for k in ("beta", "alpha", "value") if k in given}
        if "number" not in given:
            _warn(name, form, factors, method)
        return tuple(given.values()), factors
    return None


def _renamed(name, values, keywords):
    """The same under the schema's names, where one argument has its users' name."""
    names = _RENAMED.get(name, {})
    used = names.keys() & keywords
    if len(used) != 1 or names[next(iter(used))] in keywords:
        return None
    (key,) = used
    if "element" in key and isinstance(keywords[key], Tensor):
        return None
    return values, {names.get(k, k): value for k, value in keywords.items()}


def _type_of_number(value):
    """The type of the tensor that a number stands for, or None for anything else."""
    given = type(value)
    if given.__module__ == "numpy" and not hasattr(given, "__len__"):
        value = value.item() if hasattr(given, "item") else None
        if isinstance(value, bool):
            value = float(value)  # PyTorch knows Python's truth values only
    if isinstance(value, int) and value >> 63 not in (0, -1):
        raise OverflowError("int too big to convert")
    for kind, name in _TYPES.items():
        if isinstance(value, kind):
            return all_dtypes()[name]
    return None


def _warn(name, form, factors, method):
    """Once in a process, as there."""
    kinds = {
        k: "Number" if k in factors else "Tensor"
        for k in form
        if k != "self" or not method
    }
    kinds = {"input" if k == "self" else k: kind for k, kind in kinds.items()}
    tensors = [f"Tensor {k}" for k, kind in kinds.items() if kind == "Tensor"]
    before = ", ".join(f"{kind} {k}" for k, kind in kinds.items())
    after = ", ".join((*tensors, "*", *(f"Number {k} = 1" for k in factors)))
    warn_once(
        f"This overload of {name} is deprecated:\n\t{name}({before})\n"
        f"Consider using one of the following signatures instead:\n\t{name}({after})",
        key="deprecated signature",
    )
