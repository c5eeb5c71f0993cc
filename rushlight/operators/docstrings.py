"""Docstrings and signatures of operators, put together from records of the declarations.

Strings and tuples only: ``opgen`` runs this file by its path, for stubs and pages, and
``introspection`` for what ``help`` and ``inspect`` ask. A record is the tuple that
``opgen.documents`` makes of all entries of one name::

    (sentence, formula, details, arguments, returns, raises, example, like)

``arguments`` and ``raises`` hold pairs of a name and a phrase; ``like`` is None or the
name of the operator whose record says what this one does not. Texts call the tensor of a
method ``self``; functions call it ``input``, so their docstrings do, too.
"""

import re
import textwrap
from collections import namedtuple

SENTENCE, FORMULA, DETAILS, PHRASES, RETURNS, RAISES, EXAMPLE, LIKE = range(8)
WIDTH = 80
_VARARGS = 4
# Kinds of `dispatch.schema` in words.
TYPES = {
    0: "Tensor", 1: "Tensor", 2: "sequence of Tensors", 3: "sequence of Tensors",
    4: "Tensor or number", 5: "number", 6: "number", 7: "int", 8: "int",
    9: "sequence of ints", 10: "sequence of ints", 11: "float", 12: "float", 13: "bool",
    14: "bool", 15: "str", 16: "str", 17: "dtype", 18: "device", 19: "layout",
    20: "memory_format", 21: "Generator", 22: "sequence of floats", 23: "object",
    24: "sequence of bools", 25: "sequence of numbers",
}  # fmt: skip
_SELF = re.compile(r"\bself\b")


class Form(namedtuple("Form", "rows out factory")):
    """How one overload is called.

    Args:
        rows: its arguments, as in the tables: ``(name, kind, default, kwarg_only, size,
            flags)``.
        out: whether it writes to tensors that are there.
        factory: whether it takes ``requires_grad``.
    """

    __slots__ = ()

    def renamed(self, method):
        """The rows with the names that callers use."""
        rows = list(self.rows)
        names = [row[0] for row in rows]
        if method and "self" in names:
            rows.insert(0, rows.pop(names.index("self")))
        elif not method and "input" not in names:
            rows = [("input" if r[0] == "self" else r[0], *r[1:]) for r in rows]
        return rows

    def parameters(self, method):
        """``(name, default, kind)`` of all it takes; kinds are ``""``, ``"*"``, ``"**"``.

        ``"*"`` is an argument that may be given as separate values, ``"**"`` one that is
        named.
        """
        rows = self.renamed(method)
        found = [
            (
                row[0],
                row[2],
                "*" if row[5] & _VARARGS and row[2] is ... else "**" * row[3],
            )
            for row in rows
        ]
        if self.factory:
            found.append(("requires_grad", False, "**"))
        if self.out and not method:
            found.append(("out", None, "**"))
        return found


def merged(forms, method):
    """Parameters with which every call binds that one of the forms takes.

    The form with most positional ones gives the order; what others add is named and
    optional, and what others lack is optional.
    """
    each = [form.parameters(method) for form in forms]
    longest = max(each, key=_reach)
    common = set.intersection(*({row[0] for row in rows} for rows in each))
    spread = {row[0] for row in longest if row[2] == "*"}
    spread -= {row[0] for rows in each for row in rows if row[2] != "*"}
    defaults = {}
    for rows in each:  # the first form's, where several have one
        for name, value, _ in rows:
            if value is not ...:
                defaults.setdefault(name, value)
    found, optional = [], False
    for name, default, kind in longest:
        default = defaults.get(name, default)
        if kind != "**":
            kind = "*" if name in spread else ""
            optional = optional or default is not ... or name not in common
        missing = optional if kind == "" else name not in common
        found.append((name, None if missing and default is ... else default, kind))
    known = {row[0] for row in longest}
    for name, default, _ in (row for rows in each for row in rows):
        if name not in known:
            known.add(name)
            found.append((name, None if default is ... else default, "**"))
    return sorted(found, key=lambda row: row[2] == "**")


def _reach(parameters):
    """How many positional arguments a form takes, and how many of any kind."""
    kinds = [kind for _, _, kind in parameters]
    return kinds.count("*"), kinds.count(""), len(kinds)


