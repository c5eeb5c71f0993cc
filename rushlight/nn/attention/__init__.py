"""How attention is computed: PyTorch's names for choosing, which devices obey."""

from rushlight.backends import cuda as _switches
from rushlight.backends.cuda import SDPBackend
from rushlight.core.switches import switch as _switch
from rushlight.nn.attention import _registry
from rushlight.nn.attention._registry import *

__all__ = ["SDPBackend", "WARN_FOR_UNFUSED_KERNELS", "sdpa_kernel"]
__all__ += _registry.__all__

WARN_FOR_UNFUSED_KERNELS = False
SDPBackend.__module__ = __name__  # where programs find it


_KINDS = {
    SDPBackend.MATH: "math",
    SDPBackend.FLASH_ATTENTION: "flash",
    SDPBackend.EFFICIENT_ATTENTION: "mem_efficient",
    SDPBackend.CUDNN_ATTENTION: "cudnn",
}


def sdpa_kernel(backends, set_priority=False):
    """A block in which attention may be computed in some ways only.

    Where none of them can run a call, it is refused, with a warning that says why.

    Args:
        backends: one of ``SDPBackend``, or a list of them.
        set_priority: accepted; ways give the same values here.

    Raises:
        AssertionError: it is neither.

    >>> x = rl.ones(1, 1, 2, 4)
    >>> with sdpa_kernel(SDPBackend.MATH):
    ...     rl.nn.functional.scaled_dot_product_attention(x, x, x).shape
    rushlight.Size([1, 1, 2, 4])
    """
    if isinstance(backends, SDPBackend):
        backends = [backends]
    if not isinstance(backends, (list, tuple)):
        raise AssertionError(
            "Backend must be an instance of SDPBackend or a list of them"
        )
    may = {word: kind in backends for kind, word in _KINDS.items()}
    return _switches.allowed_kernels(**may)


def _cur_sdpa_kernel_backends(with_priority=False):
    """The ways that are open."""
    return [kind for kind, word in _KINDS.items() if _switch(f"{word}_sdp")]
