"""How values of several processes become one, and the options of collectives."""

import enum
from datetime import timedelta

from rushlight.operators.loop_calls import scalar_name

__all__ = [
    "AllToAllOptions",
    "AllreduceCoalescedOptions",
    "AllreduceOptions",
    "BarrierOptions",
    "BroadcastOptions",
    "GatherOptions",
    "ReduceOp",
    "ReduceOptions",
    "ReduceScatterOptions",
    "ScatterOptions",
    "reduction_name",
]


class ReduceOp(enum.Enum):
    """How values of several processes become one."""

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7
    PREMUL_SUM = 8

    def __repr__(self):
        return f"<RedOpType.{self.name}: {self.value}>"

    __str__ = __repr__


ReduceOp.RedOpType = ReduceOp


class PremultipliedSum:
    """A sum whose values are first multiplied by a factor, on the way: of NCCL alone.

    Args:
        factor: a number, or a tensor of one element.
    """

    def __init__(self, factor):
        self.factor = float(factor)

    def __repr__(self):
        return f"<RedOpType.PREMUL_SUM: {ReduceOp.PREMUL_SUM.value}>"


def _make_nccl_premul_sum(factor):
    """A sum whose values are first multiplied by a factor.

    Args:
        factor: a number, or a tensor of one element.
    """
    return PremultipliedSum(factor)


_BITWISE = {ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR}


def reduction_name(op, tensor, backend="Gloo"):
    """The name of a reduction that a backend has for a tensor.

    Args:
        op: a ``ReduceOp``.
        tensor: the tensor.
        backend: the backend's name, for the error.

    Raises:
        RuntimeError: the backend does not have it, or not for the tensor's type.
        TypeError: ``op`` is no ``ReduceOp``.
    """
    if isinstance(op, PremultipliedSum):
        op = ReduceOp.PREMUL_SUM
    if not isinstance(op, ReduceOp):
        raise TypeError(f"op must be a ReduceOp, not {type(op).__name__}")
    if op is ReduceOp.PREMUL_SUM:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with {backend}")
    inexact = tensor.is_floating_point() or tensor.is_complex()
    if op in _BITWISE and inexact:
        raise RuntimeError(f"Cannot use ReduceOp.{op.name} with non-integral dtype")
    if op is ReduceOp.AVG and not inexact:
        raise RuntimeError(
            "result type Float can't be cast to the desired output type "
            f"{scalar_name(tensor.dtype)}\n"
            "  remedy: ReduceOp.SUM, or a tensor of a floating-point type"
        )
    if tensor.is_complex() and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"all_reduce does not support {op} on complex tensors")
    return op.name.lower()


class _Options:
    """What a collective takes beside its tensors."""

    def __init__(self):
        self.timeout = timedelta(milliseconds=-1)
        self.asyncOp = True


class _Reducing(_Options):
    def __init__(self):
        super().__init__()
        self.reduceOp = ReduceOp.SUM


class _Rooted(_Options):
    def __init__(self):
        super().__init__()
        self.rootRank = -1


class AllreduceOptions(_Reducing):
    """What ``ProcessGroup.allreduce`` takes."""


class AllreduceCoalescedOptions(AllreduceOptions):
    """What ``ProcessGroup.allreduce_coalesced`` takes."""


class ReduceScatterOptions(_Reducing):
    """What ``ProcessGroup.reduce_scatter`` takes."""


class BroadcastOptions(_Rooted):
    """What ``ProcessGroup.broadcast`` takes."""

    def __init__(self):
        super().__init__()
        self.rootTensor = 0


class ReduceOptions(_Rooted, _Reducing):
    """What ``ProcessGroup.reduce`` takes."""


class GatherOptions(_Rooted):
    """What ``ProcessGroup.gather`` takes."""


class ScatterOptions(_Rooted):
    """What ``ProcessGroup.scatter`` takes."""


class AllToAllOptions(_Options):
    """What ``ProcessGroup.alltoall`` takes."""


class BarrierOptions(_Options):
    """What ``ProcessGroup.barrier`` takes."""

    def __init__(self):
        super().__init__()
        self.device_ids: list = []
        self.device = None
