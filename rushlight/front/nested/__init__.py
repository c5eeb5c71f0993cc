"""Nested tensors: batches of parts that differ in length, without padding.

>>> import rushlight as rl
>>> parts = [rl.ones(2, 3), rl.zeros(4, 3)]
>>> nt = nested_tensor(parts, layout=rl.jagged)
>>> nt.shape[0], nt.shape[2], nt.offsets()
(2, 3, tensor([0, 2, 6]))
"""

import rushlight as rl
from rushlight.core.facts import with_requires_grad as _with_requires_grad
from rushlight.nested._internal import nested_tensor as _jagged
from rushlight.nested._internal import ops as _ops  # which answers to the key
from rushlight.nested._internal import strided as _strided

__all__ = [
    "as_nested_tensor",
    "masked_select",
    "narrow",
    "nested_tensor",
    "nested_tensor_from_jagged",
    "to_padded_tensor",
]


def nested_tensor(
    tensor_list, *, dtype=None, layout=None, device=None, requires_grad=False,
    pin_memory=False,
):  # fmt: skip
    """A nested tensor of copies of the parts, a leaf.

    Args:
        tensor_list: the parts: tensors, or what makes some.
        dtype: the type of its elements; the parts' by default.
        layout: ``rl.jagged``, of which parts differ in one dimension, or ``rl.strided``.
        device: where it is.
        requires_grad: whether gradients flow to it.
        pin_memory: whether its memory is pinned.

    Raises:
        RuntimeError: the parts don't go together.

    >>> nt = nested_tensor([rl.ones(1), rl.ones(2)], layout=rl.jagged)
    >>> nt.values()
    tensor([1., 1., 1.])
    """
    parts = [t if isinstance(t, rl.Tensor) else rl.as_tensor(t) for t in tensor_list]
    with rl.no_grad():
        made = _of_parts(parts, dtype, layout, device)
    made = made.pin_memory() if pin_memory else made
    return _with_requires_grad(made, requires_grad)


def _of_parts(parts, dtype, layout, device):
    if layout in (None, rl.strided):
        return _strided.strided_from_list(parts, dtype, device)
    if layout is not rl.jagged:
        raise RuntimeError(
            f"Specified layout is unsupported for nested tensors: {layout}"
        )
    return _jagged.jagged_from_list(parts, None, dtype=dtype, device=device)[0]


def as_nested_tensor(ts, dtype=None, device=None, layout=None):
    """A nested tensor of parts through which gradients flow back to them.

    Args:
        ts: the parts, which are copied; or a tensor, whose rows are the parts.
        dtype: the type of its elements; the parts' by default.
        device: where it is.
        layout: ``rl.jagged``, of which parts differ in one dimension, or ``rl.strided``.

    Raises:
        TypeError: it is neither a tensor nor a list of tensors.
        RuntimeError: the parts don't go together.

    >>> a = rl.ones(2, requires_grad=True)
    >>> as_nested_tensor([a, rl.ones(1)], layout=rl.jagged).values().sum().backward()
    >>> a.grad
    tensor([1., 1.])
    """
    listed = isinstance(ts, (list, tuple)) and all(isinstance(t, rl.Tensor) for t in ts)
    if listed:
        return _of_parts(list(ts), dtype, layout, device)
    if not isinstance(ts, rl.Tensor):
        raise TypeError(
            "as_nested_tensor(): Expected first argument to be a tensor or a list / "
            "tuple of tensors "
        )
    if ts.is_nested:
        if layout is not ts.layout and not (layout is None and ts.layout is rl.strided):
            raise RuntimeError(
                "as_nested_tensor(): Converting between nested tensor layouts is not "
                "supported"
            )
        return ts.to(device=device, dtype=dtype)
    if ts.dim() < 2:
        raise RuntimeError(
            "as_nested_tensor(): Expected tensor argument to have dim() > 1"
        )
    if layout is not rl.jagged:
        return _of_parts(list(ts.unbind()), dtype, layout, device)
    rows, length = ts.shape[:2]
    values = ts.contiguous().flatten(0, 1).to(device=device, dtype=dtype)
    offsets = rl.arange(0, rows * length + 1, length, device=values.device)
    return _jagged.nested_view_from_values_offsets(values, offsets, 1, length, length)


