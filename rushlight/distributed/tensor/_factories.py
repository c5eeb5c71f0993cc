"""Tensors that are spread from the beginning: each process makes its part."""

import rushlight as rl
from rushlight.distributed.tensor._api import DTensor
from rushlight.distributed.tensor._dispatch import part_of
from rushlight.distributed.tensor._dtensor_spec import DTensorSpec, TensorMeta
from rushlight.distributed.tensor._utils import (
    compute_local_shape_and_global_offset,
    contiguous_strides,
    normalized,
)

__all__ = ["empty", "full", "ones", "rand", "randn", "zeros"]


def _sizes(size):
    is_one = len(size) == 1 and not isinstance(size[0], int)
    return rl.Size(size[0] if is_one else size)


def _created(make, size, mesh, placements, requires_grad, options, drawn=False):
    """A spread tensor of which each process makes its part."""
    if mesh is None:
        raise AssertionError("device_mesh is needed: the processes")
    if placements is not None and len(placements) != mesh.ndim:
        raise AssertionError("mesh dimension does not match the length of placements")
    shape = _sizes(size)
    placements = normalized(placements, len(shape), mesh)
    own, _ = compute_local_shape_and_global_offset(shape, mesh, placements)
    dtype = options.get("dtype") or rl.get_default_dtype()
    meta = TensorMeta(shape, contiguous_strides(shape), dtype)
    spec = DTensorSpec(mesh, placements, meta)
    if drawn and mesh.get_coordinate() is not None:
        # As one process would draw: each takes its part, and no two are alike.
        local = part_of(make(shape, **options), spec)
    else:
        local = make(own, **options)
    meta = TensorMeta(shape, contiguous_strides(shape), local.dtype)
    spec = DTensorSpec(mesh, placements, meta)
    return DTensor(local, spec, requires_grad=requires_grad)


def _options(dtype, layout):
    if layout is not rl.strided:
        raise AssertionError("layout value not supported!")
    return {"dtype": dtype}


_ARGUMENTS = """

    Args:
        size: the sizes of the whole.
        dtype: the type of its elements.
        layout: dense alone.
        requires_grad: whether gradients flow to it.
        device_mesh: the processes; their generators are alike.
        placements: how each dimension of the mesh holds it.
    """


def _factory(make, says, drawn=False):
    """The factory of spread tensors that a factory of plain ones makes the parts of."""

    def factory(
        *size,
        dtype=None,
        layout=rl.strided,
        requires_grad=False,
        device_mesh=None,
        placements=None,
    ):
        options = _options(dtype, layout)
        return _created(
            make, size, device_mesh, placements, requires_grad, options, drawn
        )

    factory.__name__ = factory.__qualname__ = make.__name__
    factory.__doc__ = says + _ARGUMENTS
    return factory


ones = _factory(rl.ones, "A spread tensor of ones.")
zeros = _factory(rl.zeros, "A spread tensor of zeros.")
empty = _factory(rl.empty, "A spread tensor whose elements are not set.")
rand = _factory(
    rl.rand,
    "A spread tensor of numbers from 0 to 1: parts of what one process would draw.",
    drawn=True,
)
randn = _factory(
    rl.randn,
    "A spread tensor of normal numbers: parts of what one process would draw.",
    drawn=True,
)


def full(
    size,
    fill_value,
    *,
    dtype=None,
    layout=rl.strided,
    requires_grad=False,
    device_mesh=None,
    placements=None,
):
    """A spread tensor of one value.

    Args:
        size: the sizes of the whole.
        fill_value: the value.
        dtype: the type of its elements.
        layout: dense alone.
        requires_grad: whether gradients flow to it.
        device_mesh: the processes.
        placements: how each dimension of the mesh holds it.
    """
    options = {**_options(dtype, layout), "fill_value": fill_value}
    return _created(rl.full, (size,), device_mesh, placements, requires_grad, options)
