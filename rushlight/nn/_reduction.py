"""PyTorch's names for how a loss is reduced to one number."""

from rushlight.nn._functions.reduction import legacy_reduction, reduction_number


def get_enum(reduction):
    """The operators' number for ``"none"``, ``"mean"`` or ``"sum"``.

    >>> get_enum("sum")
    2
    """
    return reduction_number(reduction)


def legacy_get_string(size_average, reduce, emit_warning=True):
    """The reduction that the two older flags stand for."""
    if emit_warning:
        return legacy_reduction(size_average, reduce, stacklevel=3)
    if reduce is False:
        return "none"
    return "sum" if size_average is False else "mean"


def legacy_get_enum(size_average, reduce, emit_warning=True):
    """The number of the reduction that the two older flags stand for."""
    return get_enum(legacy_get_string(size_average, reduce, emit_warning))
