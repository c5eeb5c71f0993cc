"""Sums of products by Einstein's convention, as products of matrices."""

import itertools
import math
import string

from rushlight.operators import call as ops


def einsum(equation, tensors, path):
    """Products of two operands at a time, each sum taken as soon as it can be.

    Args:
        path: two places for each product: of the operands that are left, which it takes
            out, and whose end it joins. None goes from the left.

    Raises:
        RuntimeError: the equation doesn't fit the operands, or the path doesn't.
    """
    inputs, output = _subscripts(equation, tensors)
    _check_path(path, len(tensors))
    operands = list(map(_without_repeats, tensors, inputs))
    if len(operands) > 1:
        operands = _without_ones(operands, output)
    for step in range(len(operands) - 1):
        first, second = (
            (0, 1) if path is None else sorted(path[2 * step : 2 * step + 2])
        )
        _check_pair(first, second, len(operands))
        b, a = operands.pop(second), operands.pop(first)
        later = set(output).union(*(names for _, names in operands))
        product = _contract(*a, *b, later)
        operands.insert(0 if path is None else len(operands), product)
    result, letters = operands[0]
    gone = [i for i, letter in enumerate(letters) if letter not in output]
    if gone:
        result = result.sum(gone)
        letters = [letter for letter in letters if letter in output]
    return result.permute([letters.index(letter) for letter in output])


def _check_path(path, count):
    wanted = 1 if count == 1 else 2 * (count - 1)
    if path is not None and len(path) != wanted:
        raise RuntimeError(
            "einsum(): expected contraction path given in path parameter to have size "
            f"{wanted} but got {len(path)}"
        )


def _check_pair(first, second, count):
    if first == second:
        raise RuntimeError(
            f"einsum(): invalid contraction ({first}, {second}) cannot contract an operand "
            "with itself"
        )
    if first < 0 or second >= count:
        raise RuntimeError(
            f"einsum(): invalid contraction ({first}, {second}) operand index is out of "
            "bounds"
        )


