"""Dimensions by name: ``rearrange``."""

import re
from typing import Any

import rushlight

_ELLIPSIS = "…"


def _side(text):
    """One side of a pattern: a list of names, of lists of names for groups, and of 1s.

    Raises:
        ValueError: parentheses do not match, or a name is there twice.
    """
    text = text.replace("...", _ELLIPSIS)
    parts: list[Any] = []
    group: list[str] | None = None
    seen: set[str] = set()
    for token in re.findall(r"[()]|[^\s()]+", text):
        if token == "(":
            if group is not None:
                raise ValueError("brackets are not balanced")
            group = []
        elif token == ")":
            if group is None:
                raise ValueError("brackets are not balanced")
            parts.append(group)
            group = None
        else:
            name = token.isidentifier() and "_" not in (token[0], token[-1])
            if token not in ("1", _ELLIPSIS) and not name:
                raise ValueError(f"Invalid axis identifier: {token!r}")
            if token in seen and token != "1":
                raise ValueError(
                    f"Indexing expression contains duplicate dimension '{token}'"
                )
            seen.add(token)
            target = parts if group is None else group
            if not (token == "1" and group is not None):
                target.append(token)
    if group is not None:
        raise ValueError("brackets are not balanced")
    return parts, seen - {"1"}


def rearrange(tensor, pattern, **axes_lengths):
    """Dimensions taken apart, put into another order, and joined, by names.

    Args:
        tensor: the tensor, or several of one shape, which are stacked first.
        pattern: names of the dimensions before and after ``->``; those in parentheses
            are, or become, one; ``...`` stands for any.
        axes_lengths: sizes of names within parentheses on the left.

    Raises:
        ValueError: the pattern is none, or does not fit.

    >>> import rushlight as rl
    >>> rearrange(rl.zeros(2, 3, 4), "a b c -> c (a b)").shape
    rushlight.Size([4, 6])
    >>> rearrange(rl.zeros(2, 6), "a (b c) -> b a c", b=2).shape
    rushlight.Size([2, 2, 3])
    """
    if not isinstance(tensor, rushlight.Tensor):
        tensor = rushlight.stack(tuple(tensor))
    sides = pattern.split("->")
    if len(sides) != 2:
        raise ValueError("Pattern must contain a single '->' separator")
    (left, left_names), (right, right_names) = map(_side, sides)
    if left_names != right_names:
        lone = left_names ^ right_names
        raise ValueError(
            "Identifiers only on one side of rearrange expression (should be on both): "
            f"{lone}"
        )
    unknown = axes_lengths.keys() - left_names
    if unknown:
        raise ValueError(f"Axis length specified for unknown identifiers: {unknown}")
    left, right, sizes = _without_ellipsis(tensor, left, right)
    if len(left) != tensor.dim():
        raise ValueError(
            f"Number of dimensions in pattern ({len(left)}) and tensor ({tensor.dim()}) "
            "must be equal"
        )
    sizes.update(axes_lengths)
    flat = _sizes_of(tensor, left, sizes)
    order = [name for part in right for name in ([part] if part != "1" else [])]
    names = [n for part in order for n in (part if isinstance(part, list) else [part])]
    positions = {name: place for place, name in enumerate(flat)}
    unflattened = tensor.reshape([sizes[name] for name in flat])
    unflattened = unflattened.permute([positions[name] for name in names])
    made = []
    for part in right:
        size = 1
        for name in part if isinstance(part, list) else [part]:
            size *= 1 if name == "1" else sizes[name]
        made.append(size)
    return unflattened.reshape(made)


def _without_ellipsis(tensor, left, right):
    """Both sides with names of their own in the place of ``...``."""
    fixed = len([part for part in left if part != _ELLIPSIS])
    count = tensor.dim() - fixed
    names = [f"_{place}" for place in range(max(count, 0))]

    def replaced(parts):
        made = []
        for part in parts:
            if part == _ELLIPSIS:
                made += names
            elif isinstance(part, list):
                made.append(replaced(part))
            else:
                made.append(part)
        return made

    return replaced(left), replaced(right), {}


def _sizes_of(tensor, left, sizes):
    """The names on the left in order; their sizes are noted.

    Raises:
        ValueError: a size does not fit, or two of a group are not known.
    """
    flat: list[str] = []
    for part, size in zip(left, tensor.shape, strict=True):
        if part == "1":
            if size != 1:
                raise ValueError(f"a dimension of size {size} is written as 1")
            part = f"1_{len(flat)}"
            # it goes, as there is none on the right
            sizes[part] = 1
            continue
        group = part if isinstance(part, list) else [part]
        known = 1
        unknown = [name for name in group if name not in sizes]
        for name in group:
            known *= sizes.get(name, 1)
        if len(unknown) > 1:
            raise ValueError(
                f"cannot infer the sizes of two dimensions at once {' and '.join(unknown)}"
            )
        if unknown:
            if size % known:
                raise ValueError(f"a size of {size} is no multiple of {known}")
            sizes[unknown[0]] = size // known
        elif known != size:
            raise ValueError(f"{part} has size {size}, but {known} was given")
        flat += group
    return flat
