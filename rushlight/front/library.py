"""Operators from outside, under PyTorch's name for the place."""

from __future__ import annotations

from rushlight.dispatch.custom_operators import (
    CustomOpDef,
    custom_op,
    register_autocast,
)
from rushlight.dispatch.library import (
    Library,
    define,
    fallthrough_kernel,
    impl,
    infer_schema,
    register_autograd,
    register_fake,
    register_jvp,
    register_kernel,
    register_torch_dispatch,
    register_vmap,
)
from rushlight.dispatch.library import (
    _scoped_library as _scoped_library,
)

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "impl",
    "impl_abstract",
    "infer_schema",
    "opcheck",
    "register_autocast",
    "register_autograd",
    "register_fake",
    "register_jvp",
    "register_kernel",
    "register_torch_dispatch",
    "register_vmap",
    "triton_op",
    "wrap_triton",
]


def opcheck(op, args, kwargs=None, **options):
    """Checks an operator from outside; see ``rushlight.testing._opcheck.opcheck``.

    Args:
        op: the operator.
        args: arguments to call it with.
        kwargs: arguments by name.
        options: ``test_utils``, ``raise_exception``, ``atol`` and ``rtol``.

    Raises:
        OpCheckError: what was registered for the operator does not agree.
    """
    from rushlight.testing._opcheck import opcheck as check

    return check(op, args, kwargs, **options)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """An operator made of Triton's kernels, which need a GPU's compiler.

    Raises:
        RuntimeError: always: Triton's kernels cannot run here.
    """
    raise RuntimeError(
        "torch.library.triton_op: Triton's kernels cannot run here\n"
        "  remedy: custom_op, with a kernel written otherwise"
    )


def wrap_triton(triton_kernel, /):
    """A kernel of Triton's that programs are recorded with.

    Raises:
        RuntimeError: always: Triton's kernels cannot run here.
    """
    raise RuntimeError("torch.library.wrap_triton: Triton's kernels cannot run here")


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The older name of ``register_fake``."""
    import warnings

    warnings.warn(
        "torch.library.impl_abstract was renamed to torch.library.register_fake. Please "
        "use that instead; we will remove torch.library.impl_abstract in a future version "
        "of PyTorch.",
        DeprecationWarning,
        stacklevel=2,
    )
    return register_fake(qualname, func, lib=lib)
