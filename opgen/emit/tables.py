"""Writes every declaration as one literal that the dispatcher loads without parsing.

``OPERATORS`` is a tuple of entries; the overloads of a name stand together, in the
order in which a call tries them. An entry is the tuple

    (name, overload, args, returns, variants, operators, namespace,
     implementation, rule, derivative, source, tags, out, overlap, layout, numbers,
     deprecated, batching, forward, autocast, autocast_cuda, decomposition, inverse,
     rules, overloads, node)

args
    ``(name, kind, default, kwarg_only, size, flags)`` each; ``...`` is no default;
    kinds and flags are those of ``rushlight.dispatch.schema``.
returns
    ``(kind, field name or None, alias flag)`` each.
variants
    bits: 1 function, 2 method, 4 in-place, 8 ``out=``.
implementation
    ``(kind, module, attribute, by key, optional operands, module and attribute of what
    refuses operands or None, argument that the attribute makes a function of or None)``;
    by key there are ``(key, kernel)`` or ``(key, kernel, kernel in place)`` of those with
    kernels ``(module, attribute, argument)`` of their own.
rule
    ``(name, indices of the arguments that decide)`` or None.
derivative
    None or ``(module, function, saved, groups, flags, outputs)``; ``saved`` holds
    ``(what, index, mask)`` as in ``opgen.formulas``, ``groups`` holds
    ``(argument index, is a list)``, ``flags`` are those of ``opgen.emit.derivatives``.
batching, forward, autocast, autocast_cuda
    None, a word, or ``(module, attribute)`` of a rule.
decomposition
    None, or ``(module, attribute)`` of what PyTorch takes the operator apart into.
inverse
    None, or ``(module, attribute)`` of the way back from a window to what it is a view of.
rules
    ``(which, attribute, argument)`` each of further rules, ``which`` a name in
    ``opgen.model.RULE_HOMES``, whose module the room that asks for it knows.
overloads
    ``(name, form or None, ((what, argument index), ...))`` each: when PyTorch has an
    overload of another name; ``what`` is an index in ``opgen.model.CONDITIONS``.
node
    None, the name of the nodes of the graph, or ``(module, attribute, saved arguments)``
    of a function that gives it.

``rushlight.dispatch.declared`` has the names of these places.
"""

from opgen.model import (
    AUTOCAST,
    BATCHING,
    CONDITIONS,
    FORWARD,
    KEYS,
    RARE,
    RECORDS,
    RULE_HOMES,
    VARIANTS,
    Reference,
)
from opgen.schema import NUMBER_KINDS, argument_rows, return_rows
from opgen.sources import INVERSES, locate, locate_batching, parameter_defaults

_HEAD = '"""Every operator, as the dispatcher loads it; written by opgen."""\n\n'


def entry_row(entry, derivative):
    """One entry's tuple."""
    return (
        entry.name,
        entry.schema.overload,
        argument_rows(entry.schema),
        return_rows(entry.schema),
        sum(VARIANTS[variant] for variant in entry.variants),
        entry.operators,
        entry.namespace,
        _implementation(entry),
        _rule(entry),
        derivative.row() if derivative else None,
        str(entry.location),
        (*entry.tags, *(word for name in RARE for word in getattr(entry, name))),
        *(getattr(entry, name) for name in RECORDS),
        _policy(entry.batching, BATCHING, locate_batching),
        _policy(entry.forward, FORWARD, lambda text: locate(text, entry.family)),
        _policy(entry.autocast, AUTOCAST, lambda text: locate(text, entry.family)),
        _policy(entry.autocast_cuda, AUTOCAST, lambda text: locate(text, entry.family)),
        entry.decomposition and locate(entry.decomposition, entry.family),
        entry.inverse and (INVERSES, entry.inverse),
        _rules(entry),
        _namings(entry),
        _node(entry),
    )


def write_tables(entries, derivatives):
    """The text of the tables' module, a line for each entry."""
    order = {}
    for entry in entries:
        order.setdefault(entry.name, len(order))
    rows = sorted(
        ((order[entry.name], index) for index, entry in enumerate(entries)),
    )
    lines = []
    for _, index in rows:
        row = entry_row(entries[index], derivatives[index])
        lines.append(f"    {_literal(row)},\n")
    return f"{_HEAD}OPERATORS = (\n{''.join(lines)})\n"


def _literal(value):
    """``repr`` for the plain values of a row, with infinities spelled readably."""
    if isinstance(value, tuple):
        inner = ", ".join(map(_literal, value))
        return f"({inner},)" if len(value) == 1 else f"({inner})"
    if isinstance(value, float) and value in (float("inf"), float("-inf")):
        return "1e999" if value > 0 else "-1e999"
    return "..." if value is ... else repr(value)


def _policy(text, words, place):
    return text if text is None or text in words else place(text)


def _rules(entry):
    """The rows of an entry's further rules."""
    said = ((name, getattr(entry, name)) for name in RULE_HOMES)
    return tuple(
        (name, ref.function, ref.argument)
        for name, text in said
        if text and (ref := Reference.of(text))
    )


def _node(entry):
    """What the entry's nodes are called, where that is not what its name makes."""
    node = entry.node
    if node is None or not node.is_function:
        return node and node.function
    return (*locate(node.function, entry.family), ",".join(node.arguments))


def _namings(entry):
    """The rows of an entry's further names of overloads."""
    positions = {arg.name: index for index, arg in enumerate(entry.schema.args)}
    forms = {None: None, "function": 0, "in place": 1, "out": 2}
    return tuple(
        (
            naming.name,
            forms[naming.form],
            tuple(
                (CONDITIONS.index(what), positions.get(arg, 0))
                for what, arg in naming.conditions
            ),
        )
        for naming in entry.overloads
    )


def _implementation(entry):
    module, attribute = locate(entry.function, entry.family)
    by_key = tuple(
        (name, *((*locate(f.function, entry.family), f.argument) for f in forms))
        for key, name in KEYS.items()
        if (forms := getattr(entry, key))
    )
    check = None if entry.check is None else locate(entry.check, entry.family)
    optional = _optional_operands(entry, module)
    return (entry.kind, module, attribute, by_key, optional, check, entry.argument)


def _optional_operands(entry, module):
    """How many last numbers a kernel does without where they equal their defaults."""
    if entry.kind != "pointwise":
        return 0
    trailing = 0
    for arg in reversed(entry.schema.args):
        if arg.kind not in NUMBER_KINDS or arg.default is ...:
            break
        trailing += 1
    return min(trailing, parameter_defaults(module, entry.function.split(".")[-1]))


def _rule(entry):
    if entry.rule is None:
        return None
    args = entry.schema.args
    names = entry.rule.arguments
    if names is None:
        names = [arg.name for arg in args if arg.kind in (0, 4)]
    indices = {arg.name: index for index, arg in enumerate(args)}
    return (entry.rule.name, tuple(indices[name] for name in names))
