"""What a function for an operator's shapes may ask for while fake tensors run: new sizes.

Most such functions compute from the sizes of tensors without memory. One that calls
`get_ctx` makes results whose sizes follow from elements: it is called again with the fake
tensors themselves.
"""

import threading

from rushlight.core.state import AttributeScope
from rushlight.ir.sizes import UNBOUNDED


class WantsContext(Exception):
    """A function for shapes has asked for its context, and is to be called again."""


class FakeImplCtx:
    """What `torch.library.get_ctx` gives.

    Args:
        elements: makes sizes that follow from elements; None where there may be none.
        refusal: the exception for such a place.
    """

    def __init__(self, elements, refusal):
        self._elements, self._refusal = elements, refusal

    def new_dynamic_size(self, *, min=0, max=None):
        """A size that follows from elements.

        Args:
            min: it is no less.
            max: it is no more; None for any.

        Raises:
            ValueError: the bounds are open sizes, or below zero.
            DynamicOutputShapeException: sizes may not follow from elements here.
        """
        if not isinstance(min, int) or not isinstance(max, int | None):
            raise ValueError(
                "ctx.new_dynamic_size(min, max): expected min and max to be statically "
                f"known ints but got SymInt ({min=}, {max=}). This is not supported."
            )
        if min < 0:
            raise ValueError(
                f"ctx.new_dynamic_size(min, max): expected min to be greater than or "
                f"equal to 0: this API can only create non-negative sizes ({min=})."
            )
        if self._elements is None:
            raise self._refusal
        return self._elements.size(min, UNBOUNDED if max is None else max)

    def create_unbacked_symint(self, *, min=2, max=None):
        """The older name of `new_dynamic_size`."""
        return self.new_dynamic_size(min=min, max=max)


class _Current(threading.local):
    context = None
    retries = False


_current = _Current()


def calling(context=None, retries=False):
    """A block in which functions for shapes run.

    Args:
        context: what they get; None for nothing.
        retries: whether those that ask for one are called again.
    """
    return AttributeScope(_current, context=context, retries=retries)


def get_ctx():
    """The context of the function for shapes that runs; None outside of one.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_ctx::positions", mutates_args=())
    ... def positions(x: rl.Tensor) -> rl.Tensor:
    ...     return x.nonzero()
    >>> @positions.register_fake
    ... def _(x):
    ...     count = rl.library.get_ctx().new_dynamic_size()
    ...     return x.new_empty([count, x.dim()], dtype=rl.int64)
    >>> class Net(rl.nn.Module):
    ...     def forward(self, x):
    ...         return positions(x) * 2
    >>> program = rl.export.export(Net(), (rl.ones(3, 2),))
    >>> program.module()(rl.eye(3, 2)).tolist()
    [[0, 0], [2, 2]]
    """
    if _current.retries:
        raise WantsContext
    return _current.context
