"""Parts of a program that run with gradients on, or off."""

from rushlight._higher_order_ops.base import (
    Body,
    HigherOrderOperator,
    outer_steps,
    steps_of,
    written,
)
from rushlight.core.state import is_grad_enabled, set_grad_enabled

__all__ = ["wrap_with_set_grad_enabled"]


def _run(enable_grad, wrapped_func, *args, **kwargs):
    before = is_grad_enabled()
    set_grad_enabled(enable_grad)
    try:
        return wrapped_func(*args, **kwargs)
    finally:
        set_grad_enabled(before)


def _record(tracer, enable_grad, wrapped_func, *args):
    before = is_grad_enabled()
    set_grad_enabled(enable_grad)
    try:
        body = Body(tracer, wrapped_func, args)
    finally:
        set_grad_enabled(before)
    outer = outer_steps(body)
    graph = body.placed(tracer, "wrapped")
    return written(
        tracer,
        wrap_with_set_grad_enabled,
        (enable_grad, graph, *steps_of(tracer, args), *outer),
        tuple(body.results),
    )


wrap_with_set_grad_enabled = HigherOrderOperator(
    "wrap_with_set_grad_enabled", _run, _record
)