def _subscripts(equation, operands):
    """A list of dimension names for each operand, and for the result."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    inputs = left.split(",")
    if len(inputs) != len(operands):
        raise RuntimeError(
            f"einsum(): the equation has {len(inputs)} operands, but {len(operands)} "
            "were given"
        )
    rest = max(
        (t.ndim - len(names.replace("...", "")) for t, names in zip(operands, inputs)
         if "..." in names), default=0,
    )  # fmt: skip
    named = [
        _names(text, tensor.ndim, rest, number)
        for number, (text, tensor) in enumerate(zip(inputs, operands))
    ]
    _check_sizes(operands, named)
    if arrow:
        output = _names(right, None, rest, None)
    else:
        flat = list(itertools.chain(*named))
        ellipsis = [name for name in _ellipsis(rest) if name in flat]
        output = ellipsis + sorted(
            name for name in set(flat) if flat.count(name) == 1 and len(name) == 1
        )
    for name in output:
        if output.count(name) > 1:
            raise RuntimeError(
                f"einsum(): output subscript {name} appears more than once in the output"
            )
        if not any(name in names for names in named):
            raise RuntimeError(
                f"einsum(): output subscript {name} does not appear in the equation for "
                "any input operand"
            )
    return named, output


def _ellipsis(count):
    return [f"...{number}" for number in range(count)]


def _check_sizes(operands, named):
    sizes = {}
    for number, (tensor, names) in enumerate(zip(operands, named)):
        own = {}
        for name, size in zip(names, tensor.shape):
            if own.setdefault(name, size) != size:
                raise RuntimeError(
                    f"einsum(): subscript {name} is repeated for operand {number} but the "
                    f"sizes don't match, {size} != {own[name]}"
                )
        for name, size in own.items():
            known = sizes.get(name, 1)
            if known != size and 1 not in (known, size):
                what = f"subscript {name}"
                if name[0] == ".":
                    what = f"dimension {name[3:]} covered by the ellipsis"
                raise RuntimeError(
                    f"einsum(): {what} has size {size} for operand {number} which does not "
                    f"broadcast with previously seen size {known}"
                )
            sizes[name] = size if known == 1 else known


def _names(text, ndim, rest, number):
    head, dots, tail = text.partition("...")
    if not all(letter in string.ascii_letters for letter in head + tail):
        raise RuntimeError(
            f"einsum(): invalid subscript given in '{text}', subscripts must be in "
            "[a-zA-Z]"
        )
    width = rest if ndim is None else ndim - len(head) - len(tail)
    if ndim is not None and (width < 0 or (width and not dots)):
        raise RuntimeError(
            f"einsum(): the number of subscripts in the equation ({len(head + tail)}) "
            f"{'is more than' if dots else 'does not match'} the number of dimensions "
            f"({ndim}) for operand {number}"
            f"{'' if dots else ' and no ellipsis was given'}"
        )
    return [*head, *(_ellipsis(rest)[rest - width :] if dots else []), *tail]


def _without_repeats(tensor, letters):
    """The diagonal of dimensions that share a name."""
    letters = list(letters)
    for letter in list(letters):
        while letters.count(letter) > 1:
            first = letters.index(letter)
            second = letters.index(letter, first + 1)
            tensor = tensor.diagonal(0, first, second)
            del letters[second], letters[first]
            letters.append(letter)
    return tensor, letters


def _without_ones(operands, output):
    """Dimensions of size one go, but for one of the result's that no operand has longer."""
    long = {
        name for tensor, names in operands for name, size in zip(names, tensor.shape)
        if size != 1
    }  # fmt: skip
    kept, result = set(), []
    for tensor, names in operands:
        gone = [
            i for i, name in enumerate(names)
            if tensor.shape[i] == 1 and (name in long or name in kept or name not in output)
        ]  # fmt: skip
        kept.update(names)
        names = [name for i, name in enumerate(names) if i not in gone]
        result.append((tensor.squeeze(gone) if gone else tensor, names))
    return result


def _contract(a, names_a, b, names_b, later):
    """The product of two operands, summed over what nobody needs later."""
    a, names_a = _summed(a, names_a, [*names_b, *later])
    b, names_b = _summed(b, names_b, [*names_a, *later])
    shared = [name for name in names_a if name in names_b]
    batch = [name for name in shared if name in later]
    inner = [name for name in shared if name not in later]
    only_a = [name for name in names_a if name not in names_b]
    only_b = [name for name in names_b if name not in names_a]
    sizes = {**dict(zip(names_a, a.shape)), **dict(zip(names_b, b.shape))}
    names = [*batch, *only_a, *only_b]
    if not inner:
        return _expanded(a, names_a, names) * _expanded(b, names_b, names), names

    def arranged(tensor, names, groups):
        order = [name for group in groups for name in group]
        tensor = tensor.permute([names.index(name) for name in order])
        return tensor.reshape([math.prod(sizes[n] for n in group) for group in groups])

    left = arranged(a, names_a, (batch, only_a, inner))
    right = arranged(b, names_b, (batch, inner, only_b))
    return ops.bmm(left, right).reshape([sizes[name] for name in names]), names


def _expanded(tensor, names, wanted):
    """The tensor with its dimensions in an order, of size one where it has none."""
    here = [name for name in wanted if name in names]
    tensor = tensor.permute([names.index(name) for name in here])
    for place, name in enumerate(wanted):
        tensor = tensor if name in names else tensor.unsqueeze(place)
    return tensor


def _summed(tensor, names, needed):
    gone = [i for i, name in enumerate(names) if name not in needed]
    if not gone:
        return tensor, names
    return tensor.sum(gone), [name for name in names if name in needed]


# As PyTorch takes it, step by step, where handlers listen


