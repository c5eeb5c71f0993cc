"""What programs import as ``functorch.compile``: graphs for compilers of one's own."""

from rushlight._functorch import aot_autograd, config
from rushlight._functorch.aot_autograd import *  # noqa: F403

__all__ = [
    "config",
    "default_partition",
    "memory_efficient_fusion",
    "min_cut_rematerialization_partition",
    "nop",
    "print_compile",
]
__all__ += aot_autograd.__all__


def nop(fx_g, _):
    """A compiler that gives the graph itself."""
    return fx_g


def print_compile(fx_g, _):
    """A compiler that prints the graph, and gives it itself."""
    print(fx_g.code)
    return fx_g


def default_partition(joint_module, joint_inputs, **options):
    """Kept for programs that hand it in: forward and backward are recorded apart."""
    return joint_module


def min_cut_rematerialization_partition(joint_module, joint_inputs, **options):
    """Kept for programs that hand it in: forward and backward are recorded apart."""
    return joint_module


def memory_efficient_fusion(fn, **options):
    """A function or module, compiled."""
    from rushlight._dynamo.eval_frame import compile

    return compile(fn)
