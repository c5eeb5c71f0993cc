"""Reads declaration files into ``Entry`` objects, with the line of every part."""

from pathlib import Path

import yaml

from opgen import schema
from opgen.model import (
    IMPLEMENTATIONS,
    KEYS,
    PAIRS,
    POLICIES,
    RECORDS,
    RULE_HOMES,
    TEXTS,
    Entry,
    Formula,
    Location,
    Naming,
    Reference,
    Rule,
)

_LISTS = {"variants", "operators", "tags", *RECORDS}
_TEXTS = {
    "namespace", "check", *POLICIES, "decomposition", "inverse", *RULE_HOMES, "sample",
    "reference", "doc", *TEXTS,
}  # fmt: skip
_KEYS = {
    "op",
    "each",
    "dtype",
    "derivative",
    "outputs",
    "overloads",
    "node",
    *_LISTS,
    *_TEXTS,
    *PAIRS,
    *IMPLEMENTATIONS,
    *KEYS,
}


class Faults:
    """The faults found so far: all are reported, not just the first."""

    def __init__(self):
        self.messages = []

    def add(self, location, message):
        """Note one fault at its line."""
        self.messages.append(f"{location}: {message}")


def parse_folder(folder, faults, root=None):
    """The entries of every ``*.yaml`` below ``folder``, by the files' names and lines."""
    entries = []
    for path in sorted(Path(folder).rglob("*.yaml"), key=lambda path: path.stem):
        shown = path.relative_to(root) if root else path
        entries += parse_text(path.read_text(), str(shown), faults)
    return entries


def parse_text(text, file, faults):
    """The entries of one file's text; faulty ones are reported and left out."""
    try:
        document = yaml.compose(text)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark else 1
        faults.add(Location(file, line), f"not YAML: {error.problem}")
        return []
    if document is None:
        return []
    if not isinstance(document, yaml.SequenceNode):
        faults.add(Location(file, 1), "a declaration file is a list of '- op:' entries")
        return []
    nodes = [one for node in document.value for one in _expanded(node, file, faults)]
    entries = (_parse_entry(node, file, faults) for node in nodes)
    return [entry for entry in entries if entry is not None]


def _expanded(node, file, faults):
    """The entries that one stands for: ``each`` name's, and its form in place.

    ``each: [exp, log]`` writes the entry again with ``{name}`` replaced, and
    ``each: {maximum: clamp_min}`` with ``{name}`` and ``{value}``. Where ``op`` has
    ``{_}`` after the name, the form follows that writes to the list ``self``.
    """
    fields = _fields(node)
    if "each" in fields and "{name}" not in getattr(fields.get("op"), "value", ""):
        faults.add(_line(fields["each"], file), "'each:' needs '{name}' in 'op:'")
    return [_filled(node, words) if words else node for words in words_of(node)]


def words_of(node):
    """For each entry that a node stands for, what is put in the place of which word."""
    fields = _fields(node)
    if "each" not in fields:
        return [{}]
    pairs = [
        (one[0].value, one[1].value)
        if isinstance(one, tuple)
        else (one.value, one.value)
        for one in fields["each"].value
    ]
    forms = ("", "_") if "{_}" in getattr(fields.get("op"), "value", "") else ("",)
    return [
        {"{name}": name, "{value}": value, "{_}": form}
        for name, value in pairs
        for form in forms
    ]


def filled(text, words):
    """A text with words in their places."""
    for word, value in words.items():
        text = text.replace(word, value)
    return text


def _filled(node, words, key=""):
    """A node with words put into its texts; those of a form in place say so."""
    if isinstance(node, yaml.ScalarNode):
        text = node.value
        if words["{_}"] and key == "op":
            text = text.replace("Tensor[] self", "Tensor(a!)[] self", 1)
            text = text.partition("->")[0] + "-> ()"
        if words["{_}"] and key == "doc":
            text = text.removesuffix(".") + ", in place."
        text = filled(text, words)
        return yaml.ScalarNode(node.tag, text, node.start_mark, node.end_mark)
    if isinstance(node, yaml.SequenceNode):
        value = [_filled(item, words) for item in node.value]
    else:
        value = [
            (name, _filled(item, words, name.value))
            for name, item in node.value
            if name.value != "each"
        ]
    return type(node)(node.tag, value, node.start_mark, node.end_mark)


def _fields(node):
    """Key -> node of an entry."""
    pairs = node.value if isinstance(node, yaml.MappingNode) else ()
    return {key.value: value for key, value in pairs}


def _line(node, file):
    return Location(file, node.start_mark.line + 1)


