"""How calls come in from Python: C functions that CPython jumps to, and their errors."""

from __future__ import annotations

import cython
from cython.cimports.rushlight.core._python import (
    PyTypeObject,
    PyVectorcall_Call,
    p_object,
    pp_object,
)
from cython.cimports.rushlight.core.tensor import Tensor
from cython.cimports.rushlight.dispatch.dispatcher import Operator, set_entry
from cython.cimports.rushlight.dispatch.interception import intercept
from cython.cimports.rushlight.dispatch.signature import (
    Bound,
    keyword_dict,
    release,
    watchers,
)

from rushlight.dispatch.dispatcher import forget
from rushlight.dispatch.interception import PASS_BY as _PASS_BY

PASS_BY = cython.declare(object, _PASS_BY)
# How an overload is asked by itself, in place of a function's 1 and a packet's 0.
NUMBERS_AS_TENSORS = cython.declare(cython.int, -1)


@cython.cfunc
def operator_vectorcall(
    self: p_object, args: pp_object, nargsf: cython.size_t, kwnames: p_object
) -> object:
    op: Operator = cython.cast(Operator, self)
    bound: Bound
    n: cython.Py_ssize_t = (nargsf << 1) >> 1
    code: cython.int
    bound.n_made, bound.strict = 0, NUMBERS_AS_TENSORS
    try:
        code = op.signature.bind(args, n, kwnames, cython.address(bound))
        if code:
            raise_mismatch(op.name, [op], args, n, kwnames, code, False)
        if bound.exotic or watchers:
            answer = intercept(op, args, n, kwnames)
            if answer is not PASS_BY:
                return answer
        result = op.call(bound.slots)
        return result if op.returns else None  # compositions over lists give the list
    finally:
        release(cython.address(bound))


@cython.cfunc
def raise_mismatch(
    name: str,
    overloads: list,
    args: pp_object,
    n: cython.Py_ssize_t,
    kwnames: p_object,
    code: cython.int,
    method: cython.bint,
):
    """TypeError in PyTorch's words: the one schema's fault, or all the schemas.

    A method's own tensor is none of its arguments.
    """
    i: cython.int
    positional = tuple([cython.cast(object, args[i]) for i in range(n)])
    keywords = keyword_dict(args, n, kwnames)
    only: Operator = overloads[0]
    if method and positional and not isinstance(positional[0], Tensor):
        raise TypeError(
            f"descriptor '{name}' for 'Tensor' objects doesn't apply to a "
            f"'{type(positional[0]).__name__}' object"
        )
    if len(overloads) == 1:
        raise TypeError(only.signature.explain(positional, keywords, code, method))
    for overload in overloads:
        explanation = cython.cast(Operator, overload).signature.explain_element(
            positional
        )
        if explanation is not None:
            raise TypeError(explanation)
    given = [type(value).__name__ for value in positional[method:]]
    given += [f"{key}={type(value).__name__}" for key, value in keywords.items()]
    raise TypeError(
        f"{name}() received an invalid combination of arguments - got "
        f"({', '.join(given)}), but expected one of:\n"
        + "\n".join(f" * {schema_line(op, method)}" for op in overloads)
    )


def schema_line(op: Operator, method: bool):
    """``(Tensor input, Number other, *, Number alpha=1)``; of a method, without input."""
    from rushlight.dispatch.signature import KIND_NAMES

    parts = []
    starred = False
    for name, kind, default, keyword_only, _, _ in op.signature.rows[method:]:
        if keyword_only and not starred:
            parts.append("*")
            starred = True
        if name == "self" and KIND_NAMES[kind] == "Tensor":
            name = "input"
        text = f"{KIND_NAMES[kind]} {name}"
        parts.append(text if default is Ellipsis else f"{text} = {default}")
    return f"({', '.join(parts)})"


@cython.cfunc
@cython.exceptval(check=False)
def enable_vectorcall(
    kind: object, instance: object, field: cython.p_void, flags: cython.ulong
) -> cython.void:
    """Let CPython call instances of a type through a field, without bound methods."""
    body: cython.pointer(PyTypeObject) = cython.cast(
        cython.pointer(PyTypeObject), cython.cast(p_object, kind)
    )
    body.tp_flags |= flags
    body.tp_vectorcall_offset = cython.cast(cython.Py_ssize_t, field) - cython.cast(
        cython.Py_ssize_t, cython.cast(cython.p_void, instance)
    )
    body.tp_call = PyVectorcall_Call


def _install_vectorcall():
    set_entry(cython.cast(cython.p_void, operator_vectorcall))
    probe: Operator = Operator("aten", "_probe", (), ())
    enable_vectorcall(Operator, probe, cython.address(probe.vectorcall), 1 << 11)
    forget(probe)


_install_vectorcall()
