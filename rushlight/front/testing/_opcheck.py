"""Checks of an operator from outside: that what was registered for it agrees."""

import rushlight as rl
from rushlight.core.tensor import Tensor
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.keys import DispatchKey
from rushlight.utils._pytree import tree_flatten, tree_map


class OpCheckError(Exception):
    """What was registered for an operator does not agree."""


def _overload(op):
    if isinstance(op, Operator):
        return op
    packet = getattr(op, "_packet", op)
    if len(packet.overloads) != 1:
        raise ValueError("opcheck(op, ...): please pass an overload of the operator")
    return packet.overloads[0]


def _copies(values):
    """The same values in memory of their own, leaves of no graph but new ones."""

    def copy(value):
        if not isinstance(value, Tensor):
            return value
        return value.detach().clone().requires_grad_(value.requires_grad)

    return tree_map(copy, values)


def _tensors(values):
    return [leaf for leaf in tree_flatten(values)[0] if isinstance(leaf, Tensor)]


def _check_schema(op, args, kwargs, tolerances):
    """What is changed or shared is what the schema says."""
    args, kwargs = _copies((args, kwargs))
    given = {**dict(zip((a.name for a in op._schema.arguments), args)), **kwargs}
    before = {name: _copies(value) for name, value in given.items()}
    with rl.no_grad():
        results = _tensors(op(*args, **kwargs))
    for argument in op._schema.arguments:
        value = given.get(argument.name)
        if not argument.is_write:
            for now, then in zip(_tensors(value), _tensors(before.get(argument.name))):
                if not rl.equal(rl.nan_to_num(now), rl.nan_to_num(then)):
                    raise RuntimeError(
                        f"Argument {argument.name} is not defined as mutable but was "
                        "mutated"
                    )
        if argument.alias_info is None:
            shared = {each.untyped_storage().data_ptr() for each in _tensors(value)}
            if any(r.untyped_storage().data_ptr() in shared - {0} for r in results):
                raise RuntimeError(
                    f"Argument {argument.name} is not defined to alias output but was "
                    "aliasing"
                )


def _check_autograd(op, args, kwargs, tolerances):
    """An operator of tensors with gradients has a formula, or says that it has none."""
    if not any(each.requires_grad for each in _tensors((args, kwargs))):
        return
    known = op.has_kernel(DispatchKey.Autograd) or op.derivative is not None
    if not known and op.composite is None:
        raise RuntimeError(
            f"{op}: an input requires grad, but no autograd kernel was registered for "
            "the operator: use register_autograd"
        )


def _check_fake(op, args, kwargs, tolerances):
    """Shapes, types and strides of results without elements are those of real ones."""
    from rushlight._subclasses.fake_tensor import (
        DynamicOutputShapeException,
        FakeTensorMode,
    )

    real = _tensors(op(*_copies(args), **_copies(kwargs)))
    mode = FakeTensorMode()

    def fake(value):
        return mode.from_tensor(value) if isinstance(value, Tensor) else value

    try:
        with mode:
            made = _tensors(op(*tree_map(fake, args), **tree_map(fake, kwargs)))
    except DynamicOutputShapeException:
        return  # its sizes follow from elements, which are not there
    if len(made) != len(real):
        raise RuntimeError(f"{op}: {len(made)} fake results, but {len(real)} real ones")
    for one, other in zip(made, real):
        for fact in ("shape", "dtype", "device"):
            if getattr(one, fact) != getattr(other, fact):
                raise RuntimeError(
                    f"{op}: the fake result has {fact} {getattr(one, fact)}, the real "
                    f"one {getattr(other, fact)}"
                )
        if one.numel() and one.stride() != other.stride():
            raise RuntimeError(
                f"{op}: the fake result has strides {one.stride()}, the real one "
                f"{other.stride()}"
            )


def _with_gradients(op, args, kwargs):
    """A function of the tensors: the results, and their gradients where there are any."""
    leaves, spec = tree_flatten((args, kwargs))
    positions = [i for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
    wanted = [i for i, at in enumerate(positions) if leaves[at].requires_grad]

    def run(*tensors):
        filled = list(leaves)
        tensors = [
            each.clone() if i not in wanted else each for i, each in enumerate(tensors)
        ]
        for at, each in zip(positions, tensors):
            filled[at] = each
        positional, named = spec.unflatten(filled)
        results = _tensors(op(*positional, **named))
        smooth = [each for each in results if each.requires_grad]
        if not smooth:
            return results
        total = sum(each.abs().sum() for each in smooth)
        inputs = [tensors[i] for i in wanted]
        return results + list(
            rl.autograd.grad(total, inputs, allow_unused=True, materialize_grads=True)
        )

    return run


def _check_recorded(op, args, kwargs, tolerances):
    """A recorded program gives the results, and gradients, of the operator itself."""
    from rushlight.fx.experimental.proxy_tensor import make_fx

    run = _with_gradients(op, args, kwargs)
    expected = run(*_tensors(_copies((args, kwargs))))
    recorded = make_fx(run)(*_tensors(_copies((args, kwargs))))
    found = recorded(*_tensors(_copies((args, kwargs))))
    for one, other in zip(found, expected):
        rl.testing.assert_close(one, other, **tolerances)


CHECKS = {
    "test_schema": _check_schema,
    "test_autograd_registration": _check_autograd,
    "test_faketensor": _check_fake,
    "test_aot_dispatch_dynamic": _check_recorded,
    "test_aot_dispatch_static": _check_recorded,
}
USUAL = tuple(CHECKS)[:4]


def opcheck(
    op,
    args,
    kwargs=None,
    *,
    test_utils=USUAL,
    raise_exception=True,
    atol=None,
    rtol=None,
):
    """Checks that what was registered for an operator agrees with what it does.

    That the schema says what is changed and shared; that there is a formula for
    gradients where they are wanted; that shapes without elements are the real ones'; that
    a recorded program gives the same results and gradients. Whether a gradient is right,
    `autograd.gradcheck` says.

    Args:
        op: the operator: what ``custom_op`` made, or an overload of ``ops``.
        args: arguments to call it with.
        kwargs: arguments by name.
        test_utils: the names of the checks, or one name.
        raise_exception: False to return what is wrong in place of raising it.
        atol, rtol: how far a recorded program's results may be off, both or none.

    Returns:
        A dictionary from the checks' names to ``"SUCCESS"`` or an exception.

    Raises:
        OpCheckError: a check fails.
        ValueError: there is no such check.

    >>> opcheck(rl.ops.aten.add.Tensor, (rl.ones(2), rl.ones(2)))["test_schema"]
    'SUCCESS'
    """
    op, kwargs = _overload(op), kwargs or {}
    names = (test_utils,) if isinstance(test_utils, str) else tuple(test_utils)
    if not set(names) <= set(CHECKS):
        raise ValueError(
            f"opcheck(op, ..., test_utils={test_utils}), expected test_utils to be a "
            f"subset of {tuple(CHECKS)} but it was not"
        )
    if (atol is None) != (rtol is None):
        raise ValueError("opcheck: please specify both atol and rtol, or neither")
    results: dict = {}
    for name in names:
        try:
            CHECKS[name](op, args, kwargs, {"atol": atol, "rtol": rtol})
            results[name] = "SUCCESS"
        except Exception as error:
            if raise_exception:
                raise OpCheckError(
                    f"opcheck(op, ...): {name} failed with {error} (scroll up for stack "
                    "trace)"
                ) from error
            results[name] = error
    return results