def _parse_entry(node, file, faults):
    before = len(faults.messages)
    location = _line(node, file)
    if not isinstance(node, yaml.MappingNode):
        faults.add(location, "an entry is a mapping that starts with 'op:'")
        return None
    fields = {}
    for key, value in node.value:
        if key.value not in _KEYS:
            faults.add(_line(key, file), f"unknown key '{key.value}'")
        elif key.value in fields:
            faults.add(_line(key, file), f"key '{key.value}' is given twice")
        fields[key.value] = value
    if "op" not in fields:
        faults.add(location, "the entry has no 'op:'")
        return None
    parsed = _parse_schema(fields["op"], file, faults)
    kinds = [kind for kind in IMPLEMENTATIONS if kind in fields]
    kinds = kinds or [key for key in KEYS if key in fields][:1]
    if len(kinds) != 1:
        faults.add(
            location,
            f"'{fields['op'].value}' needs exactly one of {', '.join(IMPLEMENTATIONS)},"
            " or kernels for keys;"
            f" it has {', '.join(kinds) or 'none'}",
        )
    options = _parse_options(fields, file, faults)
    if len(faults.messages) > before:
        return None
    (kind,) = kinds
    own = Reference.of(fields[kind].value) if kind not in KEYS else options[kind][0]
    return Entry(
        parsed, kind, own.function, location,
        argument=own.argument, family=Path(file).stem, **options,
    )  # fmt: skip


def _parse_schema(node, file, faults):
    try:
        return schema.parse(node.value)
    except schema.SchemaError as error:
        faults.add(_line(node, file), str(error))
        return None


def _parse_options(fields, file, faults):
    options = {}
    for key in _LISTS & fields.keys():
        options[key] = tuple(_items(fields[key], file, faults))
    for key in KEYS & fields.keys():
        one = isinstance(fields[key], yaml.ScalarNode)
        forms = [fields[key].value] if one else _items(fields[key], file, faults)
        options[key] = tuple(map(Reference.of, forms))
    for key in _TEXTS & fields.keys():
        options[key] = _text(fields[key], file, faults)
    for key in set(PAIRS) & fields.keys():
        options[key] = _pairs(fields[key], file, faults)
    if "dtype" in fields:
        options["rule"] = _parse_rule(_text(fields["dtype"], file, faults))
    if "derivative" in fields:
        options["derivative"] = _parse_derivative(fields["derivative"], file, faults)
    if "overloads" in fields:
        options["overloads"] = _parse_overloads(fields["overloads"], file, faults)
    if "node" in fields:
        options["node"] = Reference.of(_text(fields["node"], file, faults))
    if "outputs" in fields:
        items = _items(fields["outputs"], file, faults)
        options["outputs"] = tuple(int(item) for item in items)
    return options


def _items(node, file, faults):
    if not isinstance(node, yaml.SequenceNode):
        faults.add(_line(node, file), "a list in brackets belongs here")
        return []
    return [item.value for item in node.value]


def _text(node, file, faults):
    if not isinstance(node, yaml.ScalarNode):
        faults.add(_line(node, file), "a plain text belongs here")
        return ""
    return node.value


def _pairs(node, file, faults):
    if not isinstance(node, yaml.MappingNode):
        faults.add(_line(node, file), "a mapping 'name: text' belongs here")
        return ()
    pairs = ((key.value, _text(value, file, faults)) for key, value in node.value)
    return tuple((key, " ".join(text.split())) for key, text in pairs)


def _parse_rule(text):
    name, bracket, arguments = text.partition("(")
    if not bracket:
        return Rule(name)
    parts = arguments.rstrip(") ").split(",")
    return Rule(name.strip(), tuple(part.strip() for part in parts))


def _parse_overloads(node, file, faults):
    if not isinstance(node, yaml.MappingNode):
        faults.add(_line(node, file), "overloads are a mapping 'condition: name'")
        return ()
    return tuple(
        _naming(_text(key, file, faults), _text(value, file, faults))
        for key, value in node.value
    )


def _naming(text, name):
    parts = [] if text == "always" else text.split(" and ")
    form = (
        parts.pop(0) if parts and parts[0] in ("in place", "function", "out") else None
    )
    pairs = (part.partition(" ") for part in parts)
    return Naming(form, tuple((what, argument) for what, _, argument in pairs), name)


def _parse_derivative(node, file, faults):
    if not isinstance(node, yaml.MappingNode):
        faults.add(_line(node, file), "a derivative is a mapping 'argument: formula'")
        return ()
    formulas = []
    for key, value in node.value:
        names = tuple(name.strip() for name in key.value.split(","))
        text = " ".join(_text(value, file, faults).split())
        formulas.append(Formula(names, text, _line(key, file)))
    return tuple(formulas)
