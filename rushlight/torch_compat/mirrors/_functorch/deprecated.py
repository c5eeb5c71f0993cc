"""The functions of ``functorch``, which warn and do what their heirs do."""

import functools
import warnings

from rushlight import func
from rushlight._functorch import make_functional as modules

# The names whose heirs are called otherwise.
_HEIRS = {
    "vmap": "torch.vmap",
    "make_functional": "torch.func.functional_call",
    "make_functional_with_buffers": "torch.func.functional_call",
    "combine_state_for_ensemble": "torch.func.stack_module_state",
}


def _deprecated(name, function):
    heir = _HEIRS.get(name, f"torch.func.{name}")
    text = (
        "We've integrated functorch into PyTorch. As the final step of the integration, "
        f"`functorch.{name}` is deprecated as of PyTorch 2.0. Please use `{heir}` instead."
    )

    @functools.wraps(function)
    def warned(*args, **kwargs):
        warnings.warn(text, FutureWarning, stacklevel=2)
        return function(*args, **kwargs)

    warned.__name__ = warned.__qualname__ = name
    warned.__module__ = __name__
    return warned


combine_state_for_ensemble = _deprecated(
    "combine_state_for_ensemble", modules.combine_state_for_ensemble
)
grad = _deprecated("grad", func.grad)
grad_and_value = _deprecated("grad_and_value", func.grad_and_value)
hessian = _deprecated("hessian", func.hessian)
jacfwd = _deprecated("jacfwd", func.jacfwd)
jacrev = _deprecated("jacrev", func.jacrev)
jvp = _deprecated("jvp", func.jvp)
make_functional = _deprecated("make_functional", modules.make_functional)
make_functional_with_buffers = _deprecated(
    "make_functional_with_buffers", modules.make_functional_with_buffers
)
vjp = _deprecated("vjp", func.vjp)
vmap = _deprecated("vmap", func.vmap)


def functionalize(function, *, remove="mutations"):
    """`func.functionalize`, under its first name."""
    return _deprecated("functionalize", func.functionalize)(function, remove=remove)
