"""Operators from outside, under PyTorch's name for the place."""

from rushlight._fake_context import get_ctx
from rushlight.core.warning import warn
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
    register_kernel,
)
from rushlight.dispatch.library import _scoped_library as _scoped_library
from rushlight.dispatch.rules_from_outside import (
    register_jvp,
    register_torch_dispatch,
    register_vmap,
)

__all__ = [
    "CustomOpDef",
    "Library",
    "custom_op",
    "define",
    "fallthrough_kernel",
    "get_ctx",
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

    >>> @rl.library.custom_op("doc_check::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> opcheck(twice, (rl.ones(2),), test_utils="test_schema")
    {'test_schema': 'SUCCESS'}
    """
    from rushlight.testing._opcheck import opcheck as check

    return check(op, args, kwargs, **options)


def triton_op(name, fn=None, /, *, mutates_args, schema=None):
    """An operator made of Triton's kernels, which need a GPU's compiler.

    Args:
        name, fn, mutates_args, schema: as in ``custom_op``.

    Raises:
        RuntimeError: always: Triton's kernels cannot run here.

    >>> import pytest
    >>> with pytest.raises(RuntimeError, match="Triton"):
    ...     triton_op("doc_triton::twice", mutates_args=())
    """
    raise RuntimeError(
        "torch.library.triton_op: Triton's kernels cannot run here\n"
        "  remedy: custom_op, with a kernel written otherwise"
    )


def wrap_triton(triton_kernel, /):
    """A kernel of Triton's that programs are recorded with.

    Args:
        triton_kernel: the kernel.

    Raises:
        RuntimeError: always: Triton's kernels cannot run here.

    >>> import pytest
    >>> with pytest.raises(RuntimeError, match="Triton"):
    ...     wrap_triton(None)
    """
    raise RuntimeError("torch.library.wrap_triton: Triton's kernels cannot run here")


def impl_abstract(qualname, func=None, *, lib=None, _stacklevel=1):
    """The older name of ``register_fake``.

    Args:
        qualname, func, lib: as in ``register_fake``.

    >>> import pytest
    >>> @rl.library.custom_op("doc_abstract::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> with pytest.warns(FutureWarning):
    ...     _ = impl_abstract("doc_abstract::twice", lambda x: rl.empty_like(x))
    """
    warn(
        "`torch.library.impl_abstract` was renamed to `torch.library.register_fake`. "
        "Please use that instead; we will remove `torch.library.impl_abstract` in a "
        "future version.",
        FutureWarning,
    )
    return register_fake(qualname, func, lib=lib)
