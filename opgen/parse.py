"""Reads declaration files into ``Entry`` objects, with the line of every part."""

from pathlib import Path

import yaml

from opgen import schema, templates
from opgen.also import sources_below, sources_of
from opgen.model import (
    IMPLEMENTATIONS,
    KEYS,
    PAIRS,
    POLICIES,
    RARE,
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

_LISTS = {"variants", "operators", "also", "tags", *RARE, *RECORDS}
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
    sources, files = sources_below(folder), {}
    for path in sorted(folder.rglob("*.yaml"), key=lambda path: path.stem):
        shown = str(path.relative_to(root) if root else path)
        files[shown] = _nodes(path.read_text(), shown, faults)
    entries = [
        one
        for file, nodes in files.items()
        for one in _entries(nodes, sources, file, faults)
    ]
    _check_words(files, sources, faults)
    return entries


def parse_text(text, file, faults):
    """The entries of one file's text; faulty ones are reported and left out."""
    return _entries(_nodes(text, file, faults), sources_of(text), file, faults)


def _entries(nodes, sources, file, faults):
    """The entries of nodes, those included that others say are made of them."""
    parsed = (
        _parse_entry(one, file, faults)
        for node in nodes
        for one in _expanded(node, sources, file, faults)
    )
    return [entry for entry in parsed if entry is not None]


def _check_words(files, sources, faults):
    """Add a fault for each word that an entry says and no template has, or only one has."""
    said = {
        each.value: (each, file)
        for file, nodes in files.items()
        for node in nodes
        if isinstance(each := templates.fields(node).get("each"), yaml.ScalarNode)
    }
    for word in said.keys() - sources.keys():
        faults.add(_line(*said[word]), f"no operator says 'also: [{word}]'")
    for file, nodes in files.items():
        for node in nodes:
            for one in getattr(templates.fields(node).get("also"), "value", ()):
                if one.value.partition("(")[0] not in said:
                    faults.add(_line(one, file), f"no entry has 'each: {one.value}'")


def _nodes(text, file, faults):
    """The nodes of a file's entries."""
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
    return document.value


def _expanded(node, sources, file, faults):
    """The entries that one stands for; see `opgen.templates`."""
    fields = templates.fields(node)
    op = getattr(fields.get("op"), "value", "")
    if "each" in fields and not ("{name}" in op or "{copy}" in op):
        faults.add(_line(fields["each"], file), "'each:' needs '{name}' in 'op:'")
    return [
        templates.filled_node(node, words) if words else node
        for words in templates.words_of(node, sources)
    ]


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