def to_padded_tensor(input, padding, output_size=None, out=None):
    """The parts as rows of one tensor, filled up at the end.

    Args:
        input: a nested tensor.
        padding: the number to fill with.
        output_size: sizes of the result, where it is to be larger.
        out: where to write.

    Raises:
        RuntimeError: a size is smaller than the parts need.

    >>> nt = nested_tensor([rl.ones(1), rl.ones(2)], layout=rl.jagged)
    >>> to_padded_tensor(nt, 0.0)
    tensor([[1., 0.],
            [1., 1.]])
    """
    found = input.to_padded_tensor(padding, output_size)
    return found if out is None else out.copy_(found)


def narrow(tensor, dim, start, length, layout=rl.strided):
    """A stretch of each row of a tensor, as a nested one.

    Args:
        tensor: the rows.
        dim: the dimension that is cut; 1 in the jagged layout, whose result is a view.
        start: where stretches begin: a number, or in the jagged layout one for each row.
        length: how long they are, likewise.
        layout: ``rl.jagged`` or ``rl.strided``.

    Raises:
        RuntimeError: the layout does not take them.

    >>> nt = narrow(rl.arange(6.0).view(2, 3), 1, 0, rl.tensor([1, 2]), layout=rl.jagged)
    >>> [part.tolist() for part in nt.unbind()]
    [[0.0], [3.0, 4.0]]
    """
    for name, each in (("start", start), ("length", length)):
        if not isinstance(each, (int, rl.SymInt, rl.Tensor)):
            raise RuntimeError(f"{name} must be an integer or a tensor")
    if layout is rl.strided:
        if isinstance(start, rl.Tensor) or isinstance(length, rl.Tensor):
            raise RuntimeError(
                "start and length must be integers for the strided layout NT impl"
            )
        parts = [part.narrow(dim - 1, start, length) for part in tensor.unbind()]
        return _of_parts(parts, None, layout, None)
    if layout is not rl.jagged:
        raise RuntimeError(
            f"Specified layout is unsupported for nested narrow: {layout}"
        )
    if dim != 1:
        raise RuntimeError("jagged layout only supports dim=1")
    start, length = (
        each if isinstance(each, rl.Tensor) else rl.tensor([each], device=tensor.device)
        for each in (start, length)
    )
    return _jagged.jagged_from_tensor_and_lengths(tensor, start, length)[0]


def nested_tensor_from_jagged(
    values,
    offsets=None,
    lengths=None,
    jagged_dim=None,
    min_seqlen=None,
    max_seqlen=None,
):
    """A nested tensor of parts that lie one behind another: a view of them.

    Args:
        values: the parts along dimension ``jagged_dim - 1``.
        offsets: (B + 1,) where each begins, and where the last ends.
        lengths: (B,) how long they are; with offsets, where there are gaps between them.
        jagged_dim: the dimension of the result that is ragged; 1 by default.
        min_seqlen: the shortest length, where it is known; ``max_seqlen`` the longest.

    Raises:
        RuntimeError: there are neither offsets nor lengths.
        ValueError: the batch would be ragged.

    >>> nt = nested_tensor_from_jagged(rl.arange(5.0), offsets=rl.tensor([0, 2, 5]))
    >>> nt.sum(dim=1)
    tensor([1., 9.])
    """
    if offsets is None:
        if lengths is None:
            raise RuntimeError(
                "nested_tensor_from_jagged(): At least one of offsets or lengths is "
                "required."
            )
        offsets, lengths = rl.nn.functional.pad(lengths.cumsum(0), (1, 0)), None
    jagged_dim = 1 if jagged_dim is None else jagged_dim
    if jagged_dim < 1:
        raise ValueError(f"Expected jagged_dim >=1, but got {jagged_dim}.")
    return _jagged.nested_view_from_values_offsets_lengths(
        values, offsets, lengths, jagged_dim, min_seqlen, max_seqlen
    )


def masked_select(tensor, mask):
    """What a mask keeps of each row, as a nested tensor.

    Args:
        tensor: the rows.
        mask: true where an element stays; it broadcasts to the tensor.

    Raises:
        RuntimeError: one of them is not strided.

    >>> mask = rl.tensor([[True, False], [True, True]])
    >>> masked_select(rl.arange(4.0).view(2, 2), mask).offsets()
    tensor([0, 1, 3])
    """
    for name, each in (("tensor", tensor), ("mask", mask)):
        if each.layout is not rl.strided:
            raise RuntimeError(
                f"torch.nested.masked_select requires a strided {name}, given "
                f"{each.layout}"
            )
    kept = mask.expand(tensor.shape).sum(dim=tensor.ndim - 1).view(-1)
    offsets = rl.nn.functional.pad(kept.cumsum(0), (1, 0))
    return _jagged.nested_view_from_values_offsets(tensor.masked_select(mask), offsets)
