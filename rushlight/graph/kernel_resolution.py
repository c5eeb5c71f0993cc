"""What an elementwise operator would do with some operands: its kernel and its types."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core.device import CPU_DEVICE, KIND_CPU, Device
from cython.cimports.rushlight.core.dtype import dtype_of
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import FUNCTIONAL, INPLACE, Operator
from cython.cimports.rushlight.dispatch.kernels import PointwiseKernel
from cython.cimports.rushlight.dispatch.loops import Call
from cython.cimports.rushlight.dispatch.operands import (
    add_operand,
    examine,
    number_code,
)
from cython.cimports.rushlight.dispatch.reductions import ReductionKernel

from rushlight.dispatch.python_kernels import LazyKernel


def pointwise_kernel(op: Operator, device: Device = CPU_DEVICE):
    """The operator's elementwise kernel on a device, or None."""
    kernel = op.kernels.get(device.kind)
    if isinstance(kernel, LazyKernel):
        kernel = kernel.load(op)
    return kernel if isinstance(kernel, PointwiseKernel) else None


def reduction_kernel(op: Operator, device: Device = CPU_DEVICE):
    """The operator's kernel that reduces on a device, or None."""
    kernel = op.kernels.get(device.kind)
    if isinstance(kernel, LazyKernel):
        kernel = kernel.load(op)
    return kernel if isinstance(kernel, ReductionKernel) else None


def resolve(op: Operator, kernel: PointwiseKernel, args: tuple):
    """What the kernel is specialised for, and which arguments are its operands.

    Args:
        args: all arguments of the operator, tensors without memory among them.

    Returns:
        The numbers of the operands' arguments, the names of their types, those of the
        results, what is computed in, the compile-time arguments, and the sizes; None
        for a call that the kernel would hand on.
    """
    call: Call
    i: cython.int
    outs: tuple = None
    t: Tensor
    item: object
    call.n = 0
    call.n_out = kernel.n_outputs
    call.device_kind = KIND_CPU
    count: cython.int = kernel.n_operands
    for _ in range(kernel.n_optional):
        item = args[kernel.positions[count - 1]]
        if item is not kernel.defaults[count - 1] and (
            item is True or item != kernel.defaults[count - 1]
        ):
            break
        count -= 1
    held: list = []
    for i in range(count):
        item = args[kernel.positions[i]]
        held.append(item)
        add_operand(cython.address(call), item)
    statics = tuple([args[p] for p in kernel.static_positions])
    if kernel.rule_function is None:
        kernel.resolve(cython.address(call))
    else:
        outs = kernel.resolve_by_function(cython.address(call))
    examine(cython.address(call), op.name)
    names: list = []
    for i in range(call.n):
        if call.is_tensor[i]:
            t = cython.cast(Tensor, cython.cast(object, call.values[i]))
            names.append(t.dtype_.name)
        else:
            names.append(
                dtype_of(number_code(call.compute, (kernel.wide >> i) & 1)).name
            )
    compute = kernel.compute_types(cython.address(call))
    if op.form != FUNCTIONAL:
        t = args[0] if op.form == INPLACE else args[len(args) - 1]
        results = (t.dtype_.name,)
    elif outs is not None:
        results = tuple(outs)
    else:
        results = (dtype_of(call.result).name,) * kernel.n_outputs
    positions = tuple([kernel.positions[i] for i in range(count)])
    sizes = tuple([call.sizes[i] for i in range(call.ndim)])
    return positions, tuple(names), results, compute, statics, sizes
