"""Functions of sparse tensors as functions of dense ones, whose gradients are compared."""

from rushlight.autograd.function import Function
from rushlight.core import layout as layouts
from rushlight.core.tensor import Tensor
from rushlight.operators import call


def is_sparse(value):
    """Whether a value is a tensor of coordinates or a compressed one."""
    return isinstance(value, Tensor) and value.layout is not layouts.strided


def on_dense_inputs(func, inputs, masked, whole=False):
    """A function and its inputs, with dense tensors in place of the sparse ones.

    Args:
        func: takes the inputs.
        inputs: some of them sparse.
        masked: whether only the elements that are written down are varied: the inputs are
            the values then, and otherwise all elements.
        whole: whether all elements are written down, those that are zero too.

    Returns:
        A function that makes sparse tensors of its inputs, and those inputs.
    """
    taken = [_dense_input(each, masked) for each in inputs]

    def call_on_sparse(*given):
        pairs = zip(inputs, given, strict=True)
        made = [_sparse_input(like, value, masked, whole) for like, value in pairs]
        return func(*made)

    return call_on_sparse, tuple(taken)


def _dense_input(value, masked):
    if not is_sparse(value):
        return value
    own = value.detach()
    dense = _values(own).clone() if masked else own.to_dense()
    return dense.requires_grad_(value.requires_grad)


def _sparse_input(like, value, masked, whole):
    if not is_sparse(like):
        return value
    if masked:
        return _with_values(like.detach(), value)
    return _WrittenDown.apply(value, like.detach(), whole)


def _values(tensor):
    if tensor.layout is layouts.sparse_coo:
        return call._values(tensor)
    return call.values(tensor)


def _with_values(like, values):
    if like.layout is layouts.sparse_coo:
        return call._sparse_coo_tensor_unsafe(
            call._indices(like),
            values,
            list(like.shape),
            is_coalesced=like.is_coalesced(),
        )
    by_rows = like.layout in (layouts.sparse_csr, layouts.sparse_bsr)
    pair = (
        ("crow_indices", "col_indices") if by_rows else ("ccol_indices", "row_indices")
    )
    coordinates = [getattr(call, name)(like) for name in pair]
    return call._sparse_compressed_tensor_unsafe(
        *coordinates, values, list(like.shape), layout=like.layout
    )


class _WrittenDown(Function):
    """A dense tensor as a sparse one: at the coordinates of another, and where it is not zero."""

    @staticmethod
    def forward(ctx, dense, like, whole):
        shown = _with_values(like, call.ones_like(_values(like))).to_dense() != 0
        count = like.sparse_dim() + (dense.ndim - like.sparse_dim() - like.dense_dim())
        shown = call.ones_like(shown) if whole else shown | (dense != 0)
        if count < dense.ndim:
            shown = call.any(shown.flatten(count), -1)
        coordinates = call.nonzero(shown).t().contiguous()
        pairs = call._sparse_coo_tensor_unsafe(
            coordinates,
            call.index(dense, list(coordinates.unbind(0))),
            list(dense.shape),
            is_coalesced=True,
        )
        if like.layout is layouts.sparse_coo:
            return pairs
        if like.layout in (layouts.sparse_bsr, layouts.sparse_bsc):
            values = _values(like)
            batch = like.ndim - like.dense_dim() - 2
            blocks = {"blocksize": list(values.shape[batch + 1 : batch + 3])}
            return call.to_sparse(pairs, layout=like.layout, **blocks)
        return call.to_sparse(pairs, layout=like.layout)

    @staticmethod
    def backward(ctx, grad):
        return call.to_dense(grad), None, None
