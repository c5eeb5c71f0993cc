"""Masked reductions of tensors in coordinates (COO) and in compressed rows (CSR).

An element counts where the mask has it written down as true, whether or not the input has
it: one that only the mask has is a zero that counts. So the input is first written down
again with the mask's places, and a reduction is one over what is written down then.
"""

import rushlight as rl
from rushlight.operators import call as _call

LAYOUTS = rl.strided, rl.sparse_coo, rl.sparse_csr


def broadcast(mask, shape):
    """A mask in coordinates as one of larger sizes, its places repeated.

    Raises:
        RuntimeError: a size does not fit.
    """
    mask = mask.coalesce()
    missing, sparse = len(shape) - mask.ndim, mask.sparse_dim()
    sizes = (1,) * missing + tuple(mask.shape)
    for size, wanted in zip(sizes, shape, strict=True):
        if size not in (1, wanted):
            raise RuntimeError(
                f"The expanded size of the tensor ({wanted}) must match the existing "
                f"size ({size}): {list(mask.shape)} does not broadcast to {list(shape)}"
            )
    element_indices, values = mask.indices(), mask.values()
    count = element_indices.shape[1]
    rows = [_call.zeros((count,), dtype=rl.int64) for _ in range(missing)]
    rows += list(element_indices.unbind(0))
    for dim in range(missing + sparse):
        if sizes[dim] != shape[dim]:
            steps = _call.arange(shape[dim]).repeat_interleave(rows[0].shape[0])
            rows = [row.repeat(shape[dim]) for row in rows]
            rows[dim] = steps
            values = values.repeat(shape[dim], *[1] * (values.ndim - 1))
    values = values.expand(values.shape[:1] + tuple(shape[missing + sparse :]))
    return rl.sparse_coo_tensor(_call.stack(rows), values, tuple(shape)).coalesce()


def alike(mask, input):
    """A mask in the layout of the input, whose sizes it has."""
    if mask.layout is not input.layout:
        if input.layout is rl.sparse_csr:
            mask = mask.to_sparse_csr()
        elif input.layout is rl.strided:
            mask = mask.to_dense()
        elif mask.layout is rl.strided:
            mask = mask.to_sparse(input.sparse_dim())
        else:
            mask = mask.to_sparse()
    return mask.coalesce() if mask.layout is rl.sparse_coo else mask


def where(mask, input, value):
    """The input with exactly the mask's places written down; zeros where it had none.

    Args:
        mask: of the input's sizes and layout.
        input: in coordinates or compressed rows.
        value: for what the mask leaves out of dense dimensions.
    """
    if input.layout is rl.sparse_csr:
        found = where(mask.to_sparse_coo().coalesce(), input.to_sparse_coo(), value)
        return found.to_sparse_csr()
    if mask.dense_dim() != input.dense_dim():
        raise AssertionError(
            "mask.dense_dim() must match input.dense_dim(): "
            f"{mask.dense_dim()} vs {input.dense_dim()}"
        )
    input, sparse = input.coalesce(), input.sparse_dim()
    counts = mask.values()
    for _ in range(mask.dense_dim()):
        counts = counts.any(-1)
    element_indices, which = mask.indices()[:, counts], mask.values()[counts]
    present, values = _keys(input.indices(), input.shape), input.values()
    wanted = _keys(element_indices, input.shape[:sparse])
    none = values.new_zeros((1, *values.shape[1:]))
    count = present.shape[0]
    at = _call.searchsorted(present, wanted)
    found = at < count
    if count:
        found = found & (present[at.clamp(max=count - 1)] == wanted)
    taken = _call.cat([values, none])[at.where(found, count)]
    if mask.dense_dim():
        inside = which | ~found.reshape(-1, *[1] * mask.dense_dim())
        taken = taken.where(inside, value)
    return rl.sparse_coo_tensor(element_indices, taken, input.shape)._coalesced_(True)


def _keys(element_indices, shape):
    """Places as one number each, in the order of rows."""
    key = _call.zeros(
        (element_indices.shape[1],), dtype=rl.int64, device=element_indices.device
    )
    for row, size in zip(element_indices.unbind(0), shape, strict=False):
        key = key * size + row
    return key


