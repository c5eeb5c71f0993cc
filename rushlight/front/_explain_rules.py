"""What transformations and devices make of an operator, for `explain` and ``tools/where``."""

import sys
import types

from rushlight.dispatch.declared import BY_KEY, FORWARD, IMPLEMENTATION

TANGENTS = {
    "linear": "linear: the operator itself, of the tangents",
    "product": "a product: the operator of each factor's tangent, summed",
}
KERNELS = {
    "pointwise": "one expression for every device that runs generated kernels",
    "reduction": "one reduction for every device that runs generated kernels",
    "composite": "composed of operators, which have theirs",
    "view": "a view: no device computes anything",
}
ONE_FUNCTION = "one function for all devices: it launches where operands are"


def tangent_of(op):
    """The rule of forward mode, a function; or what else says how tangents come about."""
    from rushlight.autograd.levels import pushforward

    rule = pushforward.own_rule(op)
    if rule is not None:
        return rule
    said = op.entry[FORWARD] if op.entry else None
    if said in TANGENTS:
        return TANGENTS[said]
    if pushforward.by_formula(op):
        return "elementwise: the derivative's formula, of the tangent"
    if op.derivative is None:
        return "none of its own: what it is composed of has tangents, if anything"
    return "the derivative's formula, transposed twice"


def batching_of(op):
    """The rule of ``vmap``, a function; or what else says how batches are computed."""
    from rushlight.autograd.levels import rules

    return rules.rule_of(op) or "example by example, or composed of what has rules"


def met(function):
    """Pairs of name and object: what a function, or one that it calls, refers to.

    Only what is in files of operators and kernels; of a compiled function, the tables of
    its module.
    """
    from rushlight.dispatch.kernel_table import KernelTable

    seen, todo = set(), [("", function)]
    while todo:
        name, item = todo.pop(0)
        yield name, item
        if isinstance(item, KernelTable):
            found = [(name, form) for form in item.variants().values()]
        elif isinstance(item, types.FunctionType):
            space = item.__globals__
            named = [(n, space[n]) for n in item.__code__.co_names if n in space]
            found = [
                (n, one)
                for n, value in named
                for one in (value.values() if type(value) is dict else [value])
            ]
        elif type(item).__name__ == "cython_function_or_method":
            space = vars(sys.modules[item.__module__])
            found = [(n, v) for n, v in space.items() if isinstance(v, KernelTable)]
        else:
            continue
        for name, value in found:
            near = isinstance(value, KernelTable) or is_near(value)
            if near and id(value) not in seen:
                seen.add(id(value))
                todo.append((name, value))


def is_near(item):
    """Whether something is of a family's or a kernel's file."""
    home = str(getattr(item, "__module__", ""))
    return home.startswith(("rushlight.operators", "rushlight.kernels"))


def device_variants(op, kernel):
    """Pairs of a part of an operator and its forms by key, the operator's own first."""
    from rushlight.dispatch.kernel_table import KernelTable

    base = op if op.functional is None else op.functional
    declared = base.entry[IMPLEMENTATION][BY_KEY] if base.entry else ()
    if declared:
        yield op.name, {key: function[:2] for key, function, *_ in declared}
    for name, item in met(kernel):
        if isinstance(item, KernelTable):
            yield name, item.variants()
