"""Backends that run graphs as they are."""

from rushlight._dynamo.backends.common import aot_autograd
from rushlight._dynamo.explaining import ExplainOutput

__all__ = [
    "ExplainOutput",
    "aot_eager",
    "aot_eager_decomp_partition",
    "eager",
    "eager_noexcept",
]


def eager(gm, fake_tensor_inputs, **kwargs):
    """The graph itself.

    Args:
        gm: the `GraphModule`.
        fake_tensor_inputs: examples of its inputs.
    """
    return gm.forward


def eager_noexcept(gm, fake_tensor_inputs, **kwargs):
    """The graph itself."""
    return gm.forward


aot_eager = aot_autograd(fw_compiler=eager)
aot_eager_decomp_partition = aot_autograd(fw_compiler=eager)
