"""How a loss is reduced to one number, and the older ways of saying so."""

import warnings


def reduction_number(reduction: str) -> int:
    """The operators' number for ``"none"``, ``"mean"`` or ``"sum"``."""
    if reduction == "mean":
        return 1
    if reduction == "none":
        return 0
    if reduction == "sum":
        return 2
    if reduction == "elementwise_mean":
        warnings.warn(
            "reduction='elementwise_mean' is deprecated. Please use reduction='mean' "
            "instead.",
            stacklevel=4,
        )
        return 1
    raise ValueError(f"{reduction} is not a valid value for reduction")


def legacy_reduction(
    size_average: bool | None, reduce: bool | None, stacklevel: int = 4
) -> str:
    """The reduction that the two older flags stand for; says that they are old."""
    size_average = True if size_average is None else size_average
    reduce = True if reduce is None else reduce
    if size_average and reduce:
        name = "mean"
    else:
        name = "sum" if reduce else "none"
    warnings.warn(
        "size_average and reduce args will be deprecated, please use "
        f"reduction='{name}' instead.",
        stacklevel=stacklevel,
    )
    return name


def chosen_reduction(
    size_average: bool | None, reduce: bool | None, reduction: str
) -> int:
    """The operators' number, from either way of choosing."""
    if size_average is not None or reduce is not None:
        reduction = legacy_reduction(size_average, reduce, stacklevel=5)
    return reduction_number(reduction)


def reduce_loss(loss, number: int):
    """The loss of each element, their mean or their sum."""
    if number == 1:
        return loss.mean()
    return loss.sum() if number == 2 else loss
