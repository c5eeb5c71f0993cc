"""Renders kernels as PTX for NVIDIA devices, through LLVM's NVPTX back end.

A function of a grid (see `rushlight.codegen.schedule.gpu_lowering`) is an entry as it is.
A kernel of the host becomes one whose parallel axis is divided among all threads. The
mathematics is the host's, in plain arithmetic: no device library is linked.
"""

from rushlight.codegen.emit import llvm
from rushlight.codegen.schedule import gpu_lowering
from rushlight.codegen.target import NVIDIA, Target
from rushlight.ir import expr as ir


def emit(*functions: ir.Function, target: Target = NVIDIA) -> str:
    """The PTX of functions of a grid, and of kernels whose base pointers are distinct.

    An entry takes the data pointers, then a pointer to the kernel's integers, then how
    much there is to divide among its threads or blocks.
    """
    from rushlight.codegen.toolchain import compile_ptx

    module = llvm._Module(target, scratch=False)
    for function in functions:
        module.add(function if function.grid else gpu_lowering.spread(function), "")
    return compile_ptx(module.text(), target)
