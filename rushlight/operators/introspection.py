"""What ``help`` and ``inspect`` are told of operators: loaded when they first ask."""

import functools
import importlib
import inspect
import keyword

from rushlight.dispatch.declared import NAME, TAGS
from rushlight.operators import docstrings

_KINDS = {
    "": inspect.Parameter.POSITIONAL_OR_KEYWORD,
    "*": inspect.Parameter.VAR_POSITIONAL,
    "**": inspect.Parameter.KEYWORD_ONLY,
}


@functools.cache
def _records():
    return importlib.import_module("rushlight._generated.docs").DOCS


def sentence(packet):
    """What an operator computes, in a sentence; ``""`` for operators from outside."""
    record = _record(packet)
    return record[docstrings.SENTENCE] if record else ""


def docstring(packet):
    """The docstring of a packet; of an operator from outside, the ways to call it."""
    record, forms = _record(packet), _forms(packet)
    if record is None:
        record = (f"Operator ``{packet.name}``.", "", "", (), "", (), "", None)
    inplace = _is_derived(packet)
    name = packet.name
    return docstrings.compose(record, name, forms, packet.method, inplace)


def signature(packet, bound=False):
    """The ``inspect.Signature`` of a packet: every call that a form takes binds to it.

    Args:
        packet: the operator's overloads, as a function or as a method.
        bound: whether the method's tensor is given already.
    """
    parameters = docstrings.merged(_forms(packet), packet.method)
    found, reserved = [], False
    for name, default, kind in reversed(parameters[bound:]):
        reserved = reserved or keyword.iskeyword(name)  # `from` is given by its place
        found.append(
            inspect.Parameter(
                name,
                inspect.Parameter.POSITIONAL_ONLY if reserved else _KINDS[kind],
                default=inspect.Parameter.empty
                if default is ... or kind == "*"
                else default,
            )
        )
    return inspect.Signature(found[::-1])


def _record(packet):
    entry = packet.overloads[0].entry
    if not entry or entry[NAME] not in _records():
        return None
    return docstrings.resolve(entry[NAME], _records())


def _is_derived(packet):
    entry = packet.overloads[0].entry
    return bool(entry) and entry[NAME] != packet.name


def _forms(packet):
    return [
        docstrings.Form(
            op.signature.rows,
            op.out is not None,
            bool(op.entry) and "factory" in op.entry[TAGS],
        )
        for op in packet.overloads
    ]