def signature(parameters):
    """Parameters as Python writes them.

    >>> signature([("input", ..., ""), ("dim", 0, ""), ("dtype", None, "**")])
    '(input, dim=0, *, dtype=None)'
    """
    parts, named = [], False
    for name, default, kind in parameters:
        if kind == "**" and not named:
            if not any(part.startswith("*") for part in parts):
                parts.append("*")
            named = True
        value = "" if default is ... or kind == "*" else f"={default!r}"
        parts.append(f"{'*' if kind == '*' else ''}{name}{value}")
    return f"({', '.join(parts)})"


def resolve(name, records):
    """A name's record, completed by what it is like."""
    record = records[name]
    seen = {name}
    while record[LIKE] in records and record[LIKE] not in seen:
        seen.add(record[LIKE])
        other = records[record[LIKE]]
        phrases = dict(other[PHRASES]) | {k: v for k, v in record[PHRASES] if v}
        mixed = [mine or theirs for mine, theirs in zip(record, other, strict=True)]
        mixed[PHRASES] = tuple(phrases.items())
        mixed[LIKE] = other[LIKE]
        record = tuple(mixed)
    return record


def compose(record, name, forms, method=False, inplace=False):
    """The docstring of a function, a method or an in-place form.

    Args:
        record: a resolved record.
        name: what users call.
        forms: the ``Form`` of each overload.
        method: whether it is a method of a tensor.
        inplace: whether it is the form that writes to its tensor.
    """
    parts = [_fill(record[SENTENCE])]
    if inplace:
        parts.append(
            _fill(
                f"``{name}`` is the in-place form of ``{name[:-1]}``: the result is "
                "written to self, which keeps its sizes and dtype and is returned."
            )
        )
    if record[FORMULA]:
        parts.append(textwrap.indent(record[FORMULA].rstrip(), "    "))
    if record[DETAILS]:
        parts.append(_paragraphs(record[DETAILS]))
    if len(forms) > 1:
        lines = [name + signature(form.parameters(method)) for form in forms]
        parts.append(_section("Forms", dict.fromkeys(lines)))
    parts.append(_section("Args", _arguments(record, forms, method)))
    returns = "self." if inplace else record[RETURNS]
    if returns:
        parts.append(_section("Returns", [returns]))
    parts.append(_section("Raises", [": ".join(pair) for pair in record[RAISES]]))
    example = record[EXAMPLE].strip()
    if any(row[0] == "self" for form in forms for row in form.rows) and not method:
        parts = [_SELF.sub("input", part) for part in parts]
    if example:
        parts.append("Example:\n\n" + textwrap.indent(example, "    "))
    return "\n\n".join(part for part in parts if part) + "\n"


def _arguments(record, forms, method):
    phrases = dict(record[PHRASES])
    lines, seen = [], set()
    for form in forms:
        for name, _, default, _, size, _ in form.rows:
            if name in seen:
                continue
            seen.add(name)
            kinds = [r[1] for f in forms for r in f.rows if r[0] == name]
            words = " or ".join(dict.fromkeys(_type(k, size) for k in kinds))
            lines.append(
                f"{name} ({words}{_default(default)}): {phrases.get(name) or '…'}"
            )
    if any(form.factory for form in forms):
        lines.append(
            "requires_grad (bool, default False): whether autograd records it."
        )
    if any(form.out for form in forms) and not method:
        lines.append(
            "out (Tensor, optional): written instead of a new tensor, resized if its sizes "
            "differ; a tuple of Tensors where there are several results."
        )
    return lines


def _type(kind, size):
    return f"int or {TYPES[kind]}" if size and kind in (9, 10) else TYPES[kind]


def _default(value):
    if value is ...:
        return ""
    return ", optional" if value is None or value == () else f", default {value!r}"


def _fill(text):
    return textwrap.fill(" ".join(text.split()), WIDTH)


def _paragraphs(text):
    return "\n\n".join(_fill(part) for part in re.split(r"\n\s*\n", text.strip()))


def _section(title, lines):
    if not lines:
        return ""
    width = WIDTH
    filled = [
        textwrap.fill(
            " ".join(line.split()),
            width,
            initial_indent="    ",
            subsequent_indent="        ",
            break_on_hyphens=False,
        )
        for line in lines
    ]
    return "\n".join([f"{title}:", *filled])