def reduced(name, input, dims, keepdim, dtype, neutral):
    """A reduction of what is written down, in the input's layout.

    Args:
        name: ``sum``, ``prod``, ``amax``, ``amin`` or ``mean``.
        dims: dimensions to reduce, counted from the first.
        dtype: of the result; the input is converted before.
        neutral: what nothing at all is reduced to.

    Raises:
        AssertionError: rows of a compressed tensor are not kept.
        ValueError: the layout has no such reduction.
    """
    if input.layout is rl.sparse_csr:
        if not keepdim:
            kind = RuntimeError if name in ("sum", "prod") else AssertionError
            raise kind(
                "reduction operations on CSR tensors with keepdim=False is unsupported"
            )
        return _of_rows(name, input, dims, dtype)
    input = input.coalesce()
    sparse, dense = input.sparse_dim(), input.ndim
    dims = [d for d in dims if d < dense]  # a number has none
    values, element_indices = input.values().to(dtype), input.indices()
    inner = [d + 1 - sparse for d in dims if d >= sparse]
    if inner:
        values = _dense(name, values, inner, keepdim)
    outer = [d for d in dims if d < sparse]
    if len(outer) == sparse:
        if name in ("amax", "amin") and not values.shape[0]:
            whole = _call.full(values.shape[1:], neutral, dtype=dtype)
        else:
            whole = getattr(_call, name)(values, 0)
        whole = whole.reshape([1] * (sparse if keepdim else 0) + list(whole.shape))
        return whole.to(dtype).to_sparse()
    shape = [
        1 if d in dims else input.shape[d]
        for d in range(dense)
        if keepdim or d not in dims
    ]
    return _grouped(name, _kept(element_indices, outer, keepdim), values, shape)


def _dense(name, values, dims, keepdim):
    """Values reduced over dense dimensions."""
    if name in ("sum", "amax", "amin"):
        return getattr(_call, name)(values, dims, keepdim)
    for d in reversed(dims):
        values = _call.prod(values, d, keepdim=keepdim)
    return values


def _kept(element_indices, outer, keepdim):
    """Places without the reduced dimensions, or with zeros there."""
    rows = list(element_indices.unbind(0))
    for d in reversed(outer):
        if keepdim:
            rows[d] = _call.zeros_like(rows[d])
        else:
            del rows[d]
    return _call.stack(rows)


def _grouped(name, element_indices, values, shape):
    """A tensor in coordinates: values at the same place are one."""
    if element_indices.numel():
        element_indices, group = _call.unique_dim(
            element_indices, 1, return_inverse=True
        )[:2]
        short = values.dtype in (rl.bfloat16, rl.float16)
        wide = values.to(rl.float32) if short else values
        into = wide.new_zeros((element_indices.shape[1], *values.shape[1:]))
        index = group.reshape(-1, *[1] * (values.ndim - 1)).expand(values.shape)
        found = into.scatter_reduce(0, index, wide, name, include_self=False)
        values = found.to(values.dtype)
    return rl.sparse_coo_tensor(element_indices, values, tuple(shape))


def _of_rows(name, input, dims, dtype):
    """A reduction of compressed rows, whose dimensions stay."""
    if not dims:
        return input
    coo = input.to_sparse_coo()
    element_indices, values = _kept(coo.indices(), dims, True), coo.values().to(dtype)
    rows, columns = (1 if d in dims else n for d, n in enumerate(input.shape))
    if len(dims) == 2 and not values.numel():
        columns = 0
    found = _grouped(name, element_indices, values, (rows, columns))
    return found._coalesced_(True).to_sparse_csr()


def check_layout(name, input, mask, also=("strided", "sparse_coo", "sparse_csr")):
    """Refuses layouts that a reduction does not take.

    Raises:
        ValueError: of another layout, or no mask says what counts.
    """
    layout = str(input.layout).removeprefix("torch.").removeprefix("rushlight.")
    if layout not in also:
        takes = (
            " or ".join(also) if len(also) < 3 else "strided, sparse_coo or sparse_csr"
        )
        raise ValueError(
            f"masked {name} expects {takes} tensor (got torch.{layout} tensor)"
        )
    if mask is None and name != "sum" and input.layout is not rl.strided:
        raise ValueError(
            f"masked {name} expects explicit mask for {layout} tensor input"
        )
