"""What modes, types, batches and forward mode do with an operator, said from outside."""

from rushlight.dispatch import python_key
from rushlight.dispatch.dispatcher import Operator
from rushlight.dispatch.library import find_operator, qualname_of


def register_torch_dispatch(op, torch_dispatch_class, func=None, /, *, lib=None):
    """What a mode, or a type of tensors, does with an operator.

    Args:
        op: the operator, or its name ``ns::name``.
        torch_dispatch_class: the mode's class, or the type.
        func: ``func(mode, op, types, args, kwargs)``, with the type itself in place of
            the mode; a decorator without it.
        lib: the library that it goes away with.

    >>> import rushlight as rl
    >>> from rushlight.utils._python_dispatch import TorchDispatchMode
    >>> class Names(TorchDispatchMode):
    ...     pass
    >>> @rl.library.custom_op("doc_rule::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> rule = lambda mode, op, types, args, kwargs: args[0] - 1
    >>> _ = rl.library.register_torch_dispatch("doc_rule::twice", Names, rule)
    >>> x = rl.ones(1)
    >>> with Names():
    ...     y = twice(x)
    >>> y
    tensor([0.])
    """
    if func is None:
        return lambda function: register_torch_dispatch(
            op, torch_dispatch_class, function, lib=lib
        )
    found = op if isinstance(op, Operator) else find_operator(qualname_of(op))
    python_key.set_rule(found, torch_dispatch_class, func)
    if lib is not None:
        lib._undo.append(lambda: python_key.set_rule(found, torch_dispatch_class, None))
    return func


# What operators from outside do with a whole batch: functions by operator.
vmap_rules: dict = {}


def register_vmap(op, func=None, /, *, lib=None):
    """Say what ``vmap`` does with an operator.

    Args:
        op: the operator, or its name ``ns::name``.
        func: ``func(info, in_dims, *args, **kwargs)``, where ``info`` has ``batch_size``
            and ``randomness`` and ``in_dims`` says for each argument which of its
            dimensions counts the examples, or None; gives the result and its dimension,
            or one for each result. A decorator without it.
        lib: the library that the rule goes away with.

    Raises:
        ValueError: it is no operator and no name of one.

    >>> import rushlight as rl
    >>> @rl.library.custom_op("doc_batch::twice", mutates_args=())
    ... def twice(x: rl.Tensor) -> rl.Tensor:
    ...     return x * 2
    >>> rule = lambda info, in_dims, x: (twice(x), in_dims[0])
    >>> _ = rl.library.register_vmap("doc_batch::twice", rule)
    >>> rl.func.vmap(twice)(rl.ones(2, 1))
    tensor([[2.],
            [2.]])
    """
    if func is None:
        return lambda function: register_vmap(op, function, lib=lib)
    return _set_rule("register_vmap", vmap_rules, op, func, lib)


# What forward mode does with operators from outside: functions by operator.
tangent_rules: dict = {}


def register_jvp(op, func=None, /, *, lib=None):
    """Say how forward mode moves an operator's results when its arguments move.

    Without a rule the derivative is used, transposed by differentiating it once more.

    Args:
        op: the operator, or its name ``ns::name``.
        func: ``func(tangents, args, result)``, where ``tangents`` has a tensor, or None
            for zero, for each of ``args``, and a list of them for a list; gives the
            result's tangent or None, or a tuple of them for several results. A decorator
            without it.
        lib: the library that the rule goes away with.

    Raises:
        ValueError: it is no operator and no name of one.

    >>> import rushlight as rl
    >>> with rl.library._scoped_library("doc_jvp", "DEF") as lib:
    ...     _ = lib.define("twice(Tensor x) -> Tensor")
    ...     lib.impl("twice", lambda x: x + x, "CPU")
    ...     _ = rl.library.register_jvp(
    ...         "doc_jvp::twice", lambda tangents, args, result: 2 * tangents[0], lib=lib
    ...     )
    ...     rl.func.jvp(rl.ops.doc_jvp.twice, (rl.ones(2),), (rl.ones(2),))
    (tensor([2., 2.]), tensor([2., 2.]))
    """
    if func is None:
        return lambda function: register_jvp(op, function, lib=lib)
    return _set_rule("register_jvp", tangent_rules, op, func, lib)


def _set_rule(what, rules, op, func, lib):
    """A function for an operator, until the library goes away."""
    named = hasattr(op, "_qualname") or hasattr(op, "name")
    if not isinstance(op, (str, Operator)) and not named:
        raise ValueError(f"{what}(op): got unexpected type for op: {type(op)}")
    found = op if isinstance(op, Operator) else find_operator(qualname_of(op))
    rules[found] = func
    if lib is not None:
        lib._undo.append(lambda: rules.pop(found, None))
    return func