def decomposed(equation, tensors, path=None):
    """Operands with all dimensions in one order, multiplied two at a time."""
    named, output = _subscripts(equation, tensors)
    _check_path(path, len(tensors))
    order = _dimension_order(named, output)
    operands = [_with_all(*pair, order) for pair in zip(tensors, named)]
    if not _broadcast(operands):
        return NotImplemented
    if len(operands) == 1:
        gone = list(range(len(output), len(order)))
        return ops.sum(operands[0], gone) if gone else operands[0]
    counts = [sum(one.shape[dim] != 1 for one in operands) for dim in range(len(order))]
    for step in range(len(operands) - 1):
        first, second = (
            (0, 1) if path is None else sorted(path[2 * step : 2 * step + 2])
        )
        _check_pair(first, second, len(operands))
        b, a = operands.pop(second), operands.pop(first)
        product = _multiplied(a, b, counts, len(output))
        operands.insert(0 if path is None else len(operands), product)
    result = operands[0]
    if len(order) == len(output):
        return result
    return ops.view(result, list(result.shape[: len(output)]))


def _dimension_order(named, output):
    """The result's names, then those that are summed over, in the order of letters."""
    rest = {name for names in named for name in names} - set(output)
    return [*output, *sorted(rest, key=lambda name: (len(name) == 1, name))]


def _with_all(tensor, names, order):
    """The tensor with every dimension in its place, of size one where it has none."""
    seen: list = []
    for name in names:
        if name in seen:  # the diagonal of what shares a name
            place = seen.index(name)
            tensor = ops.diagonal(tensor, 0, place, len(seen))
            tensor = ops.movedim(tensor, -1, place)
        else:
            seen.append(name)
    for name in order:
        if name not in seen:
            tensor = ops.unsqueeze(tensor, -1)
            seen.append(name)
    return ops.permute(tensor, [seen.index(name) for name in order])


def _broadcast(operands):
    """Whether sizes of every dimension are the same, or one."""
    return all(len(set(sizes) - {1}) < 2 for sizes in zip(*(t.shape for t in operands)))


def _multiplied(a, b, counts, kept):
    """The product of two operands, summed over what no operand after them has.

    Args:
        counts: how many operands have each dimension; what is done is taken off.
        kept: how many dimensions the result keeps.
    """
    sums: tuple = [], [], []  # of both, of the first alone, of the second alone
    for dim in range(kept, len(counts)):
        wide = [one.shape[dim] != 1 for one in (a, b)]
        if all(wide):
            counts[dim] -= 1
            if counts[dim] == 1:
                sums[0].append(dim)
                counts[dim] = 0
        elif counts[dim] == 1 and any(wide):
            sums[1 if wide[0] else 2].append(dim)
            counts[dim] = 0
    a = ops.sum(a, sums[1], True) if sums[1] else a
    b = ops.sum(b, sums[2], True) if sums[2] else b
    return _paired(a, b, sums[0])


def _paired(a, b, summed):
    """One product of matrices in batches, with the summed dimensions of size one."""
    if not summed:
        return ops.mul(a, b)
    both, first, second = [], [], []
    for dim in range(a.ndim):
        wide = a.shape[dim] > 1, b.shape[dim] > 1
        if dim not in summed:
            (both if all(wide) else first if wide[0] else second).append(dim)
    sizes = [[t.shape[d] for d in dims] for t, dims in (
        (a, both), (a, first), (a, summed), (b, second),
    )]  # fmt: skip
    batch, rows, inner, columns = map(math.prod, sizes)
    left = ops.permute(a, [*both, *first, *summed, *second])
    left = ops.reshape(left, [batch, rows, inner])
    right = ops.permute(b, [*both, *summed, *second, *first])
    right = ops.reshape(right, [batch, inner, columns])
    made = ops.view(
        ops.bmm(left, right), [*sizes[0], *sizes[1], *(1 for _ in summed), *sizes[3]]
    )
    order = [*both, *first, *summed, *second]
    return ops.permute(made, [order.index(dim) for dim in range(a.ndim)])
