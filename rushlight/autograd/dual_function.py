"""``autograd.Function`` in a `dual_level`: ``jvp`` gives the outputs' tangents."""

from rushlight.autograd.dual import DUAL, Beneath, record_of
from rushlight.autograd.levels.pushforward import differentiable
from rushlight.autograd.levels.stack import THREAD
from rushlight.core.facts import storage_of
from rushlight.core.tensor import Tensor
from rushlight.operators import call

NO_VIEW = (
    "A custom Function's forward is returning a view (or an input as-is) but the jvp is "
    "not returning a view."
)


def apply(function, args, kwargs):
    """A call of a Function while a level is open.

    Raises:
        RuntimeError: ``jvp`` gives other tangents than the outputs want.
        NotImplementedError: an argument has a tangent and the Function no ``jvp``.
    """
    given = [DUAL.tangent_of(a) if isinstance(a, Tensor) else None for a in args]
    with Beneath():
        if all(tangent is None for tangent in given):
            return function.apply_primal(args, kwargs)
        if THREAD.at:
            return pushed(DUAL, function, args)

        def push(node, outputs, results):
            tangents = materialized(node.materialize_grads, args, given)
            node.pushing = True
            try:
                moved = function.jvp(node, *tangents)
            finally:
                node.pushing = False
            moved = checked(moved, len(outputs))
            for place, tangent in enumerate(moved):
                if isinstance(results[place], Tensor):
                    attach(node, place, outputs[place], results[place], tangent)

        def attach(node, place, output, result, tangent):
            if not wants_tangent(node, place, output, tangent):
                return
            number = next((i for i, a in enumerate(args) if a is output), None)
            if any(output is dirty for dirty in node.dirty_tensors):
                if number is not None and given[number] is not None:
                    check_written(given[number], tangent)
                    return
                DUAL.set_tangent(result, required(tangent, place), written=True)
                return
            if number is not None or output._base is not None:
                check_view(output, tangent, args, given)
            DUAL.set_tangent(result, required(tangent, place))
            record_of(result).source = None

        return function.apply_node(args, kwargs, push)


def materialized(wanted, args, tangents):
    """Zeros where an argument that might have a tangent has none."""
    return [
        call.zeros_like(arg)
        if wanted
        and tangent is None
        and isinstance(arg, Tensor)
        and differentiable(arg)
        else tangent
        for arg, tangent in zip(args, tangents)
    ]


def checked(moved, count):
    """What ``jvp`` returned, one for each output.

    Raises:
        RuntimeError: there are more or fewer, or one is no tensor.
    """
    moved = moved if isinstance(moved, tuple) else (moved,)
    for place, tangent in enumerate(moved):
        if tangent is not None and not isinstance(tangent, Tensor):
            raise RuntimeError(
                f"expected Variable or None (got {type(tangent).__name__}) for grad "
                f"output {place}."
            )
    if len(moved) != count:
        raise RuntimeError(
            "Function's jvp returned an invalid number of forward gradients (expected "
            f"{count} but got {len(moved)})"
        )
    return moved


def wants_tangent(ctx, place, output, tangent):
    """Whether an output has a tangent at all.

    Raises:
        RuntimeError: it has none and is given one.
    """
    fixed = getattr(ctx, "non_differentiable", ())
    if differentiable(output) and not any(output is one for one in fixed):
        return True
    if tangent is not None:
        raise RuntimeError(
            f"Function's jvp returned a gradient at position {place}, but  the "
            "corresponding forward output is not a differentiable Tensor."
            "You should return None at that position instead."
        )
    return False


def required(tangent, place):
    """A tangent that may not be None."""
    if tangent is None:
        raise RuntimeError(
            f"Function's jvp returned None at position {place}, but the corresponding "
            "forward output is a differentiable Tensor: return its tangent, or name the "
            "output in ctx.mark_non_differentiable."
        )
    return tangent


def check_written(before, after):
    """Refuses another tangent than the one of the input that was written."""
    if after is not before:
        raise RuntimeError(
            "An inplace custom Function is not modifying the forward mode gradients "
            "inplace. If the forward is modifying an input inplace, then the jvp "
            "function must modify the corresponding gradient inplace."
        )


def check_view(output, tangent, args, given):
    """Refuses the tangent of a view that is no view of the input's tangent."""
    for arg, own in zip(args, given):
        if own is None or storage_of(arg) is not storage_of(output):
            continue
        if tangent is None or tangent._base is None:
            raise RuntimeError(NO_VIEW)
        if tangent._base is not own and tangent._base is not own._base:
            raise RuntimeError(
                "A custom Function is returning a view but the jvp is not returning a "
                "view of the given grad input."
            )


def pushed(carrier, function, args):
    """The outputs of a Function, with the tangents that its ``jvp`` gives them.

    Args:
        carrier: who knows the arguments' tangents.
    """
    values = [carrier.unwrap(arg) if isinstance(arg, Tensor) else arg for arg in args]
    tangents = [
        carrier.tangent_of(arg) if isinstance(arg, Tensor) else None for arg in args
    ]
    with carrier.beneath():
        output = function.apply(*values)
        ctx = function.forward_context()
        ctx.needs_input_grad = tuple(t is not None for t in tangents)
        function.setup_context(ctx, tuple(values), output)
        tangents = materialized(ctx.materialize_grads, values, tangents)
        several = isinstance(output, tuple)
        outputs = output if several else (output,)
        moved = checked(function.jvp(ctx, *tangents), len(outputs))
    made = []
    for place, (value, tangent) in enumerate(zip(outputs, moved)):
        if isinstance(value, Tensor):
            if wants_tangent(ctx, place, value, tangent):
                tangent = required(tangent, place)
            value = carrier.with_tangent(value, tangent)
        made.append(value)
    return tuple(made) if several else made[0]
