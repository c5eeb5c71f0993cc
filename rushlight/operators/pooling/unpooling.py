"""Max unpooling: values back at the places that max pooling found them at."""

from math import prod

from rushlight.codegen.loops import loops
from rushlight.core.dtypes import int64
from rushlight.dispatch.kernel_table import KernelTable
from rushlight.kernels.window.pooling_kernels import max_unpool_place
from rushlight.operators.loop_calls import (
    brief,
    fault_flag,
    fresh,
    name_of,
    refuse_fault,
    run,
)
from rushlight.operators.shape.formats import format_of, laid_out
from rushlight.operators.shared import alert_not_deterministic

_NAMES = {"int32": "Int", "float32": "Float", "float64": "Double", "bool": "Bool"}


def _check(self, indices, axes, output_size):
    if indices.dtype is not int64:
        name = name_of(indices.dtype)
        raise RuntimeError(
            f"elements in indices should be type int64 but got: {_NAMES.get(name, name)}"
        )
    if self.ndim not in (axes + 1, axes + 2):
        raise RuntimeError(
            f"Input to max_unpooling{axes}d should be a {axes + 1}d or {axes + 2}d"
            f" Tensor, but got a tensor with {self.ndim} dimensions."
        )
    if tuple(self.shape) != tuple(indices.shape):
        raise RuntimeError(
            "Expected shape of indices to be same as that of the input tensor "
            f"({list(self.shape)}) but got indices tensor with shape: "
            f"{list(indices.shape)}"
        )
    for dim in range(self.ndim - axes - 1, self.ndim):
        if self.shape[dim] == 0:
            raise RuntimeError(
                f"max_unpooling{axes}d_forward_out_cpu(): Expected input to have"
                " non-zero size for non-batch dimensions, but got"
                f" {list(self.shape)} with dimension {dim} being empty."
            )
    if len(output_size) != axes:
        raise RuntimeError(
            f"There should be exactly {axes} elements in output_size, but got"
            f" {len(output_size)}"
        )
    if not self.dtype.is_floating_point:
        raise NotImplementedError(
            f"\"max_unpool{axes}d\" not implemented for '{name_of(self.dtype)}'"
        )


def _max_unpool(self, indices, output_size, axes):
    alert_not_deterministic(f"max_unpooling{axes}d_forward_out")
    _check(self, indices, axes, output_size)
    planes, size = prod(self.shape[:-axes]), prod(output_size)
    osize = prod(self.shape[-axes:])
    out = fresh(self, [*self.shape[:-axes], *output_size])
    if size == 0:
        return out
    flag = fault_flag(self)
    tensors = [out, self.contiguous(), indices.contiguous(), flag]
    _place(out, tensors, [size, osize], planes, name_of(self.dtype))
    refuse_fault(flag, f"max_unpool{axes}d", _outside, indices, output_size)
    return out


@loops
def max_unpool_element(
    out: "T*",
    x: "T*",
    index: "i64*",
    fault: "i64*",
    size: int,
    count: int,
    begin: int,
    end: int,
):
    """`max_unpool_place` with an item a value, into zeros."""
    for o in range(begin, end):
        at = index[o]
        if at < 0 or at >= size:
            fault[0] = at
        else:
            out[o // count * size + at] = x[o]


def _place_by_planes(out, tensors, ints, planes, name):
    run(max_unpool_place, tensors, ints, planes, sum(ints), T=name)


def _place_by_elements(out, tensors, ints, planes, name):
    out.zero_()
    run(max_unpool_element, tensors, ints, planes * ints[1], T=name)


_place = KernelTable(
    cpu=_place_by_planes, cuda=_place_by_elements, meta=_place_by_planes
)


def _outside(place, indices, output_size):
    """The error for a place that is none of the output's."""
    volumes = "x".join(map(str, output_size))
    return RuntimeError(
        f"Found an invalid max index: {place} (output volumes are of size {volumes})"
        f"\n  indices: {brief(indices)}"
    )


def max_unpool2d(self, indices, output_size):
    """Planes of zeros with each value at the place that its index names."""
    format = format_of(self) if self.ndim == 4 else None
    return laid_out(_max_unpool(self, indices, output_size, 2), format)


def max_unpool3d(self, indices, output_size, stride, padding):
    """Volumes of zeros with each value at the place that its index names.

    Raises:
        RuntimeError: a stride isn't positive; strides and padding have no other effect.
    """
    if min(stride, default=1) <= 0:
        raise RuntimeError(
            f"strides should be greater than zero, but got stride: {list(stride)}"
        )
    return _max_unpool(self, indices, output_size, 3)
