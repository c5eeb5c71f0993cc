"""Records of what docstrings say, one a name, from the entries and the table of phrases.

An argument's phrase is the entry's own (``args:``), else its family's in
``opgen/arguments.yaml``, else the common one for its name, by its type where a name means
several things. Results and errors that follow from the kind of an operator are written
here once.
"""

import importlib.util
from functools import cache
from pathlib import Path

import yaml

from opgen.schema import argument_rows
from opgen.sources import ROOT

_PATH = ROOT / "rushlight" / "operators" / "docstrings.py"
_SPEC = importlib.util.spec_from_file_location("opgen._docstrings", _PATH)
docstrings = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(docstrings)

_DTYPES = {
    "promote": "the promoted dtype of the operands",
    "promote_float": "the promoted dtype of the operands, integers and bool as the "
    "default floating-point dtype",
    "promote_integer": "the promoted dtype of the operands, bool as int64",
    "bool": "bool",
    "same": "the dtype of self",
    "int64": "int64",
    "sum": "the dtype of self, integers and bool as int64, unless dtype is given",
    "float": "the dtype of self, integers and bool as the default floating-point dtype",
    "real": "the dtype of self, complex numbers as their real dtype",
    "first": "the dtype of self",
}
_DIMS = ("dim", "dims", "dim0", "dim1", "dim2", "axis", "axis0", "axis1")


@cache
def _table():
    text = (Path(__file__).parent / "arguments.yaml").read_text()
    return yaml.safe_load(text)


def is_public(entry):
    """Whether users call the operator, as a function or as a method."""
    called = "function" in entry.variants or "method" in entry.variants
    return called and (not entry.name.startswith("_") or "shown" in entry.tags)


def form(entry, out=True):
    """How an entry is called; ``out`` is False for in-place forms, which have none."""
    return docstrings.Form(
        argument_rows(entry.schema),
        out and "out" in entry.variants,
        "factory" in entry.tags,
    )


def groups(entries):
    """Name -> all entries of it."""
    found = {}
    for entry in entries:
        found.setdefault(entry.name, []).append(entry)
    return found


def records(entries):
    """Name -> record, in the form that ``rushlight.operators.docstrings`` reads."""
    known = groups(entries)
    return {name: record(rows, known) for name, rows in known.items()}


def record(rows, known):
    """The record of one name, from all its entries; ``known`` are those of all names."""
    first = {
        key: next((value for row in rows if (value := getattr(row, key))), default)
        for key, default in (
            ("doc", ""), ("formula", ""), ("details", ""), ("returns", ""),
            ("example", ""), ("like", None),
        )
    }  # fmt: skip
    return (
        first["doc"],
        first["formula"],
        first["details"],
        tuple(phrases(rows, known.get(first["like"], ())).items()),
        first["returns"] or ("" if first["like"] else _returns(rows)),
        _raises(rows),
        first["example"],
        first["like"],
    )


def phrases(rows, like=()):
    """Argument -> phrase of all entries of a name; "" where nobody has said one.

    What the entries of the name that they are ``like`` take is said there.
    """
    inherited = {arg.name for row in like for arg in row.schema.args}
    found = {}
    for row in rows:
        for arg in row.schema.args:
            said = dict(row.args).get(arg.name)
            if not said and arg.name not in inherited:
                said = _phrase(row, arg)
            found[arg.name] = found.get(arg.name) or said or ""
    return found


def _phrase(entry, arg):
    for place in (_table()["families"].get(entry.family, {}), _table()["common"]):
        said = place.get(arg.name)
        if isinstance(said, dict):
            said = (
                said.get(str(arg.type)) or said.get(arg.type.base) or said.get("else")
            )
        if said:
            return said
    return ""


def unsaid(entries):
    """``(name, argument)`` of what public operators' docstrings say nothing about."""
    found, known = [], records(entries)
    for name, rows in groups(entries).items():
        if any(is_public(row) for row in rows):
            complete = docstrings.resolve(name, known)
            said = dict(complete[docstrings.PHRASES])
            found += [
                (rows[0], arg.name)
                for arg in {a.name: a for row in rows for a in row.schema.args}.values()
                if not said.get(arg.name)
            ]
    return found


def without_example(entries):
    """First entries of the public names whose docstring has no example."""
    known = records(entries)
    return [
        rows[0]
        for name, rows in groups(entries).items()
        if any(is_public(row) for row in rows)
        and not docstrings.resolve(name, known)[docstrings.EXAMPLE]
    ]


def _returns(rows):
    """What comes back, where that follows from the kind and the rule of the entry."""
    entry = rows[0]
    names = [r.name for r in entry.schema.returns]
    if len(names) > 1 and all(names):
        return f"a named tuple ({', '.join(names)})."
    if entry.kind == "view":
        return "a view: it shares the memory of self."
    if entry.rule is None or entry.rule.name not in _DTYPES:
        return ""
    dtype = _DTYPES[entry.rule.name]
    if entry.kind == "reduction":
        return f"a tensor without the reduced dimensions; its dtype is {dtype}."
    several = sum(arg.kind in (0, 4) for arg in entry.schema.args) > 1
    sizes = "of the operands' broadcast sizes" if several else "of the sizes of self"
    return f"a tensor {sizes}; its dtype is {dtype}."


def _raises(rows):
    said = [pair for row in rows for pair in row.raises]
    args = {arg.name: arg for row in rows for arg in row.schema.args}
    dims = [name for name in _DIMS if name in args and args[name].kind in (7, 8, 9, 10)]
    if dims and not any(pair[0] == "IndexError" for pair in said):
        named = " or ".join(f"``{name}``" for name in dims)
        said.append(("IndexError", f"{named} is not a dimension of the tensor."))
    tensors = [arg for arg in rows[0].schema.args if arg.kind in (0, 4)]
    if rows[0].kind == "pointwise" and len(tensors) > 1:
        said.append(("RuntimeError", "the sizes cannot be broadcast."))
    # an empty text takes back what would follow from the arguments
    return tuple(pair for pair in dict.fromkeys(said) if pair[1])
