"""Tensors exchanged with other libraries through DLPack."""

import enum

from rushlight.core.tensor import Tensor
from rushlight.io import dlpack
from rushlight.io.dlpack import from_dlpack

__all__ = ["DLDeviceType", "from_dlpack", "to_dlpack"]


class DLDeviceType(enum.IntEnum):
    """DLPack's numbers for kinds of devices.

    Args:
        value: the number.

    >>> DLDeviceType.kDLCPU.value
    1
    """

    kDLCPU = 1
    kDLCUDA = 2
    kDLCUDAHost = 3
    kDLOpenCL = 4
    kDLVulkan = 7
    kDLMetal = 8
    kDLVPI = 9
    kDLROCM = 10
    kDLROCMHost = 11
    kDLExtDev = 12
    kDLCUDAManaged = 13
    kDLOneAPI = 14
    kDLWebGPU = 15
    kDLHexagon = 16
    kDLMAIA = 17


def to_dlpack(tensor):
    """A capsule that another library makes its own tensor of, over the same memory.

    Args:
        tensor: the tensor.

    >>> import rushlight as rl
    >>> x = rl.ones(2)
    >>> rl.from_dlpack(to_dlpack(x)).data_ptr() == x.data_ptr()
    True
    """
    if not isinstance(tensor, Tensor):
        raise TypeError(
            f"expected Tensor as argument 0, but got {type(tensor).__name__}"
        )
    return dlpack.to_dlpack(tensor)
